"""Service adapters: what connects pools with a service, in YAML with task files or in Python.

A plugin registers a class at the point `service_adapter`. One whose `source` is a YAML file says
all by that file; another one has the methods of `ServiceAdapter`. docs/plugins has the tutorial.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cobweb.errors import CobwebError, ModelError, PluginError
from cobweb.model import Action, Expansion, State, Tasks
from cobweb.plugin import Extension, Question, data_dir, field_problems

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import AdapterFacts, Observed, Resource

POINT = "service_adapter"
ANY_TYPE = "*"
"""Stands for all types of resources that a section has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterService:
    """A service as its adapter sees it: `host` is its own host, `settings` what `with` says."""

    name: str
    host: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A resource in a service, and what its objects are to be.

    `want` is the state of the member's object, which is called `name`: `up`, `draining` or `down`.
    What its service keeps of it on the service's own host, and gives up last, is called `entry`.
    `needs` are needs that both have besides their own: they come up only once the resource has
    left where it was. Pools add that an entry goes only after the member's object. One that
    `is_lost` was given up with its host, which has no objects then.
    """

    resource: Resource
    name: str
    want: State
    needs: tuple[Mapping[str, Any], ...] = ()
    is_lost: bool = False

    @property
    def entry(self) -> str:
        """The name of the object on the service's own host that goes last, if there is one."""
        return f"{self.name}-entry"


class ServiceAdapter(Protocol):
    """What pools ask of a service adapter.

    `holds` are the types of resources that its services can use, `*` for all; `schema` is the JSON
    Schema of `with`. The members of a `direct` one have no objects (a spare pool). `observe` is
    carried out on the service's own host and changes nothing; None where nobody can be asked.
    """

    holds: Sequence[str]
    schema: Mapping[str, Any]
    direct: bool
    observe: Action | None
    observe_timeout_s: float | None

    def expand(self, service: AdapterService, members: Sequence[Membership]) -> Expansion:
        """Return the objects of members, each with the name, state and needs that it is to have.

        The member's object has the states `down`, `draining` and `up`, serves in the last two, and
        has no step from `up` to `down`; the one from `draining` to `down` fails, naming them, while
        jobs are at work. An entry goes from `up` to `down`; it may drain with the member, too.
        """

    def read(self, service: AdapterService, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `state`, `kpis` and `members` from what `observe` has handed back; pure."""


class FileAdapter:
    """An adapter that is a YAML file with task files beside it."""

    def __init__(self, name: str, path: Path, text: str | bytes) -> None:
        body = _body(name, path, text)
        self.direct: bool = body.get("direct", False)
        self.holds: Sequence[str] = (body["holds"],) if body["holds"] == "*" else body["holds"]
        self.schema: Mapping[str, Any] = body.get("schema", {"additionalProperties": False})
        self._member = body.get("member", {})
        self._entry = body.get("entry")
        observe = body.get("observe")
        self.observe: Action | None = observe and Tasks(path=str(path.parent / observe["tasks"]))
        self.observe_timeout_s: float | None = observe and observe.get("timeout")

    def expand(self, service: AdapterService, members: Sequence[Membership]) -> Expansion:
        """Return the object of each member, and its entry on the service's own host."""
        cobs: dict[str, Any] = {}
        for it in members:
            cobs |= self._objects(service, it)
        return Expansion(cobs=cobs)

    def _objects(self, service: AdapterService, it: Membership) -> dict[str, Any]:
        on_service = self._member.get("host") == "service"
        spec = {
            "service": service.name,
            "resource": it.resource.id,
            "with": dict(service.settings),
        }
        member = {
            "type": self._member["type"],
            "on": service.host if on_service else it.resource.id,
            "spec": spec,
            "want": it.want,
            "needs": [dict(need) for need in it.needs],
        }
        if self._entry is None:
            return {it.name: member}
        spec["master"] = service.host
        entry = {
            "type": self._entry["type"],
            "on": service.host,
            "spec": {**spec, "lost": True} if it.is_lost else spec,
            "want": it.want if it.want == "down" or self._entry.get("drains") else "up",
            "needs": [dict(need) for need in it.needs],
        }
        first, name, later = (
            (entry, it.entry, member)
            if self._entry["joins"] == "first"
            else (member, it.name, entry)
        )
        if not it.is_lost:  # whose own object there is not any more
            need = {"when": "down -> up", "cob": name, "on": first["on"], "state": "up"}
            later["needs"].append(need)
        return {it.name: member, it.entry: entry}

    def read(self, _service: AdapterService, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the tasks have handed back; where nobody is asked it is running."""
        return {"state": "running"} if self.observe is None else answer


class Adapters:
    """The service adapters that are there: those of plugins, and those of files of the site.

    `files` are the path and the text of each file by the adapter's name. PluginError for one that
    cannot be made, CobwebError for a file that is none.
    """

    def __init__(
        self,
        extensions: Mapping[str, type[Extension]],
        files: Mapping[str, tuple[Path, str]],
    ) -> None:
        self._extensions = extensions
        self._files = files
        self._made: dict[str, ServiceAdapter] = {}

    def names(self) -> list[str]:
        """Return the names of all, sorted."""
        return sorted({*self._extensions, *self._files})

    def __getitem__(self, name: str) -> ServiceAdapter:
        """Return an adapter; KeyError where there is none of that name."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> ServiceAdapter:
        if name in self._files:
            try:
                return FileAdapter(name, *self._files[name])
            except CobwebError as error:
                problem = (("pools", "adapters", name), error.message, error.hint)
                raise ModelError([problem]) from error
        kind: Any = self._extensions[name]
        try:
            source = getattr(kind, "source", None)
            if isinstance(source, Path) and not hasattr(kind, "expand"):
                return FileAdapter(name, source, source.read_bytes())
            made: ServiceAdapter = kind()
            lacks = [it for it in _ATTRIBUTES if not hasattr(made, it)]
        except CobwebError:
            raise
        except Exception as error:
            raise broken(name, f"cannot be made: {error}") from error
        if lacks:
            raise broken(name, f"lacks {', '.join(lacks)}")
        return made

    def facts(self, types: frozenset[str], used: Collection[str]) -> dict[str, AdapterFacts]:
        """Return what the decision must know of those that are used; no other one is made.

        `types` are those of all resources.
        """
        from cobweb_plugins.pools.decision import AdapterFacts

        found = dict.fromkeys(self.names(), AdapterFacts(holds=frozenset()))
        for name in found.keys() & used:
            adapter = self[name]
            holds = types if ANY_TYPE in adapter.holds else frozenset(adapter.holds)
            found[name] = AdapterFacts(holds=holds, direct=adapter.direct)
        return found


def broken(adapter: str, what: str) -> PluginError:
    """Return the error that a mistake of an adapter is."""
    return PluginError(adapter, f"the service adapter {adapter} {what}", hint="tell its author")


def question(service: AdapterService, adapter: ServiceAdapter) -> Question | None:
    """Return the question to a service; None where nobody has to be asked."""
    if adapter.observe is None:
        return None
    return Question(
        host=service.host,
        action=adapter.observe,
        timeout_s=adapter.observe_timeout_s,
        spec={"service": service.name, "with": dict(service.settings)},
    )


def observed_of(answer: Mapping[str, Any], begun_s: float, arrived_s: float) -> Observed:
    """Return what an answer says; ValueError where it is none.

    An answer is `{"state", "kpis": [{"name", "value", "properties"}], "members": {ID: {"idle",
    "jobs", "load", "state"}}}`; all but the state of the service may be missing.
    """
    from cobweb_plugins.pools.decision import Kpi, Observed, Seen, SeenState, ServiceState

    try:
        return Observed(
            state=ServiceState(answer["state"]),
            kpis=tuple(
                Kpi(
                    name=str(it["name"]),
                    value=_number(it["value"]),
                    properties={key: str(word) for key, word in it.get("properties", {}).items()},
                )
                for it in answer.get("kpis") or ()
            ),
            members={
                str(id_): Seen(
                    idle=bool(it["idle"]),
                    jobs=int(it.get("jobs", 0)),
                    load=_number(it.get("load", 0.0)),
                    state=SeenState(it.get("state", "up")),
                )
                for id_, it in (answer.get("members") or {}).items()
            },
            begun_s=begun_s,
            arrived_s=arrived_s,
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its answer cannot be read: {type(error).__name__} {error}") from error


def setting_problems(adapter: ServiceAdapter, settings: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what is wrong with `with` of a service: the keys that lead to it, message, hint."""
    yield from field_problems(adapter.schema, settings)
    for key, value in settings.items():
        if "{{" in str(value) or "{%" in str(value):  # which asking would not fill in
            yield (key,), f"`{key}` is a template, and what adapters get is none", "write the value"


def _number(value: Any) -> float:
    """Return a number; NaN, which no decision trusts, for what is null or too large to be one."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value) if abs(value) < _LARGEST else math.nan


_LARGEST = 1e300
_ATTRIBUTES = ("holds", "schema", "direct", "observe", "observe_timeout_s", "expand", "read")


def _body(name: str, path: Path, text: str | bytes) -> Mapping[str, Any]:
    import yaml

    try:
        body = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CobwebError(f"the service adapter {name}, {path}, is no YAML: {error}") from error
    if not isinstance(body, Mapping):
        raise CobwebError(f"the service adapter {name}, {path}, is no mapping")
    schema = data_dir("schemas") / "service-adapter.schema.json"
    for keys, message, hint in field_problems(json.loads(schema.read_bytes()), body):
        where = ".".join(map(str, keys))
        said = f"{where}: {message}" if where else message
        raise CobwebError(f"the service adapter {name}, {path}: {said}", hint=hint)
    return body
