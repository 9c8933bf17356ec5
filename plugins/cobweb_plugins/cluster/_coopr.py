"""From Coopr's JSON entities to the section `catalog`, word by word; nothing is looked up here.

Each kind has the keys that are known; what else there is, is noted, so that nobody believes that it
was taken over. Lease times are milliseconds there, and numbers are often texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb_plugins.cluster._catalog import ACTIONS

Raw = Mapping[str, Any]

KINDS: Mapping[str, str] = {
    "providers": "providers",
    "hardwaretypes": "hardwaretypes",
    "imagetypes": "imagetypes",
    "services": "services",
    "clustertemplates": "templates",
}
"""Coopr's kinds of entities, and the parts of a catalog that they become."""

_FREE = ("fields", "config")
"""What may have any values, which are not looked at."""

MB_PER_GB = 1024
MS_PER_S = 1000
LONGEST_MS = 366 * 86400 * MS_PER_S
_WHOLE = re.compile("-?[0-9]{1,18}")
UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One JSON object of Coopr, and the file that it is from, as messages name it."""

    kind: str
    name: str
    data: Raw
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What of an entity was not taken over, and why."""

    kind: str
    name: str
    what: str
    why: str


@dataclass(slots=True)
class Notes:
    """Collects what was left out."""

    items: list[LeftOut] = field(default_factory=list)

    def add(self, kind: str, name: str, what: str, why: str) -> None:
        """Note something that was left out."""
        self.items.append(LeftOut(kind=kind, name=name, what=what, why=why))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Takes keys out of an entity; what is left in the end is noted."""

    kind: str
    name: str
    notes: Notes

    def known(self, data: Raw, keys: Mapping[str, str], within: str = "") -> dict[str, Any]:
        """Return the values of known keys under their new names, without empty ones."""
        found: dict[str, Any] = {}
        for key, value in data.items():
            if key in keys:
                if value not in (None, "", [], {}):
                    found[keys[key]] = value
            elif value not in (None, "", [], {}):
                self.left_out(f"{within}.{key}" if within else key, "Cobweb has no such word")
        return found

    def left_out(self, what: str, why: str) -> None:
        self.notes.add(self.kind, self.name, what, why)


def kind_of(data: Raw) -> str:
    """Return the kind of an entity by what it has; "" if it is none that is known."""
    providers = data.get("providermap")
    known = providers.values() if isinstance(providers, Mapping) else ()
    maps = [each for each in known if isinstance(each, Mapping)]
    signs = (
        ("providers", "providertype" in data),
        ("hardwaretypes", any("flavor" in each for each in maps)),
        ("imagetypes", any("image" in each for each in maps)),
        ("clustertemplates", "defaults" in data or "compatibility" in data),
        ("services", "dependencies" in data or "dependson" in data or "provisioner" in data),
    )
    return next((kind for kind, has in signs if has), "")


def converted(entity: Entity, notes: Notes) -> dict[str, Any]:
    """Return an entity in the words of the catalog; what it has besides goes to `notes`."""
    make = _CONVERTERS[entity.kind]
    reader = _Reader(kind=KINDS[entity.kind], name=entity.name, notes=notes)
    made = make({key: it for key, it in entity.data.items() if key != "name"}, reader)
    return {key: _once(it, key, reader) for key, it in made.items()}


def _once(value: Any, within: str, reader: _Reader) -> Any:
    """Return a value with each name once in its lists of names, which Coopr reads as sets."""
    if isinstance(value, Mapping):
        return {
            key: it if key in _FREE else _once(it, f"{within}.{key}", reader)
            for key, it in value.items()
        }
    if not isinstance(value, list):
        return value
    if not all(isinstance(it, str) for it in value):
        return [_once(it, within, reader) for it in value]
    for name in sorted({it for it in value if value.count(it) > 1}):
        reader.left_out(f"{within}: {name}", "it is named more than once there")
    return list(dict.fromkeys(value))


def _same(*keys: str) -> dict[str, str]:
    return {key: key for key in keys}


def _provider(data: Raw, reader: _Reader) -> dict[str, Any]:
    found = reader.known(
        data, {**_same("description"), "providertype": "type", "provisioner": "fields"}
    )
    fields = found.get("fields", {})
    if isinstance(fields.get("auth"), Mapping):  # the form of Coopr before 0.9.9
        fields = {**fields["auth"], **{k: v for k, v in fields.items() if k != "auth"}}
    found["fields"] = {key: value for key, value in fields.items() if value not in (None, "")}
    return {"type": reader.name, **found}


def _hardwaretype(data: Raw, reader: _Reader) -> dict[str, Any]:
    found = reader.known(data, {**_same("description"), "providermap": "providers"})
    numbers = {"vcpu": ("cores", 1), "ram": ("memory_mb", MB_PER_GB), "cost": ("cost", 1)}
    found["providers"] = {
        provider: dict(_numbered(key, value, numbers) for key, value in words.items())
        for provider, words in found.get("providers", {}).items()
    }
    return found


def _numbered(key: str, value: Any, numbers: Mapping[str, tuple[str, int]]) -> tuple[str, Any]:
    """Return a key and value; those of `numbers` under their new name, where they are numbers."""
    if key not in numbers:
        return key, value
    name, factor = numbers[key]
    try:
        number = float(value) * factor
    except (TypeError, ValueError):
        return key, value
    return name, int(number) if number.is_integer() else number


def _imagetype(data: Raw, reader: _Reader) -> dict[str, Any]:
    found = reader.known(data, {**_same("description"), "providermap": "providers"})
    found["providers"] = {
        provider: {("user" if key == "sshuser" else key): value for key, value in words.items()}
        for provider, words in found.get("providers", {}).items()
    }
    return found


def _service(data: Raw, reader: _Reader) -> dict[str, Any]:
    keys = _same("description", "dependencies", "provisioner", "dependson", "version")
    found = reader.known(data, keys)
    needs = _dependencies(found.pop("dependencies", {}), reader)
    if "dependson" in found:  # the form of Coopr before 0.9.8
        runtime = needs.setdefault("runtime", {})
        more = [*runtime.get("requires", ()), *found.pop("dependson")]
        runtime["requires"] = list(dict.fromkeys(more))
    provisioner = reader.known(found.pop("provisioner", {}), _same("actions"), "provisioner")
    actions = {}
    for name, words in provisioner.get("actions", {}).items():
        if name in ACTIONS and name != "check":
            actions[name] = _action(name, words, reader)
        else:
            reader.left_out(f"actions.{name}", "services have no such action")
    return {**found, **({"dependencies": needs} if needs else {}), "actions": actions}


def _dependencies(data: Raw, reader: _Reader) -> dict[str, Any]:
    keys = _same("provides", "conflicts", "install", "runtime")
    found = reader.known(data, keys, "dependencies")
    for phase in ("install", "runtime"):
        if phase in found:
            within = f"dependencies.{phase}"
            found[phase] = reader.known(found[phase], _same("requires", "uses"), within)
    return {key: value for key, value in found.items() if value}


def _action(name: str, data: Raw, reader: _Reader) -> dict[str, Any]:
    keys = {"type": "automator", "fields": "fields", "script": "script", "data": "data"}
    found = reader.known(data, keys, f"actions.{name}")
    old = {key: found.pop(key) for key in ("script", "data") if key in found}
    fields = {**old, **found.pop("fields", {})}
    return {**found, **({"fields": fields} if fields else {})}


def _template(data: Raw, reader: _Reader) -> dict[str, Any]:
    keys = _same(
        *("description", "extends", "includes", "defaults"),
        *("compatibility", "constraints", "administration", "links"),
    )
    found = reader.known(data, keys)
    for key in ("extends", "includes"):
        if key in found:
            found[key] = _names(found[key])
    known = _same("services", "provider", "hardwaretype", "imagetype", "config")
    kinds = _same("hardwaretypes", "imagetypes", "services")
    for key, words in (("defaults", known), ("compatibility", kinds)):
        if key in found:
            found[key] = reader.known(found[key], words, key)
    if "constraints" in found:
        found["constraints"] = _constraints(found["constraints"], reader)
    administration = found.pop("administration", {})
    within = reader.known(administration, {"leaseduration": "lease"}, "administration")
    lease = _lease(within.get("lease", {}), reader)
    if "links" in found:
        link = _same("label", "url")
        found["links"] = [reader.known(each, link, "links") for each in found["links"]]
    return {**{key: value for key, value in found.items() if value}, "lease": lease}


def _names(value: Any) -> Any:
    """Return the name or names of templates, which Coopr also writes as objects with a name."""
    if isinstance(value, list):
        return [_names(each) for each in value]
    return value.get("name", "") if isinstance(value, Mapping) else value


def _constraints(data: Raw, reader: _Reader) -> dict[str, Any]:
    found = reader.known(data, _same("size", "layout", "services"), "constraints")
    if "size" in found:
        size = reader.known(found["size"], _same("min", "max"), "constraints.size")
        found["size"] = {key: _whole(value) for key, value in size.items()}
    if "layout" in found:
        known = _same("mustcoexist", "cantcoexist")
        layout = reader.known(found["layout"], known, "constraints.layout")
        found["layout"] = {key: [each for each in it if each] for key, it in layout.items()}
    rules = {}
    for name, words in found.get("services", {}).items():
        within = f"constraints.services.{name}"
        rule = reader.known(words, _same("hardwaretypes", "imagetypes", "quantities"), within)
        if "quantities" in rule:
            counts = _same("min", "max", "ratio", "step")
            said = reader.known(rule["quantities"], counts, f"{within}.quantities")
            rule["quantities"] = {key: _whole(value) for key, value in said.items()}
        rules[name] = rule
    return {key: value for key, value in {**found, "services": rules}.items() if value}


def _lease(data: Raw, reader: _Reader) -> dict[str, Any]:
    found = reader.known(data, _same("initial", "max", "step"), "administration.leaseduration")
    lease = {}
    for key, value in found.items():
        time_ms = _whole(value)
        if isinstance(time_ms, int) and 0 <= time_ms <= LONGEST_MS:
            lease[key] = _duration(time_ms)
        else:
            reader.left_out(f"lease.{key}", f"{value} ms is more than 366 days, or no time")
    return {"initial": 0, "max": 0, "step": 0, **lease}


def _whole(value: Any) -> Any:
    """Return a whole number that is written as a text, as older releases of Coopr read it, too."""
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else value


def _duration(milliseconds: int) -> str | int:
    """Return milliseconds, rounded up to seconds, as people write a duration; 0 for 0."""
    seconds = -(-milliseconds // MS_PER_S)
    if not seconds:
        return 0
    return next(f"{seconds // size}{unit}" for size, unit in UNITS if seconds % size == 0)


_CONVERTERS: Mapping[str, Callable[[Raw, _Reader], dict[str, Any]]] = {
    "providers": _provider,
    "hardwaretypes": _hardwaretype,
    "imagetypes": _imagetype,
    "services": _service,
    "clustertemplates": _template,
}
