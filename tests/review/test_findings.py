"""What a change means, on locks as values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from envlock.lock.diff import compare
from envlock.lock.document import Artifact, Coverage, DeviceCode, Direct, Lock, Package, TorchBuild
from envlock.review.finding import SEVERITIES, Finding, at_least
from envlock.review.findings import judge
from envlock.review.formats import as_html, as_json, as_markdown, as_text
from envlock.review.report import Comparison


def package(name: str, version: str = "1.0", *, sha: str = "a", size: int = 1000, **more: Any) -> Package:
    file = Artifact(file=f"{name.replace('-', '_')}-{version}-py3-none-any.whl", size=size, sha256=sha * 64)
    return Package(**{"name": name, "version": version, "index": "pypi", "artifacts": (file,), **more})


def lock(*packages: Package, cuda: str | None = "12.8", floor: str | None = "525.60.13", **inputs: Any) -> Lock:
    torch = next((one for one in packages if one.name == "torch"), None)
    return Lock(
        profile="app",
        profile_digest="0" * 64,
        inputs=inputs,
        python="3.11",
        machine="x86_64",
        glibc="2.35",
        torch=None if torch is None else TorchBuild(version=torch.version, cuda=cuda, runtime="x", driver_floor=floor),
        packages=tuple(sorted(packages, key=lambda one: one.name)),
    )


def findings(before: Lock | None, after: Lock | None) -> dict[str, Finding]:
    return {finding.id: finding for finding in judge(compare(before, after))}


def test_nothing_differs_nothing_is_found() -> None:
    same = lock(package("torch", "2.10.0"), package("six"))
    assert compare(same, same).empty
    assert findings(same, same) == {}


def test_the_silent_swap_is_critical_and_names_who_asks() -> None:
    before = lock(package("torch", "2.10.0"))
    after = lock(
        package("torch", "2.11.0"),
        package("sglang", "0.5.14", requires=("cuda-python>=13.0", "torch==2.11.0")),
        cuda="13.0",
        floor="580.65.06",
    )
    found = findings(before, after)
    assert found["torch.cuda-major"].severity == "critical"
    assert "sglang ask for it" in found["torch.cuda-major"].avoid
    assert found["driver.floor"].severity == "high"
    assert judge(compare(before, after))[0].id == "torch.cuda-major"


def test_twins_splits_indexes_bytes_and_builds() -> None:
    before = lock(
        package("torch", "2.10.0"),
        package("torchvision", "0.25.0"),
        package("same", "1.0", sha="a"),
        package("moved", "1.0"),
        package("linked", "1.0"),
        package("built", "1.0"),
    )
    sdist = Artifact(file="built-2.0.tar.gz", size=1, sha256="f" * 64)
    after = lock(
        package("torch", "2.10.1"),
        package("torchvision", "0.25.0"),
        package("same", "1.0", sha="b"),
        package("moved", "1.0", index="elsewhere"),
        package("linked", "1.0", index="", direct=Direct(kind="url", location="https://example.invalid/x.whl")),
        replace(package("built", "2.0"), artifacts=(sdist,)),
        package("nvidia-nccl-cu12", "2.27.5"),
        package("nvidia-nccl-cu13", "2.28.9"),
    )
    found = findings(before, after)
    assert {
        "cuda.twins",
        "family.split",
        "source.same-version-other-bytes",
        "source.index",
        "source.direct",
        "source.became-build",
        "torch.version",
    } <= set(found)
    assert "torchvision did not" in found["family.split"].text


def test_a_family_that_the_resolver_kept_in_step_is_no_split() -> None:
    before = lock(package("torch", "2.10.0", requires=("triton==3.6.0",)), package("triton", "3.6.0"))
    after = lock(package("torch", "2.11.0", requires=("triton==3.6.0",)), package("triton", "3.6.0"))
    assert "family.split" not in findings(before, after)


def test_lost_coverage_is_found() -> None:
    def with_code(sass: int, none: int, uncovered: tuple[str, ...] = ()) -> Package:
        code = DeviceCode(
            targets=("sm_90",), coverage={"12.0": Coverage(sass=sass, ptx=0, none=none)}, uncovered=uncovered
        )
        return package("kernel", "1.0", device_code=code)

    assert findings(lock(with_code(5, 0)), lock(with_code(0, 5)))["kernels.none"].severity == "high"
    assert "kernels.lost" in findings(lock(with_code(5, 0)), lock(with_code(3, 2)))
    assert "kernels.uncovered-library" in findings(lock(with_code(5, 0)), lock(with_code(5, 0, ("k/flash.so",))))


def test_settings_sizes_and_licences() -> None:
    before = lock(package("big", size=10), package("free", license="MIT"), env={"set": {"A": "1"}}, gpu={"count": 8})
    after = lock(
        package("big", "2.0", size=2 * 10**9),
        package("free", "2.0", license="Proprietary"),
        env={"set": {"A": "2"}},
        gpu={"count": 4},
    )
    found = findings(before, after)
    assert "grows by 2.0 GB (big +2.0 GB)" in found["size.download"].text
    assert found["input.env"].text == "env.set.A: 1 -> 2"
    assert found["input.gpu"].text == "gpu.count: 8 -> 4"
    assert found["licence.changed"].severity == "low"


@pytest.mark.parametrize("floor", SEVERITIES)
def test_severities_are_ordered(floor: Any) -> None:
    assert at_least("critical", floor)
    assert at_least(floor, "info")


def comparison() -> Comparison:
    difference = compare(
        lock(package("torch", "2.10.0"), package("<script>", "1.0")), lock(package("torch", "2.11.0"), cuda="13.0")
    )
    return Comparison(before="a|b", after="c", difference=difference, findings=judge(difference))


def test_json_keeps_its_promise() -> None:
    data = json.loads(as_json.render([comparison()]))
    assert {"from", "to", "packages", "torch", "findings"} <= set(data)
    assert {"name", "change", "from", "to"} <= set(data["packages"][0])
    assert {"id", "severity", "text"} <= set(data["findings"][0])


def test_markdown_cannot_be_broken_out_of_and_folds_the_details() -> None:
    text = as_markdown.render([comparison()])
    assert text.startswith(as_markdown.MARKER)
    assert "<script>" not in text
    assert "<details>" in text
    assert "| CUDA | 12.8 | **13.0** |" in text


def test_html_is_one_page_that_loads_nothing() -> None:
    page = as_html.render([comparison()])
    assert "<script>1.0" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page
    assert "<svg" in page


def test_text_tells_the_worst_first() -> None:
    lines = as_text.render([comparison()], lambda text, _: text).splitlines()
    assert "CUDA 12.8 to CUDA 13.0" in lines[0]
    assert "critical" in lines[1]


def test_yanked_is_told_once_where_it_is_new() -> None:
    sound, withdrawn = lock(package("leaf")), lock(package("leaf", yanked="broken"))
    assert findings(sound, withdrawn)["source.yanked"].text == "leaf 1.0 is now yanked: broken"
    assert findings(None, withdrawn)["source.yanked"].text == "leaf 1.0 is yanked: broken"
    assert "source.yanked" not in findings(withdrawn, lock(package("leaf", yanked="broken", license="MIT")))
    assert "source.yanked" not in findings(withdrawn, sound)


def test_installed_growth_counts_what_is_known_and_says_what_is_not() -> None:
    before = lock(package("big", installed_size=1_000_000_000), package("gone", installed_size=5))
    after = lock(package("big", "2.0", sha="b", installed_size=4_500_000_000), package("dark"))
    told = findings(before, after)["size.installed"]
    assert told.severity == "medium"
    assert told.text == "installed, it grows by 3.5 GB (big +3.5 GB), not counting 1 of unknown size"
    assert "size.installed" not in findings(before, lock(package("big", "2.0", sha="b")))
    assert "size.installed" not in findings(before, replace(before, packages=before.packages[:1]))


def test_every_format_tells_download_and_installed() -> None:
    before = lock(package("big", size=10**9), package("same", installed_size=7_000))
    after = lock(
        package("big", "2.0", sha="b", size=2 * 10**9, installed_size=5 * 10**9), package("same", license="MIT")
    )
    difference = compare(before, after)
    comparison = Comparison(before="a", after="b", difference=difference, findings=judge(difference))
    data = json.loads(as_json.render([comparison]))
    assert data["download"] == {"from": 10**9 + 1000, "to": 2 * 10**9 + 1000}
    assert data["installed"] == {
        "from": {"bytes": 7_000, "unknown_packages": 1},
        "to": {
            "bytes": 5 * 10**9 + 7_000,
            "unknown_packages": 0,
        },  # `same` is the same file: one lock knows it for both
    }
    assert [one["installed_from"] for one in data["packages"]] == [None, 7_000]
    text = as_text.render([comparison], lambda words, _: words)
    assert (
        "download +1.0 GB, installed +0 B and 1 package of unknown size (7.0 kB and 1 package of unknown size -> 5.0 GB)"
        in text
    )
    assert "| installed | 7.0 kB and 1 package of unknown size | **5.0 GB** |" in as_markdown.render([comparison])
    assert "| big | changed | 1.0 -> 2.0 | +1.0 GB | ? |" in as_markdown.render([comparison])
    page = as_html.render([comparison])
    assert "<th>installed</th>" in page and ">5.0 GB</td>" in page and ">?</td>" in page


def test_a_lock_without_sizes_says_how_to_have_them() -> None:
    difference = compare(lock(package("a")), lock(package("a", "2.0", sha="b")))
    comparison = Comparison(before="a", after="b", difference=difference, findings=())
    assert "installed unknown (envlock lock --inspect)" in as_text.render([comparison], lambda words, _: words)
