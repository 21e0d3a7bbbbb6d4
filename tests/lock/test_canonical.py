"""The reader of the canonical form: it says what tomllib says, or it says nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envlock.lock import canonical, toml_text

LOCKS = sorted((Path(__file__).parents[2] / "locks").glob("*.toml"))

_keys = st.text(min_size=1, max_size=8)
_scalars = st.one_of(st.text(max_size=12), st.integers(min_value=-(2**62), max_value=2**62), st.booleans())
_inline = st.dictionaries(_keys, _scalars, max_size=3)
_values = st.one_of(_scalars, st.lists(st.one_of(_scalars, _inline), max_size=3))
_tables = st.recursive(
    st.dictionaries(_keys, _values, min_size=1, max_size=4),
    lambda inner: st.dictionaries(_keys, st.one_of(_values, inner), min_size=1, max_size=4),
    max_leaves=6,
)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_committed_lock_is_read_as_tomllib_reads_it(path: Path) -> None:
    text = path.read_text()
    expected = tomllib.loads(text)
    del expected["content-digest"]
    assert canonical.read(text) == expected


@given(_tables)
def test_what_the_writer_writes_is_read_the_same_or_refused(tables: dict[str, Any]) -> None:
    text = toml_text.table(["root"], tables)
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a lone surrogate: no lock holds one
    try:
        found = canonical.load(text)
    except (ValueError, TypeError, AttributeError, IndexError):
        return
    assert found == expected


@given(st.text(alphabet='[]{}="\\\n,.# abc123-', max_size=60))
def test_whatever_is_read_is_toml_and_means_the_same(text: str) -> None:
    try:
        found = canonical.load(text)
    except (ValueError, TypeError, AttributeError, IndexError):
        return
    assert found == tomllib.loads(text)


@pytest.mark.parametrize("change", ["edited", "cut", "no digest", "two digests", "CRLF"])
def test_a_lock_that_is_not_whole_is_not_read(change: str) -> None:
    text = LOCKS[-1].read_text()
    head, line, body = text.partition('content-digest = "')
    changed = {
        "edited": text.replace('version = "', 'version = "9', 1),
        "cut": text[:-20],
        "no digest": head + body,
        "two digests": head + line + "0" * 64 + '"\n' + line + body,
        "CRLF": text.replace("\n", "\r\n"),
    }[change]
    assert canonical.read(changed) is None
