"""What a stopped job has left on a host: the script that ends it, and what is said of it."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cobweb.model import Outcome, Report
from cobweb_plugins.ansible._job_marks import REFUSED, REFUSED_CODE, guarded
from cobweb_plugins.ansible._module_server import is_too_late
from cobweb_plugins.ansible._processes import descendants
from cobweb_plugins.ansible._sweep import Sweep, sweep_script
from tests.plugins.ansible.conftest import BOOKS

pytestmark = [
    pytest.mark.full("what a job leaves, process by process; the gate has P11 by both commands")
]

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
def start() -> Iterator[Start]:
    """Start a command through the guard, wait until it says a line and so many below it sleep."""
    started: list[subprocess.Popen[str]] = []
    held: list[int] = []

    def start(mark: str, command: str = FAMILY, sleepers: int = 3) -> Shell:
        line = f"exec {guarded(command, mark, '/bin/sh')}" if mark else command
        shell = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True)
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


def sweep(
    site: str, *jobs: int, epoch: int = 5, before: str = "", path: Path | None = None
) -> tuple[int, str]:
    """Run the script; returns its exit code and what it complained of."""
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", before + sweep_script(site, epoch, jobs)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


# It looks at every process of the machine, and other tests may have hundreds.
@pytest.mark.timeout(240)
@pytest.mark.parametrize("grep", ["", PLAIN_GREP])
def test_all_that_a_job_started_ends(
    start: Start, site: str, all_end: AllEnd, tmp_path: Path, grep: str
) -> None:
    """Also what ignores SIGTERM, and what has wiped the mark; with a grep that lacks -z as well."""
    if grep:
        real = subprocess.run(["which", "grep"], check=True, capture_output=True, text=True).stdout
        (tmp_path / "grep").write_text(f'{grep}exec {real.strip()} "$@"\n', encoding="utf-8")
        (tmp_path / "grep").chmod(0o755)
    pids = start(f"{site}/5/1").pids
    assert sweep(site, 1, path=tmp_path) == (0, "")
    assert all_end(pids)


@pytest.mark.gate("P11 on this machine")
def test_jobs_of_earlier_runs_end(start: Start, site: str, all_end: AllEnd) -> None:
    """Whatever their numbers are, those of this run go on."""
    before = [*start(f"{site}/4/1").pids, *start(f"{site}/3/7").pids]
    ours = start(f"{site}/5/7").pids
    assert sweep(site, epoch=5) == (0, "")
    assert all_end(before)
    assert all(Path(f"/proc/{pid}").exists() for pid in ours)


def test_other_jobs_are_not_touched(start: Start, site: str, all_end: AllEnd) -> None:
    """Job 1 is not job 12, another site's is none of ours, and no mark is none."""
    ours = start(f"{site}/5/1").pids
    other = f"{site[:-1]}{'0' if site[-1] != '0' else '1'}"
    others = [*start(f"{site}/5/12").pids, *start(f"{other}/5/1").pids, *start("").pids]
    assert sweep(site, 1) == (0, "")
    assert all_end(ours)
    assert all(Path(f"/proc/{pid}").exists() for pid in others)


DAEMON = "sleep 3705 & trap 'sleep 3707 &' USR1; wait; wait"


@pytest.mark.parametrize("epoch", [5, 4])
def test_daemons_live_on(start: Start, site: str, all_end: AllEnd, epoch: int) -> None:
    """What has left its job stays, with what it has started, though it carries the mark.

    A daemon that a job of an earlier run has started is there for good; it may start more.
    """
    shell = start(
        f"{site}/{epoch}/1", f'echo $( (sh -c "{DAEMON}" > /dev/null & echo $!) ); sleep 3706', 1
    )
    daemon = int(shell.said)
    await_sleepers(daemon, 1)
    assert sweep(site, 1) == (0, "")
    assert all_end(shell.pids)
    os.kill(daemon, signal.SIGUSR1)
    await_sleepers(daemon, 2)
    below = descendants(daemon)
    assert sweep(site, 1) == (0, "")
    assert descendants(daemon) == below
    for pid in (daemon, *below):
        os.kill(pid, signal.SIGKILL)


def test_a_command_whose_connection_has_ended_is_no_daemon(
    start: Start, site: str, all_end: AllEnd
) -> None:
    """Init, or who takes its place, has adopted it, and it is at work all the same."""
    command = guarded("echo $$; sleep 3708; sleep 3709", f"{site}/5/1", "/bin/sh")
    shell = start("", f"echo $( ({command} & ) | head -n 1); sleep 3710", 1)
    orphan = int(shell.said)
    await_sleepers(orphan, 1)
    pids = [orphan, *descendants(orphan)]
    assert sweep(site, 1) == (0, "")
    assert all_end(pids)


def test_what_comes_late_does_not_begin(site: str, tmp_path: Path) -> None:
    """A command of a job that was ended, or of an earlier run, says so and does nothing."""
    assert sweep(site, 2) == (0, "")
    for mark, begins in (
        (f"{site}/5/1", True),
        (f"{site}/5/2", False),
        (f"{site}/4/1", False),
        (f"{site}/6/2", True),
    ):
        made = tmp_path / mark.replace("/", "-")
        line = guarded(f"touch {made}; exit 3", mark, "/bin/sh")
        done = subprocess.run(
            ["sh", "-c", line],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert is_too_late(mark) is not begins
        expected = (3, "") if begins else (REFUSED_CODE, f"{REFUSED}\n")
        assert (done.returncode, done.stderr, made.exists()) == (*expected, begins), mark


def test_a_newer_run_forgets_what_the_one_before_it_has_ended(site: str) -> None:
    """Tombstones are those of one run; an older one ends nothing any more."""
    assert sweep(site, 1, 2) == (0, "")
    assert sweep(site, 3, epoch=6) == (0, "")
    pages = sorted(page.name for book in BOOKS for page in book.glob(f"{site}*"))
    assert pages == [site, f"{site}.6.3"]
    assert sweep(site, 4, epoch=5) == (REFUSED_CODE, f"{REFUSED}\n")


def test_nothing_to_do_is_well(site: str) -> None:
    """A host on which nothing is left is found clean."""
    assert sweep(site, 1) == (0, "")


def test_what_does_not_end_is_told(start: Start, site: str, tmp_path: Path) -> None:
    """Where nothing helps, the script gives up and names the processes."""
    (tmp_path / "sleep").symlink_to("/bin/true")
    pids = start(f"{site}/5/1", "echo ready; exec tail -f /dev/null", 0).pids
    code, said = sweep(site, 1, before="kill() { :; }\n", path=tmp_path)
    assert (code, sorted(said.split()[-2:])) == (1, sorted(map(str, pids)))
    assert said.startswith("these do not end: ")


@pytest.fixture
def order() -> Sweep:
    """Return the sweep for a job that was stopped."""
    report = Report(number=7, outcome=Outcome.CANCELLED, message="stopped")
    place = {"host": "db1", "keywords": {}, "vars": {}}
    return Sweep(report=report, host="app1", script="", place=place, deadline=1.0)


def test_a_sweep_that_ended_well_changes_nothing_in_the_report(order: Sweep) -> None:
    """What is gone needs no word."""
    assert order.ended({"outcome": "ok", "tasks": []}) == order.report


def test_a_sweep_that_failed_is_told_with_its_reason(order: Sweep) -> None:
    """The report keeps its outcome and says where processes may still run, and why."""
    report = order.ended({"outcome": "unreachable", "message": "no route", "tasks": []})
    assert (report.outcome, report.at_work) == (Outcome.CANCELLED, True)
    assert report.message == "stopped; what it started on db1 may still run there (no route)"


@pytest.mark.parametrize("seen", ["", "newer", "9" * 19, None])
def test_a_book_that_cannot_be_read_hinders_nobody(site: str, seen: str | None) -> None:
    """Also where the page is a pipe that nobody writes to; the next run writes it anew."""
    assert sweep(site, 1) == (0, "")
    (page,) = [book / site for book in BOOKS if (book / site).exists()]
    page.unlink()
    if seen is None:
        os.mkfifo(page)
    else:
        page.write_text(f"{seen}\n", encoding="utf-8")
    line = guarded("true", f"{site}/5/2", "/bin/sh")
    assert subprocess.run(["sh", "-c", line], check=False, timeout=30).returncode == 0
    assert not is_too_late(f"{site}/5/2")
    assert sweep(site, epoch=6) == (0, "")
    assert page.read_text(encoding="utf-8") == "6\n"


def test_what_outlives_its_terminal_is_no_daemon(start: Start, site: str, all_end: AllEnd) -> None:
    """The guard stays above a command that takes no notice of the end of its connection."""
    shell = start(f"{site}/5/1", "trap '' HUP; echo $$; sleep 3711; sleep 3712", 1)
    for pid in shell.pids:
        os.kill(pid, signal.SIGHUP)
    command = int(shell.said)
    assert Path(f"/proc/{command}").exists()
    assert sweep(site, 1) == (0, "")
    assert all_end([command, *shell.pids])


def test_what_outlives_its_parents_and_its_terminal_is_no_daemon(
    site: str, all_end: AllEnd
) -> None:
    """As where `sudo` ends all that it can of what had a terminal; a daemon has none."""
    daemon = "(setsid sh -c 'echo 1 $$; exec sleep 3717 >/dev/null 2>&1' &)"
    command = "sh -c \"trap '' HUP TERM; sleep 3718 & echo 2 \\$\\$; wait\"; true"
    line = guarded(f"{daemon}; {command}", f"{site}/5/1", "/bin/sh")
    pid, terminal = pty.fork()
    if not pid:
        os.execv("/bin/sh", ["sh", "-c", f"{line}; true"])  # noqa: S606  # it is a shell
    with os.fdopen(terminal, encoding="utf-8") as said:
        daemon_pid, command_pid = (int(one.split()[1]) for one in sorted(map(next, [said] * 2)))
        await_sleepers(command_pid, 1)
        pids = [command_pid, *descendants(command_pid)]
        for parent in {pid, *descendants(pid)} - set(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(parent, signal.SIGTERM)
    os.waitpid(pid, 0)
    try:
        assert sweep(site, 1) == (0, "")
        assert all_end(pids)
        assert _sleeps(daemon_pid)
    finally:
        for left in filter(_sleeps, (daemon_pid, *pids)):
            os.kill(left, signal.SIGKILL)


def test_nobody_has_others_killed_by_what_is_in_his_environment(start: Start, site: str) -> None:
    """A line break in a variable makes no second process of it."""
    victim = start("", "echo ready; sleep 3713", 1).pids
    forged = f"x\n/proc/{victim[0]}/environ:COBWEB_JOB={site}/4/1"
    forged += f"\n/proc/{victim[0]}/cmdline:cobweb-job"
    planter = subprocess.Popen(["sleep", "3714"], env={**os.environ, "COBWEB_JOB": forged})
    try:
        assert sweep(site, 1) == (0, "")
        assert all(Path(f"/proc/{pid}").exists() for pid in victim)
    finally:
        planter.kill()
        planter.wait()


def test_nobody_has_daemons_killed_by_the_name_of_a_file(
    start: Start, site: str, tmp_path: Path
) -> None:
    """A line break in the name of an open file makes no terminal of another process."""
    shell = start(
        f"{site}/5/1", "echo $( (sh -c 'sleep 3719' >/dev/null & echo $!) ); sleep 3720", 1
    )
    daemon = int(shell.said)
    folder = tmp_path / f"x\nl /proc/{daemon}/fd/0 -> " / "dev/pts"
    folder.mkdir(parents=True)
    (folder / "1 (deleted)").write_text("", encoding="utf-8")
    with (folder / "1 (deleted)").open(encoding="utf-8") as forged:
        planter = subprocess.Popen(["sleep", "3721"], stdin=forged)
        try:
            assert sweep(site, 1) == (0, "")
            assert Path(f"/proc/{daemon}/cmdline").read_bytes(), "it is dead"
        finally:
            for pid in (planter.pid, daemon, *descendants(daemon)):
                os.kill(pid, signal.SIGKILL)
            planter.wait()


def test_work_of_a_newer_run_is_not_touched(start: Start, site: str) -> None:
    """Not even where the book does not tell of that run."""
    newer = start(f"{site}/6/1").pids
    assert sweep(site, 1, epoch=5) == (0, "")
    assert all(Path(f"/proc/{pid}").exists() for pid in newer)


def test_a_sweep_after_one_that_was_cut_off_ends_the_rest(
    start: Start, site: str, all_end: AllEnd
) -> None:
    """What ignores SIGTERM has lost the parents by which it was known."""
    pids = start(f"{site}/5/1").pids
    assert sweep(site, 1, before="sleep() { exit 9; }\n") == (9, "")
    assert not all(not Path(f"/proc/{pid}").exists() for pid in pids)
    assert sweep(site, 1) == (0, "")
    assert all_end(pids)


WORKERS = """\
while [ -e {0}/go ]; do
  echo begun >>{0}/begun
  (setsid sh -c 'sleep 0.3; echo done >>{0}/done' &)
  sleep 0.1
done
"""


def test_what_a_daemon_starts_while_others_are_ended_lives(
    start: Start, site: str, tmp_path: Path, all_end: AllEnd
) -> None:
    """Its children that init adopts are in no session of a job."""
    (tmp_path / "daemon").write_text(WORKERS.format(tmp_path), encoding="utf-8")
    (tmp_path / "go").touch()
    daemon = f"(setsid sh {tmp_path}/daemon >/dev/null 2>&1 &)"
    shell = start(f"{site}/4/1", f"echo ready; {daemon}; trap '' TERM; sleep 3715; sleep 3716", 1)
    assert sweep(site, 1) == (0, "")
    assert all_end(shell.pids)
    (tmp_path / "go").unlink()
    end = time.monotonic() + 30
    while lines(tmp_path / "done") < lines(tmp_path / "begun"):
        assert time.monotonic() < end, "some of them were killed"


def lines(path: Path) -> int:
    """Return how many lines a file has."""
    return path.read_text(encoding="utf-8").count("\n")


@pytest.mark.parametrize("tool", ["awk", "grep"])
def test_where_nobody_can_look_nothing_is_said_to_have_ended(
    site: str, tmp_path: Path, tool: str
) -> None:
    for name in {"awk", "grep", "sed", "tr", "id", "sleep", "mkdir", "mv", "rm"} - {tool}:
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        ["/bin/sh", "-c", sweep_script(site, 5, ())],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"what nobody can look for without {tool}" in done.stdout
