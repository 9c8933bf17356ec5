"""The cache keeps what it can, trusts only what is the user's own, and never gets in the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb._cache import Cache, open_cache

KEY = "0123abcd"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_what_was_put_is_got_by_kind_and_key(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "a" / "cobweb")
    assert cache.get("graph", KEY) is None
    cache.put("graph", KEY, b"value")
    assert cache.get("graph", KEY) == b"value"
    assert cache.get("plan", KEY) is None
    assert cache.get("graph", "ff") is None
    assert (tmp_path / "a" / "cobweb").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o77 == 0 for path in entries(tmp_path / "a" / "cobweb"))


def test_the_last_value_counts(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c")
    cache.put("graph", KEY, b"one")
    cache.put("graph", KEY, b"two")
    assert cache.get("graph", KEY) == b"two"
    assert len(entries(tmp_path / "c")) == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_damaged_entry_is_none(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path / "c")
    cache.put("graph", KEY, b"value" * 100)
    (path,) = entries(tmp_path / "c")
    data = path.read_bytes()
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    made = {"cut": data[:-1], "flipped": flipped, "empty": b"", "foreign": b"x" * 600}
    path.write_bytes(made[damage])
    assert cache.get("graph", KEY) is None


@pytest.mark.parametrize("mode", [0o750, 0o707, 0o701])
def test_a_folder_that_others_can_enter_is_not_trusted(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "c"
    cache = Cache(folder)
    cache.put("graph", KEY, b"value")
    folder.chmod(mode)
    assert cache.get("graph", KEY) is None
    cache.put("graph", "ff", b"value")
    assert len(entries(folder)) == 1


def test_a_folder_of_another_user_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "c")
    cache.put("graph", KEY, b"value")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache.get("graph", KEY) is None


def test_a_folder_that_is_a_link_is_not_trusted(tmp_path: Path) -> None:
    Cache(tmp_path / "c").put("graph", KEY, b"value")
    (tmp_path / "link").symlink_to("c")
    cache = Cache(tmp_path / "link")
    assert cache.get("graph", KEY) is None
    cache.put("graph", "ff", b"value")
    assert len(entries(tmp_path / "c")) == 1


@pytest.mark.parametrize("does", ["get", "put"])
def test_a_folder_exchanged_after_it_was_checked_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    mine, moved, others = tmp_path / "c", tmp_path / "moved", tmp_path / "others"
    for folder, value in ((mine, b"mine"), (others, b"theirs")):
        Cache(folder).put("graph", KEY, value)

    def exchanging(look: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def looked(*arguments: Any, **options: Any) -> os.stat_result:
            status = look(*arguments, **options)
            if not moved.exists():
                mine.rename(moved)
                mine.symlink_to("others")
            return status

        return looked

    cache = Cache(mine)
    monkeypatch.setattr(os, "fstat", exchanging(os.fstat))
    monkeypatch.setattr(Path, "stat", exchanging(Path.stat))
    monkeypatch.setattr(Path, "exists", os.path.exists)
    if does == "get":
        assert cache.get("graph", KEY) == b"mine"
    else:
        cache.put("graph", "ff", b"value")
        assert len(entries(others)) == 1


def test_an_entry_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c")
    cache.put("graph", KEY, b"value")
    (entry,) = entries(tmp_path / "c")
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert cache.get("graph", KEY) is None


def test_an_entry_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, fstat = Cache(tmp_path / "c"), os.fstat
    cache.put("graph", KEY, b"value")

    def anothers(handle: int) -> os.stat_result:
        found = fstat(handle)
        is_entry = stat.S_ISREG(found.st_mode)
        return os.stat_result([*found[:4], found.st_uid + 1, *found[5:]]) if is_entry else found

    monkeypatch.setattr(os, "fstat", anothers)
    assert cache.get("graph", KEY) is None


def test_nothing_is_kept_where_an_opened_folder_cannot_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    cache = Cache(tmp_path / "c")
    cache.put("graph", KEY, b"value")
    assert not cache
    assert not (tmp_path / "c").exists()


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c", max_bytes=400)
    for number, kind in enumerate(("a", "b", "c")):
        cache.put(kind, KEY, bytes(60))
        os.utime(tmp_path / "c" / f"{kind}.{KEY}.entry", (number, number))
    assert cache.get("a", KEY) is not None  # used now
    cache.put("d", KEY, bytes(60))
    assert [cache.get(kind, KEY) is not None for kind in "abcd"] == [True, False, True, True]


def test_what_a_writer_left_goes_too(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c", max_bytes=300)
    cache.put("a", KEY, b"")
    part = tmp_path / "c" / "x.part"
    part.write_bytes(bytes(250))
    os.utime(part, (1, 1))
    cache.put("b", KEY, b"")
    assert not part.exists()


def test_what_is_too_long_is_left_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c", max_bytes=100)
    cache.put("a", KEY, bytes(100))
    assert cache.get("a", KEY) is None


def test_a_disk_that_refuses_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = Cache(tmp_path / "file" / "cobweb")
    cache.put("a", KEY, b"value")
    assert cache.get("a", KEY) is None

    def full(*_names: object, **_folders: object) -> None:
        raise OSError

    whole = Cache(tmp_path / "c")
    monkeypatch.setattr(os, "rename", full)
    whole.put("a", KEY, b"value")
    assert entries(tmp_path / "c") == []


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/cobweb"),
        ({"XDG_CACHE_HOME": "x", "HOME": "/h"}, "/h/.cache/cobweb"),
        ({"HOME": "/h"}, "/h/.cache/cobweb"),
        ({"HOME": "h"}, None),
        ({}, None),
        ({"HOME": "/h", "COBWEB_NO_CACHE": "1"}, None),
    ],
)
def test_the_folder_is_the_users(environ: dict[str, str], folder: str | None) -> None:
    cache = open_cache(environ)
    assert cache._folder == (None if folder is None else Path(folder))
    assert bool(cache) is (folder is not None)
