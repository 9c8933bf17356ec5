"""Standard output that may be closed, full, or of a narrow encoding; whether somebody sees it."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from cobweb.errors import CobwebError, UsageError


def write_stdout(text: str, *, flush: bool = False) -> None:
    """Write text; BrokenPipeError passes, any other failure is a CobwebError."""
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        forget_stdout()
        raise CobwebError(f"cannot write to standard output: {error.strerror}") from error


def refuse_unasked(hint: str = "add --yes") -> None:
    """Raise UsageError where nobody sees a question and can answer; `hint` says how to agree."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nothing was done: nobody can be asked without a terminal", hint=hint)


def flush_stdout() -> None:
    """Write what is still buffered; fails as `write_stdout` does, and where it was closed."""
    write_stdout("", flush=True)
    if isinstance(sys.stdout, _Closed) and sys.stdout.has_lost:
        raise CobwebError("cannot write to standard output: it is closed")


def forget_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's own last flush is quiet."""
    try:
        with Path(os.devnull).open("wb") as null:
            os.dup2(null.fileno(), sys.stdout.fileno())
    except (OSError, io.UnsupportedOperation):
        return


def prepare_streams() -> None:
    """Let characters that the encoding lacks be escaped, and a closed stream be a silent one."""
    sys.stdout = sys.stdout or _Closed()
    sys.stderr = sys.stderr or _Closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Closed(io.TextIOWrapper):
    """A stream that was closed: what is written is lost, which ends no run half-way."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull).open("wb"), encoding="utf-8")  # noqa: SIM115
        self.has_lost = False

    def write(self, text: str) -> int:
        self.has_lost |= bool(text)
        return len(text)
