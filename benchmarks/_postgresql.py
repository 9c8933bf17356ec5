"""A PostgreSQL server of our own with its usual settings: every commit is on the disk."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MISSING = "needs PostgreSQL: apt-get install postgresql"
START_TIMEOUT_S = 60.0
_LOOK_S = 0.1


@contextmanager
def server() -> Iterator[str | None]:
    """Yield the URL of an empty database on a socket; None where there is no PostgreSQL."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not programs:
        yield None
        return
    bin_dir, folder = programs[-1].parent, Path(tempfile.mkdtemp(prefix="cobweb-bench-pg-"))
    user = _unprivileged()
    who: dict[str, Any] = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid}
    try:
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        init = [
            bin_dir / "initdb",
            "--auth=trust",
            "--username=cobweb",
            "--locale=C",
            "--encoding=UTF8",
            data,
        ]
        subprocess.run(list(map(str, init)), check=True, capture_output=True, cwd=folder, **who)
        listen = ["-c", "listen_addresses=", "-k", str(folder)]
        process = subprocess.Popen(
            [str(bin_dir / "postgres"), "-D", str(data), *listen],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **who,
        )
        try:
            _wait(bin_dir, folder, process)
            yield f"postgresql+psycopg://cobweb@/postgres?host={folder}"
        finally:
            process.terminate()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> str | None:
    """Return the user to run the server as; it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _wait(bin_dir: Path, folder: Path, process: subprocess.Popen[Any]) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    ask = [str(bin_dir / "pg_isready"), "-q", "-h", str(folder)]
    while subprocess.run(ask, check=False).returncode:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("PostgreSQL does not start")
        time.sleep(_LOOK_S)
