"""How texts and trees differ: told in lines that lead from one to the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.generation import (
    ChangeKind,
    FileDifference,
    TextDifference,
    TreeEntry,
    TreeKind,
    _texts,
    text_difference,
    tree_difference,
)

ADDED, REMOVED, CHANGED = ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED
texts = st.text("ab\n", max_size=30)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, with one more where the last one has no newline."""
    lines = text.split("\n")
    return [*lines, "\\ no newline at the end"] if lines[-1] else lines[:-1]


@given(texts, texts)
def test_hunks_lead_from_one_text_to_the_other(old: str, new: str) -> None:
    found = text_difference(old, new)
    assert found is not None
    before, after = lines_of(old), lines_of(new)
    for sign, lines in (("-", before), ("+", after)):
        told = [line[1:] for line in found.lines if line[0] in (sign, " ")]
        assert is_part(told, lines)
    assert found.added - found.removed == len(after) - len(before)
    assert bool(found.lines) is (old != new)


def is_part(part: list[str], whole: list[str]) -> bool:
    """Say whether some lines are in others in this order."""
    rest = iter(whole)
    return all(any(line == other for other in rest) for line in part)


def test_a_change_stands_between_what_is_around_it() -> None:
    old = "".join(f"{number}\n" for number in range(20))
    found = text_difference(old, old.replace("10\n", "ten\n"))
    assert found == TextDifference(
        added=1,
        removed=1,
        lines=("@@ -8,7 +8,7 @@", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"),
    )


def file(data: bytes, mode: int = 0o644, name: str = "f") -> TreeEntry:
    return TreeEntry(name=name, kind=TreeKind.FILE, mode=mode, data=data)


def link(target: str) -> TreeEntry:
    return TreeEntry(name="f", kind=TreeKind.LINK, target=target)


FOLDER = TreeEntry(name="f", kind=TreeKind.FOLDER, mode=0o755)


@pytest.mark.parametrize(
    ("old", "new", "kind", "notes", "counts"),
    [
        pytest.param(file(b"a\n"), file(b"b\n"), CHANGED, (), (1, 1), id="text"),
        pytest.param(
            file(b"a\n"), file(b"a\n", 0o4755), CHANGED, ("mode 0644 -> 4755",), None, id="mode"
        ),
        pytest.param(
            file(b"a\n"), file(b"", 0o600), CHANGED, ("mode 0644 -> 0600",), (0, 1), id="both"
        ),
        pytest.param(
            file(b"a"), file(b"\0\xff"), CHANGED, ("binary, 1 -> 2 bytes",), None, id="binary"
        ),
        pytest.param(
            file(b"\xff"), file(b"ab"), CHANGED, ("binary, 1 -> 2 bytes",), None, id="no text"
        ),
        pytest.param(link("a"), link("b"), CHANGED, ("link to a -> link to b",), None, id="links"),
        pytest.param(file(b"a"), link("b"), CHANGED, ("file -> link to b",), None, id="to a link"),
        pytest.param(file(b"a"), FOLDER, CHANGED, ("file -> folder",), None, id="to a folder"),
        pytest.param(
            FOLDER,
            TreeEntry(name="f", kind=TreeKind.FOLDER, mode=0o700),
            CHANGED,
            ("mode 0755 -> 0700",),
            None,
            id="mode of a folder",
        ),
        pytest.param(None, file(b"a\nb\n"), ADDED, (), (2, 0), id="new text"),
        pytest.param(file(b"a\nb\n"), None, REMOVED, (), (0, 2), id="gone text"),
        pytest.param(None, file(b""), ADDED, (), None, id="new and empty"),
        pytest.param(None, file(b"\0"), ADDED, ("binary, 1 bytes",), None, id="new binary"),
        pytest.param(link("a"), None, REMOVED, ("link to a",), None, id="gone link"),
        pytest.param(None, FOLDER, ADDED, ("folder",), None, id="new folder"),
        pytest.param(
            file(b"a\n" * 6000),
            file(b"b\n" * 6000),
            CHANGED,
            ("too long to be compared",),
            None,
            id="too long",
        ),
    ],
)
def test_a_file_that_differs_says_in_what(
    old: TreeEntry | None,
    new: TreeEntry | None,
    kind: ChangeKind,
    notes: tuple[str, ...],
    counts: tuple[int, int] | None,
) -> None:
    before, after = ({it.name: it} if it else {} for it in (old, new))
    (found,) = tree_difference(before, after)
    assert (found.name, found.kind, found.notes) == ("f", kind, notes)
    assert (found.text and (found.text.added, found.text.removed)) == counts


def test_only_what_differs_is_told_in_order() -> None:
    names = ("b", "a/c", "a", "same")
    old = {name: file(b"1", name=name) for name in names}
    new = {**{name: file(b"2", name=name) for name in names}, "same": old["same"]}
    assert [it.name for it in tree_difference(old, new)] == ["a", "a/c", "b"]
    assert tree_difference(old, old) == ()


def test_of_a_tree_that_differs_in_very_much_the_first_files_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_texts, "MAX_TREE_LINES", 4)
    new = {name: file(b"x\ny\n", name=name) for name in ("a", "b")}
    one, two = tree_difference({}, {**new, "c": FOLDER})[:2]
    assert one.text is not None
    assert two == FileDifference(name="b", kind=ADDED, notes=("too long to be compared",))
