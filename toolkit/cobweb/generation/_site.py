"""The evaluated site as canonical JSON, the content of a generation.

Everything that is needed to move an object later under this generation stands in it: types with
their matrices and the digests of their task files, redacted specs, needs, limits, budgets, and how
hosts are reached. No place in a file and no absolute path of the site does, so that the same files
give the same digest on any machine.

The text is as long as the site is large, so it is made piece by piece: its digest needs no more of
it at once than a thousand objects. A piece of an object is what its own digest is of, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from operator import attrgetter
from typing import Any, assert_never

from cobweb.generation._content import (
    canonical_json,
    digest_of_pieces,
    digest_of_text,
    inputs_of,
    listed,
    object_text,
    quoted,
    redact,
)
from cobweb.generation._kept_files import HostVariables, KeptFiles, words_of
from cobweb.generation._paths import OWN_ROOT, Paths, folder_outside
from cobweb.model import (
    Action,
    Budget,
    CobId,
    CobType,
    Graph,
    Host,
    Limit,
    LockNeed,
    Missing,
    Need,
    Nothing,
    PythonAction,
    Role,
    Tasks,
    Unit,
)

PROTECTED = "protected"
"""The key that has the objects which are not to be removed."""

FORMAT = 4
"""The version of the data; lower numbers had other shapes, before there was a release."""

FIRST = (0, 0.0, "")
"""Where a unit stands in the order that nothing is said of."""


class EvaluatedSite:
    """The evaluated site without secrets; each thing is worked out when it is first asked for.

    The JSON has the keys `format`, `hosts`, `types`, `cobs`, `needs`, `limits`, `budgets`, `files`
    (digests by name), `confirm` (of the objects that have a dead-man switch); `machines`,
    `protected` and `wants` only where there are such. `roots` maps a word to an absolute folder: a
    task file or role below it is written as `word:relative/path` (the site's folder, the shipped
    playbooks). `hosts` are those that have objects; of each its groups are kept
    and the variables that `HostVariables` chooses for what `files` name. Where a type works with
    something else that nobody can look into (a role of Ansible's, a plugin), all of them are.
    """

    def __init__(
        self,
        graph: Graph,
        hosts: Mapping[str, Host],
        *,
        roots: Mapping[str, str] | None = None,
        files: KeptFiles | None = None,
    ) -> None:
        self._graph = graph
        self._hosts = hosts
        self._paths = Paths(roots or {})
        self._files = files or KeptFiles()

    @cached_property
    def contents(self) -> Mapping[CobId, str]:
        """The digest of each object, as `content_of` gives it, by sorted id."""
        return {cob: digest_of_text(text) for cob, text in self._objects.items()}

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the text, as 64 hexadecimal digits."""
        return digest_of_pieces(self._pieces())

    def text(self) -> str:
        """Return the canonical JSON."""
        return "".join(self._pieces())

    @cached_property
    def _objects(self) -> Mapping[CobId, str]:
        return {cob: object_text(self._graph.cobs[cob]) for cob in sorted(self._graph.cobs)}

    def _pieces(self) -> Iterator[str]:
        """Yield the text, keys in sorted order."""
        graph, paths = self._graph, self._paths
        types = {cob.type.name: cob.type for cob in graph.cobs.values()}
        variables = HostVariables(self.asked)
        limits = sorted(graph.limits, key=attrgetter("name"))
        budgets = sorted(graph.budgets, key=attrgetter("name"))
        yield '{"budgets":['
        yield from listed(canonical_json(_budget(budget)) for budget in budgets)
        yield '],"cobs":{'
        yield from listed(f"{quoted(cob)}:{text}" for cob, text in self._objects.items())
        confirm = {it.id: asdict(it.confirm) for it in graph.cobs.values() if it.confirm}
        yield f'}},"confirm":{canonical_json(confirm)}'
        yield f',"files":{canonical_json(self._files.digests)},"format":{FORMAT},"hosts":{{'
        yield from listed(_host(self._hosts[name], variables) for name in sorted(self._hosts))
        yield f'}},"limits":{canonical_json([_limit(limit) for limit in limits])}'
        yield from _words("machines", {cob.id: cob.machine for cob in graph.cobs.values()})
        yield ',"needs":['
        yield from listed(map(_need, graph.needs))
        yield "]"
        yield from _words(PROTECTED, {cob.id: cob.protect or None for cob in graph.cobs.values()})
        yield from _words("trusts", {cob.id: cob.trust_s for cob in graph.cobs.values()})
        yield ',"types":'
        yield canonical_json({name: _type(types[name], paths) for name in types})
        yield from _words("wants", {cob.id: cob.want or None for cob in graph.cobs.values()})
        yield "}"

    @cached_property
    def asked(self) -> frozenset[str] | None:
        """The names that the types' work and switches may ask for as variables; None for all."""
        types = {id(cob.type): cob.type for cob in self._graph.cobs.values()}.values()
        known = all(self._is_known(action, kind) for kind in types for action in kind.actions())
        names = self._files.names if known else None
        return None if names is None else names | words_of(self._other_texts(types))

    def _other_texts(self, types: Iterable[CobType]) -> Iterator[str]:
        """Yield what names variables besides files: switches, variables of roles, and specs."""
        for kind in types:
            yield from (kind.revert, kind.prepare)
            roles = (action for action in kind.actions() if isinstance(action, Role))
            yield from (canonical_json(role.vars) for role in roles)
        for cob in self._graph.cobs.values():
            yield from inputs_of(cob.spec)
            if cob.confirm is not None:
                yield from (cob.confirm.revert, cob.confirm.prepare)

    def _is_known(self, action: Action, kind: CobType) -> bool:
        """Say whether it is known what an action asks for."""
        match action:
            case Tasks(path=path) | Role(name=path):
                written = self._paths.written(path, kind.place)
                return written.startswith(f"{OWN_ROOT}:") or self._files.has(written)
            case PythonAction():
                return False
            case Nothing() | Missing():
                return True
            case _:
                assert_never(action)


def _words(key: str, values: Mapping[CobId, str | bool | float | None]) -> Iterator[str]:
    """Yield a key with what objects have, None for nothing; no key where none has anything."""
    found = {cob: value for cob, value in values.items() if value is not None}
    written = [f"{quoted(cob)}:{canonical_json(found[cob])}" for cob in sorted(found)]
    if written:
        yield f",{quoted(key)}:{{"
        yield from listed(written)
        yield "}"


def _host(host: Host, variables: HostVariables) -> str:
    kept = canonical_json(redact(variables.of(host)))
    return f'{quoted(host.name)}:{{"groups":{canonical_json(host.groups)},"variables":{kept}}}'


def _type(kind: CobType, paths: Paths) -> dict[str, Any]:
    said = {
        "groups": {name: list(states) for name, states in kind.groups.items()},
        "on_demand": kind.on_demand,
        "serving": list(kind.serving),
        "shared": redact(kind.shared),
    }
    return {
        **({} if kind.inputs is None else {"inputs": list(kind.inputs)}),
        **{key: value for key, value in said.items() if value},
        "states": list(kind.states),
        "preferred": kind.preferred,
        "remove": kind.remove,
        "check": _action(kind.check, kind, paths),
        "check_timeout_s": kind.check_timeout_s,
        "folder": folder_outside(kind.place),
        "revert": kind.revert,
        "prepare": kind.prepare,
        "transitions": [
            {
                "from": step.source,
                "to": step.dest,
                "action": _action(step.action, kind, paths),
                "timeout_s": step.timeout_s,
                "attempts": step.attempts,
                **({"interrupts": True} if step.interrupts else {}),
            }
            for step in kind.transitions
        ],
    }


def _action(action: Action, kind: CobType, paths: Paths) -> dict[str, Any]:
    match action:
        case Tasks(path=name) | Role(name=name):
            key, usual = ("role", True) if isinstance(action, Role) else ("tasks", False)
            facts = {} if action.facts is usual else {"facts": action.facts}
            more = {it: getattr(action, it, None) for it in ("vars", "together", "finds")}
            said = {it: value for it, value in more.items() if value}
            return {key: paths.written(name, kind.place), **facts, **said}
        case PythonAction(type_name=name, method=method):
            return {"python": f"{name}.{method}"}
        case Nothing():
            return {}
        case Missing(message=message):
            return {"missing": message}
        case _:
            assert_never(action)


def _need(need: Need) -> str:
    cob, on, state = quoted(need.cob), quoted(need.on), quoted(need.state)
    if isinstance(need, LockNeed):
        return f'{{"cob":{cob},"in":{quoted(need.within)},"on":{on},"state":{state}}}'
    steps = f'"from":{quoted(need.source)},"on":{on},"state":{state},"to":{quoted(need.dest)}'
    return f'{{"cob":{cob},{steps}}}'


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "name": limit.name,
        "from": limit.source,
        "to": limit.dest,
        "groups": [
            {"name": group.name, "members": sorted(group.members), "bound": group.bound}
            for group in limit.groups
        ],
    }


def _budget(budget: Budget) -> dict[str, Any]:
    """Return what a budget says; what it leaves to itself is not written."""
    names = ("percent", "group", "first", "pause_s", "trust_s", "during")
    said = {name: getattr(budget, name) for name in names}
    return {
        "name": budget.name,
        "count": budget.count,
        "units": [_unit(unit) for unit in budget.units],
        **{key: value for key, value in said.items() if value or (key, value) == ("trust_s", 0)},
    }


def _unit(unit: Unit) -> dict[str, Any]:
    domains = {"domains": list(unit.domains)} if unit.domains else {}
    order = {"order": list(unit.order)} if unit.order != FIRST else {}
    return {"name": unit.name, "members": sorted(unit.members), **domains, **order}
