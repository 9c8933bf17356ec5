"""The type `process` with real processes: by real Ansible, killed, orphaned and stubborn ones."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.kills import kill_self_before
from tests.support.tasks import Hand, OneCob, built_in, digest_of, opened_hand, vaulted

pytestmark = [
    pytest.mark.full(
        "processes that die, hang and hide; the gate has the life of one and the chief of these"
    )
]

SERVER = """
import os, signal, socket, sys
for name in sys.argv[3:]:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=16) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(os.environ.get("GREETING", "-").encode())
"""
PATIENCE_S = 90.0
BACKLOG = 16
"""So many connections the kernel keeps for the server, and one more, before it answers no other."""


@pytest.fixture
def port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@pytest.fixture
def spec(system: Path, port: int) -> dict[str, Any]:
    """Return the spec of a server that answers with $GREETING."""
    (system / "server.py").write_text(SERVER)
    return {
        "command": [sys.executable, str(system / "server.py"), port],
        "listen": port,
        "env": {"GREETING": "hello"},
        "state_dir": str(system / "state"),
        "stop_timeout": 5,
        "backoff": 0.01,
    }


@pytest.fixture
def one(process_module: ModuleType, spec: dict[str, Any], system: Path) -> Iterator[dict[str, Any]]:
    """Return the variable `cob` of the server; in the end nothing of it may be left."""
    cob = {"id": "h1/thing", "spec": spec, "applied": None}
    try:
        yield cob
        process_module.stop(cob)
        assert _marked(system) == []
    finally:
        for pid in _marked(system):
            os.kill(pid, signal.SIGKILL)


# --- by Ansible


@pytest.mark.gate("the life of a process by Ansible itself")
def test_whole_life(hand: Hand, spec: dict[str, Any], port: int, system: Path) -> None:
    """Down, up, outdated, up, down; each state is what a client sees."""
    cob = OneCob(built_in("process"), hand, spec)
    assert cob.check() == "down"
    assert _ask(port) is None
    cob.go("down", "up")
    assert _ask(port) == "hello"
    cob.applied, cob.spec = cob.spec, {**spec, "env": {"GREETING": vaulted("s3cret")}}
    assert cob.check() == "outdated"
    assert "s3cret" not in str(cob.move("outdated", "up"))
    assert cob.check() == "up"
    assert _ask(port) == "s3cret"
    assert not any("s3cret" in " ".join(_arguments(pid)) for pid in _marked(system))
    cob.go("up", "down")
    assert _ask(port) is None
    assert _marked(system) == []


def test_a_failed_start_is_told(hand: Hand, spec: dict[str, Any], port: int) -> None:
    """The report says how the program ended."""
    cob = OneCob(built_in("process"), hand, {**spec, "command": ["/bin/sh", "-c", "exit 3"]})
    assert "h1/thing ended with exit status 3" in cob.move("down", "up").message
    assert cob.check() == "down"
    assert _ask(port) is None


@pytest.mark.gate("a run of its own, which has to end")
def test_the_process_outlives_the_run(tmp_path: Path, one: dict[str, Any], port: int) -> None:
    """Neither the end of the run nor that of its processes reaches what they started."""
    folder = tmp_path / "run"
    folder.mkdir()
    with opened_hand(folder) as opened:
        OneCob(built_in("process"), opened, one["spec"]).go("down", "up")
    assert _ask(port) == "hello"


# --- the module without Ansible around it


@pytest.mark.gate("a promise of every check")
def test_a_check_changes_nothing(
    process_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """Neither before nor while the process runs."""
    before = digest_of(system)
    assert process_module.check(one) == {"state": "down"}
    assert digest_of(system) == before
    process_module.start(one)
    before = digest_of(system)
    assert process_module.check(one) == {"state": "up"}
    assert digest_of(system) == before


def test_repeating_changes_nothing(process_module: ModuleType, one: dict[str, Any]) -> None:
    """A second start keeps the process, a second stop finds none."""
    assert process_module.start(one) == {"changed": True}
    child = _child(process_module, one)
    assert process_module.start(one) == {"changed": False}
    assert _child(process_module, one) == child
    assert process_module.stop(one) == {"changed": True}
    assert process_module.stop(one) == {"changed": False}


def test_a_dead_process_is_started_again(
    process_module: ModuleType, one: dict[str, Any], port: int
) -> None:
    """The supervisor notices and restarts it."""
    process_module.start(one)
    child = _child(process_module, one)
    os.kill(child, signal.SIGKILL)
    _wait_for(lambda: _child(process_module, one) not in (None, child))
    _wait_for(lambda: process_module.check(one) == {"state": "up"})
    assert _ask(port) == "hello"


def test_a_process_that_shall_not_be_restarted_is_broken(
    process_module: ModuleType, one: dict[str, Any]
) -> None:
    """Without `restart` the end of the process is the end of its supervisor."""
    one["spec"]["restart"] = False
    process_module.start(one)
    os.kill(_child(process_module, one), signal.SIGKILL)
    _wait_for(lambda: process_module.check(one) == {"state": "broken"})


@pytest.mark.gate("what limits count on")
def test_what_does_not_work_is_never_outdated(
    process_module: ModuleType, one: dict[str, Any], port: int
) -> None:
    """Neither with the content that it was started by nor with another: it serves nobody."""
    process_module.start(one)
    changed = {**one, "applied": one["spec"], "spec": {**one["spec"], "listen": port + 1}}
    assert process_module.check(changed) == {"state": "outdated"}, "the old port counts"
    deaf = process_module._home(one, one["spec"]) / "spec.json"
    told = json.loads(deaf.read_text())
    deaf.write_text(json.dumps({**told, "listen": 1}))
    for cob in (one, changed):
        assert process_module.check(cob) == {"state": "broken"}
    deaf.write_text(json.dumps(told))
    os.kill(_supervisor(process_module, one), signal.SIGSTOP)
    os.kill(_child(process_module, one), signal.SIGKILL)
    _wait_for(lambda: process_module.check(one) == {"state": "broken"})
    assert process_module.check(changed) == {"state": "broken"}
    os.kill(_supervisor(process_module, one), signal.SIGCONT)
    process_module.stop(changed)
    assert process_module.check(one) == {"state": "down"}


@pytest.mark.gate("waits for the kernel, which asks a full queue again after 1 and 3 s")
def test_a_server_that_is_too_busy_to_accept_is_not_broken(
    process_module: ModuleType, one: dict[str, Any], port: int
) -> None:
    """As on a loaded machine: its queue is full when it is looked at, and it goes on later."""
    process_module.start(one)
    child = _child(process_module, one)
    os.kill(child, signal.SIGSTOP)
    with ExitStack() as queue, ThreadPoolExecutor(1) as other:
        while _queued(port) <= BACKLOG:
            _connect(queue.enter_context(socket.socket()), port)
        found = other.submit(process_module.check, one)
        _wait_for(lambda: found.done() or _asked_again(port))
        assert not found.done()
        os.kill(child, signal.SIGCONT)
        assert found.result() == {"state": "up"}


def test_one_that_lives_and_accepts_nothing_is_not_said_to_have_ended(
    process_module: ModuleType, one: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Busy or hung: a run that brought it up is not told that it is well, nor that it crashed."""

    def silent(*_: object, **__: object) -> None:
        raise TimeoutError

    process_module.start(one)
    reached = {**one, "reached": "up"}
    with monkeypatch.context() as patch:
        patch.setattr(process_module.socket, "create_connection", silent)
        assert process_module.check(one) == {"state": "broken"}
        with pytest.raises(process_module.Failed, match="lives and was not started again"):
            process_module.check(reached)
    assert process_module.check(reached) == {"state": "up"}


def test_that_it_was_started_again_is_said_of_one_that_does_not_work_yet_too(
    process_module: ModuleType, one: dict[str, Any]
) -> None:
    """The supervisor's word counts, not whether the port is open again when it is looked at."""
    process_module.start(one)
    reached = {**one, "reached": "up"}
    server = Path(one["spec"]["command"][1])
    server.write_text("import signal; signal.pause()")
    os.kill(_child(process_module, one), signal.SIGKILL)
    _wait_for(lambda: _status(process_module, one)["starts"] > 1)
    assert process_module.check(reached) == {
        "state": "broken",
        "message": "ended by SIGKILL, and was started again by its supervisor",
    }


def test_one_that_has_ended_and_is_not_started_again_says_how(
    process_module: ModuleType, one: dict[str, Any]
) -> None:
    one["spec"]["restart"] = False
    process_module.start(one)
    os.kill(_child(process_module, one), signal.SIGKILL)
    _wait_for(lambda: bool(_status(process_module, one)["last_end"]))
    found = process_module.check({**one, "reached": "up"})
    assert found == {"state": "broken", "message": "ended by SIGKILL"}


def test_what_was_started_again_before_a_run_took_it_over_does_not_count(
    process_module: ModuleType, one: dict[str, Any]
) -> None:
    """It is found broken by a run, works again when it is to be started, and is left as it is."""
    process_module.start(one)
    reached = {**one, "reached": "up"}
    child = _child(process_module, one)
    os.kill(child, signal.SIGKILL)
    _wait_for(lambda: _child(process_module, one) not in (0, child))
    _wait_for(lambda: process_module.check(one) == {"state": "up"})
    assert process_module.check(reached)["state"] == "broken"
    assert process_module.start(one) == {"changed": False}
    assert process_module.check(reached) == {"state": "up"}
    child = _child(process_module, one)
    os.kill(child, signal.SIGKILL)
    _wait_for(lambda: _status(process_module, one)["starts"] > 2)
    assert process_module.check(reached)["state"] == "broken", "it counts from then on"


@pytest.mark.parametrize("after", ["start", "stop"])
def test_an_orphan_is_found_and_ended(
    process_module: ModuleType, one: dict[str, Any], port: int, after: str
) -> None:
    """After `kill -9` of the supervisor: outdated; a start replaces the orphan, a stop ends it."""
    process_module.start(one)
    orphan = _child(process_module, one)
    os.kill(_supervisor(process_module, one), signal.SIGKILL)
    _wait_for(lambda: process_module.check(one) == {"state": "outdated"})
    assert _ask(port) == "hello"
    getattr(process_module, after)(one)
    assert not _lives(orphan)
    assert process_module.check(one) == {"state": "up" if after == "start" else "down"}


def test_both_killed_is_broken(process_module: ModuleType, one: dict[str, Any]) -> None:
    """What was not stopped by us is not down, though no process is left; it comes up again."""
    process_module.start(one)
    child = _child(process_module, one)
    os.kill(_supervisor(process_module, one), signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    _wait_for(lambda: process_module.check(one) == {"state": "broken"})
    process_module.start(one)
    assert process_module.check(one) == {"state": "up"}
    process_module.start(one)
    assert process_module.check(one) == {"state": "up"}


def test_one_that_ignores_the_signal_is_killed(
    process_module: ModuleType, one: dict[str, Any], port: int
) -> None:
    """SIGKILL comes after `stop_timeout`."""
    one["spec"]["command"] += ["-", "SIGTERM"]
    one["spec"]["stop_timeout"] = 0.1
    process_module.start(one)
    process_module.stop(one)
    assert _ask(port) is None


def test_the_stop_signal_is_the_one_of_the_spec(
    process_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """A program may want another signal than SIGTERM."""
    one["spec"] |= {
        "command": f"trap 'echo told > {system}/told; exit' USR1; while :; do sleep 0.01; done",
        "listen": None,
        "stop_signal": "SIGUSR1",
    }
    process_module.start(one)
    process_module.stop(one)
    assert (system / "told").read_text() == "told\n"


@pytest.mark.parametrize(
    "escape",
    ["setsid sleep", "env -i sleep", "setsid setsid -f sleep"],
    ids=["own session", "empty environment", "twice"],
)
def test_what_a_process_leaves_behind_is_ended(
    process_module: ModuleType, one: dict[str, Any], system: Path, escape: str
) -> None:
    """Children that leave the session, or wipe their environment, go with the process."""
    length = f"1000.{one['spec']['listen']}"
    program = f"{escape} {length} & exec {sys.executable} {system}/server.py"
    one["spec"]["command"] = f"{program} {one['spec']['listen']}"
    process_module.start(one)
    process_module.stop(one)
    assert process_module.check(one) == {"state": "down"}
    assert not [pid for pid in _pids() if f"sleep {length}" in " ".join(_arguments(pid))]


def test_a_foreign_process_on_the_port_is_an_error(
    process_module: ModuleType, one: dict[str, Any], port: int
) -> None:
    """A port that answers before the start is somebody else's."""
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(process_module.Failed, match="another process uses the port"):
            process_module.start(one)
        assert process_module.check(one) == {"state": "down"}


@pytest.mark.gate("bad input, and what it leaves")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": ["/no/such/program"]}, "cannot be started: .*No such file"),
        ({"command": "exit 7"}, "ended with exit status 7; its output is in .*/log"),
        ({"command": "exit 7", "listen": None}, "ended with exit status 7"),
        ({"command": "kill -9 $$"}, "ended by SIGKILL"),
        ({"command": "sleep 1000", "start_timeout": 0.2}, "did not listen on [0-9]+ within 0.2 s"),
        ({"cwd": "/no/such/folder"}, "working directory /no/such/folder does not exist"),
    ],
)
def test_a_failed_start_says_why_and_leaves_nothing(
    process_module: ModuleType, one: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    """The reason is in the message; nothing goes on in the background."""
    one["spec"] |= change
    with pytest.raises(process_module.Failed, match=message):
        process_module.start(one)
    assert process_module.check(one) == {"state": "down"}


SHORT_LIVED = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    server.accept()[0].close()
"""


@pytest.mark.parametrize("restart", [False, True])
def test_what_ends_while_it_settles_has_failed(
    process_module: ModuleType, one: dict[str, Any], port: int, *, restart: bool
) -> None:
    """It listens, and ends as soon as somebody asks; without `settle` that is a start."""
    short = {"command": [sys.executable, "-c", SHORT_LIVED, port], "restart": restart}
    one["spec"] |= {**short, "settle": 30}
    with pytest.raises(process_module.Failed, match="ended with exit status 0"):
        process_module.start(one)
    assert process_module.check(one) == {"state": "down"}


def test_how_long_it_settles_is_no_content(process_module: ModuleType, one: dict[str, Any]) -> None:
    process_module.start(one)
    one["spec"] |= {"settle": 5}
    assert process_module.check(one) == {"state": "up"}


def test_a_changed_state_folder_moves_the_process(
    process_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """The process of the applied spec is found in its old folder, and replaced."""
    process_module.start(one)
    moved = {**one, "applied": one["spec"], "spec": {**one["spec"], "state_dir": f"{system}/b"}}
    assert process_module.check(moved) == {"state": "outdated"}
    process_module.start(moved)
    assert process_module.check(moved) == {"state": "up"}
    assert process_module.check(one) == {"state": "down"}
    process_module.stop(moved)


def test_the_environment_is_clean(
    process_module: ModuleType,
    one: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of the environment that Ansible runs in reaches the process, but for the PATH."""
    monkeypatch.setenv("ANSIBLE_SECRET", "x")
    process_module.start(one)
    names = {entry.partition("=")[0] for entry in _environment(_child(process_module, one))}
    assert "ANSIBLE_SECRET" not in names
    assert {"GREETING", "HOME", "PATH", "USER"} <= names


def test_what_is_remembered_is_private(
    process_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """The spec may hold secrets: only its owner reads it."""
    process_module.start(one)
    (home,) = (system / "state" / "process").iterdir()
    assert home.stat().st_mode & 0o077 == 0
    assert (home / "spec.json").stat().st_mode & 0o077 == 0


def test_two_supervisors_never_share_a_home(
    process_module: ModuleType, one: dict[str, Any], supervision: ModuleType
) -> None:
    """The second one ends at once and says so."""
    process_module.start(one)
    assert _supervise(process_module, one) == supervision.ALREADY_SUPERVISED
    assert process_module.check(one) == {"state": "up"}


def test_nobody_begins_to_supervise_what_is_being_stopped(
    process_module: ModuleType,
    one: dict[str, Any],
    supervision: ModuleType,
    system: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A start that was cut off may leave a supervisor on its way, which comes at any moment."""
    process_module.start(one)
    end, codes = supervision.terminate, []

    def terminate(*arguments: Any) -> None:
        end(*arguments)
        codes.append(_supervise(process_module, one))

    with monkeypatch.context() as patch:
        patch.setattr(supervision, "terminate", terminate)
        process_module.stop(one)
    assert codes == [supervision.ALREADY_SUPERVISED]
    assert _marked(system) == []
    process_module.start(one)
    assert process_module.check(one) == {"state": "up"}


@pytest.mark.parametrize("after", ["start", "stop"])
def test_a_supervisor_that_no_status_tells_of_is_ended(
    process_module: ModuleType, one: dict[str, Any], system: Path, after: str
) -> None:
    """It holds the lock, between two starts of its program and before the first, too."""
    one["spec"]["backoff"] = 1000
    process_module.start(one)
    hidden, child = _supervisor(process_module, one), _child(process_module, one)
    os.kill(child, signal.SIGKILL)
    _wait_for(lambda: _status(process_module, one)["child"] is None)
    (process_module._home(one, one["spec"]) / "status.json").unlink()
    assert process_module.check(one) == {"state": "broken"}
    assert getattr(process_module, after)(one) == {"changed": True}
    assert not _lives(hidden)
    assert process_module.check(one) == {"state": "up" if after == "start" else "down"}
    assert after == "start" or _marked(system) == []


def test_a_supervisor_that_hangs_is_killed(
    process_module: ModuleType, one: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is an orphan then, and ended as one."""
    monkeypatch.setattr(process_module, "SUPERVISOR_GRACE_S", 0.0)
    one["spec"]["stop_timeout"] = 0.1
    process_module.start(one)
    hanging, child = _supervisor(process_module, one), _child(process_module, one)
    os.kill(hanging, signal.SIGSTOP)
    process_module.stop(one)
    assert not _lives(hanging)
    assert not _lives(child)


def test_a_pid_that_was_given_out_again_is_not_ours(
    process_module: ModuleType, one: dict[str, Any], supervision: ModuleType
) -> None:
    """A status that names a living foreign process, or comes from before a boot, means nothing."""
    process_module.start(one)
    home = process_module._home(one, one["spec"])
    status = supervision.read_status(home)
    process_module.stop(one)
    own = supervision.identity(os.getpid())
    foreign = [own[0], own[1] + 1]
    supervision.write_json(
        home / "status.json", {**status, "supervisor": foreign, "child": foreign}
    )
    assert process_module.check(one) == {"state": "down"}
    supervision.write_json(
        home / "status.json", {**status, "supervisor": own, "child": own, "boot": "an earlier one"}
    )
    assert process_module.check(one) == {"state": "down"}


@pytest.mark.full("kills at each step of the module")
@pytest.mark.parametrize("action", ["start", "stop"])
def test_any_kill_is_survived(
    process_module: ModuleType, one: dict[str, Any], action: str, port: int
) -> None:
    """Kill the transition before each of its steps; check, and go on to where it was going."""
    goal = {"start": "up", "stop": "down"}[action]
    for number in range(40):
        (process_module.stop if action == "start" else process_module.start)(one)
        killed = _killed_at(process_module, number, lambda: getattr(process_module, action)(one))
        assert process_module.check(one)["state"] in ("up", "broken", "down")
        getattr(process_module, action)(one)
        assert process_module.check(one) == {"state": goal}
        assert (_ask(port) == "hello") is (goal == "up")
        if not killed:
            break
    assert 3 < number < 39


def _killed_at(module: ModuleType, number: int, action: Callable[[], object]) -> bool:
    """Carry out an action in a child that kills itself before step `number`; say if it did."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            kill_self_before(number, _steps(module))
            action()
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def _steps(module: ModuleType) -> list[tuple[Any, str]]:
    """Return what changes something outside of the module."""
    return [
        (Path, "replace"),
        (Path, "unlink"),
        (os, "kill"),
        (module.subprocess, "Popen"),
        (module, "_wait_ready"),
        (module.supervision, "terminate"),
    ]


def test_a_lock_that_stays_is_told(
    process_module: ModuleType, one: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is ended who has not said that he supervises; then nothing is started either."""
    process_module.start(one)
    lock = process_module._home(one, one["spec"]) / "lock"
    told = lock.read_bytes()
    lock.write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(process_module, "SUPERVISOR_GRACE_S", -1000.0)
        with pytest.raises(process_module.Failed, match=r"nobody knows who holds .*/lock"):
            process_module.stop(one)
    lock.write_bytes(told)
    assert process_module.check(one) == {"state": "up"}


# --- helpers


def _ask(port: int) -> str | None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return connection.recv(100).decode()
    except OSError:
        return None


def _status(module: ModuleType, cob: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = module.supervision.read_status(module._home(cob, cob["spec"]))
    return found


def _supervise(module: ModuleType, cob: dict[str, Any]) -> int:
    """Start one more supervisor, as a start does; return its exit code."""
    home = module._home(cob, cob["spec"])
    command = [sys.executable, "-I", str(home / "supervisor.py"), str(home)]
    return subprocess.run(command, check=False, timeout=PATIENCE_S).returncode


def _child(module: ModuleType, cob: dict[str, Any]) -> int:
    return int((_status(module, cob)["child"] or [0])[0])


def _supervisor(module: ModuleType, cob: dict[str, Any]) -> int:
    return int(_status(module, cob)["supervisor"][0])


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text().split("\0")
    except OSError:
        return []


def _connect(client: socket.socket, port: int) -> None:
    """Connect; where the queue of the server is full by now, give up at once."""
    client.settimeout(0.9)  # a full queue is asked again after 1 s
    try:
        client.connect(("127.0.0.1", port))
    except TimeoutError:
        client.close()


def _sockets(state: str, column: int, port: int) -> list[list[str]]:
    """Return the rows of sockets in a state whose address in a column has this port."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()]
    return [row for row in rows[1:] if row[3] == state and row[column].endswith(f":{port:04X}")]


def _queued(port: int) -> int:
    """Return how many connections wait to be accepted on a port."""
    (row,) = _sockets("0A", 1, port)
    return int(row[4].partition(":")[2], 16)


def _asked_again(port: int) -> bool:
    """Say whether the kernel has repeated its question (SYN) to a port that did not answer."""
    return any(int(row[6], 16) for row in _sockets("02", 2, port))


def _marked(system: Path) -> list[int]:
    """Return all processes, supervisors too, that name the test's folder."""
    return [
        pid
        for pid in _pids()
        if pid != os.getpid()
        and _lives(pid)
        and str(system) in " ".join([*_arguments(pid), *_environment(pid)])
    ]
