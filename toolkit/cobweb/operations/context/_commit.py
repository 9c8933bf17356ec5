"""Which Git commit a site is at: said of a generation, never asked to decide anything.

So whatever hinders the answer makes it empty: no Git, no repository, one that belongs to someone
else, a damaged one, one that takes too long.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["CHANGED", "commit_of"]

CHANGED = "+changes"
"""What follows the commit where the folder is not as the commit has it."""

TIMEOUT_S = 10.0
"""How long one call of Git may take."""

_STATE = ":(exclude).cobweb"
"""The default place of the state database; each run changes it."""

_ELSEWHERE = frozenset(
    {
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_WORK_TREE",
    }
)
"""Variables that point to another repository than the folder's; a Git hook is called with them."""


class _NoAnswerError(Exception):
    """Git cannot say it."""


def commit_of(folder: Path) -> str:
    """Return the commit of the Git repository that has `folder`, in full; empty if none has.

    With `CHANGED` at its end if a file of the folder differs from the commit or is not in it;
    ignored files and `.cobweb` do not count. Only looks, and ends in bounded time.
    """
    try:
        # The second is the folder's own tree: a commit without the folder does not tell of it.
        commit = _git(folder, "rev-parse", "HEAD", "HEAD:./").partition("\n")[0]
        changes = _git(folder, "status", "--porcelain", "-z", "--", ".", _STATE)
    except (OSError, _NoAnswerError):
        return ""
    return commit + (CHANGED if changes else "")


def _git(folder: Path, *arguments: str) -> str:
    """Return what Git says; OSError where there is none."""
    command = ("git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments)
    with _group(command) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise _NoAnswerError from error
    if process.returncode:
        raise _NoAnswerError
    return output.decode(errors="replace")


@contextmanager
def _group(command: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with a group of its own: Git's helpers end with it."""
    environment = {name: text for name, text in os.environ.items() if name not in _ELSEWHERE}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
