"""A real PostgreSQL server for tests: Debian's binaries, a data directory and a port of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.support.needed import lack

_PASSWORD = "cobweb-test"  # noqa: S105 - of a server that lives for one test run on loopback
_READY = "database system is ready to accept connections"
_START_TIMEOUT_S = 100.0
_PORT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQL:
    """A server; `folder` is its private directory, `processes` are its lives."""

    port: int
    folder: Path
    bin_dir: Path
    processes: list[subprocess.Popen[str]]

    def kill(self) -> None:
        """End it as a crash does: all sessions, and what was not committed."""
        self.processes[-1].send_signal(signal.SIGQUIT)
        self.processes[-1].wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have all of it stand still, so that nothing answers and its machine lives."""
        server = psutil.Process(self.processes[-1].pid)
        held = [server, *server.children()]
        for process in held:
            process.suspend()
        try:
            yield
        finally:
            for process in held:
                process.resume()

    def start(self) -> None:
        """Start it again on its port; return when it is ready."""
        process, _ = _start(self.bin_dir, self.folder, _unprivileged(), self.port)
        self.processes.append(process)

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database of this server."""
        return f"postgresql+psycopg://cobweb:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> None:
        """Run one statement outside of a transaction."""
        import psycopg

        dsn = self.url("postgres").replace("+psycopg", "")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """Start a server for the whole test run; where there is none tests are skipped, in CI fail."""
    bin_dir = _binaries()
    if bin_dir is None:
        lack("needs PostgreSQL: apt-get install postgresql")
    with own_server(bin_dir) as server:
        yield server


@pytest.fixture
def own_postgresql(postgresql: PostgreSQL) -> Iterator[PostgreSQL]:
    """Start a server for one test, which may `kill` it and `start` it again."""
    with own_server(postgresql.bin_dir) as server:
        yield server


@contextmanager
def own_server(bin_dir: Path) -> Iterator[PostgreSQL]:
    """Run a server in a folder of its own, on a free port of the network that this thread is in."""
    folder = Path(tempfile.mkdtemp(prefix="cobweb-pg-"))
    try:
        user = _unprivileged()
        if user is not None:
            shutil.chown(folder, user)
        _init(bin_dir, folder, user)
        process, port = _start(bin_dir, folder, user)
        server = PostgreSQL(port=port, folder=folder, bin_dir=bin_dir, processes=[process])
        try:
            yield server
        finally:
            server.processes[-1].send_signal(signal.SIGINT)  # "fast": end sessions, then stop
            server.processes[-1].wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql_url(postgresql: PostgreSQL) -> Iterator[Callable[[], str]]:
    """Return a maker of URLs, each of an empty schema; they are dropped when the test ends."""
    made: list[str] = []

    def make() -> str:
        name = f"test_{uuid.uuid4().hex}"
        postgresql.execute(f"CREATE SCHEMA {name}")
        made.append(name)
        return f"{postgresql.url('postgres')}?options=-csearch_path%3D{name}"

    yield make
    for name in made:
        postgresql.execute(f"DROP SCHEMA {name} CASCADE")


def _binaries() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if versions:
        return versions[-1].parent
    found = shutil.which("postgres")
    return None if found is None else Path(found).resolve().parent


def _unprivileged() -> str | None:
    """Return the user to run the server as; it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _init(bin_dir: Path, folder: Path, user: str | None) -> None:
    secret = folder / "password"
    secret.write_text(_PASSWORD)
    if user is not None:
        shutil.chown(secret, user)
    access = ["--auth=scram-sha-256", "--username=cobweb", f"--pwfile={secret}"]
    storage = ["--locale=C", "--encoding=UTF8", "--no-sync", str(folder / "data")]
    subprocess.run(
        [bin_dir / "initdb", *access, *storage],
        user=user,
        group=_group(user),
        extra_groups=None if user is None else [],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def _start(
    bin_dir: Path, folder: Path, user: str | None, port: int = 0
) -> tuple[subprocess.Popen[str], int]:
    """Start the server on a free port; another process may take the port first, so try again."""
    for _ in range(_PORT_ATTEMPTS):
        port = port or _free_port()
        # -F: no fsync; what the tests kill are clients, never the machine.
        process = subprocess.Popen(
            [bin_dir / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder, "-F"],
            user=user,
            group=_group(user),
            extra_groups=None if user is None else [],
            cwd=folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,  # Ctrl-C ends the tests, and they end the server
        )
        if _is_ready(process):
            return process, port
        process.kill()
        process.wait()
        port = 0
    raise RuntimeError("PostgreSQL does not start")


def _is_ready(process: subprocess.Popen[str]) -> bool:
    ready, ended = threading.Event(), threading.Event()
    assert process.stderr is not None
    threading.Thread(target=_follow, args=(process.stderr, ready, ended), daemon=True).start()
    ended.wait(_START_TIMEOUT_S)
    return ready.is_set()


def _follow(log: IO[str], ready: threading.Event, ended: threading.Event) -> None:
    """Read the log for as long as the server lives, so that it never blocks on a full pipe."""
    with log:
        for line in log:
            if _READY in line:
                ready.set()
                ended.set()
    ended.set()


def _group(user: str | None) -> int | None:
    return None if user is None else pwd.getpwnam(user).pw_gid


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
