"""The COBs of a site as they are written, each with its type and its hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cobweb.errors import Place
from cobweb.model import CobType, Confirm, State
from cobweb.site.hosts._select import Selector
from cobweb.site.objects._confirm import confirm_of
from cobweb.site.reading._findings import Findings, did_you_mean, on_a_line, one_of
from cobweb.site.reading._nodes import Map, Node, key_place
from cobweb.site.reading._settings import as_map, duration, flag, known_keys, required, text
from cobweb.site.templates._rendering import is_template

WORDS = ("requires", "after", "binds", "stops")
_KEYS = (
    *("type", "on", "spec", *WORDS, "needs", "confirm", "want", "machine", "protect", "trust"),
    "was",
    "description",
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CobDef:
    """A COB as the site writes it: one instance on each of `hosts`.

    `want` and `machine` are as those of `Cob`, "" where nothing is written; `want` may be a
    template, `machine` is a name.
    """

    name: str
    type: CobType
    hosts: tuple[str, ...]
    host_set: frozenset[str]
    spec: Map | None
    body: Map
    confirm: Confirm | None
    want: State
    machine: str
    protect: bool
    trust_s: float | None
    was: str
    place: Place


class Cobs:
    """Reads `cobs`; `written` are all names, those of broken definitions too."""

    def __init__(
        self, types: Mapping[str, CobType], broken: set[str], selector: Selector, findings: Findings
    ) -> None:
        self._types = types
        self._broken_types = broken
        self._selector = selector
        self._findings = findings
        self.written: set[str] = set()
        self.defs: dict[str, CobDef] = {}
        self._host_sets: dict[tuple[str, ...], frozenset[str]] = {}

    def read(self, node: Node | None) -> None:
        """Read the definitions."""
        section = as_map(node, "`cobs`", self._findings)
        if section is None:
            return
        self.written = set(section.items)
        for name, value in section.items.items():
            if made := self._cob(name, value, key_place(section, name)):
                self.defs[name] = made
        before: dict[str, CobDef] = {}
        for cob in self.defs.values():
            if cob.machine:
                self._look_at_machine(cob)
            if cob.was:
                self._look_at_old_name(cob, before.get(cob.was))
                before.setdefault(cob.was, cob)

    def _cob(self, name: str, node: Node, place: Place) -> CobDef | None:
        what = f"COB `{name}`"
        if not _NAME.fullmatch(name):
            hint = "letters, digits, `_`, `.` and `-`, at most 253"
            self._findings.add(place, f"`{on_a_line(name)}` is no name for a COB", hint)
            return None
        body = as_map(node, what, self._findings, empty=(place, "it needs `type` and `on`"))
        if body is None:
            return None
        known_keys(body, _KEYS, what, self._findings)
        cob_type = self._type(body, what)
        hosts = self._on(body, what)
        spec = as_map(body.items.get("spec"), f"`spec` of {what}", self._findings)
        if cob_type is None or not hosts:
            return None
        if hosts not in self._host_sets:
            self._host_sets[hosts] = frozenset(hosts)
        return CobDef(
            name=name,
            type=cob_type,
            hosts=hosts,
            host_set=self._host_sets[hosts],
            spec=spec,
            body=body,
            confirm=confirm_of(body, cob_type, what, self._findings),
            want=self._want(body, cob_type, what),
            machine=text(body, "machine", what, self._findings) or "",
            protect=flag(body, "protect", what, self._findings, default=False),
            was=text(body, "was", what, self._findings) or "",
            trust_s=duration(body, "trust", what, self._findings, zero=True),
            place=place,
        )

    def _want(self, body: Map, cob_type: CobType, what: str) -> State:
        want = text(body, "want", what, self._findings)
        if want is None:
            return ""
        problem = None if is_template(want) else no_state(cob_type, want)
        if problem:
            place = body.items["want"].place
            self._findings.add(place, f"`want` of {what}: {problem[0]}", problem[1])
        return "" if problem else want

    def _look_at_old_name(self, cob: CobDef, other: CobDef | None) -> None:
        """Find what is wrong with the old name of a COB; `other` says that it had the same."""
        place = cob.body.items["was"].place
        standing = self.defs.get(cob.was)
        message = hint = ""
        if not _NAME.fullmatch(cob.was):
            message, hint = f"`{cob.was}` is no name for a COB", "a name alone, without a host"
        elif standing is cob:
            message, hint = "that is its name now", "name the one that it had before"
        elif standing is not None and standing.host_set & cob.host_set:
            message = f"there is a COB `{cob.was}` on the same hosts still"
            hint = "an object has one name: take that one out, or `was`"
        elif other is not None and other.host_set & cob.host_set:
            message = f"`{other.name}` was `{cob.was}` as well"
            hint = "only one of them can be what it was"
        if message:
            self._findings.add(place, f"`was` of COB `{cob.name}`: {message}", hint)

    def _look_at_machine(self, cob: CobDef) -> None:
        """Find what is wrong with the machine of a COB, once all are read."""
        if cob.machine not in self.defs and cob.machine in self.written:
            return  # what is wrong with its definition is a finding already
        message, hint = self._wrong_machine(cob)
        if message:
            place = cob.body.items["machine"].place
            self._findings.add(place, f"`machine` of COB `{cob.name}`: {message}", hint)

    def _wrong_machine(self, cob: CobDef) -> tuple[str, str]:
        """Return a message and a hint; "" where nothing is wrong."""
        name = cob.machine
        machine = self.defs.get(name)
        if machine is None:
            hint = did_you_mean(name, self.defs, otherwise="name a COB that is on the same hosts")
            return f"there is no COB `{name}`", hint
        if machine is cob:
            return "it cannot be its own machine", "name the COB that is the machine"
        if machine.machine:
            hint = f"name `{machine.machine}`, if it is that"
            return f"`{name}` is on a machine itself", hint
        lacking = sorted(cob.host_set - machine.host_set)
        if lacking and not self._selector.quiet:
            hint = f"put `{name}` on `{lacking[0]}`"
            return f"there is no `{name}` on {lacking[0]}", hint
        return "", ""

    def _type(self, body: Map, what: str) -> CobType | None:
        required(body, "type", what, self._findings, hint="as in `type: service`")
        name = text(body, "type", what, self._findings)
        if name is None or name in self._broken_types:
            return None
        if name not in self._types and not self._selector.quiet:
            hint = did_you_mean(name, self._types, otherwise=f"known are {one_of(self._types)}")
            self._findings.add(body.items["type"].place, f"unknown type `{name}`", hint)
        return self._types.get(name)

    def _on(self, body: Map, what: str) -> tuple[str, ...]:
        required(body, "on", what, self._findings, hint="a host pattern, as in `on: all`")
        pattern = text(body, "on", what, self._findings)
        if pattern is None:
            return ()
        return self._selector.some(pattern, body.items["on"].place, f"`on` of {what}")


def no_state(cob_type: CobType, want: str) -> tuple[str, str] | None:
    """Return a message and a hint where a type does not have a state."""
    if want in cob_type.states:
        return None
    known = f"its states are {one_of(cob_type.states)}"
    hint = did_you_mean(want, cob_type.states, otherwise=known)
    return f"the type `{cob_type.name}` has no state `{want}`", hint
