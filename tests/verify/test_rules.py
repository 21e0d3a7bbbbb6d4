from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envlock.verify import rules
from envlock.verify.coverage import Library, count, matches, ptx_needed, verdict
from envlock.verify.fatbin import DeviceCode, Suffix, Target

ARCHS = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 107, 110, 120, 121]
archs = st.sampled_from(ARCHS)
suffixes: st.SearchStrategy[Suffix] = st.sampled_from(["", "a", "f"])
versions = st.sampled_from(sorted(rules.PTX_RELEASES))
targets = st.builds(Target, st.sampled_from(["sass", "ptx", "lto", "unknown"]), archs, suffixes, versions)


def sass(text: str, device: int) -> bool:
    number, suffix = (int(text[:-1]), text[-1]) if text[-1] in "af" else (int(text), "")
    return rules.runs(Target("sass", number, suffix), device)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "yes", "no"),
    [
        ("120", [120, 121], [100, 103, 110, 90]),
        ("121", [121], [120]),
        ("120a", [120], [121, 100]),
        ("120f", [120, 121], [100, 110]),
        ("121f", [121], [120]),
        ("100f", [100, 103], [101, 110, 120]),
        ("103a", [103], [100, 107]),
        ("90", [90], [89, 100]),
        ("90a", [90], [100]),
        ("80", [80, 86, 89], [87, 75, 90]),
        ("86", [86, 89], [80, 87]),
        ("87", [87], [86, 89]),
        ("72", [72], [75, 70]),
        ("70", [70, 75], [72]),
        ("101", [101, 110], [100, 103]),
        ("100", [100, 103], [101, 110]),
    ],
)
def test_machine_code_runs_where_nvidia_says(target: str, yes: list[int], no: list[int]) -> None:
    assert all(sass(target, device) for device in yes)
    assert not any(sass(target, device) for device in no)


@given(targets, archs)
def test_nothing_runs_on_an_older_device(target: Target, device: int) -> None:
    if rules.runs(target, device):
        assert target.arch <= device


@given(targets, archs)
def test_machine_code_stays_within_its_major(target: Target, device: int) -> None:
    if target.kind == "sass" and rules.runs(target, device) and target.arch != 101:
        assert target.arch // 10 == device // 10


@given(archs, archs, versions)
def test_plain_ptx_goes_forward_to_every_later_device(arch: int, device: int, isa: tuple[int, int]) -> None:
    assert rules.runs(Target("ptx", arch, "", isa), device) == (arch <= device)


@given(targets, archs)
def test_a_is_for_itself_and_f_is_never_narrower(target: Target, device: int) -> None:
    specific, family = target._replace(suffix="a"), target._replace(suffix="f")
    if rules.runs(specific, device):
        assert device == target.arch
    if rules.runs(family, device) and target.kind == "sass" and device not in rules.APART:
        assert any({device, target.arch} <= members for members in rules.FAMILIES)


@given(targets, archs)
def test_what_needs_a_linker_or_a_guess_runs_nowhere(target: Target, device: int) -> None:
    if target.kind in ("lto", "unknown"):
        assert not rules.runs(target, device)


containers = st.lists(st.tuples(st.lists(targets, min_size=1, max_size=4).map(tuple), st.integers(1, 50)), max_size=6)


@given(containers, archs)
def test_every_container_counts_once(parts: list[tuple[tuple[Target, ...], int]], device: int) -> None:
    code = DeviceCode(tuple(parts))
    counted = count(code, f"{device // 10}.{device % 10}")
    assert counted.sass + counted.ptx + counted.none == code.total


@given(containers, archs, st.lists(targets, min_size=1, max_size=3).map(tuple))
def test_more_code_never_covers_less(
    parts: list[tuple[tuple[Target, ...], int]], device: int, more: tuple[Target, ...]
) -> None:
    capability = f"{device // 10}.{device % 10}"
    before = count(DeviceCode(tuple(parts)), capability)
    after = count(DeviceCode(tuple((container + more, number) for container, number in parts)), capability)
    assert after.none <= before.none
    assert after.sass >= before.sass


@given(containers, archs)
def test_problems_are_never_coverage(parts: list[tuple[tuple[Target, ...], int]], device: int) -> None:
    library = Library("x.so", "x", DeviceCode(tuple(parts), ("damaged",)))
    assert verdict(library, f"{device // 10}.{device % 10}") == "unknown"


@given(st.sampled_from(["12.0", "9.0"]), versions, versions)
def test_the_driver_must_take_the_ptx_that_is_needed(
    capability: str, one: tuple[int, int], other: tuple[int, int]
) -> None:
    """Of several usable PTX of a container the oldest is enough; over containers the newest of these is needed."""
    both = (Target("ptx", 80, "", one), Target("ptx", 90, "", other))
    assert ptx_needed(DeviceCode(((both, 1),)), capability) == min(one, other)
    apart = (((both[0],), 1), ((both[1],), 1))
    assert ptx_needed(DeviceCode(apart), capability) == max(one, other)


@pytest.mark.parametrize(
    ("driver", "isa", "takes"),
    [
        ("580.65.06", (9, 0), True),
        ("575.57.08", (9, 0), False),
        ("580.95.05", (9, 1), False),  # minor-version compatibility does not cover PTX
        ("590.44.01", (9, 1), True),
        ("570.124.06", (8, 7), True),
        ("570.124.06", (8, 8), False),
        ("610.43.02", (9, 5), None),  # no table tells which driver came with CUDA 13.5
        ("610.43.02", (42, 0), None),
        ("unknown", (9, 0), None),
    ],
)
def test_ptx_and_drivers(driver: str, isa: tuple[int, int], takes: bool | None) -> None:
    assert rules.takes_ptx(driver, isa) is takes


@given(versions, versions)
def test_later_ptx_never_has_an_earlier_floor(one: tuple[int, int], other: tuple[int, int]) -> None:
    floors = [rules.ptx_floor(isa) for isa in sorted((one, other))]
    if None not in floors:
        assert [int(part) for part in str(floors[0]).split(".")] <= [int(part) for part in str(floors[1]).split(".")]


def test_assemblers() -> None:
    assert rules.assembles("12.8", 120) and not rules.assembles("12.8", 121) and rules.assembles("12.9", 121)
    assert rules.assembles("", 120) is None and rules.assembles("13.0", 999) is None


@pytest.mark.parametrize(
    ("path", "pattern", "means"),
    [
        ("sgl_kernel/sm100/common_ops.abi3.so", "sgl_kernel", True),
        ("sgl_kernel/flash_ops.abi3.so", "sgl_kernel/flash_ops*", True),
        ("sgl_kernel_more/x.so", "sgl_kernel", False),
        ("flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "flash_attn_2_cuda", True),
        ("torchvision/_C.so", "torch", False),
        ("nvidia/nccl/lib/libnccl.so.2", "nvidia/nccl/*", True),
    ],
)
def test_what_a_pattern_means(path: str, pattern: str, means: bool) -> None:
    assert matches(path, pattern) is means


@pytest.mark.parametrize("text", ["12", "sm_120", "12.x", "", "12.10"])
def test_what_is_no_capability(text: str) -> None:
    with pytest.raises(ValueError, match="no compute capability"):
        rules.device(text)
