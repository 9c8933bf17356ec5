"""A phase that is started again: once for each restart, whatever it was broken by."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.support.phases import Phase, killed_at, killing, starts, wait_for, wait_starts

LOST = "its supervisor was lost"
BOOTED = "the host was booted since it was started"
FIRST = "test $COBWEB_START = 1"
BROKEN = {
    "exited": "ended with exit status 3",
    "sick": "is not healthy: ended with exit status 4",
    "late": "did not end within 0.1 s",
    "lost": LOST,
    "booted": BOOTED,
}


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that has nothing to do with a phase, but the pid of an earlier one."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        assert process.poll() is None
        process.kill()


def break_first(phase: Phase, how: str, bystander: subprocess.Popen[bytes]) -> None:
    """Start the phase, and wait until this start of it, the first of its instance, is broken."""
    phase.spec |= {"timeout": None, "health": None, "every": 0.02, "stop_timeout": 1}
    if how == "exited":
        phase.spec["run"] = f"{FIRST} && exit 3; {count(phase)}"
    elif how == "sick":
        phase.spec["health"] = f"{FIRST} && exit 4; exit 0"
    elif how == "late":
        phase.spec["timeout"] = 0.1
    phase.start()
    if how in ("lost", "booted"):
        phase.kill_supervisor()
    if how == "booted":
        boot(phase, bystander.pid)
    wait_for(lambda: phase.check() == ("broken", BROKEN[how]))
    phase.spec["timeout"] = None


def count(phase: Phase) -> str:
    """Return the command, which says in a file which start it is, but for the first."""
    return f"{FIRST} || echo $COBWEB_START >> {phase.system}/count; exec sleep 1000"


def boot(phase: Phase, pid: int) -> None:
    """Have what lives end as a boot ends it, and its pid be another's after it."""
    status = phase.status
    os.kill(status["child"][0], signal.SIGKILL)
    wait_for(lambda: not phase.processes())
    child = phase.module.supervision.identity(pid)
    told = json.dumps({**status, "boot": "another", "child": child})
    (phase.home / "status.json").write_text(told)


def go_on(phase: Phase) -> None:
    """Go on to `running` as an engine does, from the state that the phase is in."""
    state, message = phase.check()
    if state == "broken":
        phase.restart()
    elif state == "down":
        phase.start()
    else:
        assert (state, message) == ("running", "")


@pytest.fixture(params=list(BROKEN))
def how(request: pytest.FixtureRequest, phase: Phase) -> str:
    """Return what a phase was broken by, that counts its other starts."""
    phase.spec["run"] = count(phase)
    return str(request.param)


@pytest.mark.gate("five ways to be broken, some of which take the time of a host to show")
def test_whatever_broke_it_it_is_started_again_once(
    phase: Phase, how: str, bystander: subprocess.Popen[bytes]
) -> None:
    """What lives of it ends before, and one that runs is not started again."""
    break_first(phase, how, bystander)
    before = phase.status
    assert phase.restart() is True
    assert phase.restart() is False
    wait_starts(phase, 1)
    status = phase.status
    assert (status["starts"], status["code"], status["reason"]) == (2, None, "")
    assert (status["healthy"], status["health"]) == (True, "")
    wait_for(lambda: commands(phase) == [status["child"][0]])
    gone = {before["supervisor"][0], before["child"][0]} - {bystander.pid}
    assert not set(phase.processes()) & gone


@pytest.mark.full("kills at each step of a restart")
def test_a_killed_restart_is_made_once(
    phase: Phase, how: str, bystander: subprocess.Popen[bytes]
) -> None:
    """Kill it before each of its steps; who goes on from where that was left starts it once."""
    for number in range(40):
        phase.appoint(f"i{number}")
        phase.spec["run"] = count(phase)
        before = starts(phase)
        break_first(phase, how, bystander)
        killed = killed_at(number, phase, phase.restart)
        go_on(phase)
        go_on(phase)
        wait_starts(phase, before + 1)
        assert phase.status["starts"] == 2
        wait_for(lambda: commands(phase) == [phase.status["child"][0]])
        phase.stop()
        assert starts(phase) == before + 1
        assert phase.processes() == []
        if not killed:
            break
    assert 2 < number < 39


def commands(phase: Phase) -> list[int]:
    """Return the processes of a phase that have become what its command does last."""
    found = []
    for pid in phase.processes():
        try:
            words = psutil.Process(pid).cmdline()
        except psutil.NoSuchProcess:
            continue
        if words[:1] == ["sleep"]:
            found.append(pid)
    return found


@pytest.mark.full("kills at each step of a restart")
def test_many_killed_restarts_are_one(
    phase: Phase, how: str, bystander: subprocess.Popen[bytes]
) -> None:
    """At the same time, each killed before another step, and one that is not."""
    for first in range(0, 24, 3):
        phase.appoint(f"i{first}")
        phase.spec["run"] = count(phase)
        before = starts(phase)
        break_first(phase, how, bystander)
        with ExitStack() as stack:
            for number in (first, first + 1, first + 2, 1000):
                stack.enter_context(killing(number, phase, phase.restart))
        go_on(phase)
        wait_starts(phase, before + 1)
        assert phase.status["starts"] == 2
        phase.stop()
        assert starts(phase) == before + 1


def test_a_restart_is_counted_and_keeps_the_output(phase: Phase) -> None:
    phase.run("echo $COBWEB_START; test $COBWEB_START = 3")
    for number in (2, 3):
        assert phase.check()[0] == "broken"
        assert phase.restart() is True
        assert phase.wait_ended()["starts"] == number
    assert phase.check() == ("done", "")
    assert phase.output == "1\n2\n3\n"
    assert phase.restart() is False, "it has ended well meanwhile"
    assert phase.status["starts"] == 3


def test_only_the_same_instance_is_restarted(phase: Phase) -> None:
    phase.start()
    phase.appoint("i2")
    with pytest.raises(phase.module.Failed, match="instance i1 is still at work"):
        phase.restart()
    phase.stop()
    with pytest.raises(phase.module.Failed, match="instance i2 was not started here"):
        phase.restart()


def test_one_that_ends_well_before_it_is_ended_has_ended_well(phase: Phase) -> None:
    """A restart asks its supervisor to end it, and by then it has."""
    os.mkfifo(phase.system / "gate")
    phase.spec |= {"run": f"read line < {phase.system}/gate", "health": "exit 1", "every": 0.02}
    phase.start()
    wait_for(lambda: phase.check()[0] == "broken")
    supervisor, child = phase.status["supervisor"][0], phase.status["child"][0]
    os.kill(supervisor, signal.SIGSTOP)
    (phase.system / "gate").write_text("go\n")
    wait_for(lambda: psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
    with ThreadPoolExecutor(1) as other:
        restarted = other.submit(phase.restart)
        wait_for(lambda: is_asked(phase, supervisor))
        os.kill(supervisor, signal.SIGCONT)
        assert restarted.result() is False
    assert phase.check() == ("done", "")
    assert phase.status["starts"] == 1


def is_asked(phase: Phase, supervisor: int) -> bool:
    """Say whether a supervisor that stands still has been asked to end its command."""
    lines = Path(f"/proc/{supervisor}/status").read_text().splitlines()
    pending = next(line.split()[1] for line in lines if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) >> (phase.module.phase_supervision.END - 1) & 1)


# --- a supervisor that dies as it begins


@pytest.fixture
def failed(phase: Phase) -> Phase:
    """Return a phase that has ended badly, with output of which much is lost; it does so again."""
    phase.run(f"echo $COBWEB_START >> {phase.system}/count; head -c 40000000 /dev/zero; exit 3")
    assert phase.status["lost_bytes"] > 0
    return phase


@pytest.mark.gate("twice forty megabytes of output, for some that is lost")
def test_a_restart_that_launched_nothing_is_begun_again_as_the_same(
    failed: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a start or another restart; and the loss of output from before is not forgotten."""
    lost = failed.status["lost_bytes"]
    with monkeypatch.context() as patch:
        dying = "        os.kill(os.getpid(), signal.SIGKILL)\n"
        failed.change_supervisor(patch, "        self._watch_signals()\n", dying)
        for again in (failed.restart, failed.restart, failed.start, failed.restart):
            with pytest.raises(failed.module.Failed, match=f"was begun, and {LOST}"):
                again()
            assert failed.check() == ("down", "")
            assert (failed.status["starts"], failed.status["lost_bytes"]) == (2, lost)
    assert failed.start() is True
    status = failed.wait_ended()
    assert (status["starts"], starts(failed)) == (2, 2)
    kept = sum(file.stat().st_size for file in failed.home.glob("output*"))
    assert kept + status["lost_bytes"] == 80_000_000


@pytest.mark.parametrize("step", ["setsid", "chdir", "execve"])
def test_a_restart_whose_supervisor_does_not_come_to_be_launches_nothing(
    phase: Phase, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Those who hand over to it die at one of their steps."""
    phase.run(f"echo $COBWEB_START >> {phase.system}/count; exit 3")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        with pytest.raises(phase.module.Failed, match=f"was begun, and {LOST}"):
            phase.restart()
    assert phase.check() == ("down", "")
    assert phase.start() is True
    assert phase.wait_ended()["starts"] == 2
    assert (phase.system / "count").read_text() == "1\n2\n"


def test_a_restart_that_may_have_launched_is_one(
    phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number is used up, and no start but another restart goes on."""
    phase.run(f"echo $COBWEB_START >> {phase.system}/count; exit 3")
    with monkeypatch.context() as patch:
        launch = '            process = _spawn(self.spec["command"], self.spec)\n'
        dying = "            os.kill(os.getpid(), signal.SIGKILL)\n"
        phase.change_supervisor(patch, launch, dying + launch)
        with pytest.raises(phase.module.Failed, match=f"was begun, and {LOST}"):
            phase.restart()
    assert phase.check() == ("broken", LOST)
    with pytest.raises(phase.module.Failed, match=f"instance i1 was begun here, and {LOST}"):
        phase.start()
    assert phase.restart() is True
    assert phase.wait_ended()["starts"] == 3
    assert (phase.system / "count").read_text() == "1\n3\n"


def test_what_was_launched_by_one_that_died_before_it_could_tell_is_ended(
    phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No status says which process it is."""
    phase.spec["run"] = count(phase)
    phase.start()
    phase.kill_supervisor()
    with monkeypatch.context() as patch:
        accompany = "            self._accompany(process)\n"
        dying = "            os.kill(os.getpid(), signal.SIGKILL)\n"
        phase.change_supervisor(patch, accompany, dying)
        with pytest.raises(phase.module.Failed, match=f"was begun, and {LOST}"):
            phase.restart()
    wait_starts(phase, 1)
    assert phase.status["child"] is None
    assert phase.check() == ("broken", LOST)
    assert phase.restart() is True
    wait_starts(phase, 2)
    wait_for(lambda: commands(phase) == [phase.status["child"][0]])
    assert (phase.system / "count").read_text() == "2\n3\n"
