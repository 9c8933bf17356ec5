"""What a stopped job has left on a host: the script that ends it, and what is said of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cobweb.model import Outcome, Report
from cobweb_plugins.ansible._processes import descendants
from cobweb_plugins.ansible._sweep import MARK_VARIABLE, Sweep, sweep_script

AllEnd = Callable[[Sequence[int]], bool]
Start = Callable[..., "Shell"]
FAMILY = "env -i sleep 3701 & (trap '' TERM; sleep 3702; sleep 3703) & echo ready; sleep 3704"
PLAIN_GREP = '#!/bin/sh\ncase $1 in -*z*) echo "unrecognized option: z" >&2; exit 2; esac\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell's first line, and the pids that it had then: its own and those below it."""

    said: str
    pids: list[int]


@pytest.fixture
def job() -> str:
    """Return a mark that no other test has."""
    return f"{uuid.uuid4().hex}/1"


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a shell under a mark, and wait until it says a line and so many below it sleep."""
    started: list[subprocess.Popen[str]] = []
    held: list[int] = []

    def start(mark: str, command: str = FAMILY, sleepers: int = 3) -> Shell:
        environment = {**os.environ, MARK_VARIABLE: mark}
        shell = subprocess.Popen(
            ["sh", "-c", command], env=environment, stdout=subprocess.PIPE, text=True
        )
        started.append(shell)
        assert shell.stdout is not None
        said = shell.stdout.readline()
        await_sleepers(shell.pid, sleepers)
        pids = [shell.pid, *descendants(shell.pid)]
        held.extend(os.pidfd_open(pid) for pid in pids)
        return Shell(said=said, pids=pids)

    yield start
    for pidfd in held:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
    for shell in started:
        shell.communicate()


def await_sleepers(pid: int, count: int) -> None:
    """Wait until so many processes below `pid` sleep."""
    end = time.monotonic() + 30
    while sum(map(_sleeps, descendants(pid))) < count:
        assert time.monotonic() < end, "the family did not grow up"


def _sleeps(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "sleep\n"
    return False


def sweep(mark: str, *, before: str = "", path: Path | None = None) -> tuple[int, str]:
    """Run the script; returns its exit code and what it complained of."""
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", before + sweep_script(mark)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


# It looks at every process of the machine, and other tests may have hundreds.
@pytest.mark.timeout(240)
@pytest.mark.parametrize("grep", ["", PLAIN_GREP])
def test_all_that_a_job_started_ends(
    start: Start, job: str, all_end: AllEnd, tmp_path: Path, grep: str
) -> None:
    """Also what ignores SIGTERM, and what has wiped the mark; with a grep that lacks -z as well."""
    if grep:
        real = subprocess.run(["which", "grep"], check=True, capture_output=True, text=True).stdout
        (tmp_path / "grep").write_text(f'{grep}exec {real.strip()} "$@"\n', encoding="utf-8")
        (tmp_path / "grep").chmod(0o755)
    pids = start(job).pids
    assert sweep(job, path=tmp_path) == (0, "")
    assert all_end(pids)


def test_other_jobs_are_not_touched(start: Start, job: str, all_end: AllEnd) -> None:
    """A mark must be the whole value: job 1 is not job 12, and no mark is none."""
    ours = start(job).pids
    others = [*start(f"{job}2").pids, *start("").pids]
    assert sweep(job) == (0, "")
    assert all_end(ours)
    assert all(Path(f"/proc/{pid}").exists() for pid in others)


def test_daemons_live_on(start: Start, job: str, all_end: AllEnd) -> None:
    """What init has adopted stays, with what it has started, though it carries the mark."""
    daemon_of = "echo $( (sh -c 'sleep 3705 & wait' > /dev/null & echo $!) )"
    shell = start(job, f"{daemon_of}; sleep 3706", 1)
    daemon = int(shell.said)
    await_sleepers(daemon, 1)
    if parent(daemon) != 1:
        os.kill(daemon, signal.SIGKILL)
        pytest.skip("a subreaper adopts orphans here; run this test where init does")
    below = descendants(daemon)
    assert sweep(job) == (0, "")
    assert all_end(shell.pids)
    assert descendants(daemon) == below
    for pid in (daemon, *below):
        os.kill(pid, signal.SIGKILL)


def test_nothing_to_do_is_well(job: str) -> None:
    """A host on which nothing is left is found clean."""
    assert sweep(job) == (0, "")


def test_what_does_not_end_is_told(start: Start, job: str, tmp_path: Path) -> None:
    """Where nothing helps, the script gives up and names the processes."""
    (tmp_path / "sleep").symlink_to("/bin/true")
    pids = start(job, "echo ready; exec tail -f /dev/null", 0).pids
    code, said = sweep(job, before="kill() { :; }\n", path=tmp_path)
    assert (code, said) == (1, f"these do not end: {pids[0]}\n")


def parent(pid: int) -> int:
    """Return the parent of a process."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(text.rpartition(")")[2].split()[1])


@pytest.fixture
def order() -> Sweep:
    """Return the sweep for a job that was stopped."""
    report = Report(number=7, outcome=Outcome.CANCELLED, message="stopped")
    place = {"host": "db1", "marked": True, "keywords": {}, "vars": {}}
    return Sweep(report=report, host="app1", mark="x/7", place=place, deadline=1.0)


def test_a_sweep_that_ended_well_changes_nothing_in_the_report(order: Sweep) -> None:
    """What is gone needs no word."""
    assert order.ended({"outcome": "ok", "tasks": []}) == order.report


def test_a_sweep_that_failed_is_told_with_its_reason(order: Sweep) -> None:
    """The report keeps its outcome and says where processes may still run, and why."""
    report = order.ended({"outcome": "unreachable", "message": "no route", "tasks": []})
    assert report.outcome is Outcome.CANCELLED
    assert report.message == "stopped; what it started on db1 may still run there (no route)"
