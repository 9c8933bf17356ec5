"""Regular expressions of a site, which may be anything: they are given up after a time.

The library `regex` reads what `re` reads and takes a bound on processor time, in any thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

if TYPE_CHECKING:
    import regex

MAX_REGEX_SECONDS = 1
"""One search with a regular expression may take so much processor time."""

MAX_PATTERN = 10_000
"""A longer regular expression is an error (characters)."""

MAX_REPEATS = 100_000
"""The counts of `{n}` in a regular expression, nested ones multiplied, may come to so much."""

_SHOWN = 80
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)


class RegexError(ValueError):
    """A regular expression is none, or is given up; `reason` is without the expression."""

    def __init__(self, pattern: str, reason: str) -> None:
        shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}..."
        super().__init__(f"`{shown}` {reason}")
        self.reason = reason


class Regex:
    """A compiled regular expression; each search is RegexError where it takes too long."""

    def __init__(self, pattern: str, *, ignorecase: bool = False, multiline: bool = False) -> None:
        flags = (re.IGNORECASE if ignorecase else 0) | (re.MULTILINE if multiline else 0)
        self._pattern = pattern
        self._compiled = _compiled(pattern, flags)

    def match(self, text: str) -> regex.Match[str] | None:
        """Return the match at the start of a text."""
        return self._asked(self._compiled.match, text)

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the first match in a text."""
        return self._asked(self._compiled.search, text)

    def all_in(self, text: str) -> Iterator[regex.Match[str]]:
        """Yield the matches in a text that do not overlap."""
        try:
            yield from self._compiled.finditer(text, timeout=MAX_REGEX_SECONDS)
        except TimeoutError as error:
            raise self._given_up() from error

    def replaced(self, text: str, replacement: str, count: int = 0) -> Iterator[str]:
        """Yield the pieces of a text with matches replaced, at most `count` of them if above 0."""
        import regex

        end = 0
        for number, found in enumerate(self.all_in(text)):
            if number == count > 0:
                break
            yield text[end : found.start()]
            try:
                yield found.expand(replacement) if "\\" in replacement else replacement
            except (regex.error, IndexError) as error:
                raise RegexError(replacement, f"cannot stand for a match: {error}") from error
            end = found.end()
        yield text[end:]

    def _asked(self, method: Any, text: str) -> regex.Match[str] | None:
        try:
            found: regex.Match[str] | None = method(text, timeout=MAX_REGEX_SECONDS)
        except TimeoutError as error:
            raise self._given_up() from error
        return found

    def _given_up(self) -> RegexError:
        return RegexError(self._pattern, f"takes more than {MAX_REGEX_SECONDS} s")


@lru_cache(maxsize=1000)
def regex_of(pattern: str) -> Regex:
    """Return a regular expression without flags, made once."""
    return Regex(pattern)


@lru_cache(maxsize=1000)
def _compiled(pattern: str, flags: int) -> regex.Pattern[str]:
    import regex  # takes a while, and most sites need none

    if len(pattern) > MAX_PATTERN:
        raise RegexError(pattern, f"has more than {MAX_PATTERN} characters")
    if _repeats(pattern) > MAX_REPEATS:
        raise RegexError(pattern, f"repeats more than {MAX_REPEATS} times")
    try:
        with catch_warnings():
            simplefilter("ignore", FutureWarning)  # the user's expression, not ours
            return regex.compile(pattern, flags | regex.VERSION0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise RegexError(pattern, f"is no regular expression: {error}") from error


def _repeats(pattern: str) -> int:
    """Return how long a pattern is with its counted repetitions written out."""
    totals = [0]
    last = 0
    for token in _TOKEN.finditer(pattern):
        if token[1] is not None:
            totals[-1] += last * max(int(token[1][:9]) - 1, 0)
            last *= max(int(token[1][:9]), 1)
        elif token[0] == "(":
            totals.append(0)
            last = 0
        elif token[0] == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        else:
            last = 1
            totals[-1] += 1
    return sum(totals)
