"""The HTML page in a real Chromium: it draws, searches and sorts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from envlock.layout import Layout
from envlock.review.formats import as_html
from envlock.workflows import diff

ROOT = Layout(Path(__file__).parent.parent.parent)
_DRIVE = """
<script>
addEventListener('load', () => {
  const box = document.querySelector('input[data-table]');
  const rows = [...document.querySelectorAll('tbody tr')];
  box.value = 'torchvision'; box.dispatchEvent(new Event('input'));
  const found = rows.filter(row => !row.hidden).length;
  box.value = ''; box.dispatchEvent(new Event('input'));
  const growth = [...document.querySelectorAll('th')].find(head => head.textContent === 'growth');
  growth.click(); growth.click();
  const first = document.querySelector('tbody tr').cells[0].textContent;
  document.title = `found=${found} first=${first} boxes=${document.querySelectorAll('svg rect').length}`;
});
</script>
"""


@pytest.mark.browser
def test_the_page_draws_searches_and_sorts(tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    assert chromium, "apt-get install chromium (.ci/debian-packages)"
    comparison = diff.between(ROOT, "train-cu128", "sglang-cu130")
    page = tmp_path / "diff.html"
    page.write_text(as_html.render([comparison]).replace("</body>", f"{_DRIVE}</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'user'}"]
    picture = tmp_path / "diff.png"
    told = subprocess.run(
        [chromium, *flags, "--virtual-time-budget=3000", "--dump-dom", page.as_uri()],
        text=True,
        capture_output=True,
        check=True,
        timeout=120,
    ).stdout
    title = told.partition("<title>")[2].partition("</title>")[0]
    biggest = max(comparison.difference.packages, key=lambda change: change.sizes[1] - change.sizes[0])
    assert f"first={biggest.name} " in title
    assert "found=1 " in title
    assert int(title.rpartition("boxes=")[2]) > 10
    subprocess.run(
        [chromium, *flags, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True, timeout=120
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
