"""The COBs of a site as they are written, with their references resolved to hosts and needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cobweb.errors import Place
from cobweb.inventory._findings import Findings, did_you_mean, one_of
from cobweb.inventory._needs import Link, Shape, explicit, has_step, word_shapes
from cobweb.inventory._nodes import Leaf, Map, Node, key_place
from cobweb.inventory._read import as_map, known_keys, required, text, texts
from cobweb.inventory._select import Selector
from cobweb.inventory._types import arrow
from cobweb.model import ANY, CobType

WORDS = ("requires", "after", "binds", "stops")
_KEYS = ("type", "on", "spec", *WORDS, "needs", "description")
_NEED_KEYS = ("when", "cob", "on", "state")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CobDef:
    """A COB as the site writes it: one instance on each of `hosts`."""

    name: str
    type: CobType
    hosts: tuple[str, ...]
    host_set: frozenset[str]
    spec: Map | None
    body: Map
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reference:
    """A reference as written; `pattern` is None for the same host."""

    name: str
    pattern: str | None
    place: Place


class Cobs:
    """Reads `cobs`; `links` are the needs between them, `written` all names, broken ones too."""

    def __init__(
        self, types: Mapping[str, CobType], broken: set[str], selector: Selector, findings: Findings
    ) -> None:
        self._types = types
        self._broken_types = broken
        self._selector = selector
        self._findings = findings
        self.written: set[str] = set()
        self.defs: dict[str, CobDef] = {}
        self.links: list[Link] = []

    def read(self, node: Node | None) -> None:
        """Read the definitions, then their references."""
        section = as_map(node, "`cobs`", self._findings)
        if section is None:
            return
        self.written = set(section.items)
        for name, value in section.items.items():
            made = self._cob(name, value, key_place(section, name))
            if made:
                self.defs[name] = made
        for cob in self.defs.values():
            self._references(cob)

    def _cob(self, name: str, node: Node, place: Place) -> CobDef | None:
        what = f"COB `{name}`"
        if not _NAME.fullmatch(name):
            hint = "letters, digits, `_`, `.` and `-`"
            self._findings.add(place, f"`{name}` is no name for a COB", hint)
            return None
        body = as_map(node, what, self._findings)
        if body is None:
            if isinstance(node, Leaf) and node.value is None:
                self._findings.add(place, f"{what} is empty", "it needs `type` and `on`")
            return None
        known_keys(body, _KEYS, what, self._findings)
        cob_type = self._type(body, what)
        hosts = self._on(body, what)
        spec = as_map(body.items.get("spec"), f"`spec` of {what}", self._findings)
        if cob_type is None or not hosts:
            return None
        return CobDef(
            name=name,
            type=cob_type,
            hosts=hosts,
            host_set=frozenset(hosts),
            spec=spec,
            body=body,
            place=place,
        )

    def _type(self, body: Map, what: str) -> CobType | None:
        if not required(body, "type", what, self._findings, hint="as in `type: service`"):
            return None
        name = text(body, "type", what, self._findings)
        if name is None or name in self._broken_types:
            return None
        if name not in self._types and not self._selector.quiet:
            hint = did_you_mean(name, self._types, otherwise=f"known are {one_of(self._types)}")
            self._findings.add(body.items["type"].place, f"unknown type `{name}`", hint)
        return self._types.get(name)

    def _on(self, body: Map, what: str) -> tuple[str, ...]:
        if not required(body, "on", what, self._findings, hint="a host pattern, as in `on: all`"):
            return ()
        pattern = text(body, "on", what, self._findings)
        if pattern is None:
            return ()
        return self._selector.some(pattern, body.items["on"].place, f"`on` of {what}")

    def _references(self, cob: CobDef) -> None:
        for word in WORDS:
            for written, place in texts(cob.body, word, f"COB `{cob.name}`", self._findings):
                reference = self._parse(written, place, word)
                if reference:
                    self._link(cob, word, reference)
        needs = cob.body.items.get("needs")
        if needs is not None:
            for item in getattr(needs, "items", ()) if not isinstance(needs, Map | Leaf) else ():
                self._need(cob, item)
            if isinstance(needs, Map | Leaf):
                message = f"`needs` of COB `{cob.name}` must be a list"
                self._findings.add(
                    needs.place, message, "write `- {when: ..., cob: ..., state: ...}`"
                )

    def _parse(self, written: str, place: Place, word: str) -> _Reference | None:
        rendered = self._selector.text(written, place)
        if rendered is None:
            return None
        name, sign, pattern = rendered.partition("@")
        if not name.strip() or (sign and not pattern.strip()):
            message = f"`{rendered}` in `{word}` is no reference"
            self._findings.add(place, message, "write `name` or `name@pattern`")
            return None
        return _Reference(name=name.strip(), pattern=pattern.strip() if sign else None, place=place)

    def _link(self, cob: CobDef, word: str, reference: _Reference) -> None:
        target = self._target(reference)
        if target is None or not self._elsewhere(cob, target, reference):
            return
        shapes = word_shapes(word, cob.type, target.type)
        self._add(cob, target, reference, shapes)

    def _add(
        self, cob: CobDef, target: CobDef, reference: _Reference, shapes: tuple[Shape, ...]
    ) -> None:
        hosts = None
        if reference.pattern is None:
            self._everywhere(cob, target, reference)
        else:
            hosts = self._instances(target, reference)
            if hosts is None:
                return
        self.links.append(
            Link(
                source=cob.name,
                target=target.name,
                hosts=None if hosts is None else dict.fromkeys(hosts),
                shapes=shapes,
                place=reference.place,
            )
        )

    def _target(self, reference: _Reference) -> CobDef | None:
        found = self.defs.get(reference.name)
        if found is None and reference.name not in self.written and not self._selector.quiet:
            hint = did_you_mean(
                reference.name,
                self.written,
                otherwise=f"known are {one_of(sorted(self.written))}",
            )
            self._findings.add(reference.place, f"no COB is called `{reference.name}`", hint)
        return found

    def _elsewhere(self, cob: CobDef, target: CobDef, reference: _Reference) -> bool:
        if target is cob and reference.pattern is None:
            hint = "name other hosts, as in `name@pattern`"
            self._findings.add(reference.place, f"`{cob.name}` refers to itself", hint)
            return False
        return True

    def _everywhere(self, cob: CobDef, target: CobDef, reference: _Reference) -> None:
        """Find the hosts where the dependent is and what it needs is not."""
        for host in cob.hosts:
            if host not in target.host_set:
                message = f"`{cob.name}` needs `{target.name}`, which is not on the same host"
                hint = f"write `{target.name}@pattern` for other hosts, or mend `on`"
                self._findings.add(reference.place, message, hint, host=host)

    def _instances(self, target: CobDef, reference: _Reference) -> tuple[str, ...] | None:
        assert reference.pattern is not None
        what = f"`{target.name}@{reference.pattern}`"
        hosts = self._selector.some(reference.pattern, reference.place, what)
        if not hosts:
            return None
        found = tuple(host for host in hosts if host in target.host_set)
        if not found:
            hint = f"`{target.name}` is on {', '.join(target.hosts[:3])}"
            self._findings.add(reference.place, f"{what} matches no instance", hint)
            return None
        return found

    def _need(self, cob: CobDef, node: Node) -> None:
        what = f"a need of COB `{cob.name}`"
        body = as_map(node, what, self._findings)
        if body is None:
            return
        known_keys(body, _NEED_KEYS, what, self._findings)
        lacking = [
            key for key in ("when", "cob", "state") if not required(body, key, what, self._findings)
        ]
        values = {
            key: text(body, key, what, self._findings) for key in _NEED_KEYS if key in body.items
        }
        if lacking or None in values.values():
            return
        name, pattern = values["cob"], values.get("on")
        reference = self._parse(
            f"{name}@{pattern}" if pattern else str(name), body.items["cob"].place, "needs"
        )
        target = self._target(reference) if reference else None
        if reference is None or target is None or not self._elsewhere(cob, target, reference):
            return
        shape = self._shape(cob, target, body)
        if shape:
            self._add(cob, target, reference, (shape,))

    def _shape(self, cob: CobDef, target: CobDef, body: Map) -> Shape | None:
        when, state = str(_value(body, "when")), str(_value(body, "state"))
        fits = self._has_state(target.type, state, body.items["state"].place, allow_any=False)
        place = body.items["when"].place
        pair = arrow(when)
        if pair is None:
            known = self._has_state(cob.type, when.strip(), place, allow_any=True)
            return explicit(when.strip(), None, state) if known and fits else None
        known_both = [self._has_state(cob.type, each, place, allow_any=True) for each in pair]
        if not all(known_both) or not fits:
            return None
        if not has_step(cob.type, pair):
            shown = one_of(str(step) for step in cob.type.transitions)
            message = f"type `{cob.type.name}` has no transition `{pair[0]} -> {pair[1]}`"
            self._findings.add(place, message, f"it has {shown}")
            return None
        return explicit(pair[0], pair[1], state)

    def _has_state(self, cob_type: CobType, state: str, place: Place, *, allow_any: bool) -> bool:
        if state in cob_type.states or (allow_any and state == ANY):
            return True
        known = f"its states are {one_of(cob_type.states)}"
        hint = did_you_mean(state, cob_type.states, otherwise=known)
        self._findings.add(place, f"type `{cob_type.name}` has no state `{state}`", hint)
        return False


def _value(body: Map, key: str) -> object:
    node = body.items[key]
    return node.value if isinstance(node, Leaf) else None
