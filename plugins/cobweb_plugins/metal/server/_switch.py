"""Power of machines: the commands of their kinds, one at a time for each machine.

A command may outlive a server that was killed. It holds a lock for as long as it runs, so that the
next server's command for the machine begins after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from cobweb_plugins.metal._power import PowerKind, power_kinds
from cobweb_plugins.metal.server._records import Record

_COMMAND_S = 60.0
_LOCK_PAUSE_S = 0.1
_WORD = re.compile(r"\b(on|off)\b", re.IGNORECASE)
_LONGEST = 200
_MOST_BYTES = 64 << 10


class PowerError(Exception):
    """A power command failed; the text says how."""


class Switch:
    """Switches machines; `url` is what commands are told of the server, `folder` is for locks."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._url = url
        self._kinds: Mapping[str, type[PowerKind]] = power_kinds()

    def can(self, record: Record, action: str) -> bool:
        """Say whether the server can do it; else a person is asked."""
        kind = self._kinds.get(record.power.get("kind", ""))
        return kind is not None and action in kind.can(record.power)

    async def status(self, record: Record) -> str:
        """Return on, off, or unknown where nobody can say."""
        if not self.can(record, "status"):
            return "unknown"
        try:
            output = await self._run(record, "status")
        except PowerError:
            return "unknown"
        return _last_word(output) or "unknown"

    async def turn(self, record: Record, action: str) -> None:
        """Switch a machine on or off; PowerError where it is not switched afterwards.

        Some say no to what is so already: where its status is known, that counts.
        """
        problem = ""
        try:
            await self._run(record, action)
        except PowerError as error:
            problem = str(error)
        if self.can(record, "status"):
            found = await self.status(record)
            problem = "" if found == action else problem or f"after `{action}` it is {found}"
        if problem:
            raise PowerError(problem)

    async def _run(self, record: Record, action: str) -> str:
        """Return the output of a command; PowerError where it failed, or takes too long."""
        values = {"mac": record.mac, "name": record.id, "server": self._url}
        command = self._kinds[record.power["kind"]].command(record.power, action, values)
        with self._lock(record) as lock:
            await _locked(lock, record.id)
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    cwd="/",
                    env=_environment(),
                    pass_fds=(lock.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                raise PowerError(f"{command[0]}: {error.strerror}") from error
            try:
                output = await asyncio.wait_for(_output(process), _COMMAND_S)
            except TimeoutError as error:
                raise PowerError(f"{command[0]} has not ended in {_COMMAND_S:g} s") from error
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        text = output.decode(errors="replace").strip()
        if process.returncode and not (action == "status" and _last_word(text)):
            said = " ".join(text.split())[-_LONGEST:]
            raise PowerError(f"{command[0]} ended with {process.returncode}: {said}")
        return text

    @contextlib.contextmanager
    def _lock(self, record: Record) -> Iterator[IO[bytes]]:
        with (self._folder / f"{record.id}.lock").open("ab") as lock:
            try:
                yield lock
            finally:  # also in what the command has left running, which may have the file as well
                fcntl.flock(lock, fcntl.LOCK_UN)


async def _output(process: asyncio.subprocess.Process) -> bytes:
    """Return the end of what a command writes, once it has ended."""
    assert process.stdout is not None
    output = b""
    while chunk := await process.stdout.read(_MOST_BYTES):
        output = (output + chunk)[-_MOST_BYTES:]
    await process.wait()
    return output


async def _locked(lock: IO[bytes], id_: str) -> None:
    """Take a lock, which a command of a server that was killed may hold for a while."""
    for _ in range(int(_COMMAND_S / _LOCK_PAUSE_S)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_LOCK_PAUSE_S)
        else:
            return
    raise PowerError(f"an earlier power command of {id_} is still at work")


def _last_word(output: str) -> str:
    words = _WORD.findall(output)
    return words[-1].lower() if words else ""


def _environment() -> dict[str, str]:
    """Return what commands get: the `cobweb` of this server first, and no mark of its supervisor.

    What a command leaves running, a simulated machine say, is no process of the server.
    """
    own = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    kept = {key: os.environ[key] for key in ("HOME", "LANG", "LC_ALL") if key in os.environ}
    return {**kept, "PATH": f"{own}:{path}"}
