"""Hosts do not wait for each other, what takes too long ends alone, nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Action, Outcome
from cobweb_plugins.ansible._base import BaseExecutor
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor
from cobweb_plugins.ansible._processes import descendants
from tests.plugins.ansible.conftest import BOTH

pytestmark = [
    pytest.mark.full("processes that die or hang by Ansible itself; the gate has each kind once")
]

Fifo = tuple[Path, int]
Marked = Callable[[str], list[int]]
AllEnd = Callable[[Sequence[int]], bool]
Kind = type[BaseExecutor]
Make = Callable[..., Any]
CHILDREN = "sleep 3601 & sleep 3602 & wait"


def hanging(bench: Any, fifo: Path) -> Action:
    """Return tasks that write host and pid of their shell into the fifo and then never end."""
    text = f"- shell: 'echo {{{{ inventory_hostname }}}} $$ > {fifo}; {CHILDREN}'\n"
    action: Action = bench.tasks("hanging.yml", text)
    return action


def shells(bench: Any, fifo: int, count: int) -> dict[str, int]:
    """Return the pids of the shells of so many hanging jobs by their hosts."""
    text = ""
    while text.count("\n") < count:
        text += bench.until_written(fifo).decode()
    return {line.split()[0]: int(line.split()[1]) for line in text.splitlines()}


@BOTH
def test_other_hosts_end_while_one_hangs(make_bench: Make, fifo: Fifo, kind: Kind) -> None:
    """A host that waits for something holds up nobody; then it ends as well."""
    gate = fifo[0].with_name("gate")
    os.mkfifo(gate)
    opened = os.open(gate, os.O_RDWR)
    bench = make_bench(kind, hosts=3)
    waits = bench.tasks("waits.yml", f"- shell: 'echo $$ > {fifo[0]}; head -c 1 {gate}'\n")
    quick = bench.tasks("quick.yml", "- command: 'true'\n")
    bench.executor.submit(bench.job(waits, host="h1"))
    bench.until_written(fifo[1])
    others = [bench.job(quick, host=host) for host in ("h2", "h3", "h2")]
    assert [report.outcome for report in bench.run(*others)] == [Outcome.OK] * 3
    os.write(opened, b"x")
    assert [report.number for report in bench.collect(1)] == [1]
    os.close(opened)


@BOTH
def test_timeout_ends_one_job_with_its_children(
    make_bench: Make, fifo: Fifo, kind: Kind, all_end: AllEnd
) -> None:
    """The job that took too long ends with all that it started; one on the same host does not."""
    bench = make_bench(kind, hosts=2)
    action = hanging(bench, fifo[0])
    short = bench.job(action, host="h1", timeout_s=25 if kind is AnsiblePlainExecutor else 10)
    bench.executor.submit(short)
    bench.executor.submit(bench.job(action, host="h2"))
    found = shells(bench, fifo[1], 2)
    children = [*_below(found["h1"]), found["h1"]]
    (report,) = bench.collect(1)
    assert (report.number, report.outcome) == (short.number, Outcome.TIMEOUT)
    assert "took longer than" in report.message
    assert all_end(children)
    assert _alive(found["h2"])


def _below(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in text.split()]


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@BOTH
def test_kill_leaves_no_process(  # noqa: PLR0913, PLR0917  # fixtures
    make_bench: Make, fifo: Fifo, kind: Kind, mark: str, marked: Marked, tmp_path: Path
) -> None:
    """After close(kill=True) nothing runs, nothing lies about, and the job is cancelled."""
    bench = make_bench(kind)
    bench.executor.submit(bench.job(hanging(bench, fifo[0])))
    bench.until_written(fifo[1])
    assert marked(mark)
    bench.executor.close(kill=True)
    assert marked(mark) == []
    assert [r.outcome for r in bench.executor.wait(0)] == [Outcome.CANCELLED]
    assert list((tmp_path / "work").iterdir()) == []


@BOTH
def test_close_waits_for_what_runs(
    make_bench: Make, fifo: Fifo, kind: Kind, mark: str, marked: Marked
) -> None:
    """A close without kill lets running jobs end, drops queued ones, and leaves no process."""
    bench = make_bench(kind, parallel=1)
    slow = bench.tasks("slow.yml", f"- shell: 'echo $$ > {fifo[0]}; sleep 0.3; echo done'\n")
    bench.executor.submit(bench.job(slow))
    bench.until_written(fifo[1])
    bench.executor.submit(bench.job(slow))
    bench.executor.close()
    reports = sorted(bench.executor.wait(0), key=lambda report: int(report.number))
    assert [r.outcome for r in reports] == [Outcome.OK, Outcome.CANCELLED]
    assert [r.began for r in reports] == [True, False]
    assert marked(mark) == []


def test_daemons_that_a_task_started_live_on(make_bench: Make, fifo: Fifo) -> None:
    """What a task handed over to init is no part of the job: neither an end nor a kill reach it."""
    bench = make_bench(AnsibleExecutor)
    daemon = f"nohup sh -c 'echo $$ > {fifo[0]}; exec sleep 3603' < /dev/null > /dev/null 2>&1 &"
    action = bench.tasks("daemon.yml", f'- shell: "{daemon}"\n')
    (report,) = bench.run(bench.job(action))
    assert report.outcome is Outcome.OK
    pid = int(os.read(fifo[1], 100))
    bench.executor.submit(bench.job(hanging(bench, fifo[0])))
    bench.until_written(fifo[1])
    bench.executor.close(kill=True)
    assert _alive(pid)
    os.kill(pid, signal.SIGKILL)


SCRIPT = """
import sys
from pathlib import Path
from cobweb.model import Host, Job, JobKind, Tasks, cob_id
from cobweb.plugin import ExecutorSetting
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor
from cobweb_plugins.ansible._processes import descendants
kind, folder, tasks = sys.argv[1:]
local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
executor = {"ansible": AnsibleExecutor, "ansible-plain": AnsiblePlainExecutor}[kind]()
(Path(folder) / "work").mkdir()
executor.open(ExecutorSetting(hosts={h: Host(name=h, variables=local) for h in ("h1", "h2")},
    site_dir=Path(folder), work_dir=Path(folder) / "work", parallel=4, timeout_s=600))
for number, host in enumerate(("h1", "h2")):
    executor.submit(Job(number=number, kind=JobKind.TRANSITION, cob=cob_id(host, "a"), host=host,
        type_name="x", action=Tasks(path=tasks), cob_vars={}))
executor.wait(None)
"""


@BOTH
def test_nothing_outlives_a_coordinator_that_was_killed(  # noqa: PLR0913, PLR0917  # fixtures
    fifo: Fifo, kind: Kind, mark: str, marked: Marked, all_end: AllEnd, tmp_path: Path
) -> None:
    """After kill -9 of the coordinator all its processes end by themselves."""
    tasks = tmp_path / "hang.yml"
    tasks.write_text(f"- shell: 'echo $$ > {fifo[0]}; {CHILDREN}'\n", encoding="utf-8")
    command = [sys.executable, "-c", SCRIPT, kind.name, str(tmp_path), str(tasks)]
    with subprocess.Popen(command) as coordinator:
        os.set_blocking(fifo[1], True)  # the interface of os
        shells = b""
        while shells.count(b"\n") < 2:
            shells += os.read(fifo[1], 100)
        started = [pid for pid in marked(mark) if pid != coordinator.pid]
        assert {int(pid) for pid in shells.split()} <= set(started)
        coordinator.kill()
    assert all_end(started)
    assert marked(mark) == []
    assert list((tmp_path / "work").iterdir()) == []


def test_zygote_that_finds_no_coordinator_cleans_up(
    mark: str, marked: Marked, all_end: AllEnd, tmp_path: Path
) -> None:
    """A coordinator that was killed while Ansible started leaves neither process nor file.

    That holds from the moment in which the guard is there: who is forked for it still dies with the
    terminal that it gets.
    """
    tasks = tmp_path / "quick.yml"
    tasks.write_text("- command: 'true'\n", encoding="utf-8")
    command = [sys.executable, "-c", SCRIPT, "ansible", str(tmp_path), str(tasks)]
    with subprocess.Popen(command) as coordinator:
        while not any(map(_is_guard, descendants(coordinator.pid))):
            assert coordinator.poll() is None
        started = marked(mark)
        coordinator.kill()
    assert all_end(started)
    assert all_end(marked(mark))
    assert list((tmp_path / "work").iterdir()) == []


def _is_guard(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"cobweb_plugins.ansible._guard" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_started_processes_are_in_sessions_of_their_own(
    make_bench: Make, fifo: Fifo, mark: str, marked: Marked
) -> None:
    """No process shares our process group or session, so Ctrl-C on our terminal is ours alone."""
    bench = make_bench(AnsibleExecutor)
    bench.executor.submit(bench.job(hanging(bench, fifo[0])))
    bench.until_written(fifo[1])
    pids = marked(mark)
    assert pids
    assert all(os.getsid(pid) != os.getsid(0) for pid in pids)
    assert all(os.getpgid(pid) != os.getpgid(0) for pid in pids)


@pytest.mark.gate("a process of the executor that dies")
def test_lane_that_dies_fails_its_job_only(
    make_bench: Make, fifo: Fifo, all_end: AllEnd, mark: str
) -> None:
    """The job of a lane that was killed fails; what it started ends; others and later jobs work."""
    del mark
    bench = make_bench(AnsibleExecutor, parallel=2)
    bench.executor.submit(bench.job(hanging(bench, fifo[0])))
    shell = shells(bench, fifo[1], 1)["h1"]
    children = [*_below(shell), shell]
    (lane,) = [lane for lane in bench.executor._lanes.values() if lane.job is not None]
    os.kill(lane.pid, signal.SIGKILL)
    (report,) = bench.collect(1)
    assert (report.outcome, report.began) == (Outcome.FAILED, True)
    assert report.message == "the process that ran it died"
    assert all_end(children)
    quick = bench.tasks("quick.yml", "- command: 'true'\n")
    assert [r.outcome for r in bench.run(bench.job(quick), bench.job(quick))] == [Outcome.OK] * 2


def test_idle_lane_that_dies_is_replaced(make_bench: Make) -> None:
    """A job given to a lane that is dead already goes to another."""
    bench = make_bench(AnsibleExecutor, parallel=1)
    quick = bench.tasks("quick.yml", "- command: 'true'\n")
    assert bench.run(bench.job(quick))[0].outcome is Outcome.OK
    (lane,) = bench.executor._lanes.values()
    os.kill(lane.pid, signal.SIGKILL)
    assert bench.run(bench.job(quick))[0].outcome is Outcome.OK


def test_zygote_that_dies_is_started_again(
    make_bench: Make, fifo: Fifo, mark: str, marked: Marked, all_end: AllEnd
) -> None:
    """Lanes survive the death of the warm process, and the next lane comes from a new one."""
    bench = make_bench(AnsibleExecutor)
    bench.executor.submit(bench.job(hanging(bench, fifo[0])))
    bench.until_written(fifo[1])
    (guard,) = [pid for pid in marked(mark) if _parent(pid) == os.getpid()]
    zygotes = [pid for pid in marked(mark) if _parent(pid) == guard]
    os.kill(zygotes[0], signal.SIGKILL)
    assert all_end(zygotes)
    quick = bench.tasks("quick.yml", "- command: 'true'\n")
    assert bench.run(bench.job(quick, host="h2"))[0].outcome is Outcome.OK
    assert bench.executor._running()


def _parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(text.rpartition(")")[2].split()[1])


def test_fifty_jobs_on_twenty_hosts(make_bench: Make, mark: str, marked: Marked) -> None:
    """All come back once, by no more than `parallel` lanes."""
    bench = make_bench(AnsibleExecutor, hosts=20, parallel=4)
    action = bench.tasks("state.yml", "- set_fact: {cob_state: '{{ inventory_hostname }}'}\n")
    jobs = [bench.job(action, host=f"h{n % 20 + 1}", check=True) for n in range(50)]
    reports = bench.run(*jobs)
    assert [report.state for report in reports] == [job.host for job in jobs]
    assert len(marked(mark)) == 6
    bench.executor.close()
    assert marked(mark) == []


@BOTH
def test_wake_ends_a_wait(make_bench: Make, fifo: Fifo, kind: Kind) -> None:
    """A wake from another thread ends a wait that has no end of its own."""
    bench = make_bench(kind)
    bench.executor.submit(bench.job(hanging(bench, fifo[0])))
    bench.until_written(fifo[1])
    threading.Thread(target=bench.executor.wake).start()
    assert bench.executor.wait(None) == []


def test_wake_in_a_signal_handler_ends_a_wait(make_bench: Make, fifo: Fifo) -> None:
    """A signal handler may call wake."""
    bench = make_bench(AnsibleExecutor)
    bench.executor.submit(bench.job(hanging(bench, fifo[0])))
    bench.until_written(fifo[1])
    before = signal.signal(signal.SIGUSR1, lambda *_: bench.executor.wake())
    try:
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1)).start()
        assert bench.executor.wait(None) == []
    finally:
        signal.signal(signal.SIGUSR1, before)
