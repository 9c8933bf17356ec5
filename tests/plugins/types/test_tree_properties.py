"""What holds for any trees: the merge against a plain one, and whole lives on a file system."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.trees import HostTree, content_of, make

PATHS = ("a", "b.bin", "f/a", "f/g/a", "-", "ü")
CONTENTS = ("one\n", "two\n", "three\n", "", b"\0\1", "-> a", "-> /nowhere")
MODES = (0o644, 0o600, 0o755)
FILES = st.tuples(st.sampled_from(CONTENTS), st.sampled_from(MODES))
TREES = st.dictionaries(st.sampled_from(PATHS), FILES, max_size=len(PATHS))
EDITS = st.dictionaries(st.sampled_from(PATHS), st.none() | FILES, max_size=3)
POLICIES = st.sampled_from(["fail", "site", "host"])
Version = dict[str, tuple[Any, int]]

QUICK = settings(max_examples=examples(200), deadline=None)
SLOW = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Collides(Exception):  # noqa: N818 - of the plain merge
    """The plain merge has no answer."""


def plain_merge(
    original: Version, versions: tuple[Version, Version, Version], policy: str
) -> Version:
    """Merge versions of files whose contents have no line in common."""
    base, ours, theirs = versions
    merged = dict(ours)
    for path in {*base, *theirs}:
        result = _one(
            [version.get(path) for version in (original, base, ours, theirs)],
            policy,
        )
        merged.pop(path, None)
        if result is not None:
            merged[path] = result
    return merged


def _one(found: list[Any], policy: str) -> Any:
    original, base, ours, theirs = found
    edited = base is not None and ours not in (None, base)
    if theirs is None:
        if not edited or ours == original:
            return original
        return _decided(policy, ours, original)
    if not edited:
        return theirs
    if len({_is_link(one) for one in (base, ours, theirs)}) == 2:
        return ours if theirs in (base, ours) else _decided(policy, ours, theirs)
    content, mode = (_part(base[i], ours[i], theirs[i], policy) for i in (0, 1))
    return content, mode


def _part(base: Any, ours: Any, theirs: Any, policy: str) -> Any:
    if ours == base:
        return theirs
    return ours if theirs in (base, ours) else _decided(policy, ours, theirs)


def _decided(policy: str, ours: Any, theirs: Any) -> Any:
    if policy == "fail":
        raise Collides
    return ours if policy == "host" else theirs


def _is_link(found: tuple[Any, int]) -> bool:
    return isinstance(found[0], str) and found[0].startswith("-> ")


def _plain(version: Version) -> Version:
    """Give links the mode that all links have."""
    return {path: (it[0], 0o777) if _is_link(it) else it for path, it in version.items()}


@SLOW
@given(versions=st.tuples(TREES, TREES, EDITS, TREES), policy=POLICIES)
def test_a_whole_life(
    tree_module: ModuleType, memory: Path, versions: tuple[Any, ...], policy: str
) -> None:
    """Apply, edit, apply another version, twice, and remove: as the plain merge says."""
    shutil.rmtree(memory)
    tree = HostTree(tree_module, memory / "etc", memory / "state")
    original, first, second = map(_plain, (versions[0], versions[1], versions[3]))
    edits: dict[str, tuple[Any, int] | None] = versions[2]
    make(tree.root, original)
    before = content_of(tree.root)
    tree.want(first).write()
    ours = {**original, **first}
    assert _files(tree.root) == _expected(memory, ours)
    ours = _edit(tree.root, ours, edits)
    tree.want(second, on_conflict=policy)
    try:
        merged = plain_merge(original, (first, ours, second), policy)
    except Collides:
        unchanged = content_of(tree.root)
        with pytest.raises(tree.module.Failed, match="conflict"):
            tree.write()
        assert content_of(tree.root) == unchanged
        tree.want(second, on_conflict="site").write()
    else:
        tree.write()
        assert _files(tree.root) == _expected(memory, merged)
    assert tree.check() == "up"
    assert tree.write()["changed"] is False
    tree.remove()
    assert tree.check() == "down"
    if all(path in first and path in second for path in edits):
        assert content_of(tree.root) == before if before else not tree.root.exists()


def _edit(root: Path, ours: Version, edits: dict[str, tuple[Any, int] | None]) -> Version:
    """Change files that are there; None deletes."""
    edited = dict(ours)
    for path, value in edits.items():
        if path in edited:
            (root / path).unlink()
            edited.pop(path)
            if value is not None:
                edited |= _plain({path: value})
                make(root, {path: edited[path]})
    return edited


def _files(root: Path) -> dict[str, Any]:
    """Return all but folders."""
    return {path: it for path, it in content_of(root).items() if not it[0].startswith("d")}


def _expected(memory: Path, version: Version) -> dict[str, Any]:
    with TemporaryDirectory(dir=memory) as folder:
        make(Path(folder), version)
        return _files(Path(folder))


# --- the merge alone


ENTRIES = st.builds(
    lambda kind, blob, mode, uid: (kind, blob if kind != "folder" else "", mode, uid),
    st.sampled_from(["file", "file", "link", "folder"]),
    st.sampled_from(["1", "2", "3"]),
    st.sampled_from([0o644, 0o600]),
    st.sampled_from([0, 1]),
)


def _never(*_: str) -> tuple[None, str]:
    return None, "hunk"


@pytest.fixture
def merging(tree_module: ModuleType) -> ModuleType:
    """Return the part that merges."""
    found: ModuleType = tree_module.merging
    return found


FIXED = settings(QUICK, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FIXED
@given(base=ENTRIES, ours=ENTRIES, theirs=ENTRIES)
def test_policies_agree_where_nothing_collides(
    merging: ModuleType, base: Any, ours: Any, theirs: Any
) -> None:
    """A policy decides conflicts and nothing else; it decides all but those that are hard."""
    results = {
        policy: _merged(merging, policy, base, ours, theirs) for policy in ("fail", "site", "host")
    }
    failed = results["fail"]
    if not failed.conflicts:
        assert results["site"] == results["host"] == failed
    for policy in ("site", "host"):
        assert all(one.hard for one in results[policy].conflicts)
    if any(one.hard for one in failed.conflicts):
        assert [one.hard for one in results["site"].conflicts] == [True]


@FIXED
@given(base=ENTRIES, ours=ENTRIES, theirs=ENTRIES, uid=st.sampled_from([None, 0]))
def test_one_side_alone_decides(
    merging: ModuleType, base: Any, ours: Any, theirs: Any, uid: int | None
) -> None:
    """What only one side has changed becomes as that side has it."""
    base, theirs = (*base[:3], uid), (*theirs[:3], uid)
    entry = merging.Entry(*theirs)
    same = _merged(merging, "fail", theirs, ours, theirs)
    if (ours[0] == "folder") == (theirs[0] == "folder"):
        assert merging.is_like(same.tree["p"], merging.Entry(*ours))
    as_left = (*base[:3], 0)
    merged = _merged(merging, "fail", base, as_left, theirs)
    assert merged.conflicts == []
    assert merging.is_like(entry, merged.tree["p"])
    assume(not merging.is_like(merging.Entry(*base), merging.Entry(*ours)))
    dropped = _merged(merging, "fail", base, ours, None)
    assert dropped.conflicts or dropped.tree["p"] in (merging.Entry(*ours), None)


def _merged(merging: ModuleType, policy: str, base: Any, ours: Any, theirs: Any) -> Any:
    def tree(entry: Any) -> dict[str, Any]:
        return {} if entry is None else {"p": merging.Entry(*entry)}

    return merging.merge(merging.Versions(tree(base), tree(ours), tree(theirs), {}), policy, _never)
