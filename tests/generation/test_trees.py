"""Archives of file trees: the same bytes for the same tree, and all of it back."""

from __future__ import annotations

import io
import tarfile

from hypothesis import given
from hypothesis import strategies as st

from cobweb.generation import (
    TreeEntry,
    TreeKind,
    archive_of,
    in_order,
    read_archive,
    tree_digest,
    tree_of,
)

FILE, LINK, FOLDER = TreeKind.FILE, TreeKind.LINK, TreeKind.FOLDER

_PARTS = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
    | st.integers(0xDC80, 0xDCFF).map(chr),
    min_size=1,
    max_size=60,
).filter(lambda part: part not in (".", "..") and _is_name(part))
_NAMES = st.lists(_PARTS, min_size=1, max_size=4).map("/".join)
_MODES = st.integers(0, 0o7777)


def _is_name(text: str) -> bool:
    """Say whether the bytes of a text, decoded again, are the text: as with names on a disk."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == text


def entries_of(names: list[str]) -> st.SearchStrategy[list[TreeEntry]]:
    """Return entries with these names, in order."""
    return st.tuples(*(_entry(name) for name in in_order(set(names)))).map(list)


def _entry(name: str) -> st.SearchStrategy[TreeEntry]:
    named = st.just(name)
    return (
        st.builds(TreeEntry, name=named, kind=st.just(FILE), mode=_MODES, data=st.binary())
        | st.builds(TreeEntry, name=named, kind=st.just(LINK), target=_NAMES)
        | st.builds(TreeEntry, name=named, kind=st.just(FOLDER), mode=_MODES)
    )


@given(st.lists(_NAMES, max_size=6).flatmap(entries_of))
def test_an_archive_has_all_of_a_tree(entries: list[TreeEntry]) -> None:
    archive = b"".join(archive_of(entries))
    assert list(read_archive(archive).values()) == entries
    assert archive == b"".join(archive_of(read_archive(archive).values()))


@given(st.lists(_NAMES, max_size=6).flatmap(entries_of))
def test_a_digest_tells_trees_apart(entries: list[TreeEntry]) -> None:
    mark = tree_digest(entries)
    assert mark["files"] == sum(entry.kind is not FOLDER for entry in entries)
    assert mark["bytes"] == sum(len(entry.data) for entry in entries)
    other = [*entries, TreeEntry(name="zz" * 200, kind=FOLDER)]
    assert tree_digest(other)["digest"] != mark["digest"]


def test_the_digest_of_a_tree_is_the_same_everywhere_and_for_ever() -> None:
    """It stands in the journals of sites: another one would be a change on every host."""
    entries = [
        TreeEntry(name=".hidden", kind=FILE, mode=0o600, data=b"x\n"),
        TreeEntry(name="a", kind=FOLDER, mode=0o755),
        TreeEntry(name="a/" + "long" * 40, kind=FILE, mode=0o4755, data=bytes(600)),
        TreeEntry(name="link", kind=LINK, target="a/nowhere"),
        TreeEntry(name="z\udcff\n", kind=FILE, mode=0o644),
    ]
    assert tree_digest(entries) == {
        "digest": "09032c20afb14411072c35e2f66190a9d6c3b468ba36819dfc552a8eb32e0e05",
        "files": 4,
        "bytes": 602,
    }


def test_an_archive_belongs_to_nobody_and_has_no_time() -> None:
    archive = b"".join(archive_of([TreeEntry(name="a", kind=FILE, mode=0o644, data=b"x")]))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        (member,) = tar.getmembers()
    assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)


def test_what_is_no_tree_has_no_digest() -> None:
    whole = {"digest": "0" * 64, "files": 1, "bytes": 1}
    assert tree_of({"tree": whole}) == "0" * 64
    for other in (None, "x", {}, {**whole, "more": 1}, {**whole, "digest": 1}):
        assert tree_of({"tree": other}) == ""
    assert tree_of({"tree": {**whole, "digest": "abc"}}) == ""
    assert tree_of({}) == ""
