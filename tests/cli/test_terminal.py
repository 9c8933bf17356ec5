"""On a terminal there is colour unless it is turned off, and lines fit its width."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest

from cobweb.api import Site
from cobweb.store import this_process

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def _on_terminal(
    *arguments: str,
    columns: int = 80,
    environment: Mapping[str, str] | None = None,
    typed: bytes = b"",
) -> str:
    """Run cobweb on a pseudo-terminal of a width, and return all that it wrote there.

    `typed` is in the terminal's queue before cobweb asks for it.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "COBWEB_SITE"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "cobweb", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**clean, "TERM": "xterm", **(environment or {})},
    )
    os.close(theirs)
    os.write(ours, typed)
    parts = []
    while part := _read(ours):
        parts.append(part)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other side is closed
        return b""


def test_there_are_colours_on_a_terminal() -> None:
    assert ESCAPE.search(_on_terminal("plugins"))


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["plugins", "--no-color"], {}),
        (["--no-color", "plugins"], {}),
        (["plugins"], {"NO_COLOR": "1"}),
        (["plugins"], {"TERM": "dumb"}),
        (["plugins", "-o", "json"], {}),
    ],
)
def test_colours_can_be_turned_off(arguments: list[str], environment: Mapping[str, str]) -> None:
    assert "\x1b" not in _on_terminal(*arguments, environment=environment)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_lines_fit_the_terminal(columns: int) -> None:
    text = ESCAPE.sub("", _on_terminal("plugins", columns=columns))
    assert max(len(line) for line in text.splitlines()) <= columns


@pytest.mark.parametrize(
    ("typed", "words"), [(b"n\n", "nothing was changed"), (b"y\n", "broken: the lock")]
)
def test_a_lock_is_broken_only_after_a_question(site: Path, typed: bytes, words: str) -> None:
    with Site(site) as session:
        lock = session.store(create=True).site_lock(clock=lambda: 1e9)
        lock.hold(this_process(run="r1", reason="test", since=1e9), for_s=60)
        text = _on_terminal("-C", str(site), "lock", "break", "r1", typed=typed)
        assert "[y/N]" in text
        assert words in text
        assert (lock.show() is None) is (typed == b"y\n")
