"""`cobweb run`, and what `put` and `get` share with it: whom to call, and how answers are told."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cobweb.errors import UsageError
from cobweb.plugin import SiteAccess, Tone
from cobweb_plugins.applications._broadcast import Answer, Broadcast, Call, Limits
from cobweb_plugins.applications._channels import POINT, kinds_of
from cobweb_plugins.applications._groups import Group, folded, groups_of

INTERRUPTED = 130
_ERASE = "\r\x1b[K"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which hosts are called, and within which limits."""

    pattern: str
    limits: Limits


class Caller:
    """Calls the hosts that a target selects, with a live count on a terminal."""

    def __init__(self, access: SiteAccess, site: Any, target: Target) -> None:
        self.hosts: Sequence[str] = site.evaluated.select(target.pattern)
        if not self.hosts:
            hint = "`cobweb show` lists them"
            raise UsageError(f"the pattern `{target.pattern}` selects no host", hint=hint)
        self._access, self._site, self._limits = access, site, target.limits
        self._kinds = kinds_of(access.plugins.extensions_at(POINT))
        self._count = self._all = 0
        self.was_interrupted = False

    def call(self, calls: Mapping[str, Call]) -> list[Answer]:
        """Return the answers of hosts; after an interrupt nobody is called any more."""
        if self.was_interrupted:
            return [Answer(host=it, reason="interrupted") for it in calls]
        self._count, self._all = 0, len(calls)
        broadcast = Broadcast(
            *(self._site, self._kinds, self._limits), note=self._note, hear=self._hear
        )
        with self._counted():
            answers = broadcast.run(calls)
        self.was_interrupted = broadcast.was_interrupted
        return answers

    def _note(self, text: str) -> None:
        self._access.summary(text, Tone.CAREFUL)

    def _hear(self, _answer: Answer) -> None:
        self._count += 1
        self._draw()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Have a terminal show how many hosts have answered, for as long as the context lasts."""
        self._draw()
        try:
            yield
        finally:
            self._write(_ERASE)

    def _draw(self) -> None:
        self._write(f"{_ERASE}{self._count} of {self._all} hosts")

    def _write(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(text)
            sys.stderr.flush()


def run(access: SiteAccess, target: Target, command: str) -> int:
    """Run a command on hosts, tell the answers, and return the exit code of `cobweb run`."""
    with access.site() as site:
        caller = Caller(access, site, target)
        answers = caller.call({it: Call(command=command) for it in caller.hosts})
    return tell(access, answers, interrupted=caller.was_interrupted, command=command)


def tell(access: SiteAccess, answers: Sequence[Answer], *, interrupted: bool, **more: Any) -> int:
    """Tell answers in groups, with `more` in the data; return the exit code that they ask for."""
    groups = groups_of(answers)
    if not access.data(data_of(groups, more)):
        for group in groups:
            _tell_group(access, group)
    missing = [it.host for it in answers if it.code is None]
    failed = [it.host for it in answers if it.code]
    said = [f"{len(answers) - len(missing)} of {_hosts(len(answers))} answered"]
    said += [f"{len(failed)} with a failure"] if failed else []
    said += [f"missing: {folded(missing)}"] if missing else []
    access.summary("; ".join(said), Tone.BAD if failed or missing else Tone.GOOD)
    if interrupted:
        return INTERRUPTED
    return 1 if failed or missing else 0


def data_of(groups: Sequence[Group], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return groups as plain data: schemas/broadcast.schema.json."""

    def common(group: Group) -> dict[str, Any]:
        return {
            "hosts": list(group.hosts),
            "output": _text(group.answer.output),
            "errors": _text(group.answer.errors),
            "lost_bytes": group.answer.lost,
        }

    return {
        "format": 1,
        **more,
        "answers": [
            {**common(it), "code": it.answer.code} for it in groups if it.answer.code is not None
        ],
        "missing": [
            {**common(it), "reason": it.answer.reason} for it in groups if it.answer.code is None
        ],
    }


def _tell_group(access: SiteAccess, group: Group) -> None:
    """Write one group: on one line where it says no more than that."""
    answer = group.answer
    head = folded(group.hosts)
    if len(group.hosts) > 1:
        head += f" ({_hosts(len(group.hosts))})"
    tone = Tone.NONE
    if answer.code is None:
        head, tone = f"{head}: {answer.reason}", Tone.BAD
    elif answer.code:
        head, tone = f"{head}: exit code {answer.code}", Tone.BAD
    output, errors = (_text(it).splitlines() for it in (answer.output, answer.errors))
    if answer.code == 0 and len(output) <= 1 and not errors and not answer.lost:
        access.line(f"{head}: {output[0] if output else 'no output'}")
        return
    access.line(f"{head}:" if output or errors or answer.lost else head, tone)
    for line in output:
        access.line(f"  {line}")
    for line in errors:
        access.line(f"  stderr: {line}", Tone.CAREFUL)
    if answer.lost:
        access.line(f"  {answer.lost} bytes more were not kept", Tone.CAREFUL)


def _hosts(number: int) -> str:
    return f"{number} host{'' if number == 1 else 's'}"


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
