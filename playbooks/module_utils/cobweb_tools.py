# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules over the tools of a system share: calling one, one at a time, what is remembered.

Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

from ansible.module_utils.cobweb_host import Failed, file_name, state_dir

VERSION = 1
TIMEOUT_S = 120.0
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Done(NamedTuple):
    """How a tool ended."""

    status: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Return the tool's own words, or its exit status if it had none."""
        return self.err.strip() or self.out.strip() or f"exit status {self.status}"


def attempt(
    *argv: str,
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
    become: Optional[Callable[[], None]] = None,
) -> Done:
    """Run a tool to its end, in English; `become` is called in the new process before it.

    What it prints goes to files: a daemon that it leaves behind may hold them open.
    """
    environment = {**os.environ, "LC_ALL": "C", "PATH": SYSTEM_PATH}
    with contextlib.ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin.encode("utf-8", "surrogateescape"))
        given.seek(0)
        try:
            status = subprocess.run(
                argv,
                stdin=given,
                stdout=out,
                stderr=err,
                env=environment,
                cwd="/",
                timeout=timeout_s,
                preexec_fn=become,
                check=False,
            ).returncode
        except FileNotFoundError:
            raise Failed(f"this host has no {argv[0]}; install it first") from None
        except subprocess.TimeoutExpired:
            raise Failed(f"{argv[0]} did not end within {timeout_s:g} s") from None
        return Done(status, _text_of(out), _text_of(err))


def call(*argv: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
    """Run a tool that must end well; return what it printed."""
    done = attempt(*argv, stdin=stdin, timeout_s=timeout_s)
    if done.status != 0:
        raise Failed(done.message)
    return done.out


@contextlib.contextmanager
def one_at_a_time(kind: str) -> Iterator[None]:
    """Keep other transitions of these objects on this host waiting."""
    folder = state_dir({}) / kind
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


class Record:
    """What is remembered of one thing on this host, in a file that only its owner can read."""

    def __init__(self, kind: str, identity: str) -> None:
        self.path = state_dir({}) / kind / f"{file_name(identity)}.json"

    def read(self) -> Dict[str, Any]:
        """Return what is remembered; nothing yet is an empty dict."""
        try:
            return dict(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise Failed(f"the record {self.path} is damaged: {error}") from None

    def write(self, values: Dict[str, Any]) -> None:
        """Remember this, and nothing else."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.path, json.dumps({"version": VERSION, **values}), mode=0o600)

    def forget(self) -> None:
        """Remember nothing."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


def replace_file(path: Path, text: str, *, mode: int) -> None:
    """Write a file in one step; a reader sees the old one or the new one, whole."""
    draft = path.with_name(f".{path.name}.cobweb")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        raise


def digest(value: Any) -> str:
    """Name a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def has_systemd() -> bool:
    """Say whether systemd runs this host."""
    return Path("/run/systemd/system").is_dir()


def _text_of(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read().decode("utf-8", errors="replace"))
