"""Collect findings: once each, in the order of their places, with did-you-mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from cobweb._text import shortened, some_of
from cobweb.errors import Finding, Place, SiteError

HOSTS_SHOWN = 3
"""So many hosts are named where one mistake shows on many."""

LONGEST_SHOWN = 100
"""A name that cannot be one is shown so far."""

MAX_FINDINGS = 1000
"""Further findings are counted, not kept."""


class Findings:
    """The mistakes found so far; one that shows on many hosts is one finding that names them."""

    def __init__(self) -> None:
        self._hosts: dict[Finding, list[str]] = {}
        self._left_out = 0

    def add(self, place: Place, message: str, hint: str = "", *, host: str = "") -> None:
        """Keep a finding; `host` is where it shows, if it is about one host."""
        finding = Finding(place=place, message=message, hint=hint)
        if finding not in self._hosts and len(self._hosts) >= MAX_FINDINGS:
            self._left_out += 1
            return
        hosts = self._hosts.setdefault(finding, [])
        if host and host not in hosts[-1:]:
            hosts.append(host)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Keep findings that others collected."""
        for finding in findings:
            self._hosts.setdefault(finding, [])

    def __len__(self) -> int:
        return len(self._hosts)

    def sorted(self) -> tuple[Finding, ...]:
        """Return the findings in the order of their places."""
        found = [_with_hosts(finding, hosts) for finding, hosts in self._hosts.items()]
        found.sort(key=lambda finding: (finding.place, finding.message))
        if self._left_out:
            place = Place(file=found[-1].place.file)
            found.append(Finding(place=place, message=f"{self._left_out} more findings"))
        return tuple(found)

    def raise_if_any(self) -> None:
        """Raise a SiteError with all that was collected."""
        if self._hosts:
            raise SiteError(self.sorted())


def on_a_line(text: str) -> str:
    """Return what a message shows of a text that the user wrote, however long it is."""
    return shortened(text.replace("\n", "\\n"), LONGEST_SHOWN)


@contextmanager
def bounded(site_file: Path) -> Iterator[None]:
    """Make a SiteError of a site that is too deep or too large and that no limit has refused."""
    try:
        yield
    except (RecursionError, MemoryError) as error:
        message = "the memory does not suffice for the site"
        if isinstance(error, RecursionError):
            message = "a part of the site is nested too deeply"
        hint, place = "make it plainer or smaller", Place(file=site_file.name)
        raise SiteError([Finding(place=place, message=message, hint=hint)]) from error


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return the hint for a misspelt word, or `otherwise` where nothing is close."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else otherwise


def one_of(words: Iterable[str]) -> str:
    """Return words as the end of a hint: a, b or c."""
    listed = [f"`{word}`" for word in words]
    if len(listed) < 2:  # noqa: PLR2004  one word needs no joining
        return "".join(listed)
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def _with_hosts(finding: Finding, hosts: list[str]) -> Finding:
    if not hosts:
        return finding
    message = f"{finding.message} [on {some_of(hosts, HOSTS_SHOWN)}]"
    return Finding(place=finding.place, message=message, hint=finding.hint)
