# SPDX-License-Identifier: GPL-3.0-or-later
"""A PostgreSQL server of the host: asked by psql through its socket, as the user that owns it.

Statements go to psql by its standard input, never on a command line; nobody is asked
for a password.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ansible.module_utils.cobweb_host import Failed

SOCKET = "/var/run/postgresql"
PORT = 5432
USER = "postgres"
START_WAIT_S = 20
POLL_S = 0.1
TOOL_TIMEOUT_S = 60
LINES_TOLD = 4
PLACES = ("/usr/lib/postgresql/{major}/bin", "/usr/pgsql-{major}/bin")
GRAVE = re.compile(r"(FATAL|PANIC|DETAIL|HINT):  (?!the database system is).*")
PSQL_SAYS = re.compile(r"^psql:(<stdin>:\d+| error): ")
NOBODY_ANSWERS = ("No such file or directory", "Connection refused")
NOT_YET = ("the database system is starting up", "the database system is shutting down")


class NoServer(Failed):
    """No server answers at the socket, or PostgreSQL is not installed."""


class Server(NamedTuple):
    """Where a server is found: the folder of its socket, its port, and the user that owns it."""

    socket: str
    port: int
    user: str

    @property
    def place(self) -> str:
        """Name the server among those of the host."""
        return f"{self.socket}:{self.port}"

    def ask(self, statements: str, database: str = "postgres") -> str:
        """Return what psql prints for the statements; the first error ends them, and is raised.

        A server that is just starting or stopping is waited for.
        """
        deadline = time.monotonic() + START_WAIT_S
        while True:
            done = self.run(self.psql(database), statements)
            if done.returncode == 0:
                return done.stdout.strip()
            if not any(words in done.stderr for words in NOT_YET) or time.monotonic() > deadline:
                raise self.failure(done.stderr)
            time.sleep(POLL_S)

    def ask_json(self, statement: str, database: str = "postgres") -> Any:
        """Return the one JSON value that a statement selects."""
        return json.loads(self.ask(statement, database))

    def psql(self, database: str) -> List[str]:
        """Return the command line of psql for a database; it reads what to do from its input."""
        options = ["-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-d", database]
        return ["psql", *options, "-h", self.socket, "-p", str(self.port)]

    def failure(self, stderr: str) -> Failed:
        """Turn what psql said into an error."""
        text = _told(stderr)
        if any(words in stderr for words in NOBODY_ANSWERS) and "psql: error" in stderr:
            return NoServer(f"no PostgreSQL server answers at {self.place}: {text}")
        return Failed(text)

    def run(
        self, command: List[str], text: str = "", timeout_s: float = TOOL_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the owner of the server, to its end."""
        process = self.start(command)
        try:
            out, err = process.communicate(text, timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"{Path(command[0]).name} took longer than {timeout_s:.0f} s") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def start(self, command: List[str]) -> subprocess.Popen[str]:
        """Start a command as the owner of the server, with pipes."""
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd="/",
                env=self._environment(),
                preexec_fn=self._become(),  # noqa: PLW1509 - a module has one thread
            )
        except FileNotFoundError:
            raise NoServer(f"there is no program {command[0]} on this host") from None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep out, meanwhile, whoever else might restart servers of this user, or look at one."""
        try:
            handle = os.open(pwd.getpwnam(self.user).pw_dir, os.O_RDONLY | os.O_DIRECTORY)
        except (KeyError, OSError):  # then there is no server either
            yield
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _entry(self) -> pwd.struct_passwd:
        try:
            return pwd.getpwnam(self.user)
        except KeyError:
            raise NoServer(f"there is no user {self.user} on this host") from None

    def _environment(self) -> Dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        own = {"LC_ALL": "C", "PGCLIENTENCODING": "UTF8", "PGAPPNAME": "cobweb"}
        return {**kept, **own, "PGCONNECT_TIMEOUT": "10", "HOME": self._entry().pw_dir}

    def _become(self) -> Optional[Callable[[], None]]:
        entry = self._entry()
        if os.geteuid() == entry.pw_uid:
            return None
        if os.geteuid() != 0:
            raise Failed(f"tasks must run as root or as {self.user} (set `ansible_become`)")

        def become() -> None:
            os.initgroups(self.user, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)

        return become


def server(spec: Dict[str, Any]) -> Server:
    """Return the server that a spec names."""
    return Server(
        socket=spec.get("socket", SOCKET),
        port=int(spec.get("port", PORT)),
        user=spec.get("user", USER),
    )


def literal(text: str) -> str:
    """Return a text as SQL writes it, safe whatever is in it."""
    quoted = text.replace("'", "''").replace("\\", "\\\\")
    return f" E'{quoted}'" if "\\" in text else f"'{quoted}'"


def tool(name: str, major: int) -> str:
    """Return the path of a program that must be of the server's own version."""
    for place in PLACES:
        path = Path(place.format(major=major)) / name
        if path.exists():
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise Failed(f"there is no {name} of PostgreSQL {major} on this host")
    return found


class Restart(NamedTuple):
    """How a server is restarted: by its systemd unit, or by pg_ctl of its version."""

    server: Server
    unit: Optional[str]
    data: str
    major: int

    def go(self) -> None:
        """Restart the server and wait until it answers; raise with what it said otherwise."""
        log, offset = self._log()
        done = self._by_unit() if self.unit else self._by_pg_ctl(log)
        if done.returncode == 0:
            with contextlib.suppress(NoServer):
                self.server.ask("SELECT 1")
                return
        raise Failed(self._reason(log, offset) or _told(done.stderr))

    def _by_unit(self) -> subprocess.CompletedProcess[str]:
        unit = str(self.unit)
        # Restarts in quick succession are no crash loop.
        _system(["systemctl", "reset-failed", "--", unit])
        return _system(["systemctl", "restart", "--", unit])

    def _by_pg_ctl(self, log: Optional[str]) -> subprocess.CompletedProcess[str]:
        into = log or str(Path(self.data) / "cobweb-restart.log")
        command = [tool("pg_ctl", self.major), "-D", self.data, "-l", into, "-w", "-m", "fast"]
        return self.server.run([*command, "restart"])

    def _log(self) -> Tuple[Optional[str], int]:
        """Return the file that the server writes its messages to, and how long it is by now."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            lines = (Path(self.data) / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            # Path.readlink came with Python 3.9.
            name = os.readlink(f"/proc/{int(lines[0])}/fd/2")  # noqa: PTH115
            if Path(name).is_file():
                return name, Path(name).stat().st_size
        return None, 0

    def _reason(self, log: Optional[str], offset: int) -> str:
        if log is not None:
            with open(log, "rb") as stream:  # noqa: PTH123 - to seek
                stream.seek(offset)
                return _worst(stream.read().decode("utf-8", errors="replace"))
        if not self.unit:
            return ""
        command = ["journalctl", "--no-pager", "-o", "cat", "-n", "30", "-u", self.unit]
        return _worst(_system(command).stdout)


def _system(command: List[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise Failed(f"there is no {command[0]} on this host") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command[:2])} took longer than {TOOL_TIMEOUT_S} s") from None


def _worst(log: str) -> str:
    """Return the lines of a server's log that say why it ended."""
    found = [match.group() for match in map(GRAVE.search, log.splitlines()) if match]
    return "; ".join(found[-LINES_TOLD:])


def _told(stderr: str) -> str:
    """Return what psql said, without where psql read it."""
    lines = [PSQL_SAYS.sub("", line.strip()) for line in stderr.splitlines() if line.strip()]
    return "; ".join(lines[:LINES_TOLD]) or "psql said nothing"
