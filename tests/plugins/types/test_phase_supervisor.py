"""The supervisor of a phase: output, health, deadlines, what is left behind, full disks."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
from collections.abc import Iterator

import psutil
import pytest

from tests.support.phases import Phase, wait_for

LIMIT = "OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024"
FULL_SIZE = 8 * 1024 * 1024


@pytest.fixture
def small(phase: Phase, monkeypatch: pytest.MonkeyPatch) -> Phase:
    """Return a phase of whose output two times 1000 bytes are kept."""
    phase.change_supervisor(monkeypatch, LIMIT, "OUTPUT_LIMIT_BYTES = 1000")
    return phase


@pytest.fixture
def gated(phase: Phase) -> Phase:
    """Return a phase whose command waits for a word in `gate` before it goes on."""
    os.mkfifo(phase.system / "gate")
    return phase


def gate(phase: Phase) -> str:
    """Return a shell command that waits for `open_gate`."""
    return f"read line < {phase.system}/gate"


def open_gate(phase: Phase) -> None:
    """Let the command go on, which waits, or will."""
    (phase.system / "gate").write_text("go\n")


def supervisor_of(phase: Phase) -> int:
    """Return the pid of the supervisor."""
    return int(phase.status["supervisor"][0])


# --- output


def test_what_both_streams_print_is_kept(phase: Phase) -> None:
    status = phase.run("echo one; echo two >&2; echo three")
    assert phase.output == "one\ntwo\nthree\n"
    assert status["lost_bytes"] == 0


@pytest.mark.parametrize("lines", [1, 100, 101, 250, 2500])
def test_output_is_bounded_and_what_is_missing_is_counted(small: Phase, lines: int) -> None:
    """What is kept is the end of it, of lines of ten bytes."""
    status = small.run(f"seq -f '%09.0f' {lines}")
    sizes = [path.stat().st_size for path in small.home.glob("output*")]
    assert max(sizes) <= 1000
    assert len(sizes) <= 2
    assert sum(sizes) + status["lost_bytes"] == 10 * lines
    assert "".join(f"{number + 1:09}\n" for number in range(lines)).endswith(small.output)
    assert len(small.output) >= min(1000, 10 * lines)


@pytest.mark.gate("a gigabyte of output")
def test_a_gigabyte_is_no_matter(phase: Phase) -> None:
    status = phase.run("head -c 1G /dev/zero; echo end")
    sizes = [path.stat().st_size for path in phase.home.glob("output*")]
    assert max(sizes) <= FULL_SIZE
    assert sum(sizes) + status["lost_bytes"] == 2**30 + 4
    assert phase.output.endswith("end\n")
    assert phase.check() == ("done", "")


def test_losses_of_all_starts_are_added(small: Phase) -> None:
    before = small.run("seq -f '%09.0f' 500; exit 1")
    kept = len(small.output)
    small.restart()
    after = small.wait_ended()
    assert after["lost_bytes"] > before["lost_bytes"] == 5000 - kept
    assert len(small.output) + after["lost_bytes"] == 10_000
    small.appoint("i2")
    assert small.run("echo new")["lost_bytes"] == 0
    assert small.output == "new\n"


# --- the end


@pytest.mark.parametrize(
    ("command", "code"),
    [("exec sleep 1000", -signal.SIGTERM), ("trap 'exit 0' TERM; sleep 1000 & wait", None)],
)
def test_one_that_takes_too_long_is_ended(phase: Phase, command: str, code: int | None) -> None:
    """Whatever it says then, it has not ended well."""
    status = phase.run(command, timeout=0.2)
    assert (status["state"], status["code"]) == ("ended", code)
    assert phase.check() == ("broken", "did not end within 0.2 s")
    assert phase.processes() == []


def test_one_that_ends_in_time_is_not(phase: Phase) -> None:
    assert phase.run("exit 0", timeout=60)["reason"] == ""


def test_a_signal_without_a_name_is_told_too(phase: Phase) -> None:
    assert phase.run("kill -40 $$")["reason"] == "ended by signal 40"


@pytest.mark.parametrize(
    "escape",
    ["", "setsid", "env -i", pytest.param("setsid env -i", id="both")],
)
def test_what_a_command_leaves_behind_is_ended(phase: Phase, escape: str) -> None:
    """By its session and its environment; or else because it holds the output open."""
    length = f"1000.{os.getpid()}"
    status = phase.run(f"{escape} sleep {length} & echo done")
    assert (status["state"], status["code"], status["reason"]) == ("ended", 0, "")
    assert phase.output == "done\n"
    found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [words for words in found if length in words]


def test_the_last_words_of_what_is_left_are_kept(phase: Phase) -> None:
    """It has its time to end, and what it prints meanwhile does not stop it."""
    left = "trap 'head -c 3000000 /dev/zero; echo bye; exit' TERM; echo ready; sleep 1000 & wait"
    phase.run(f'(sh -c "{left}") & while ! grep -qs ready {phase.home}/output; do sleep 0.01; done')
    assert phase.output.startswith("ready\n")
    assert phase.output.endswith("bye\n")
    assert phase.status["code"] == 0


@pytest.mark.parametrize(
    ("name", "state", "found"),
    [
        ("STOP", "stopped", ("down", "")),
        ("END", "ended", ("broken", "was ended to be started again")),
    ],
)
def test_a_supervisor_ends_by_signals(
    phase: Phase, name: str, state: str, found: tuple[str, str]
) -> None:
    """One stops the phase; by the other it can be started again. SIGTERM is for others."""
    phase.start()
    os.kill(supervisor_of(phase), signal.SIGTERM)
    os.kill(supervisor_of(phase), getattr(phase.module.phase_supervision, name))
    assert phase.wait_ended()["state"] == state
    assert phase.check() == found
    assert phase.processes() == []


def test_a_supervisor_whose_folder_is_gone_ends_with_its_command(gated: Phase) -> None:
    gated.spec["run"] = gate(gated)
    gated.start()
    supervisor = supervisor_of(gated)
    shutil.rmtree(gated.home)
    open_gate(gated)
    wait_for(lambda: not psutil.pid_exists(supervisor))


# --- health


def test_a_sick_phase_is_broken_until_it_is_well(phase: Phase) -> None:
    well = phase.system / "well"
    phase.spec |= {"health": f"test -e {well} || {{ echo one; echo two; exit 4; }}", "every": 0.02}
    phase.start()
    wait_for(lambda: phase.check()[0] == "broken")
    assert phase.check()[1] == "is not healthy: ended with exit status 4: two"
    assert phase.start() is False
    well.touch()
    wait_for(lambda: phase.check() == ("running", ""))
    assert phase.status["health"] == ""
    well.unlink()
    wait_for(lambda: phase.check()[0] == "broken")
    assert phase.output == "", "what it prints is not that of the command"


@pytest.mark.parametrize(
    ("health", "why"),
    [
        ("exit 3", "ended with exit status 3"),
        ("kill -9 $$", "ended by SIGKILL"),
        ("echo slow; sleep 1000", "took longer than 0.3 s: slow"),
        ("yes no", "took longer than 0.3 s: no"),
        (["/no/such/check"], "cannot be started: [Errno 2] No such file or directory: "),
    ],
)
def test_why_it_is_not_healthy_is_said(phase: Phase, health: str | list[str], why: str) -> None:
    phase.spec |= {"health": health, "every": 0.02, "health_timeout": 0.3}
    phase.start()
    wait_for(lambda: phase.check()[0] == "broken")
    assert phase.check()[1].startswith(f"is not healthy: {why}")


def test_checks_never_overlap(phase: Phase) -> None:
    """They take longer than the time between two of them, and may leave something behind."""
    base = phase.system
    phase.spec |= {
        "health": f"mkdir {base}/one || touch {base}/two; sleep 0.05; rmdir {base}/one;"
        f" sleep 1000 & echo $COBWEB_PHASE >> {base}/count",
        "every": 0.01,
    }
    phase.start()
    wait_for(lambda: (base / "count").exists() and len((base / "count").read_text()) > 5 * 8)
    assert not (base / "two").exists()
    assert phase.check() == ("running", "")
    phase.stop()
    assert phase.processes() == []


def test_a_check_at_work_does_not_outlive_the_command(gated: Phase) -> None:
    base = gated.system
    gated.spec |= {
        "run": gate(gated),
        "health": f"touch {base}/asked; trap '' TERM; sleep 1000",
        "every": 0.01,
    }
    gated.start()
    wait_for((base / "asked").exists)
    open_gate(gated)
    assert gated.wait_ended()["code"] == 0
    assert gated.check() == ("done", "")
    assert gated.processes() == []


# --- a full disk


@contextlib.contextmanager
def full_disk(phase: Phase) -> Iterator[None]:
    """Have the supervisor write nothing, though files can be made, as on a full disk."""
    pid = supervisor_of(phase)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_on_a_full_disk_the_command_goes_on(gated: Phase) -> None:
    """Its output is counted, and its end is told once there is room again."""
    done = gated.system / "done"
    gated.spec["run"] = f"{gate(gated)}; head -c 3000000 /dev/zero; touch {done}"
    gated.start()
    child = gated.status["child"][0]
    with full_disk(gated):
        open_gate(gated)
        wait_for(lambda: done.exists() and not psutil.pid_exists(child))
        assert gated.status["state"] == "running"
        assert gated.check() == ("running", "")
    status = gated.wait_ended()
    assert (status["state"], status["code"]) == ("ended", 0)
    assert 0 < status["lost_bytes"] == 3_000_000 - len(gated.output), "what was still in the pipe"
    assert gated.check() == ("done", "")


def test_what_is_printed_when_there_is_room_again_is_kept(gated: Phase) -> None:
    printed, base = 3_000_000, gated.system
    first = f"{gate(gated)}; head -c {printed} /dev/zero; touch {base}/one"
    gated.spec["run"] = f"{first}; {gate(gated)}; echo kept"
    gated.start()
    with full_disk(gated):
        open_gate(gated)
        wait_for((base / "one").exists)
    open_gate(gated)
    lost = gated.wait_ended()["lost_bytes"]
    assert lost > 0
    assert lost + len(gated.output) == printed + len("kept\n")
    assert gated.output.endswith("kept\n")


def test_on_a_full_disk_it_can_be_stopped(phase: Phase) -> None:
    """Who stops it writes that down, where he can."""
    phase.start()
    with full_disk(phase):
        os.kill(supervisor_of(phase), phase.module.phase_supervision.STOP)
        phase.wait_ended()
        assert phase.check() == ("broken", "its supervisor was lost")
        assert phase.stop() is True
        assert phase.check() == ("down", "")
