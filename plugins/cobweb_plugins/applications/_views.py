"""How applications are shown: `cobweb app status`, `why` and `logs`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from cobweb.errors import UsageError
from cobweb.model import cob_id
from cobweb.plugin import SiteAccess, Tone
from cobweb_plugins.applications._book import DOWN, RUNNING, Book, Word, barrier_ends, book_of
from cobweb_plugins.applications._channels import Sink
from cobweb_plugins.applications._desk import Desk
from cobweb_plugins.applications._groups import folded
from cobweb_plugins.applications._nodes import Heard
from cobweb_plugins.applications._recovery import Phase
from cobweb_plugins.applications._run import tell
from cobweb_plugins.applications._section import NAME, applications_of

_OF_NODES = {
    "missing": "has not joined",
    "left": "is left out, until `cobweb app admit`",
    "silent": "does not answer",
}


def tell_all(access: SiteAccess) -> None:
    """List the applications of a site."""
    known = applications_of(access.sections().get(NAME, {}))
    decided = access.decisions(NAME).by_key
    data = [_data(Desk(access, it), Heard()) for it in known]
    if access.data({"format": 1, "applications": data}):
        return
    rows = []
    for name, application in known.items():
        book = book_of(decided[name].body) if name in decided else None
        how = "never started" if book is None else str(book.ended or "at work")
        members = f"{len(book.states)}" if book else ""
        rows.append((name, application.on, how, members, ", ".join(application.phases)))
    access.table(("APPLICATION", "ON", "IS", "MEMBERS", "PHASES"), rows)


def tell_status(desk: Desk, *, is_asked: bool) -> None:
    """Show an application, and its members in groups that are equally far."""
    heard = _heard(desk, is_asked=is_asked)
    data = _data(desk, heard)
    access = desk.access
    if access.data(data):
        return
    _tell_head(desk)
    groups: dict[tuple[str, ...], list[str]] = {}
    for it in data["members"]:
        where = it["failed"].partition(":")[0]
        phases = tuple(
            "failed" if name == where else _how(phase, goes_on=not data["ended"])
            for name, phase in it["phases"].items()
        )
        groups.setdefault((*phases, it["failed"]), []).append(it["host"])
    rows = [(folded(hosts), str(len(hosts)), *how) for how, hosts in groups.items()]
    access.table(("NODES", "COUNT", *map(str.upper, desk.application.phases), "FAILED"), rows)
    _tell_silent(access, data)


def tell_why(desk: Desk, host: str | None, *, is_asked: bool) -> None:
    """Say what an application waits for; of one host, how each of its phases is."""
    heard = _heard(desk, is_asked=is_asked)
    data, access, book = _data(desk, heard), desk.access, desk.book
    if host is not None:
        data["members"] = [it for it in data["members"] if it["host"] == host]
        if not data["members"] and host not in data["missing"]:
            hint = f"`cobweb app status {desk.name}` lists them"
            raise UsageError(f"{host} is no member of {desk.name}", hint=hint)
    if access.data(data):
        return
    _tell_head(desk)
    for member in data["members"]:
        failed = f"{member['host']} has failed in {member['failed']}"
        if member["failed"] and failed != data["why"]:  # which the head has told
            access.line(failed, Tone.BAD)
        for phase, it in member["phases"].items() if host else ():
            said = it["word"] or "the node says nothing of it"
            said += f"; started {it['starts']} times" if it["starts"] > 1 else ""
            access.line(f"{phase}: wanted {it['wanted']}, known {it['state']}; {said}")
    if book is not None and not book.ended and host is None:
        for line in _waits(desk, book):
            access.line(line)
    _tell_silent(access, data)


def tell_output(
    desk: Desk, *, pattern: str | None, phase: str | None, lines: int, follow: bool
) -> int:
    """Show the output of members; return the exit code."""
    book, application = desk.book, desk.application
    if book is None:
        raise UsageError(f"{desk.name} was never started", hint=f"`cobweb app run {desk.name}`")
    if phase is not None and phase not in application.phases:
        hint = f"there are {', '.join(application.phases)}"
        raise UsageError(f"{desk.name} has no phase `{phase}`", hint=hint)
    with desk.access.site() as site, desk.nodes() as nodes:
        chosen = sorted(book.states)
        if pattern is not None:
            chosen = [it for it in site.evaluated.select(pattern) if it in book.states]
    phases = {
        host: last
        for host in chosen
        if (last := phase or next(reversed(_begun(desk, book, host)), None))
    }
    if not phases:
        raise UsageError("nothing has begun on these hosts", hint="`cobweb app status` shows it")
    if follow:
        sinks: Mapping[str, Sink] = {host: _Lines(desk.access, host).take for host in phases}
        nodes.output(book.instance, phases, lines, sinks)
        return 130
    answers = nodes.output(book.instance, phases, lines)
    return tell(desk.access, answers, interrupted=nodes.was_interrupted, application=desk.name)


class _Lines:
    """Writes what a host says line by line, with the host before each."""

    def __init__(self, access: SiteAccess, host: str) -> None:
        self._access, self._host = access, host
        self._rest = b""

    def take(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._access.line(f"{self._host}: {line.decode(errors='backslashreplace')}")
        sys.stdout.flush()


def _begun(desk: Desk, book: Book, host: str) -> Sequence[str]:
    """Return the phases that have begun on a host, in the order of the section."""
    return [it for it in desk.application.phases if it in book.states.get(host, {})]


def _heard(desk: Desk, *, is_asked: bool) -> Heard:
    """Return what members say now."""
    book = desk.book
    if book is None or not is_asked:
        return Heard()
    with desk.nodes() as nodes:
        return nodes.words(book, sorted(book.states))


def _data(desk: Desk, heard: Heard) -> dict[str, Any]:
    """Return an application as plain data: schemas/application.schema.json."""
    book, decision = desk.book, desk.decision
    states = desk.access.states() if book else {}
    objects = desk.application.objects()
    return {
        "format": 1,
        "application": desk.name,
        "instance": book.instance if book else None,
        "ended": str(book.ended) if book and book.ended else None,
        "since": decision.time if decision else None,
        "by": decision.author if decision else "",
        "reason": decision.reason if decision else "",
        "attempt": book.attempt if book else 0,
        "why": book.why if book else "",
        "members": [
            {
                "host": host,
                "failed": book.failed.get(host, ""),
                "phases": {
                    phase: {
                        "wanted": book.wanted(host, phase),
                        "state": states.get(cob_id(host, name), DOWN),
                        "word": _said(heard.words.get(host, {}).get(phase)),
                        "starts": book.started(host, phase),
                    }
                    for phase, name in objects.items()
                },
            }
            for host in sorted(book.states)
        ]
        if book
        else [],
        "missing": dict(book.missing) if book else {},
        "left": dict(book.left) if book else {},
        "silent": dict(heard.silent),
    }


def _said(word: Word | None) -> str:
    if word is None:
        return ""
    return word.reason or ("done" if word.ended else "at work")


def _how(phase: Mapping[str, str], *, goes_on: bool) -> str:
    """Return how a phase is for people: what its node says, else what the journal knows."""
    state, is_wanted = phase["state"], phase["wanted"] != DOWN
    if phase["word"] in ("at work", "done") and is_wanted:
        return phase["word"]
    if state == DOWN:
        return "begins" if goes_on and is_wanted else "-"
    return "at work" if state == RUNNING else state


def _tell_head(desk: Desk) -> None:
    book, decision, access = desk.book, desk.decision, desk.access
    if book is None or decision is None:
        access.line(f"{desk.name} was never started")
        return
    since = _time(decision.time)
    how = {None: "is at work", "done": "is done"}.get(book.ended, f"has ended: {book.ended}")
    access.line(f"{desk.name} {how}; instance {book.instance}, {since}, {decision.reason}")
    if book.why:
        access.line(book.why, Tone.BAD)


def _tell_silent(access: SiteAccess, data: Mapping[str, Any]) -> None:
    for key, said in _OF_NODES.items():
        for why, hosts in _by_reason(data[key]).items():
            access.line(f"{folded(hosts)} {said}: {why}", Tone.BAD)


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, why in sorted(reasons.items()):
        found.setdefault(why, []).append(host)
    return found


def _waits(desk: Desk, book: Book) -> Iterator[str]:
    """Yield what each phase waits for that is not over."""
    ends = barrier_ends(desk.application, book)
    well = {it: states for it, states in book.states.items() if it not in book.failed}
    for phase in desk.application.phases.values():
        at_work = [it for it, states in well.items() if states.get(phase.name) == RUNNING]
        before = [it for it, states in well.items() if phase.name not in states]
        if at_work:
            yield f"{phase.name} is at work on {_hosts(at_work)}"
        if before:
            what = f"{phase.name} waits for {' and '.join(phase.after)}"
            yield f"{what} on {_hosts(before)}{_barrier(phase, ends)}"


def _barrier(phase: Phase, ends: Mapping[str, float]) -> str:
    if phase.barrier is None:
        return ""
    until = _time(ends[phase.name]) if phase.name in ends else ""
    return ", which all must have done" + (f" by {until}" if until else "")


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _hosts(hosts: Collection[str]) -> str:
    return f"{len(hosts)}: {folded(hosts)}"
