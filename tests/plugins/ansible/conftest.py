"""A bench for both executors: a folder with task files, hosts on the local connection, jobs."""

from __future__ import annotations

import itertools
import os
import select
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Action, Host, Job, JobKind, Report, Tasks, cob_id
from cobweb.plugin import Executor, ExecutorSetting, SiteMark
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor

LIMIT_S = 100.0
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
PLAIN = pytest.param(
    AnsiblePlainExecutor,
    marks=pytest.mark.full("a new ansible-playbook for each job; the gate has some of its kit"),
)
BOTH = pytest.mark.parametrize("kind", [AnsibleExecutor, PLAIN])


def local_hosts(count: int) -> dict[str, Host]:
    """Return hosts h1, h2, ... that are all this machine."""
    names = [f"h{number}" for number in range(1, count + 1)]
    return {name: Host(name=name, groups=("app",), variables=LOCAL) for name in names}


@dataclass(kw_only=True)
class Bench:
    """One executor with its folders; jobs are numbered as they are made."""

    folder: Path
    executor: Executor
    hosts: Mapping[str, Host]
    parallel: int = 4
    timeout_s: float = LIMIT_S
    mark: SiteMark | None = None
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def open(self) -> None:
        """Open the executor."""
        (self.folder / "site").mkdir(exist_ok=True)
        (self.folder / "work").mkdir(exist_ok=True)
        self.executor.open(
            ExecutorSetting(
                hosts=self.hosts,
                site_dir=self.folder / "site",
                work_dir=self.folder / "work",
                parallel=self.parallel,
                timeout_s=self.timeout_s,
                roles_path=(self.folder / "roles",),
                mark=self.mark,
                groups=self.groups,
            )
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file below the bench's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def tasks(self, name: str, text: str) -> Action:
        """Write a task file and return the action that runs it."""
        return Tasks(path=str(self.write(name, text)))

    def job(self, action: Action, *, host: str = "h1", check: bool = False, **more: Any) -> Job:
        """Make a job; `spec` and `timeout_s` may be given."""
        spec = more.pop("spec", {})
        cob = {"id": f"{host}/a", "name": "a", "host": host, "spec": spec, "applied": None}
        return Job(
            number=next(self.numbers),
            kind=JobKind.CHECK if check else JobKind.TRANSITION,
            cob=cob_id(host, "a"),
            host=host,
            type_name="simple",
            action=action,
            cob_vars=cob,
            **more,
        )

    def run(self, *jobs: Job) -> list[Report]:
        """Submit jobs and return their reports in the order of the jobs."""
        for job in jobs:
            self.executor.submit(job)
        found = {report.number: report for report in self.collect(len(jobs))}
        return [found[job.number] for job in jobs]

    def collect(self, count: int) -> list[Report]:
        """Wait for so many reports, in order of arrival."""
        reports: list[Report] = []
        end = time.monotonic() + LIMIT_S
        while len(reports) < count:
            left = end - time.monotonic()
            assert left > 0, f"{len(reports)} of {count} reports came"
            reports += self.executor.wait(left)
        return reports

    def until_written(self, fifo: int, size: int = 1) -> bytes:
        """Serve the executor until `size` bytes came through a fifo; no report may come first."""
        data = b""
        end = time.monotonic() + LIMIT_S
        while len(data) < size:
            assert time.monotonic() < end, "nothing was written"
            assert not self.executor.wait(0.05)
            if select.select([fifo], [], [], 0)[0]:
                data += os.read(fifo, 4096)
        return data


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[MakeBench]:
    """Make an open bench of an executor class; closed, with all that runs, after the test."""
    with ExitStack() as stack:

        def make(kind: type[Executor], *, hosts: int = 3, **more: Any) -> Bench:
            bench = Bench(
                folder=tmp_path,
                executor=kind(),
                hosts=more.pop("inventory", None) or local_hosts(hosts),
                **more,
            )
            bench.open()
            stack.callback(bench.executor.close, kill=True)
            return bench

        yield make


@pytest.fixture
def local() -> dict[str, str]:
    """Return the variables of a host that is this machine."""
    return dict(LOCAL)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """Give a fifo by its path, and a descriptor that reads from it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield path, descriptor
    os.close(descriptor)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Mark all processes that are started from now on by a variable in their environment."""
    monkeypatch.setenv("COBWEB_TEST_MARK", str(tmp_path))
    return f"COBWEB_TEST_MARK={tmp_path}"


@pytest.fixture
def marked() -> Callable[[str], list[int]]:
    """Find the processes, other than this one, whose environment has a mark."""

    def find(mark: str) -> list[int]:
        return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _has(p, mark)]

    return find


def _has(process: Path, mark: str) -> bool:
    if int(process.name) == os.getpid():
        return False
    try:
        return mark.encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


@pytest.fixture
def all_end() -> Callable[[Sequence[int]], bool]:
    """Wait for processes to end; says whether they did within some seconds."""

    def wait(pids: Sequence[int]) -> bool:
        end = time.monotonic() + 15
        return all(_ends(pid, end) for pid in pids)

    return wait


def _ends(pid: int, end: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        return bool(select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0])
    finally:
        os.close(descriptor)


BOOKS = (Path("/var/lib/cobweb/work"), Path("~/.local/state/cobweb/work").expanduser())
"""Where a host keeps its book of job marks; this machine is a host in these tests."""


@pytest.fixture
def site() -> Iterator[str]:
    """Return a site that no other test has; its pages in this machine's book go with the test."""
    site = uuid.uuid4().hex
    yield site
    for page in [page for book in BOOKS for page in book.glob(f"*{site}*")]:
        page.unlink()
