"""Archives of file trees are lent to transitions, once, and compared."""

from __future__ import annotations

import gzip
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.generation import TreeEntry, TreeKind, archive_of, tree_digest
from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._trees import TreeLender
from cobweb.model import CobId, Host, Job, JobKind, Outcome, Tasks
from cobweb.operations import TreeComparison
from cobweb.plugin import ExecutorSetting
from cobweb.testing import FakeExecutor

COB = CobId("h/etc")


def tree(text: bytes) -> tuple[dict[str, Any], bytes]:
    """Return what a spec says of a tree of one file, and its archive."""
    entries = [TreeEntry(name="a", kind=TreeKind.FILE, mode=0o644, data=text)]
    return tree_digest(entries), b"".join(archive_of(entries))


ONE, TWO = tree(b"one\n"), tree(b"two\n")


def job(number: int, spec: Any, kind: JobKind = JobKind.TRANSITION) -> Job:
    return Job(
        number=number,
        kind=kind,
        cob=COB,
        host="h",
        type_name="tree",
        action=Tasks(path="/write.yml"),
        cob_vars={"spec": spec},
        source="down" if kind is JobKind.TRANSITION else "",
        dest="up" if kind is JobKind.TRANSITION else "",
    )


def setting(folder: Path) -> ExecutorSetting:
    return ExecutorSetting(
        hosts={"h": Host(name="h")}, site_dir=folder, work_dir=folder, parallel=2, timeout_s=9
    )


@pytest.fixture
def asked() -> list[str]:
    """Return the digests that were asked for."""
    return []


@pytest.fixture
def find(asked: list[str]) -> Callable[[str], bytes | None]:
    known = {mark["digest"]: archive for mark, archive in (ONE, TWO)}

    def found(digest: str) -> bytes | None:
        asked.append(digest)
        return known.get(digest)

    return found


def test_each_archive_is_written_once_and_for_its_owner_only(
    tmp_path: Path, find: Callable[[str], bytes | None], asked: list[str]
) -> None:
    folder = setting(tmp_path).trees
    lender = TreeLender(folder, find)
    for _ in range(2):
        lender.lend(job(1, {"tree": ONE[0]}))
    (path,) = folder.iterdir()
    assert path.name == f"{ONE[0]['digest']}.tar.gz"
    assert gzip.decompress(path.read_bytes()) == ONE[1]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert asked == [ONE[0]["digest"]]


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        pytest.param({"path": "/x"}, JobKind.TRANSITION, id="no tree"),
        pytest.param(None, JobKind.TRANSITION, id="no spec"),
        pytest.param({"tree": ONE[0]}, JobKind.CHECK, id="a check"),
        pytest.param({"tree": tree(b"?")[0]}, JobKind.TRANSITION, id="an archive that is gone"),
    ],
)
def test_nothing_is_lent_where_nothing_is_needed(
    tmp_path: Path, find: Callable[[str], bytes | None], spec: Any, kind: JobKind
) -> None:
    TreeLender(tmp_path / "trees", find).lend(job(1, spec, kind))
    assert not (tmp_path / "trees").exists()


def test_a_job_whose_archive_cannot_be_written_fails_alone(
    tmp_path: Path, find: Callable[[str], bytes | None]
) -> None:
    """The other one, that needs none, goes on; no half of an archive is left."""
    it = setting(tmp_path)
    it.trees.mkdir()
    (it.trees / f"{ONE[0]['digest']}.tar.draft").mkdir()  # in the way of the draft
    executor = FakeExecutor()
    executor.open(it)
    dispatcher = Dispatcher(executor, it, trees=TreeLender(it.trees, find))
    dispatcher.add(job(1, {"tree": ONE[0]}))
    dispatcher.add(job(2, {}))
    dispatcher.submit(dispatcher.take())
    ended: dict[int, Any] = {}
    while not dispatcher.idle():
        ended |= {done.number: report for done, report in dispatcher.wait(1.0)}
    assert [each.number for each in executor.jobs] == [2]
    assert ended[2].outcome is Outcome.OK
    assert ended[1].outcome is Outcome.FAILED
    assert ended[1].message == "cannot write the archive of the tree: Is a directory"
    assert not list(it.trees.glob("*.gz"))


def test_trees_are_compared_once(find: Callable[[str], bytes | None], asked: list[str]) -> None:
    trees = TreeComparison(find)
    digests = (ONE[0]["digest"], TWO[0]["digest"])
    (found,) = trees.files(digests)
    assert found.name == "a"
    assert trees.files(digests) == (found,)
    assert asked == list(digests)
    assert trees.files(None) == ()
    assert trees.files((ONE[0]["digest"], "0" * 64)) == ()
