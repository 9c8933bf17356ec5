"""A phase where something is wrong on its node: small disks, processes that stand still."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from tests.support.phases import Phase, opened_phase, wait_for

SIZE = 1024 * 1024
MOUNT = f'mount -t tmpfs -o size={SIZE} small "$1" && echo mounted && read end'


# --- a small disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a disk of a mebibyte, as it is seen from outside of its mount namespace."""
    keeper = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == "mounted\n", "user namespaces must be allowed"
    yield Path(f"/proc/{keeper.pid}/root{tmp_path}")
    keeper.communicate()


@pytest.fixture
def cramped(phase_module: ModuleType, disk: Path) -> Iterator[Phase]:
    """Return a phase whose home is on a small disk."""
    with opened_phase(phase_module, disk) as opened:
        yield opened


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leave no room at all as long as this is open."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(b"x" * 4096):
            pass
    yield
    filler.unlink()


def test_output_that_fills_the_disk_does_not_hide_the_end(cramped: Phase) -> None:
    """There is room in reserve; what could not be kept is counted."""
    status = cramped.run(f"head -c {3 * SIZE} /dev/zero; exit 3")
    assert cramped.check() == ("broken", "ended with exit status 3")
    assert status["lost_bytes"] + len(cramped.output) == 3 * SIZE
    assert cramped.stop() is True
    assert cramped.check() == ("down", "")


def test_on_a_full_disk_nothing_is_started(cramped: Phase, disk: Path) -> None:
    with filled(disk), pytest.raises(OSError, match="No space left"):
        cramped.start()
    assert cramped.check() == ("down", "")
    assert cramped.start() is True
    assert cramped.check() == ("running", "")


def test_a_restart_with_little_room_is_one(cramped: Phase) -> None:
    """That which was in reserve is enough for it."""
    cramped.run(f"head -c {3 * SIZE} /dev/zero; exit $COBWEB_START")
    assert cramped.restart() is True
    status = cramped.wait_ended()
    assert (status["starts"], status["code"]) == (2, 2)
    assert status["lost_bytes"] + len(cramped.output) == 6 * SIZE


def test_a_restart_on_a_full_disk_changes_nothing(cramped: Phase, disk: Path) -> None:
    cramped.run("exit 1")
    before = cramped.status
    with filled(disk), pytest.raises(OSError, match="No space left"):
        cramped.restart()
    assert cramped.status == before
    assert cramped.restart() is True
    assert cramped.wait_ended()["starts"] == 2


def test_on_a_full_disk_all_ends_that_must(
    cramped: Phase, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was in reserve is gone with the supervisor; who asks again has it written down."""
    monkeypatch.setattr(cramped.module, "SUPERVISOR_GRACE_S", 0.0)
    cramped.spec["stop_timeout"] = 0
    cramped.start()
    os.kill(cramped.status["supervisor"][0], signal.SIGSTOP)
    with filled(disk):
        with pytest.raises(OSError, match="No space left"):
            cramped.stop()
        assert cramped.processes() == []
        assert cramped.check() == ("broken", "its supervisor was lost")
    assert cramped.stop() is True
    assert cramped.check() == ("down", "")


def test_without_a_controller_it_ends_on_a_full_disk(cramped: Phase, disk: Path) -> None:
    cramped.spec["orphan"] = 0.3
    cramped.start()
    child = cramped.status["child"][0]
    with filled(disk):
        wait_for(lambda: not psutil.pid_exists(child))
    assert cramped.wait_ended()["reason"] == "no controller was heard for 0.3 s"


def test_what_waits_for_room_to_begin_does_not_wait_without_a_controller(
    cramped: Phase, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was never started, and can be still."""
    hold = f"        while not Path('{disk}/filler').exists(): time.sleep(0.01)\n"
    call = "        self._watch_signals()\n"
    cramped.change_supervisor(monkeypatch, call, call + hold)
    cramped.spec["orphan"] = 0.3
    with ThreadPoolExecutor(1) as other:
        begun = other.submit(cramped.start)
        wait_for((cramped.home / "status.json").exists)
        with filled(disk), pytest.raises(cramped.module.Failed, match="its supervisor was lost"):
            begun.result()
    assert cramped.check() == ("down", "")
    assert cramped.status["state"] == "starting"


# --- processes that stand still


@pytest.fixture
def still(phase: Phase) -> Phase:
    """Return a phase whose command, with a child, stands still, and that is not patient."""
    phase.spec |= {"run": "sleep 1000 & echo $!; kill -STOP $! $$", "stop_timeout": 0.1}
    return phase


def wait_still(*pids: int) -> None:
    """Wait until processes stand still."""
    wait_for(lambda: all(psutil.Process(pid).status() == "stopped" for pid in pids))


def test_a_command_that_stands_still_is_ended(still: Phase) -> None:
    still.start()
    wait_still(still.status["child"][0])
    assert still.stop() is True
    assert still.processes() == []


def test_a_command_that_stands_still_can_end_well(still: Phase) -> None:
    """It hears the signal, and goes on to do what it does for that."""
    still.spec |= {"run": "trap 'echo bye; exit 0' TERM; kill -STOP $$", "stop_timeout": 60}
    still.start()
    wait_still(still.status["child"][0])
    assert still.stop() is True
    assert still.output == "bye\n"


def test_a_command_that_stands_still_is_ended_in_time(still: Phase) -> None:
    assert still.run(timeout=0.3)["reason"] == "did not end within 0.3 s"
    assert still.processes() == []


def test_a_command_and_its_supervisor_that_stand_still_are_ended(
    still: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(still.module, "SUPERVISOR_GRACE_S", 0.0)
    still.start()
    pids = still.status["supervisor"][0], still.status["child"][0]
    os.kill(pids[0], signal.SIGSTOP)
    wait_still(*pids)
    assert still.check() == ("running", "")
    assert still.stop() is True
    assert still.processes() == []
    assert still.check() == ("down", "")


@pytest.mark.parametrize("both", [False, True])
def test_a_restart_ends_those_that_stand_still(
    still: Phase, monkeypatch: pytest.MonkeyPatch, *, both: bool
) -> None:
    """The command, and its supervisor too, which does not answer then."""
    monkeypatch.setattr(still.module, "SUPERVISOR_GRACE_S", 0.0)
    make_sick(still)
    before = still.status
    wait_still(before["child"][0])
    if both:
        os.kill(before["supervisor"][0], signal.SIGSTOP)
        wait_still(before["supervisor"][0])
    assert still.restart() is True
    assert still.check() == ("running", "")
    assert still.status["starts"] == 2
    assert not set(still.processes()) & {before["child"][0], before["supervisor"][0]}
    assert len(commands(still)) == 2


def make_sick(phase: Phase) -> None:
    """Start it, and wait until it is not healthy; the next start of it is."""
    phase.spec |= {"health": "test $COBWEB_START = 2", "every": 0.02}
    phase.start()
    wait_for(lambda: phase.check()[0] == "broken")


def commands(phase: Phase) -> list[int]:
    """Return the processes in the session of the command."""
    found = []
    for pid in phase.processes():
        with contextlib.suppress(ProcessLookupError):  # it was a health check
            found += [pid] if os.getsid(pid) == phase.status["child"][0] else []
    return found
