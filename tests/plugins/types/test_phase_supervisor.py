"""The supervisor of a phase: output, health, deadlines, what is left behind, full disks."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.support.phases import Phase, wait_for

LIMIT = "OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024"
FULL_SIZE = 8 * 1024 * 1024
MEMORY_KIB = 64 * 1024


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
def test_a_gigabyte_is_no_matter(gated: Phase) -> None:
    """Not even for what the supervisor needs of memory."""
    phase, done = gated, gated.system / "done"
    phase.spec["run"] = f"head -c 1G /dev/zero; echo end; touch {done}; {gate(phase)}"
    phase.start()
    wait_for(done.exists)
    of_supervisor = Path(f"/proc/{supervisor_of(phase)}/status").read_text()
    peak_kib = next(it.split()[1] for it in of_supervisor.splitlines() if it.startswith("VmHWM:"))
    assert int(peak_kib) < MEMORY_KIB
    open_gate(phase)
    status = phase.wait_ended()
    sizes = [path.stat().st_size for path in phase.home.glob("output*")]
    assert max(sizes) <= FULL_SIZE
    assert sum(sizes) + status["lost_bytes"] == 2**30 + 4
    assert phase.output.endswith("end\n")
    assert phase.check() == ("done", "")


@pytest.mark.parametrize("removed", ["output", "output.1", "output*"])
def test_output_that_is_removed_is_followed_by_more(
    small: Phase, gated: Phase, removed: str
) -> None:
    """Whoever needs the room removes it while the command is at work."""
    lines = "seq -f %09.0f 250"
    assert small is gated
    gated.spec["run"] = f"{lines}; touch {gated.system}/done; {gate(gated)}; {lines}; echo end"
    gated.start()
    wait_for(lambda: (gated.system / "done").exists() and "250\n" in gated.output)
    for file in gated.home.glob(removed):
        file.unlink()
    open_gate(gated)
    gated.wait_ended()
    assert gated.output.endswith("\nend\n")
    assert len(gated.output) > 1000
    assert max(path.stat().st_size for path in gated.home.glob("output*")) <= 1000


def test_a_command_that_prints_without_end_can_be_ended(phase: Phase) -> None:
    """It is asked for its health meanwhile."""
    asked = phase.system / "asked"
    phase.spec |= {"run": "exec yes", "health": f"echo x >> {asked}", "every": 0.02}
    phase.start()
    wait_for(lambda: asked.exists() and len(asked.read_text()) > 10)
    assert phase.check() == ("running", "")
    phase.stop()
    assert phase.processes() == []


@pytest.mark.parametrize("limit", ["timeout", "orphan"])
def test_a_command_that_prints_without_end_has_its_limits(phase: Phase, limit: str) -> None:
    phase.spec[limit] = 0.2
    assert phase.run("exec yes")["reason"].endswith(" 0.2 s")
    assert phase.processes() == []


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
    shutil.rmtree(gated.home)
    open_gate(gated)
    wait_for(lambda: gated.processes() == [])


def test_a_limit_of_years_is_one(phase: Phase) -> None:
    """The kernel waits for no more than 24 days at once."""
    assert phase.run("sleep 0.1; exit 3", timeout=1e8, every=1e8, orphan=1e8)["code"] == 3


# --- without a controller


def test_one_without_a_controller_ends_with_all_that_it_started(phase: Phase) -> None:
    status = phase.run("setsid sleep 1000 & trap 'exit 0' TERM; sleep 1000 & wait", orphan=0.2)
    assert (status["state"], status["code"]) == ("ended", None)
    assert phase.check() == ("broken", "no controller was heard for 0.2 s")
    assert phase.processes() == []
    phase.spec["orphan"] = 1000
    assert phase.restart() is True
    assert phase.check() == ("running", "")


@pytest.mark.gate("a controller is heard for longer than the phase would live without")
def test_one_that_hears_a_controller_goes_on(phase: Phase) -> None:
    """It has nothing to do but to ask, and then it goes away."""
    phase.spec["orphan"] = 1.5
    phase.start()
    until = time.monotonic() + 4

    def heard_for_long() -> bool:
        (phase.node / "heard").touch()
        return time.monotonic() > until

    wait_for(heard_for_long)
    assert phase.check() == ("running", "")
    assert phase.wait_ended()["reason"] == "no controller was heard for 1.5 s"


@pytest.fixture
def clock(phase: Phase, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the time of the supervisor, in seconds, which only the test moves."""
    moved = SimpleNamespace(now=1000.0)
    fake = SimpleNamespace(monotonic=lambda: moved.now)
    monkeypatch.setattr(phase.module.phase_supervision, "time", fake)
    return moved


@pytest.mark.parametrize("before", [None, -5000, 0, 5000])
@pytest.mark.parametrize("touched", [-9000, -1, 1, 9000])
def test_a_controller_is_heard_whatever_the_wall_clock_says(
    phase: Phase, clock: SimpleNamespace, before: int | None, touched: int
) -> None:
    """The file may be as old as can be or of the future; a touch gives it another time."""
    heard = phase.system / "heard"
    if before is not None:
        touch(heard, before)
    controller = phase.module.phase_supervision.Controller(heard, 100.0)
    clock.now += 70
    assert not controller.is_gone()
    touch(heard, touched)
    clock.now += 25
    assert not controller.is_gone(), "it was heard by now"
    heard.unlink()
    clock.now += 99.9
    assert not controller.is_gone()
    clock.now += 0.1
    assert controller.is_gone(), "and not since"


@pytest.mark.parametrize("obstacle", ["", "missing", "no folder", "a loop"])
def test_a_file_that_cannot_be_seen_was_not_touched(
    phase: Phase, clock: SimpleNamespace, obstacle: str
) -> None:
    heard = phase.system / "folder" / "heard"
    if obstacle != "no folder":
        heard.parent.mkdir()
    if obstacle == "a loop":
        heard.symlink_to(heard)
    if obstacle == "":
        heard.touch()
    controller = phase.module.phase_supervision.Controller(heard, 100.0)
    clock.now += 99.9
    assert not controller.is_gone()
    clock.now += 0.1
    assert controller.is_gone()


@pytest.mark.parametrize(
    ("patience", "pause"), [(0, math.inf), (0.4, 0.1), (60, 15), (240, 60), (86400, 60)]
)
def test_a_controller_is_looked_for_seldom(
    phase: Phase, clock: SimpleNamespace, patience: float, pause: float
) -> None:
    """Never, where none is needed; and once more when it would be gone."""
    controller = phase.module.phase_supervision.Controller(phase.system / "heard", patience)
    assert controller.due == clock.now + pause
    if patience:
        clock.now += patience - pause / 2
        assert not controller.is_gone()
        assert controller.due == pytest.approx(clock.now + pause / 2)
        touch(phase.system / "heard", 0)
        clock.now = controller.due
        assert not controller.is_gone()
        assert controller.due == clock.now + pause


def touch(path: Path, age: int) -> None:
    """Give a file a time, in seconds from a moment of the past."""
    path.touch()
    os.utime(path, (10**9 + age, 10**9 + age))


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
