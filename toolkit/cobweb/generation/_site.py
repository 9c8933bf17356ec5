"""The evaluated site as canonical JSON, the content of a generation.

Everything that is needed to move an object later under this generation stands in it: types with
their matrices, redacted specs, needs, limits, and how hosts are reached. No place in a file and no
absolute path does, so that the same files give the same digest on any machine.

The text is as long as the site is large, so it is made piece by piece: its digest needs no more of
it at once than a thousand objects. A piece of an object is what its own digest is of, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, assert_never

from cobweb.generation._content import (
    canonical_json,
    digest_of_pieces,
    digest_of_text,
    listed,
    object_text,
    quoted,
    redact,
)
from cobweb.model import (
    Action,
    CobId,
    CobType,
    Graph,
    Host,
    Limit,
    LockNeed,
    Need,
    Nothing,
    PythonAction,
    Role,
    Tasks,
)

__all__ = ["EvaluatedSite"]

FORMAT = 1
"""The version of the data."""


class EvaluatedSite:
    """The evaluated site without secrets; each thing is worked out when it is first asked for.

    The JSON has the keys `format`, `hosts`, `types`, `cobs`, `needs`, `limits`. `roots` maps a word
    to an absolute folder: a task file or role below it is written as `word:relative/path` (the
    site's folder, the shipped playbooks). Of a host its groups and its `ansible_*` variables are
    kept. `hosts` are those that have objects.
    """

    def __init__(
        self, graph: Graph, hosts: Mapping[str, Host], *, roots: Mapping[str, str] | None = None
    ) -> None:
        self._graph = graph
        self._hosts = hosts
        by_length = sorted((roots or {}).items(), key=lambda root: (-len(root[1]), root))
        self._folders = tuple(by_length)

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
        graph, folders = self._graph, self._folders
        types = {cob.type.name: cob.type for cob in graph.cobs.values()}
        yield '{"cobs":{'
        yield from listed(f"{quoted(cob)}:{text}" for cob, text in self._objects.items())
        yield f'}},"format":{FORMAT},"hosts":'
        yield canonical_json({name: _host(host) for name, host in self._hosts.items()})
        yield f',"limits":{canonical_json([_limit(limit) for limit in graph.limits])},"needs":['
        yield from listed(map(_need, graph.needs))
        yield '],"types":'
        yield canonical_json({name: _type(types[name], folders) for name in types})
        yield "}"


def _host(host: Host) -> dict[str, Any]:
    variables = {
        name: value for name, value in host.variables.items() if name.startswith("ansible_")
    }
    return {"groups": list(host.groups), "variables": redact(variables)}


def _type(kind: CobType, folders: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {
        "states": list(kind.states),
        "preferred": kind.preferred,
        "remove": kind.remove,
        "check": _action(kind.check, folders),
        "check_timeout_s": kind.check_timeout_s,
        "transitions": [
            {
                "from": step.source,
                "to": step.dest,
                "action": _action(step.action, folders),
                "timeout_s": step.timeout_s,
                "attempts": step.attempts,
            }
            for step in kind.transitions
        ],
    }


def _action(action: Action, folders: tuple[tuple[str, str], ...]) -> dict[str, str]:
    match action:
        case Tasks(path=path):
            return {"tasks": _relative(path, folders)}
        case Role(name=name):
            return {"role": _relative(name, folders)}
        case PythonAction(type_name=name, method=method):
            return {"python": f"{name}.{method}"}
        case Nothing():
            return {}
        case _:
            assert_never(action)


def _relative(path: str, folders: tuple[tuple[str, str], ...]) -> str:
    for word, folder in folders:
        start = folder.rstrip("/") + "/"
        if path.startswith(start):
            return f"{word}:{path.removeprefix(start)}"
    return path


def _need(need: Need) -> str:
    cob, on, state = quoted(need.cob), quoted(need.on), quoted(need.state)
    if isinstance(need, LockNeed):
        return f'{{"cob":{cob},"in":{quoted(need.within)},"on":{on},"state":{state}}}'
    steps = f'"from":{quoted(need.source)},"on":{on},"state":{state},"to":{quoted(need.dest)}'
    return f'{{"cob":{cob},{steps}}}'


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "name": limit.name,
        "scope": limit.scope.value,
        "from": limit.source,
        "to": limit.dest,
        "groups": [
            {"name": group.name, "members": sorted(group.members), "bound": group.bound}
            for group in limit.groups
        ],
    }
