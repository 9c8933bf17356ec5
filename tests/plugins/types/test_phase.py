"""The type `phase`: what its check says, and that a command starts once per instance."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import jsonschema
import pytest

from cobweb.testing import NamedCheck, TypeCase, type_checks
from tests.support.phases import Phase, killed_at, killing, starts, wait_for, wait_starts
from tests.support.tasks import Hand, OneCob, digest_of, registered

TYPE = registered("applications/phase")
SPEC = {"application": "ring", "phase": "compute", "instance": "i1", "run": "./worker"}
CHECKS = type_checks(TypeCase(make=TYPE, spec=SPEC))
LOST = "its supervisor was lost"
BASE = {
    "version": 1,
    "instance": "i1",
    "state": "running",
    "code": None,
    "reason": "",
    "healthy": True,
    "health": "",
    "starts": 1,
    "started": 1.0,
    "ended": None,
    "boot": "this",
    "supervisor": None,
    "child": None,
    "lost_bytes": 0,
}
ENDED = {"state": "ended", "ended": 2.0}


def tell(phase: Phase, **status: Any) -> None:
    """Write a status."""
    phase.home.mkdir(parents=True, exist_ok=True)
    found = {**BASE, **status}
    if found["boot"] == "this":
        found["boot"] = phase.module.supervision.boot_id()
    (phase.home / "status.json").write_text(json.dumps(found))


# --- the type


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_type_kit_is_content(check: NamedCheck) -> None:
    check()


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({"instance": ""}, True),
        ({"run": ["./worker", 3], "health": ["true"], "every": 0.5, "timeout": 60}, True),
        ({"env": {"A": "b", "C": 1}, "cwd": "/srv", "state_dir": "/srv/state"}, True),
        ({"instance": None}, False),
        ({"run": []}, False),
        ({"phase": "../compute"}, False),
        ({"phase": "compute/"}, False),
        ({"application": "-ring"}, False),
        ({"timeout": 0}, False),
        ({"orphan": 0}, True),
        ({"orphan": -1}, False),
        ({"cwd": "srv"}, False),
        ({"hosts": ["h1"]}, False),
    ],
)
def test_the_schema_tells_right_from_wrong(change: dict[str, Any], *, valid: bool) -> None:
    schema = TYPE().cob_type().spec_schema
    assert schema is not None
    assert jsonschema.Draft202012Validator(schema).is_valid({**SPEC, **change}) is valid


@pytest.mark.gate("the life of a phase by Ansible itself")
def test_its_life_by_tasks(hand: Hand, phase: Phase) -> None:
    """Down, running, done, down, and broken and running again."""
    cob = OneCob(TYPE().cob_type(), hand, phase.spec)
    phase.spec["run"] = f"test -e {phase.system}/ok || exit 3; exec sleep 1000"
    assert cob.check() == "down"
    (phase.system / "ok").touch()
    cob.go("down", "running")
    assert "thing is still at work" in cob.move("running", "done").message
    os.kill(phase.status["child"][0], signal.SIGKILL)
    phase.wait_ended()
    assert cob.check() == "broken"
    cob.go("broken", "running")
    cob.go("running", "down")
    phase.appoint("i2")
    phase.run("exit 0")
    cob.go("running", "done")
    cob.go("done", "down")


# --- what a check says


@pytest.mark.parametrize(
    ("status", "locked", "expected"),
    [
        pytest.param({}, True, ("running", ""), id="running"),
        pytest.param({"state": "starting"}, True, ("running", ""), id="starting"),
        pytest.param(
            {"healthy": False, "health": "no answer"},
            True,
            ("broken", "is not healthy: no answer"),
            id="not healthy",
        ),
        pytest.param({}, False, ("broken", LOST), id="lost"),
        pytest.param({"state": "starting"}, False, ("down", ""), id="cut off"),
        pytest.param({"state": "launching"}, False, ("broken", LOST), id="lost as it started"),
        pytest.param(
            {"boot": "another"},
            False,
            ("broken", "the host was booted since it was started"),
            id="booted",
        ),
        pytest.param({**ENDED, "code": 0}, False, ("done", ""), id="done"),
        pytest.param({**ENDED, "code": 0, "boot": "b"}, False, ("done", ""), id="done and booted"),
        pytest.param({**ENDED, "code": 0}, True, ("done", ""), id="about to go"),
        pytest.param({**ENDED, "code": 3, "reason": "so"}, False, ("broken", "so"), id="failed"),
        pytest.param({**ENDED, "reason": "so"}, False, ("broken", "so"), id="not started"),
        pytest.param({"state": "stopped", "code": 0}, False, ("down", ""), id="stopped"),
        pytest.param({"instance": "i0"}, False, ("down", ""), id="an earlier one"),
        pytest.param(
            {"instance": "i0"},
            True,
            ("broken", "instance i0 is still at work"),
            id="an earlier one lives",
        ),
    ],
)
def test_a_check_says(
    phase: Phase, status: dict[str, Any], expected: tuple[str, str], *, locked: bool
) -> None:
    tell(phase, **status)
    with (phase.home / "lock").open("w") as lock:
        if locked:
            fcntl.flock(lock, fcntl.LOCK_EX)
        before = digest_of(phase.system)
        assert phase.check() == expected
        assert digest_of(phase.system) == before, "a check writes nothing"


@pytest.mark.parametrize("instance", ["i1", ""])
def test_what_was_never_started_is_down(phase: Phase, instance: str) -> None:
    phase.spec["instance"] = instance
    before = digest_of(phase.system)
    assert phase.check() == ("down", "")
    assert phase.stop() is False
    assert digest_of(phase.system) == before


def test_where_nothing_is_decided_all_that_lives_is_running(phase: Phase) -> None:
    """Also what has lost its supervisor, and cannot be seen but in the process table."""
    phase.start()
    phase.kill_supervisor()
    phase.spec["instance"] = ""
    assert phase.check() == ("running", "")
    phase.stop()
    assert phase.check() == ("down", "")
    with pytest.raises(phase.module.Failed, match="no instance of ring is decided"):
        phase.start()


# --- its life


def test_it_runs_ends_and_is_taken_down(phase: Phase) -> None:
    status = phase.run("echo hello; exit 0")
    assert (status["state"], status["code"], status["reason"]) == ("ended", 0, "")
    assert status["started"] <= status["ended"]
    assert phase.check() == ("done", "")
    phase.end()
    assert phase.output == "hello\n"
    assert phase.stop() is True
    assert phase.check() == ("down", "")
    assert phase.status == {**status, "state": "stopped", "was": "done"}
    assert phase.output == "hello\n", "it can still be read"
    assert phase.stop() is False
    assert phase.start() is False
    assert phase.check() == ("done", ""), "it is not started again, for it was done"


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("exit 3", 3, "ended with exit status 3"),
        ("kill -9 $$", -9, "ended by SIGKILL"),
        (["/no/such/program"], None, "cannot be started: [Errno 2] No such file or directory: "),
    ],
)
def test_one_that_ends_badly_is_broken(
    phase: Phase, command: str | list[str], code: int | None, reason: str
) -> None:
    phase.spec["run"] = command
    try:
        phase.start()
    except phase.module.Failed as error:
        assert str(error).startswith(reason)  # noqa: PT017 - some fail, some do not
    status = phase.wait_ended()
    assert (status["state"], status["code"]) == ("ended", code)
    state, message = phase.check()
    assert state == "broken"
    assert message.startswith(reason)
    assert phase.start() is False, "it was started once"
    with pytest.raises(phase.module.Failed, match=r"h1/compute (ended|cannot)"):
        phase.end()


def test_a_working_one_has_not_ended(phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase.module, "END_WAIT_S", 0.1)
    with pytest.raises(phase.module.Failed, match="instance i1 was not started here"):
        phase.end()
    phase.start()
    with pytest.raises(phase.module.Failed, match="h1/compute is still at work"):
        phase.end()


def test_an_end_waits_for_one_that_is_about_to_finish(phase: Phase) -> None:
    phase.spec["run"] = f"read line < {phase.system}/gate"
    os.mkfifo(phase.system / "gate")
    phase.start()
    with ThreadPoolExecutor(1) as other:
        found = other.submit(phase.end)
        (phase.system / "gate").write_text("go\n")
        found.result()


def test_the_command_is_told_where_it_is(phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment that Ansible runs in reaches it, but for the PATH."""
    monkeypatch.setenv("ANSIBLE_SECRET", "x")
    phase.run("env; echo args @cobweb-hosts@", env={"GREETING": "hello", "COBWEB_COUNT": "9"})
    *lines, args = phase.output.splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert args == "args h0,h1,h2"
    assert {name: found[name] for name in found if name.startswith("COBWEB_")} == {
        "COBWEB_APPLICATION": "ring",
        "COBWEB_PHASE": "compute",
        "COBWEB_INSTANCE": "i1",
        "COBWEB_HOST": "h1",
        "COBWEB_HOSTS": "h0,h1,h2",
        "COBWEB_HOSTS_FILE": str(phase.node / "hosts.json"),
        "COBWEB_INDEX": "1",
        "COBWEB_COUNT": "3",
        "COBWEB_START": "1",
        "COBWEB_PROCESS": str(phase.home),
    }
    assert found["GREETING"] == "hello"
    assert {"HOME", "PATH", "USER"} <= set(found)
    assert "ANSIBLE_SECRET" not in found


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("echo @cobweb-hosts@", "h0,it's"),
        (["/bin/echo", "@cobweb-hosts@", "--of=@cobweb-hosts@", "7"], "h0,it's --of=h0,it's 7"),
    ],
)
def test_the_names_of_members_stand_in_the_command(
    phase: Phase, command: str | list[str], printed: str
) -> None:
    """Quoted in a text, as they are in words; a host that is no member has no index."""
    phase.appoint("i1", ("h0", "it's"))
    phase.run(command)
    assert phase.output == f"{printed}\n"
    phase.appoint("i2", ("h0", "it's"))
    phase.run('echo "[$COBWEB_INDEX]"')
    assert phase.output == "[]\n", "and output is that of the instance"


def test_names_of_hosts_are_no_paths(phase: Phase) -> None:
    phase.host = "../a/b"
    folder = phase.system / "state" / "applications" / "ring" / "..%2Fa%2Fb"
    folder.mkdir(parents=True)
    (folder / "hosts.json").write_text(json.dumps({"instance": "i1", "hosts": []}))
    phase.start()
    assert (folder / "compute" / "status.json").exists()
    phase.stop()


def test_what_is_remembered_is_private(phase: Phase) -> None:
    """The spec may hold secrets: only its owner reads it, or what the command prints."""
    (phase.node / "hosts.json").unlink()
    phase.node.rmdir()
    with pytest.raises(phase.module.Failed):
        phase.start()
    assert phase.node.stat().st_mode & 0o077 == 0
    phase.appoint("i1")
    phase.start()
    wait_for(lambda: (phase.home / "output").exists() or phase.status["child"])
    for path in (phase.home, phase.home / "spec.json", phase.home / "status.json"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("sent", [None, {"instance": "i0", "hosts": ["h1"]}])
def test_without_its_members_nothing_starts(phase: Phase, sent: dict[str, Any] | None) -> None:
    path = phase.node / "hosts.json"
    path.unlink()
    if sent:
        path.write_text(json.dumps(sent))
    with pytest.raises(phase.module.Failed, match=f"instance i1 is not in {path}: .*state_dir"):
        phase.start()
    assert phase.check() == ("down", "")


# --- once per instance


def test_many_starts_start_once(counted: Phase) -> None:
    """One after the other, at the same time, and after the end."""
    with ThreadPoolExecutor(8) as pool:
        changed = [job.result() for job in [pool.submit(counted.start) for _ in range(16)]]
    assert sorted(changed) == [False] * 15 + [True]
    assert counted.start() is False
    wait_starts(counted, 1)
    os.kill(counted.status["child"][0], signal.SIGTERM)
    counted.wait_ended()
    assert counted.start() is False
    assert counted.check() == ("broken", "ended by SIGTERM")
    assert starts(counted) == 1


def test_a_stopped_instance_is_not_started_again(counted: Phase) -> None:
    counted.start()
    wait_starts(counted, 1)
    counted.stop()
    for action in (counted.start, counted.restart):
        with pytest.raises(counted.module.Failed, match="instance i1 was stopped here"):
            action()
    counted.appoint("i2")
    assert counted.start() is True
    wait_starts(counted, 2)


@pytest.mark.parametrize("orphaned", [False, True])
def test_another_instance_must_have_ended(
    counted: Phase, monkeypatch: pytest.MonkeyPatch, *, orphaned: bool
) -> None:
    counted.start()
    counted.appoint("i2")
    monkeypatch.setattr(counted.module, "FREE_WAIT_S", 0.1)
    if orphaned:
        counted.kill_supervisor()
    assert counted.check() == ("broken", "instance i1 is still at work")
    with pytest.raises(counted.module.Failed, match="instance i1 is still at work"):
        counted.start()
    counted.stop()
    assert counted.status["instance"] == "i1"
    assert counted.check() == ("down", "")
    assert counted.start() is True


@pytest.mark.parametrize(
    ("status", "why"),
    [({}, LOST), ({"state": "launching"}, LOST), ({"boot": "b"}, "the host was booted since")],
)
def test_what_was_lost_is_not_started_by_a_start(
    counted: Phase, status: dict[str, Any], why: str
) -> None:
    tell(counted, **status)
    with pytest.raises(counted.module.Failed, match=f"instance i1 was begun here, and {why}"):
        counted.start()
    assert starts(counted) == 0
    assert counted.restart() is True
    wait_starts(counted, 1)
    assert counted.status["starts"] == 2


@pytest.mark.full("kills at each step of the module")
def test_a_killed_start_is_begun_again_and_starts_once(counted: Phase) -> None:
    """Killed before each step of it: another start goes on, and adds nothing to what has begun."""
    found = []
    for number in range(40):
        counted.appoint(f"i{number}")
        before = starts(counted)
        killed = killed_at(number, counted, counted.start)
        state, _ = counted.check()
        found.append(state)
        assert counted.start() is (state == "down")
        wait_starts(counted, before + 1)
        counted.stop()
        assert starts(counted) == before + 1
        if not killed:
            break
    assert found == sorted(found, key=["down", "running"].index)
    assert set(found) == {"down", "running"}
    assert len(found) < 40


@pytest.mark.full("kills at each step of the module")
def test_many_killed_starts_start_once(counted: Phase) -> None:
    """At the same time, each killed before another step, and others that are not."""
    for first in range(0, 24, 2):
        counted.appoint(f"i{first}")
        before = starts(counted)
        with ExitStack() as stack:
            for number in (first, first + 1, first + 2, 1000):
                stack.enter_context(killing(number, counted, counted.start))
        counted.start()
        assert counted.check() == ("running", "")
        wait_starts(counted, before + 1)
        counted.stop()
        assert starts(counted) == before + 1


@pytest.mark.full("kills at each step of the module")
@pytest.mark.parametrize("orphaned", [False, True])
def test_any_kill_of_a_stop_is_survived(counted: Phase, *, orphaned: bool) -> None:
    """Kill it before each of its steps; check, and go on to where it was going."""
    for number in range(40):
        counted.appoint(f"i{number}")
        counted.start()
        if orphaned:
            counted.kill_supervisor()
        killed = killed_at(number, counted, counted.stop)
        assert counted.check()[0] in ("running", "broken", "down")
        counted.stop()
        assert counted.check() == ("down", "")
        assert counted.processes() == []
        if not killed:
            break
    assert 2 < number < 39


def test_a_supervisor_that_ends_at_once_is_told(
    counted: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted.change_supervisor(
        monkeypatch, "        self._watch_signals()\n", "        raise OSError\n"
    )
    with pytest.raises(counted.module.Failed, match=f"was begun, and {LOST}; see .*/log"):
        counted.start()
    assert "OSError" in (counted.home / "log").read_text()
    assert counted.check() == ("down", "")
    assert starts(counted) == 0


def test_a_supervisor_that_tells_nothing_is_waited_for_and_ended(
    counted: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still start the command; a stop finds it, though no status says who it is."""
    counted.change_supervisor(
        monkeypatch, "        self._watch_signals()\n", "        signal.pause()\n"
    )
    monkeypatch.setattr(counted.module, "START_WAIT_S", 0.1)
    with pytest.raises(counted.module.Failed, match="does not tell that it has started"):
        counted.start()
    assert counted.check() == ("running", "")
    assert counted.start() is False
    assert counted.stop() is True
    assert counted.processes() == []
    assert starts(counted) == 0


def test_an_instance_from_before_another_one_is_not_started_again(counted: Phase) -> None:
    """Whoever asks for it has lost what has happened since: a state database of yesterday."""
    for instance in ("i1", "i2"):
        counted.appoint(instance)
        counted.start()
        counted.stop()
    counted.appoint("i1")
    with pytest.raises(counted.module.Failed, match="instance i1 was started here before another"):
        counted.start()
    assert starts(counted) == 2


def test_a_signal_that_there_is_not_is_refused(counted: Phase) -> None:
    counted.spec["stop_signal"] = "SIGFOO"
    with pytest.raises(counted.module.Failed, match="there is no signal SIGFOO here"):
        counted.start()
    assert starts(counted) == 0


# --- stopped


def test_a_stop_ends_all_and_says_so(phase: Phase) -> None:
    phase.spec |= {"run": "setsid sleep 1000 & exec sleep 1000"}
    phase.start()
    assert phase.stop() is True
    assert phase.processes() == []
    status = phase.status
    assert (status["state"], status["code"], status["instance"]) == ("stopped", -15, "i1")
    assert phase.check() == ("down", "")


def test_one_that_ignores_the_signal_is_killed(phase: Phase) -> None:
    phase.spec |= {
        "run": "trap '' USR1; echo ready; while :; do sleep 0.01; done",
        "stop_signal": "SIGUSR1",
        "stop_timeout": 0.1,
    }
    phase.start()
    wait_for(lambda: phase.output)
    phase.stop()
    assert phase.status["code"] == -signal.SIGKILL


def test_a_supervisor_that_hangs_is_killed(phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase.module, "SUPERVISOR_GRACE_S", 0.0)
    phase.spec["stop_timeout"] = 0.1
    phase.start()
    os.kill(phase.status["supervisor"][0], signal.SIGSTOP)
    assert phase.stop() is True
    assert phase.processes() == []
    assert phase.status["state"] == "stopped"


def test_a_lock_that_stays_is_told(phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is ended who is no supervisor of this phase."""
    monkeypatch.setattr(phase.module, "SUPERVISOR_GRACE_S", -1000.0)
    tell(phase)
    with (phase.home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(phase.module.Failed, match="somebody holds its lock"):
            phase.stop()
