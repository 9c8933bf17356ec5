"""Standard output that may be closed, full, or of a narrow encoding."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO

from cobweb.errors import CobwebError


def write_stdout(text: str) -> None:
    """Write text; BrokenPipeError passes, any other failure is a CobwebError."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _failed(error) from error


def flush_stdout() -> None:
    """Write what is still buffered; fails as `write_stdout` does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _failed(error) from error


def forget_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's own last flush is quiet."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, io.UnsupportedOperation):
        return


def prepare_streams() -> None:
    """Let characters that the encoding lacks be escaped, and a closed stream be a silent one."""
    if sys.stdout is None:
        sys.stdout = _nothing()
    if sys.stderr is None:
        sys.stderr = _nothing()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _failed(error: OSError) -> CobwebError:
    forget_stdout()
    return CobwebError(f"cannot write to standard output: {error.strerror}")


def _nothing() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")
