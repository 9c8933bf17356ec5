# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor of a `phase` COB: starts its command once, and tells how that goes and ends.

Standard library only, Python 3.8 or newer, Linux. The module `cobweb_phase` imports the file, and
copies it into the home folder of each phase, beside cobweb_supervisor.py, where it runs as
`python3 -I -B cobweb_phase_supervisor.py HOME` until its command has ended.

A home holds `spec.json` (what to run), `status.json` (how that goes), `lock`, `output` and
`output.1`. Who starts a phase takes the lock, writes the status `starting`, and hands the open lock
down: so it is held without a gap from before the status is written until the last word of the
supervisor is, and a status that is not the last one, with a free lock, is that of a lost one.
Before it starts the command it writes `launching`: with `starting` it was never started.

A controller that asks how phases go touches `heard` in the folder above, which all phases of the
application on the node share: with `orphan` in the spec, a phase ends that hears none for so long.

One thread serves the output, the health check, the signals and the deadlines. Whatever cannot be
written, for the disk is full, is counted (output) or written later (status): the command goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Dict, List, Optional

if __name__ == "__main__":
    # In a home, where `-I` keeps Python from looking beside this file.
    sys.path.insert(0, str(Path(__file__).parent))
    import cobweb_supervisor as supervision
else:
    from ansible.module_utils import cobweb_supervisor as supervision

VERSION = 1
STOP, END = signal.SIGUSR1, signal.SIGUSR2
"""What asks a supervisor to end its command for good, and to be started again; SIGTERM, which ends
what a killed run has left behind, is not for it."""
OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024
"""Of each of the two files of output."""
CHUNK_BYTES = 1024 * 1024
TAIL_BYTES = 4096
"""So much is kept of what a health check prints."""
RETRY_S = 1.0
"""After it a status is written again that could not be."""
RESERVE = "reserve"
RESERVE_BYTES = (16 * 1024, 8 * 1024, 4 * 1024, 0)
"""Sizes of a file that makes room for the last status, where output has filled the disk."""
LOSS_S = 5.0
"""At most so long after it happened is a loss of output in the status."""
DRAIN_S = 1.0
"""So long may output come after the end of all processes of the command that can be found."""
HEARD = "heard"
"""What a controller touches, in the folder above the home."""
LOOK_S = 60.0
"""At most so long after it was touched is that seen."""
LONGEST_S = 3600.0
"""So long is waited at once: epoll takes no more than 24 days."""
SET_PIPE_SIZE = 1031
"""fcntl's F_SETPIPE_SZ, which has a name since Python 3.10."""


class Output:
    """The last bytes that a command has printed, in two files; `lost` counts all others."""

    def __init__(self, path: Path, lost: int) -> None:
        self.path = path
        self.lost = lost
        self._handle = -1
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append what can be written; never fails."""
        rest = memoryview(data)
        with contextlib.suppress(OSError):
            self._make_room(len(rest))
            while rest:
                count = os.write(self._handle, rest)
                self._size += count
                rest = rest[count:]
        self.lost += len(rest)

    def _make_room(self, count: int) -> None:
        if self._handle < 0:
            self._open()
        if self._size and self._size + count > OUTPUT_LIMIT_BYTES:
            earlier = self.path.with_name(f"{self.path.name}.1")
            dropped = earlier.stat().st_size if earlier.exists() else 0
            with contextlib.suppress(FileNotFoundError):  # Somebody has removed it.
                self.path.replace(earlier)
                self.lost += dropped
            os.close(self._handle)
            self._handle = -1
            self._open()

    def _open(self) -> None:
        self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._handle).st_size


class Health:
    """Runs the health check again and again, never two at a time."""

    def __init__(self, spec: Dict[str, Any], selector: selectors.BaseSelector) -> None:
        self.due = time.monotonic() + spec["every"]
        self._spec = spec
        self._selector = selector
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._began = 0.0
        self._tail = b""
        self._too_late = ""

    def step(self) -> Optional[str]:
        """Do what is due; return why it is not well, nothing if it is, None without an answer."""
        now = time.monotonic()
        if self._process is None:
            return self._start(now) if now >= self.due else None
        code = self._process.poll()
        if code is None:
            return self._kill_late_one() if now >= self.due else None
        return self._finish(code)

    def read(self, stream: IO[bytes]) -> None:
        """Take what the check has printed."""
        data = os.read(stream.fileno(), CHUNK_BYTES)
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        if not data:
            self._selector.unregister(stream)

    def kill(self) -> None:
        """End a check that is at work."""
        if self._process is not None:
            _kill_group(self._process)
            self._close(self._process)

    def _start(self, now: float) -> Optional[str]:
        self._began, self._tail, self._too_late = now, b"", ""
        try:
            self._process = _spawn(self._spec["health"], self._spec)
        except OSError as error:
            self.due = now + self._spec["every"]
            return f"cannot be started: {error}"
        os.set_blocking(_stream(self._process).fileno(), False)
        self._selector.register(_stream(self._process), selectors.EVENT_READ, self.read)
        self.due = now + self._spec["health_timeout"]
        return None

    def _kill_late_one(self) -> str:
        """Kill it, and wait for no more than the signal of its end: it may hang in the kernel."""
        assert self._process is not None
        _kill_group(self._process)
        self.due = math.inf
        self._too_late = self._with_last_line(
            f"took longer than {self._spec['health_timeout']:g} s"
        )
        return self._too_late

    def _finish(self, code: int) -> str:
        assert self._process is not None
        stream = _stream(self._process)
        if stream in self._selector.get_map():
            with contextlib.suppress(BlockingIOError):  # What it started may hold it open.
                self.read(stream)
        self._close(self._process)
        self.due = self._began + self._spec["every"]
        if code == 0 and not self._too_late:
            return ""
        return self._too_late or self._with_last_line(supervision.how_it_ended(code))

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(_stream(process))
        _stream(process).close()
        self._process = None

    def _with_last_line(self, how: str) -> str:
        lines = self._tail.decode("utf-8", errors="replace").strip().splitlines()
        return f"{how}: {lines[-1].strip()}" if lines else how


class Controller:
    """Tells whether a controller is still there, by a file that it touches.

    What counts is that the time of the file changes, and when that is seen by the monotonic clock:
    so the wall clock may jump, and a file that is missing or cannot be looked at was not touched.
    """

    def __init__(self, file: Path, patience_s: float) -> None:
        self._file = file
        self._patience_s = patience_s or math.inf
        self._heard = time.monotonic()
        self._touched = self._look()
        self.due = self._heard + self._pause_s()

    def is_gone(self) -> bool:
        """Say whether it was not heard for too long; looks at the file when that is due."""
        now = time.monotonic()
        if now < self.due:
            return False
        touched = self._look()
        if touched is not None and touched != self._touched:
            self._touched, self._heard = touched, now
        silent_s = now - self._heard
        self.due = now + min(self._pause_s(), max(0.0, self._patience_s - silent_s))
        return silent_s >= self._patience_s

    def _pause_s(self) -> float:
        return math.inf if math.isinf(self._patience_s) else min(self._patience_s / 4, LOOK_S)

    def _look(self) -> Optional[int]:
        try:
            return self._file.stat().st_mtime_ns
        except OSError:
            return None


class PhaseSupervisor:
    """Runs the command of one start of a phase; made and run by `main` alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.spec = supervision.read_json(home / "spec.json")
        self.status = supervision.read_json(home / "status.json")
        self.output = Output(home / "output", self.status["lost_bytes"])
        self.asked: Optional[int] = None
        self.health: Optional[Health] = None
        self.controller = Controller(home.parent / HEARD, self.spec["orphan"])
        self._save_at = math.inf
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Start the command; return once it has ended, and that is written down."""
        self._watch_signals()
        if self.status["starts"] == 1:
            for name in ("output", "output.1"):  # of an earlier instance
                with contextlib.suppress(OSError):
                    (self.home / name).unlink()
        self.status.update(state="launching", supervisor=supervision.identity(os.getpid()))
        while not self._save_with_reserve():
            self._turn(RETRY_S)
            if self.asked is not None or self.controller.is_gone():
                return  # The status is `starting`: the command was never started.
        try:
            process = _spawn(self.spec["command"], self.spec)
        except OSError as error:
            self._tell_end(None, f"cannot be started: {error}")
        else:
            self._accompany(process)
        self._save_last()

    def _save_with_reserve(self) -> bool:
        """Write the first status with as much room in reserve for the last one as there is."""
        for size in RESERVE_BYTES:
            with contextlib.suppress(OSError):
                (self.home / RESERVE).write_bytes(bytes(size))
                if self._save():
                    return True
        self._save_at = math.inf  # Who calls this tries again, or does not begin.
        return False

    def _accompany(self, process: subprocess.Popen[bytes]) -> None:
        child = supervision.identity(process.pid) or [process.pid, 0]
        self.status.update(state="running", child=child)
        self._save()  # while no output has taken what room there is
        self._selector.register(_stream(process), selectors.EVENT_READ, self._read)
        if self.spec["health"]:
            self.health = Health(self.spec, self._selector)
        timeout_s = self.spec["timeout"] or math.inf
        deadline = time.monotonic() + timeout_s
        reason = ""
        while process.poll() is None and self.asked is None and not reason:
            if time.monotonic() >= deadline:
                reason = f"did not end within {timeout_s:g} s"
            elif self.controller.is_gone():
                reason = f"no controller was heard for {self.spec['orphan']:g} s"
            else:
                self._turn(min(deadline, self.controller.due) - time.monotonic())
        by_itself = process.poll() is not None
        if self.health is not None:
            self.health.kill()
            self.health = None
        reason = self._end_all(process, child) or reason
        if not by_itself and self.asked == STOP:
            self.status["state"] = "stopped"
        elif not by_itself and not reason:
            reason = "was ended to be started again"
        self._tell_end(process.returncode, reason)

    def _end_all(self, process: subprocess.Popen[bytes], child: List[int]) -> str:
        """End what lives of the command, take its last output; return what does not end."""
        how, patience_s = self.spec["stop_signal"], self.spec["stop_timeout"]
        problem = ""
        try:
            supervision.terminate(self.home, child, how, patience_s, self._turn)
            process.wait()
        except OSError as error:  # It hangs in the kernel, or is another user's by now.
            problem = str(error)
        self._drain(process)
        return problem

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        """Read to the end of the output; kill who holds it open, but cannot be found otherwise."""
        stream = _stream(process)
        now = time.monotonic()
        kill_at, give_up_at = now + DRAIN_S, now + DRAIN_S + supervision.KILL_WAIT_S
        while stream in self._selector.get_map() and now < give_up_at:
            if now >= kill_at:
                supervision.signal_all(_holders(stream.fileno()), signal.SIGKILL)
            self._turn(supervision.POLL_S)
            now = time.monotonic()
        with contextlib.suppress(KeyError):
            self._selector.unregister(stream)
        stream.close()

    def _tell_end(self, code: Optional[int], reason: str) -> None:
        if self.status["state"] != "stopped":
            self.status["state"] = "ended"
            if code and not reason:
                reason = supervision.how_it_ended(code)
            if code == 0 and reason:
                code = None  # What was ended by us has not ended well, whatever it says.
        self.status.update(code=code, reason=reason, ended=time.time())
        self.status["lost_bytes"] = self.output.lost

    def _turn(self, limit_s: float) -> None:
        """Serve whatever comes next, for so many seconds at most."""
        due = min(self._save_at, self.health.due if self.health else math.inf)
        wait_s = max(0.0, min(limit_s, due - time.monotonic(), LONGEST_S))
        for key, _ in self._selector.select(wait_s):
            key.data(key.fileobj)
        why = self.health.step() if self.health else None
        if why is not None and why != self.status["health"]:
            self.status.update(healthy=not why, health=why)
            self._write_after(0)
        if self.output.lost != self.status["lost_bytes"]:
            self.status["lost_bytes"] = self.output.lost
            self._write_after(LOSS_S)
        if time.monotonic() >= self._save_at:
            self._save()

    def _write_after(self, delay_s: float) -> None:
        self._save_at = min(self._save_at, time.monotonic() + delay_s)

    def _save(self) -> bool:
        """Write the status, or have it written later; say whether that worked."""
        try:
            supervision.write_json(self.home / "status.json", self.status, durable=True)
        except OSError:
            self._save_at = time.monotonic() + RETRY_S
            return False
        self._save_at = math.inf
        return True

    def _save_last(self) -> None:
        """Write how it has ended, waiting for room; who asks for an end writes that himself."""
        while not self._save() and self.asked is None and self.home.is_dir():
            try:
                (self.home / RESERVE).unlink()
            except OSError:
                self._turn(RETRY_S)
        with contextlib.suppress(OSError):
            (self.home / RESERVE).unlink()

    def _read(self, stream: IO[bytes]) -> None:
        data = os.read(stream.fileno(), min(CHUNK_BYTES, OUTPUT_LIMIT_BYTES))
        if data:
            self.output.write(data)
        else:
            self._selector.unregister(stream)

    def _watch_signals(self) -> None:
        """Wake from waiting by a byte for each signal, so that none comes unnoticed before it."""
        reader, writer = os.pipe()
        for end in (reader, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (STOP, END):
            signal.signal(number, lambda caught, _: setattr(self, "asked", caught))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)  # ignored, which its children must not inherit
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(reader, selectors.EVENT_READ, lambda end: os.read(end, TAIL_BYTES))


def main(home: Path) -> int:
    """Run the phase of `home`, holding the lock that came with the call."""
    PhaseSupervisor(home).run()
    return 0


def _spawn(argv: List[str], spec: Dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; what it prints comes through a pipe."""
    process = subprocess.Popen(
        argv,
        cwd=spec["cwd"],
        env=spec["env"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        bufsize=0,
    )
    with contextlib.suppress(OSError):  # Others of this user may have all that he can get.
        fcntl.fcntl(_stream(process), SET_PIPE_SIZE, CHUNK_BYTES)
    return process


def _stream(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:  # Else its number may be another's.
        with contextlib.suppress(PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _holders(pipe: int) -> List[int]:
    """Return the pids of the other processes that have a pipe open."""
    name = f"pipe:[{os.fstat(pipe).st_ino}]"
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if any(_target(entry) == name for entry in folder.iterdir()):
                found.append(int(folder.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def _target(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - that of Path came with Python 3.9
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
