"""A stored generation, read back: from the canonical JSON of a site to its hosts and its graph.

What is read back and evaluated again has the same digest. Vaulted values are not in it: their
digests stay where they were (see `reveal`). The JSON Schemas of types are not either, nor places,
but for the folders that the site imports types from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from cobweb.errors import Place, StoreError, foreign_format
from cobweb.generation._content import FLOAT_MARK, canonical_json, digest_of_text
from cobweb.generation._diff import SiteDiff, site_diff
from cobweb.generation._kept_files import KeptFiles
from cobweb.generation._paths import Paths
from cobweb.generation._site import FIRST, FORMAT, PROTECTED
from cobweb.model import (
    Action,
    Budget,
    Cob,
    CobId,
    CobType,
    Confirm,
    Graph,
    Host,
    Limit,
    LimitGroup,
    LockNeed,
    Missing,
    Need,
    Nothing,
    PythonAction,
    Role,
    Tasks,
    Transition,
    TransitionNeed,
    Unit,
)

_NO_JSON_NUMBERS = ("nan", "inf", "-inf")
_BY_OBJECT = frozenset({"cobs", "confirm", "machines", PROTECTED, "trusts", "wants"})
"""The keys of a content that have something of objects, by id."""

_DAMAGED = "the content of the generation is damaged"

_P = ParamSpec("_P")
_R = TypeVar("_R")


def read_site(text: str) -> StoredSite:
    """Read the content of a generation; StoreError where it is none, or another Cobweb's."""
    try:
        data = json.loads(text)
        version = data["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(_DAMAGED) from error
    if type(version) is not int:
        raise StoreError(_DAMAGED)
    if version != FORMAT:
        raise foreign_format("the content of the generation", version, FORMAT)
    return StoredSite(data)


def _told(
    method: Callable[Concatenate[StoredSite, _P], _R],
) -> Callable[Concatenate[StoredSite, _P], _R]:
    """Make a StoreError of what a damaged content leads to."""

    @wraps(method)
    def call(site: StoredSite, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(site, *args, **kwargs)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(_DAMAGED) from error

    return call


class StoredSite:
    """The site of a generation; each part is made when it is asked for first.

    Every part raises StoreError where the content is damaged so that it cannot be made.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    @cached_property
    @_told
    def hosts(self) -> Mapping[str, Host]:
        """The hosts that had objects, by name, with the variables that were kept."""
        return {
            name: Host(
                name=name, groups=tuple(host["groups"]), variables=_numbers(host["variables"])
            )
            for name, host in self._data["hosts"].items()
        }

    @cached_property
    @_told
    def files(self) -> KeptFiles:
        """The files that the types worked with; all variables of `hosts` may be for them."""
        names = frozenset(name for host in self.hosts.values() for name in host.variables)
        return KeptFiles(digests=dict(self._data["files"]), names=names)

    @cached_property
    @_told
    def contents(self) -> Mapping[CobId, str]:
        """The digest of each object, as `content_of` gives it, by sorted id."""
        return {
            CobId(cob): digest_of_text(canonical_json(it)) for cob, it in self._data["cobs"].items()
        }

    @_told
    def diff(self, new: StoredSite) -> SiteDiff:
        """Return what differs in a newer one."""
        return site_diff(self._data, new._data)

    @cached_property
    @_told
    def type_names(self) -> Mapping[CobId, str]:
        """The name of each object's type."""
        return {CobId(cob): str(it["type"]) for cob, it in self._data["cobs"].items()}

    @cached_property
    @_told
    def protected(self) -> frozenset[CobId]:
        """The objects that are not to be removed."""
        return frozenset(map(CobId, self._data.get(PROTECTED, {})))

    @property
    def has_limits(self) -> bool:
        """Whether it has limits, of any kind."""
        return bool(self._data.get("limits") or self._data.get("budgets"))

    @_told
    def renamed(self, names: Mapping[CobId, CobId]) -> StoredSite:
        """Return the site with other names of objects, by those that they have in it."""
        return StoredSite(_renamed(self._data, names)) if names else self

    @_told
    def types(self, roots: Mapping[str, str]) -> Mapping[str, CobType]:
        """Return the types that had objects, by name; `roots` are as in `EvaluatedSite`."""
        paths = Paths(roots)
        return {name: _type(name, it, paths) for name, it in self._data["types"].items()}

    @_told
    def graph(self, roots: Mapping[str, str]) -> Graph:
        """Return the objects, needs, limits and budgets; paths are made absolute by `roots`."""
        types = self.types(roots)
        switches = self._data["confirm"]
        machines, wants, trusts = (
            self._data.get(key, {}) for key in ("machines", "wants", "trusts")
        )
        cobs = {
            CobId(cob): Cob(
                id=CobId(cob),
                type=types[it["type"]],
                spec=_numbers(it["spec"]),
                confirm=Confirm(**switches[cob]) if switches.get(cob) else None,
                want=wants.get(cob, ""),
                machine=machines.get(cob),
                protect=cob in self.protected,
                trust_s=trusts.get(cob),
            )
            for cob, it in self._data["cobs"].items()
        }
        needs = tuple(map(_need, self._data["needs"]))
        if not all(need.cob in cobs and need.on in cobs for need in needs):
            raise StoreError(_DAMAGED)
        return Graph(
            cobs=cobs,
            needs=needs,
            limits=tuple(map(_limit, self._data["limits"])),
            budgets=tuple(map(_budget, self._data["budgets"])),
        )


def _renamed(data: Mapping[str, Any], names: Mapping[CobId, CobId]) -> dict[str, Any]:
    """Return the data of a site with other ids of objects."""

    def name(cob: str) -> str:
        return names.get(CobId(cob), cob)

    def bound(it: Mapping[str, Any], key: str) -> dict[str, Any]:
        parts = [{**part, "members": sorted(map(name, part["members"]))} for part in it[key]]
        return {**it, key: parts}

    made = dict(data)
    for key in _BY_OBJECT & data.keys():
        made[key] = {name(cob): it for cob, it in data[key].items()}
    made["cobs"] = dict(sorted(made["cobs"].items()))
    if "machines" in data:
        made["machines"] = {cob: name(it) for cob, it in made["machines"].items()}
    made["needs"] = [
        {**need, "cob": name(need["cob"]), "on": name(need["on"])} for need in data["needs"]
    ]
    made["limits"] = [bound(it, "groups") for it in data["limits"]]
    made["budgets"] = [bound(it, "units") for it in data["budgets"]]
    return made


def _type(name: str, it: Mapping[str, Any], paths: Paths) -> CobType:
    return CobType(
        name=name,
        states=tuple(it["states"]),
        preferred=it["preferred"],
        remove=it["remove"],
        check=_action(it["check"], paths),
        check_timeout_s=it["check_timeout_s"],
        revert=it["revert"],
        prepare=it["prepare"],
        groups={group: tuple(states) for group, states in it.get("groups", {}).items()},
        serving=tuple(it.get("serving", ())),
        inputs=tuple(it["inputs"]) if "inputs" in it else None,
        on_demand=it.get("on_demand", False),
        shared=_numbers(it.get("shared", {})),
        place=Place(file=f"{it['folder']}/") if it["folder"] else None,
        transitions=tuple(
            Transition(
                source=step["from"],
                dest=step["to"],
                action=_action(step["action"], paths),
                timeout_s=step["timeout_s"],
                attempts=step["attempts"],
                interrupts=step.get("interrupts", False),
            )
            for step in it["transitions"]
        ),
    )


def _action(it: Mapping[str, Any], paths: Paths) -> Action:
    facts = it.get("facts", "role" in it)
    said: dict[str, Any] = {
        "facts": tuple(facts) if isinstance(facts, list) else facts,
        "together": it.get("together", False),
        "finds": tuple(it.get("finds", ())),
    }
    match it:
        case {"tasks": path}:
            return Tasks(path=paths.read(path), **said)
        case {"role": name}:
            return Role(name=paths.read(name), vars=_numbers(it.get("vars", {})), **said)
        case {"python": method}:
            name, _, method = method.rpartition(".")
            return PythonAction(type_name=name, method=method)
        case {"missing": message}:
            return Missing(message=message)
        case _:
            return Nothing()


def _need(it: Mapping[str, str]) -> Need:
    cob, on = CobId(it["cob"]), CobId(it["on"])
    if "in" in it:
        return LockNeed(cob=cob, within=it["in"], on=on, state=it["state"])
    return TransitionNeed(cob=cob, source=it["from"], dest=it["to"], on=on, state=it["state"])


def _limit(it: Mapping[str, Any]) -> Limit:
    return Limit(
        name=it["name"],
        groups=tuple(
            LimitGroup(**{**group, "members": frozenset(group["members"])})
            for group in it["groups"]
        ),
        source=it["from"],
        dest=it["to"],
    )


def _budget(it: Mapping[str, Any]) -> Budget:
    return Budget(
        name=it["name"],
        units=tuple(map(_unit, it["units"])),
        count=it["count"],
        percent=it.get("percent"),
        group=it.get("group", ""),
        first=it.get("first", 0),
        pause_s=it.get("pause_s", 0.0),
        trust_s=it.get("trust_s"),
        during=tuple((CobId(cob), state) for cob, state in it.get("during", ())),
    )


def _unit(it: Mapping[str, Any]) -> Unit:
    kind, number, word = it.get("order", FIRST)
    return Unit(
        name=it["name"],
        members=frozenset(map(CobId, it["members"])),
        domains=tuple(it.get("domains", ())),
        order=(int(kind), float(number), str(word)),
    )


def _numbers(value: Any) -> Any:
    """Return plain data with the numbers back that JSON has not."""
    if isinstance(value, dict):
        if len(value) == 1 and value.get(FLOAT_MARK) in _NO_JSON_NUMBERS:
            return float(value[FLOAT_MARK])
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value
