"""What one render of a template may use: steps, processor time, and sizes of what it makes.

A single operation is kept short by bounds on what goes into it, so that looking at the clock
between operations ends a render in time, in any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from resource import getpagesize
from time import monotonic, thread_time
from typing import Any

MAX_TEXT = 8 * 2**20
"""A template that makes a longer text is an error (characters)."""

MAX_STEPS = 1_000_000
"""A template whose loops and calls take more steps is an error."""

MAX_SECONDS = 5
"""A template that takes twice as much processor time is an error, one that takes less is none.

With the variables that it evaluates.
"""

MAX_VALUE = 64 * 2**20
"""A list or mapping may have so many characters; each value in it counts as 16 of them."""

MAX_BITS = 8192
"""A whole number may have so many bits, some 2400 digits."""

MAX_WRITTEN = 64 * 2**20
"""All blocks, macros and loops of a template together may write so many characters."""

MAX_LARGE = 512 * 2**20
"""All values above a mebi that a template makes may have so many characters together."""

MAX_GROWTH = 512 * 2**20
"""The process may grow by so many bytes while a template makes smaller values."""

WEIGHED = 64 * 2**20
"""So many characters of smaller values are made until the process is weighed."""

VALUE_COST = 16
"""A value in a list or mapping counts as so many characters."""

PAGE_SIZE = getpagesize()
_LARGE = 2**20
_SMALL = 2**10
_KNOWN = 64
_TEXTS = (str, bytes)
_CONTAINERS = (dict, list, tuple, set, frozenset)


class RenderError(Exception):
    """A template cannot be rendered; `name` is what is undefined if that is the reason."""

    def __init__(self, message: str, *, hint: str = "", name: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.name = name
        self.line = line


class Meter:
    """Counts what one render uses; RenderError where that is more than it may."""

    __slots__ = ("_end", "_known", "_large", "_next", "_small", "_start", "_steps", "_written")

    def __init__(self) -> None:
        self._end = 0.0
        self._known: dict[int, tuple[Any, int]] = {}
        self._large = 0
        self._next = 0.0
        self._small = 0
        self._start = 0
        self._steps = 0
        self._written = 0

    def step(self) -> None:
        """Count a step of a loop, a call, a filter."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise too_many_steps()
        self.look()

    def look(self) -> None:
        """Look at the clock.

        Processor time costs much to ask for, and is not asked for before it can matter: it is
        counted from when `MAX_SECONDS` have gone by on the wall.
        """
        now = monotonic()
        if not self._next:
            self._next = now + MAX_SECONDS
        elif now > self._next:
            self._look_closely(now)

    def _look_closely(self, now: float) -> None:
        spent = thread_time()
        if not self._end:
            self._end = spent + MAX_SECONDS
        if spent > self._end:
            raise RenderError(f"the template takes more than {MAX_SECONDS} s of processor time")
        self._next = now + self._end - spent

    def write(self, characters: int) -> None:
        """Count what is written into the text of the template, a block or a macro."""
        self._written += characters
        if self._written > MAX_WRITTEN:
            raise RenderError(f"the template writes more than {MAX_WRITTEN} characters")

    def took(self, value: Any) -> Any:
        """Return a value that an operation has made, if it is no larger than it may be."""
        if type(value) is int:
            check_bits(value.bit_length())
        elif isinstance(value, _TEXTS):
            check_text(len(value))
            if len(value) > _SMALL:
                self._note(len(value))
        elif isinstance(value, _CONTAINERS):
            size = self.size(value)
            if size > _SMALL:
                self._note(size)
        return value

    def size(self, value: Any) -> int:
        """Return the characters of a value, with all that is in it as often as it is there."""
        if isinstance(value, str | bytes):
            return len(value)
        if not isinstance(value, _CONTAINERS):
            return 0
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        total = len(value) * VALUE_COST
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, str):
                total += len(item)
            elif isinstance(item, _CONTAINERS):
                total += self.size(item)
            if total > MAX_VALUE:
                raise too_large()
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[id(value)] = (value, total)  # which keeps the id from another value
        return total

    def _note(self, size: int) -> None:
        if size <= _LARGE:
            self._small += size
            if self._small > WEIGHED:
                self._weigh()
            return
        self._large += size
        if self._large > MAX_LARGE:
            message = f"the template makes values of more than {MAX_LARGE} characters in all"
            raise RenderError(message)

    def _weigh(self) -> None:
        """Look how the process has grown: of smaller values nobody knows how many are kept."""
        self._small = 0
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        except OSError:  # there is no such file beside Linux
            return
        size = pages * PAGE_SIZE
        self._start = self._start or size
        if size - self._start > MAX_GROWTH:
            raise RenderError(f"the template takes more than {MAX_GROWTH >> 20} MiB of memory")


def check_text(characters: int) -> None:
    """Refuse to make so long a text."""
    if characters > MAX_TEXT:
        raise RenderError(f"the template makes more than {MAX_TEXT} characters")


def joined(pieces: Iterable[str]) -> str:
    """Return pieces as one text; no more of them are taken than such a text may have."""
    parts: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        check_text(size)
        parts.append(piece)
    return "".join(parts)


def check_bits(bits: float) -> None:
    """Refuse to make so large a number."""
    if bits > MAX_BITS:
        raise RenderError(f"the template makes a number of more than {MAX_BITS} bits")


def too_large() -> RenderError:
    """Return the error of a list or mapping that is too large."""
    message = f"the template makes a list or mapping of more than {MAX_VALUE} characters"
    return RenderError(message, hint=f"each value in it counts as {VALUE_COST}, once per alias")


def too_many_steps() -> RenderError:
    """Return the error of loops that take too long."""
    return RenderError(f"the loops of the template take more than {MAX_STEPS} steps")
