"""A comparison as one self-contained page: risks, a table to search and sort, a picture of where the bytes are."""

from __future__ import annotations

import html
from collections.abc import Sequence

from envlock.lock.diff import PackageChange
from envlock.lock.document import Lock
from envlock.review.formats.as_text import versions
from envlock.review.report import Comparison, amount, counts, grown, total

_STYLE = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --line: #d0d7de; --soft: #57606a; --card: #f6f8fa }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e6edf3; --bg: #0d1117; --line: #30363d; --soft: #8b949e; --card: #161b22 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); margin: 2rem auto;
  max-width: 68rem; padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0 0 .2rem } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
code { font: .92em ui-monospace, monospace } .soft { color: var(--soft) }
.facts { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0 }
.fact { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem }
.fact b { display: block; font-size: .8rem; color: var(--soft); font-weight: 500 }
.finding { border-left: .3rem solid; padding: .3rem .8rem; margin: .6rem 0; background: var(--card) }
.critical { border-color: #cf222e } .high { border-color: #e16f24 } .medium { border-color: #bf8700 }
.low { border-color: #0969da } .info { border-color: #8c959f }
.finding p { margin: .1rem 0 } .tag { font-size: .75rem; text-transform: uppercase; color: var(--soft) }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem;
  border-bottom: 1px solid var(--line) } th { cursor: pointer; user-select: none; position: sticky; top: 0;
  background: var(--bg) } td.n { text-align: right; font-variant-numeric: tabular-nums }
input { font: inherit; padding: .35rem .6rem; border: 1px solid var(--line); border-radius: .4rem; width: 18rem;
  background: var(--bg); color: var(--fg) }
.added { color: #1a7f37 } .removed { color: #cf222e } .changed { color: #9a6700 }
svg text { font: 12px system-ui, sans-serif; fill: #fff; pointer-events: none }
"""

_SCRIPT = """
for (const box of document.querySelectorAll('input[data-table]')) {
  const rows = document.getElementById(box.dataset.table).tBodies[0].rows;
  box.addEventListener('input', () => {
    const word = box.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(word);
  });
}
for (const head of document.querySelectorAll('th')) head.addEventListener('click', () => {
  const table = head.closest('table'), at = head.cellIndex, up = head.dataset.up !== '1';
  for (const other of head.parentNode.cells) delete other.dataset.up;
  head.dataset.up = up ? '1' : '0';
  const key = row => { const v = row.cells[at].dataset.v; return v === undefined ? row.cells[at].textContent : +v };
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const x = key(a), y = key(b);
    return (typeof x === 'number' ? x - y : x.localeCompare(y)) * (up ? 1 : -1);
  });
  table.tBodies[0].append(...rows);
});
"""


def render(comparisons: Sequence[Comparison]) -> str:
    """Return the page; it loads nothing from anywhere."""
    body = "".join(_one(comparison, number) for number, comparison in enumerate(comparisons))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>envlock diff</title><style>{_STYLE}</style></head>\n<body>\n"
        f"{body or '<p>No lock differs.</p>'}\n<script>{_SCRIPT}</script></body></html>\n"
    )


def _one(comparison: Comparison, number: int) -> str:
    difference = comparison.difference
    parts = [
        f"<section><h1>{_text(comparison.headline)}</h1>",
        f'<p class="soft"><code>{_text(comparison.before)}</code> → <code>{_text(comparison.after)}</code></p>',
        f'<p class="soft">{_text(counts(difference))}</p>',
        _facts(comparison),
        "<h2>What it means</h2>" if comparison.findings else "",
    ]
    for finding in comparison.findings:
        avoid = f"<p><b>Avoid:</b> {_text(finding.avoid)}</p>" if finding.avoid else ""
        parts.append(
            f'<div class="finding {finding.severity}"><p><span class="tag">{finding.severity} · {_text(finding.id)}'
            f'</span></p><p><b>{_text(finding.text)}</b></p><p class="soft">{_text(finding.why)}</p>{avoid}</div>'
        )
    parts += [_picture(comparison), _table(difference.packages, number), "</section>"]
    return "\n".join(parts)


def _facts(comparison: Comparison) -> str:
    before, after = comparison.difference.torch
    installed = comparison.difference.installed
    rows = [
        ("torch", before and before.version, after and after.version),
        ("CUDA", before and before.cuda, after and after.cuda),
        ("driver floor", before and before.driver_floor, after and after.driver_floor),
        ("download", _total(comparison.difference.before), _total(comparison.difference.after)),
        ("installed", *map(total, (comparison.difference.before, comparison.difference.after), installed)),
    ]
    cells = "".join(
        f'<div class="fact"><b>{name}</b>{_text(was or "-")}{f" → {_text(now or chr(45))}" if was != now else ""}</div>'
        for name, was, now in rows
        if was or now
    )
    return f'<div class="facts">{cells}</div>'


def _total(lock: Lock | None) -> str:
    return "" if lock is None else amount(sum(_sizes(lock).values()))


def _sizes(lock: Lock | None) -> dict[str, int]:
    if lock is None:
        return {}
    return {package.name: sum(artifact.size or 0 for artifact in package.artifacts) for package in lock.packages}


def _table(packages: Sequence[PackageChange], number: int) -> str:
    if not packages:
        return ""
    rows = []
    for change in packages:
        before, after = change.sizes
        was, now = change.installed
        rows.append(
            f'<tr><td><code>{_text(change.name)}</code></td><td class="{change.change}">{change.change}</td>'
            f"<td>{_text(versions(change))}</td>"
            f'<td class="n" data-v="{after}">{amount(after)}</td>'
            f'<td class="n" data-v="{after - before}">{amount(after - before, signed=True)}</td>'
            f'<td class="n" data-v="{-1 if now is None else now}">{"?" if now is None else amount(now)}</td>'
            f'<td class="n" data-v="{(now or 0) - (was or 0)}">{grown(was, now)}</td></tr>'
        )
    return (
        f'<h2>Packages</h2><p><input data-table="t{number}" placeholder="search packages" aria-label="search"></p>'
        f'<table id="t{number}"><thead><tr><th>package</th><th>change</th><th>version</th><th>download</th>'
        f"<th>growth</th><th>installed</th><th>growth</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _picture(comparison: Comparison) -> str:
    """Return a treemap of the new side's bytes; what grew is marked by colour."""
    now, was = _sizes(comparison.difference.after), _sizes(comparison.difference.before)
    items = sorted(((size, name) for name, size in now.items() if size), reverse=True)
    if not items:
        return ""
    total = sum(size for size, _ in items)
    shown = [(size, name) for size, name in items if size / total > 0.002]
    rest = total - sum(size for size, _ in shown)
    if rest:
        shown.append((rest, f"{len(items) - len(shown)} smaller packages"))
    width, height = 1000.0, 380.0
    boxes = []
    for (size, name), (x, y, w, h) in zip(shown, _squarify([s for s, _ in shown], width, height), strict=True):
        before = was.get(name, 0)
        colour = "#57606a" if before == size else "#1a7f37" if size < before else "#bc4c00" if before else "#0969da"
        label = f'<text x="{x + 6:.1f}" y="{y + 17:.1f}">{_text(name)}</text>' if w > 7.2 * len(name) and h > 22 else ""
        extra = f'<text x="{x + 6:.1f}" y="{y + 33:.1f}">{amount(size)}</text>' if label and h > 40 and w > 70 else ""
        title = f"{name}: {amount(size)}" + (f", before {amount(before)}" if before != size else ", unchanged")
        boxes.append(
            f'<g><title>{_text(title)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{max(w - 1, 0.5):.1f}" '
            f'height="{max(h - 1, 0.5):.1f}" fill="{colour}"/>{label}{extra}</g>'
        )
    return (
        '<h2>Where the bytes are</h2><p class="soft">Download size on the new side. Blue is new, orange grew, green '
        f'shrank, grey is as before.</p><svg viewBox="0 0 {width:.0f} {height:.0f}" width="100%" role="img" '
        f'aria-label="treemap of download sizes">{"".join(boxes)}</svg>'
    )


def _squarify(sizes: Sequence[int], width: float, height: float) -> list[tuple[float, float, float, float]]:
    """Return a rectangle for each size (largest first), as square as may be (Bruls, Huizing, van Wijk, 2000)."""
    scale = width * height / sum(sizes)
    areas = [size * scale for size in sizes]
    boxes: list[tuple[float, float, float, float]] = []
    x, y, w, h = 0.0, 0.0, width, height
    row: list[float] = []

    def worst(candidate: list[float], side: float) -> float:
        whole = sum(candidate)
        return max(max(side**2 * area / whole**2, whole**2 / (side**2 * area)) for area in candidate)

    def lay() -> None:
        nonlocal x, y, w, h
        whole = sum(row)
        if w >= h:
            thick, at = whole / h, y
            for area in row:
                boxes.append((x, at, thick, area / thick))
                at += area / thick
            x, w = x + thick, w - thick
        else:
            thick, at = whole / w, x
            for area in row:
                boxes.append((at, y, area / thick, thick))
                at += area / thick
            y, h = y + thick, h - thick

    for area in areas:
        side = min(w, h)
        if row and worst([*row, area], side) > worst(row, side):
            lay()
            row = []
        row.append(area)
    if row:
        lay()
    return boxes


def _text(words: str) -> str:
    return html.escape(str(words))
