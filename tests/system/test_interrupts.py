"""Two runs at once, Ctrl-C on a real terminal, and a full disk: the truth is told and kept."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.system.conftest import COBWEB, Workshop

pytestmark = [pytest.mark.full("interrupts at every place; the gate has Ctrl-C and kill -9")]

SITE = """\
cobweb: 1
name: gates
inventory:
  all:
    vars:
      ansible_connection: local
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
    hosts: {one: {}, two: {}}
types:
  gated:
    states: [down, up]
    preferred: up
    remove: down
    spec: {type: object, additionalProperties: false, properties: {dir: {type: string}}}
    check: {tasks: check.yml}
    transitions:
      down -> up: {tasks: up.yml, timeout: 100}
cobs:
  first: {type: gated, on: one, spec: {dir: DIR}}
  second: {type: gated, on: two, spec: {dir: DIR}, after: [first@one]}
"""
CHECK = """\
- ansible.builtin.stat: {path: "{{ cob.spec.dir }}/{{ cob.name }}.up"}
  register: found
- ansible.builtin.set_fact: {cob_state: "{{ 'up' if found.stat.exists else 'down' }}"}
"""
UP = """\
- ansible.builtin.shell: |
    echo $$ > {{ cob.spec.dir }}/{{ cob.name }}.begun
    read line < {{ cob.spec.dir }}/{{ cob.name }}.gate
    : > {{ cob.spec.dir }}/{{ cob.name }}.up
"""
PATIENCE_S = 60.0


class Gates:
    """The folder with the gates that transitions wait at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("first", "second"):
            os.mkfifo(folder / f"{name}.begun")
            os.mkfifo(folder / f"{name}.gate")

    def await_begun(self, name: str) -> int:
        """Block until the transition is at its gate; return the process id of its shell."""
        return int((self.folder / f"{name}.begun").read_text())

    def open(self, name: str) -> None:
        """Let the transition go on."""
        (self.folder / f"{name}.gate").write_text("go\n")

    def is_up(self, name: str) -> bool:
        return (self.folder / f"{name}.up").exists()


@pytest.fixture
def gates(workshop: Workshop, tmp_path: Path) -> Gates:
    made = Gates(tmp_path / "gates")
    (workshop.site / "site.yml").write_text(SITE.replace("DIR", str(made.folder)))
    (workshop.site / "check.yml").write_text(CHECK)
    (workshop.site / "up.yml").write_text(UP)
    return made


class Terminal:
    """A run of `cobweb` on a terminal of its own."""

    def __init__(self, workshop: Workshop, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COBWEB, "-C", str(workshop.site), *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509  # no threads here
            env={**os.environ, **workshop.env, "TERM": "xterm", "COLUMNS": "80"},
        )
        os.close(slave)
        workshop.started.append(self.process)
        self.seen = ""

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def await_text(self, text: str) -> None:
        """Read until `text` is on the screen."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} was not shown in:\n{self.seen}"
            if not self._read():
                break
        assert text in self.seen, self.seen

    def finish(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(timeout=PATIENCE_S)

    def terminate(self) -> int:
        """Send SIGTERM while it waits for an answer, and return the exit code.

        A signal between the question and the wait for its answer is heard by Python only when the
        wait ends: so one is sent when it stands still.
        """
        end = time.monotonic() + PATIENCE_S
        while not self._stands_still():
            assert time.monotonic() < end, "it does not wait for the answer"
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def _stands_still(self) -> bool:
        """Say whether it has not been given a processor for a while."""
        status = Path("/proc", str(self.process.pid), "status")
        before = status.read_text(encoding="ascii")
        time.sleep(0.5)
        return status.read_text(encoding="ascii") == before

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENCE_S)
        assert ready, f"nothing more was shown after:\n{self.seen}"
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


def take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C becomes SIGINT."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(workshop: Workshop, gates: Gates) -> Iterator[Terminal]:
    made = Terminal(workshop, "apply", "--yes")
    gates.await_begun("first")
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


@pytest.mark.gate("the story of an interrupt")
def test_first_ctrl_c_lets_the_running_transition_end(
    workshop: Workshop, gates: Gates, terminal: Terminal
) -> None:
    terminal.press_ctrl_c()
    terminal.await_text("one/first: down -> up (interrupt again")
    said = terminal.seen.partition("nothing new is started; ")[2].partition(" (")[0]
    alone = "1 still at work: one/first: down -> up"
    # One host may be silent in any case, so a step does not wait for the check of the other one.
    assert said in (alone, "2 still at work: two/second: check, one/first: down -> up")
    gates.open("first")
    assert terminal.finish() == 130
    assert "the next apply goes on" in terminal.seen
    assert "brings home" not in terminal.seen, "nothing has served yet"
    assert gates.is_up("first")
    assert not gates.is_up("second")
    states = workshop.states()
    assert states["one/first"]["state"] == "up"
    assert states["two/second"]["state"] == "down"
    assert states["two/second"]["in_transition"] is None
    assert "not locked" in workshop.run("lock", "show").out
    assert workshop.mine() == []


def test_second_ctrl_c_stops_it_and_leaves_no_process(
    workshop: Workshop, gates: Gates, terminal: Terminal
) -> None:
    terminal.press_ctrl_c()
    terminal.await_text("nothing new is started")
    terminal.press_ctrl_c()
    assert terminal.finish() == 130
    assert "stopped in the middle: one/first: down -> up" in terminal.seen
    assert "one/first was stopped in down -> up; the next apply checks it" in terminal.seen
    assert "failed in this run" not in terminal.seen
    assert workshop.mine() == []
    first = workshop.states()["one/first"]
    assert (first["state"], first["failed"]) == ("unknown", True)
    assert not gates.is_up("first")
    assert "not locked" in workshop.run("lock", "show").out


def test_after_an_interrupt_the_next_apply_goes_on(
    workshop: Workshop, gates: Gates, terminal: Terminal
) -> None:
    terminal.press_ctrl_c()
    gates.open("first")
    assert terminal.finish() == 130
    process = workshop.start("apply", "--yes", "--events", "-")
    gates.await_begun("second")
    gates.open("second")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    started = [json.loads(line) for line in out.splitlines() if "transition.start" in line]
    assert [event["cob"] for event in started] == ["two/second"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_cancelled_job_ends_as_after_ctrl_c(
    workshop: Workshop, gates: Gates, number: signal.Signals
) -> None:
    process = workshop.start("apply", "--yes")
    gates.await_begun("first")
    process.send_signal(number)
    assert process.stderr is not None
    assert any("nothing new is started" in line for line in process.stderr)
    gates.open("first")
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert workshop.mine() == []


def test_of_two_applies_one_is_told_who_has_the_site(workshop: Workshop, gates: Gates) -> None:
    first = workshop.start("apply", "--yes")
    gates.await_begun("first")
    second = workshop.run("apply", "--yes")
    assert second.code == 5
    assert f"pid {first.pid}" in second.err
    assert "the site is locked by" in second.err
    for name in ("first", "second"):
        if name == "second":
            gates.await_begun(name)
        gates.open(name)
    first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 0


@pytest.mark.gate("the story of kill -9")
def test_a_dead_owner_is_noticed_and_what_it_left_is_checked(
    workshop: Workshop, gates: Gates
) -> None:
    first = workshop.start("apply", "--yes")
    gates.await_begun("first")
    first.kill()
    first.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while workshop.mine() and time.monotonic() < deadline:
        psutil_wait(workshop)
    assert workshop.mine() == [], "a killed run leaves processes behind"
    second = workshop.start("apply", "--yes")
    gates.await_begun("first")
    gates.open("first")
    gates.await_begun("second")
    gates.open("second")
    _, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, err
    assert f"its process {first.pid} is gone" in err


def psutil_wait(workshop: Workshop) -> None:
    """Wait until one of the workshop's processes has ended."""
    import psutil

    psutil.wait_procs(workshop.mine(), timeout=1)


def test_an_answer_of_no_changes_nothing(workshop: Workshop, gates: Gates) -> None:
    terminal = Terminal(workshop, "apply")
    terminal.await_text("Apply this plan? [y/N]")
    assert "one/first" in terminal.seen
    terminal.type("n\n")
    assert terminal.finish() == 0
    assert "nothing was changed" in terminal.seen
    assert not gates.is_up("first")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a small file system")
def test_a_full_disk_is_one_clear_message(workshop: Workshop, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small)], check=True)
    try:
        (workshop.site / "site.yml").write_text(
            SITE.replace("DIR", str(tmp_path)).replace(
                "name: gates", f"name: gates\nstate: sqlite:///{small}/state.db"
            )
        )
        (workshop.site / "check.yml").write_text(CHECK)
        (workshop.site / "up.yml").write_text(UP)
        with (small / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(b"x" * 4096):
                pass
        ran = workshop.run("apply", "--yes")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert ran.code == 1, ran.err
    assert "state.db" in ran.err
    assert "Traceback" not in ran.err
    assert not list(tmp_path.glob("*.up"))


def test_a_reader_that_is_gone_stops_neither_the_run_nor_its_end(
    workshop: Workshop, gates: Gates
) -> None:
    """With `| tee`, Ctrl-C ends tee as well; what runs shall come to its end all the same."""
    process = workshop.start("apply", "--yes")
    gates.await_begun("first")
    assert process.stderr is not None
    assert process.stdout is not None
    process.stderr.close()
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    gates.open("first")
    assert process.wait(timeout=PATIENCE_S) == 130
    states = workshop.states()
    assert states["one/first"]["state"] == "up"
    assert states["two/second"]["state"] == "down"
    assert "not locked" in workshop.run("lock", "show").out
    assert workshop.mine() == []


def test_a_signal_at_the_question_leaves_no_lock(workshop: Workshop, gates: Gates) -> None:
    terminal = Terminal(workshop, "apply")
    terminal.await_text("Apply this plan? [y/N]")
    code = terminal.terminate()
    assert code == 130
    assert "not locked" in workshop.run("lock", "show").out
    assert not gates.is_up("first")
