"""The module of `tree` is killed, or meets an error, at every step: old or new, never between."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.trees import Entries, HostTree, content_of, make

pytestmark = [
    pytest.mark.full("faults and kills at each step of each change"),
    pytest.mark.timeout(180),
]

ORIGINAL: Entries = {"a": ("original", 0o604), "link": "-> a", "other": "others'"}
FIRST: Entries = {"a": "1\n2\n3\n4\n5\n", "link": "1", "gone/x": "1", "kind": "1", "e": "1"}
EDITED = "1\ntwo\n3\n4\n5\n"
SECOND: Entries = {"a": "1\n2\n3\n4\nfive\n", "link": "-> a", "kind/y": "2", "e": ("1", 0o755)}
MERGED: Entries = {**SECOND, "a": "1\ntwo\n3\n4\nfive\n"}
KILLED = 9
STEPS = (
    (os, "rename"),
    (os, "unlink"),
    (os, "mkdir"),
    (os, "rmdir"),
    (os, "symlink"),
    (os, "fchmod"),
    (os, "fsync"),
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "rmdir"),
)
TRANSITIONS = ("first write", "second write", "removal")


@pytest.fixture
def tree(tree_module: ModuleType, memory: Path) -> HostTree:
    """Return a tree in a folder that holds other files, some at its paths."""
    made = HostTree(tree_module, memory / "etc", memory / "state")
    make(made.root, ORIGINAL)
    return made


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_killed_at_any_step(
    tree: HostTree, monkeypatch: pytest.MonkeyPatch, transition: str
) -> None:
    """Each file is old or new; the next transition arrives; in the end all is as it was."""
    original = content_of(tree.root)
    work = _prepared(tree, transition)
    old, goals = content_of(tree.root), _goals(tree, transition)
    for number, restore in _again(tree):
        survived = _killed(monkeypatch, number, work)
        _expect_old_or_new(tree, old, *goals)
        state = tree.check()
        assert state == ("broken" if "change" in _record(tree) else state)
        if number % 2:
            tree.write()
            assert tree.check() == "up"
            assert content_of(tree.root) in goals
        tree.remove()
        assert tree.check() == "down"
        assert content_of(tree.root) == original
        if survived:
            break
        restore()
    assert number > 10


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_an_error_at_any_step_changes_nothing(
    tree: HostTree, monkeypatch: pytest.MonkeyPatch, transition: str
) -> None:
    """It is told, and the host is as it was at once; the same transition goes well later."""
    work = _prepared(tree, transition)
    old, goals = content_of(tree.root), _goals(tree, transition)
    for number, restore in _again(tree):
        reached, failed = _failed(monkeypatch, number, work)
        assert content_of(tree.root) in (old, *goals)
        assert failed is None or "No space left on device" in str(failed)
        if not reached:
            break
        work()
        assert content_of(tree.root) in goals
        restore()
    assert number > 3


def test_an_interrupted_change_that_somebody_has_edited(
    tree: HostTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edit is not taken back with the rest."""
    work = _prepared(tree, "second write")
    for number in itertools.count():
        _killed(monkeypatch, number, work)
        if "change" in _record(tree):
            break
    (tree.root / "a").write_text("1\n2\nthree\n4\n5\n")
    tree.write()
    assert (tree.root / "a").read_text() == "1\n2\nthree\n4\nfive\n"
    assert tree.check() == "up"


def _prepared(tree: HostTree, transition: str) -> Callable[[], object]:
    """Bring the tree to before a transition; return what carries it out."""
    tree.want(FIRST)
    if transition == "first write":
        return tree.write
    tree.write()
    (tree.root / "a").write_text(EDITED)
    if transition == "removal":
        return tree.remove
    tree.want(SECOND)
    return tree.write


def _goals(tree: HostTree, transition: str) -> list[dict[str, Any]]:
    """Return what may be there after a transition, or after a write that follows it."""
    written = {"first write": [FIRST], "second write": [MERGED]}
    after = written.get(transition, [{**FIRST, "a": EDITED}, FIRST])
    found = []
    for number, entries in enumerate(after):
        folder = tree.root.parent / f"goal{number}"
        shutil.rmtree(folder, ignore_errors=True)
        make(folder, {"other": ORIGINAL["other"], **entries})
        found.append(content_of(folder))
        shutil.rmtree(folder)
    if transition == "removal":
        make(tree.root.parent / "goal", ORIGINAL)
        found.append(content_of(tree.root.parent / "goal"))
        shutil.rmtree(tree.root.parent / "goal")
    return found


def _again(tree: HostTree) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield numbers, and what puts everything back as it was before the first one."""
    system, kept = tree.root.parent, tree.root.parents[1] / "kept"
    shutil.copytree(system, kept, symlinks=True)
    spec, cob = tree.spec, dict(tree.cob)

    def restore() -> None:
        shutil.rmtree(system)
        shutil.copytree(kept, system, symlinks=True)
        tree.spec, tree.cob = spec, dict(cob)

    for number in itertools.count():
        yield number, restore


def _expect_old_or_new(tree: HostTree, old: dict[str, Any], *goals: dict[str, Any]) -> None:
    for path, found in content_of(tree.root).items():
        if ".cobweb-" not in path and not found[0].startswith("d"):
            assert found in [one.get(path) for one in (old, *goals)], path


def _record(tree: HostTree) -> str:
    return "".join(path.read_text() for path in tree.state.rglob("record.json"))


def _killed(monkeypatch: pytest.MonkeyPatch, number: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that ends at a step; say whether it ended only after its work."""

    def end() -> None:
        os._exit(KILLED)

    child = os.fork()
    if child == 0:
        with monkeypatch.context() as patched:
            _patch(patched, 2 * number, end)
            try:
                work()
            finally:
                os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _failed(
    monkeypatch: pytest.MonkeyPatch, number: int, work: Callable[[], object]
) -> tuple[bool, Exception | None]:
    """Do the work, in which one step fails; say whether it came to that, and with which error."""
    reached = []

    def fail() -> None:
        reached.append(number)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        _patch(patched, 4 * number, fail)
        try:
            work()
        except Exception as error:  # noqa: BLE001 - any is looked at
            return True, error
    return bool(reached), None


def _patch(patched: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Let something happen before a step, if the number is even, or after it."""
    numbers = itertools.count()
    for owner, name in STEPS:
        patched.setattr(owner, name, _around(getattr(owner, name), numbers, number, act))


def _around(
    real: Callable[..., Any], numbers: Iterator[int], number: int, act: Callable[[], None]
) -> Callable[..., Any]:
    def step(*args: Any, **kwargs: Any) -> Any:
        if next(numbers) == number:
            act()
        result = real(*args, **kwargs)
        if next(numbers) == number:
            act()
        return result

    return step
