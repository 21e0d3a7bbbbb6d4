from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envlock.environment import links


def test_profiles_synced_side_by_side_find_the_same_way(tmp_path: Path) -> None:
    """One name for all threads made one of two syncs believe that nothing but a copy works."""
    cache, store = tmp_path / "cache", tmp_path / "store"
    alone = links.choose("auto", cache, store)
    assert alone in ("reflink", "hardlink")
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: links.choose("auto", cache, store), range(200)))
    assert found == {alone}
    assert list(store.iterdir()) == []


def test_cache_and_store_in_one_folder(tmp_path: Path) -> None:
    assert links.choose("auto", tmp_path, tmp_path) in ("reflink", "hardlink")
    assert links.choose("copy", tmp_path, tmp_path) == "copy"
