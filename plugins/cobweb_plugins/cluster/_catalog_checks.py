"""What no catalog can say: unknown names, circles, bounds that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cobweb_plugins.cluster._merge import merged_template
from cobweb_plugins.cluster._problems import Path, Problem, circle_in, named, no_duration, seconds

Raw = Mapping[str, Any]
RESERVED = {"node": "the machines are named so", "nodes": "the group of all nodes is named so"}
WAYS = ("tasks", "role", "automator")
KINDS = ("hardwaretypes", "imagetypes")
KIND_NAMES = {"hardwaretypes": "hardware type", "imagetypes": "image type", "services": "service"}
_DEFAULTS = {"hardwaretype": "hardwaretypes", "imagetype": "imagetypes", "services": "services"}
"""Of a key of `defaults`, the key of `compatibility` that has what is allowed for it."""


def catalog_problems(catalog: Raw) -> Iterator[Problem]:
    """Yield all problems of the section `catalog`; paths begin with its name."""
    for kind in KINDS:
        for name, said in (catalog.get(kind) or {}).items():
            known = catalog.get("providers") or {}
            path = ("catalog", kind, name, "providers")
            for provider in said.get("providers") or {}:
                yield from named((*path, provider), "provider", provider, known)
    for name, said in (catalog.get("providers") or {}).items():
        yield from _templates_in(("catalog", "providers", name, "fields"), said.get("fields"))
    for name, said in (catalog.get("automators") or {}).items():
        yield from _one_of(("catalog", "automators", name), said, ("tasks", "role"))
    yield from _services(catalog)
    yield from _templates(catalog)


def _templates_in(path: Path, value: Any) -> Iterator[Problem]:
    """Yield the texts in a provider's fields that are templates: no host fills them in."""
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        yield path, "the fields of a provider are no templates", "write the value itself"
    parts = value.items() if isinstance(value, Mapping) else ()
    for key, part in enumerate(value) if isinstance(value, list) else parts:
        yield from _templates_in((*path, key), part)


def _one_of(path: Path, said: Raw, keys: Sequence[str]) -> Iterator[Problem]:
    given = [key for key in keys if key in said]
    if len(given) == 1:
        return
    wanted = f"{', '.join(keys[:-1])} or {keys[-1]}"
    what = f"`{path[-1]}` has {' and '.join(given)}" if given else f"`{path[-1]}` has no {wanted}"
    yield path, what, f"write one of {wanted}"


def _services(catalog: Raw) -> Iterator[Problem]:
    services = catalog.get("services") or {}
    known = {*services, *(name for said in services.values() for name in _needs(said, "provides"))}
    for name, said in services.items():
        path: Path = ("catalog", "services", name)
        if name in RESERVED:
            yield path, f"a service cannot be named `{name}`", RESERVED[name]
        yield from _dependencies((*path, "dependencies"), name, said, known)
        yield from _actions((*path, "actions"), said, catalog.get("automators") or {})
    for phase in ("install", "runtime"):
        circle = circle_in(service_edges(services, phase, alone=True))
        if circle:
            path = ("catalog", "services", circle[0], "dependencies", phase)
            message = f"services need each other in a circle ({phase}): {' -> '.join(circle)}"
            yield path, message, "take one of these needs away"


def _needs(said: Raw, kind: str, of: str = "") -> list[str]:
    words = said.get("dependencies") or {}
    found = ((words.get(kind) or {}).get(of) if of else words.get(kind)) or []
    return list(found)


def _dependencies(path: Path, name: str, said: Raw, known: set[str]) -> Iterator[Problem]:
    yield from named((*path, "conflicts"), "service", _needs(said, "conflicts"), known)
    for phase in ("install", "runtime"):
        for kind in ("requires", "uses"):
            needed = _needs(said, phase, kind)
            yield from named((*path, phase, kind), "service", needed, known)
            for place, each in enumerate(needed):
                if each == name:
                    yield (*path, phase, kind, place), f"`{name}` needs itself", "leave it out"
    required = {*_needs(said, "install", "requires"), *_needs(said, "runtime", "requires")}
    for place, each in enumerate(_needs(said, "conflicts")):
        if each in required or each == name:
            what = "requires" if each in required else "is"
            message = f"`{name}` conflicts with `{each}`, which it {what}"
            yield (*path, "conflicts", place), message, "it could be on no cluster"
    for place, each in enumerate(_needs(said, "provides")):
        if each == name:
            yield (*path, "provides", place), f"`{name}` provides itself", "leave it out"


def _actions(path: Path, said: Raw, automators: Raw) -> Iterator[Problem]:
    for name, action in (said.get("actions") or {}).items():
        here = (*path, name)
        yield from _one_of(here, action, WAYS)
        yield from named((*here, "automator"), "automator", action.get("automator"), automators)
        yield from no_duration((*here, "timeout"), action.get("timeout"))


def service_edges(services: Raw, phase: str, *, alone: bool) -> dict[str, list[str]]:
    """Return what each service of `services`, raw ones by name, needs in a phase.

    A virtual service is each that provides it; with `alone`, only where that is a single one: of
    several a cluster may have the one that makes no circle.
    """
    providers: dict[str, list[str]] = {}
    for name, said in services.items():
        for each in (name, *_needs(said, "provides")):
            providers.setdefault(each, []).append(name)
    edges: dict[str, list[str]] = {}
    for name, said in services.items():
        needed = [*_needs(said, phase, "requires"), *_needs(said, phase, "uses")]
        found = [providers.get(each, []) for each in needed]
        kept = [names for names in found if len(names) == 1 or not alone]
        edges[name] = [each for names in kept for each in names if each != name]
    return edges


def _templates(catalog: Raw) -> Iterator[Problem]:
    templates = catalog.get("templates") or {}
    wrong = [*_ancestry(templates)]
    yield from wrong
    for name, said in templates.items():
        yield from _template_names(("catalog", "templates", name), said, catalog)
        whole = said if wrong else merged_template(name, templates)
        yield from _bounds(("catalog", "templates", name), said, whole)
        if said.get("defaults") or said.get("compatibility"):
            yield from _forbidden_defaults(("catalog", "templates", name), whole)


def _ancestry(templates: Raw) -> Iterator[Problem]:
    edges: dict[str, list[str]] = {}
    for name, said in templates.items():
        path = ("catalog", "templates", name)
        parents = [*filter(None, [said.get("extends")]), *said.get("includes", ())]
        yield from named((*path, "extends"), "template", said.get("extends"), templates)
        yield from named((*path, "includes"), "template", said.get("includes"), templates)
        edges[name] = [parent for parent in parents if parent in templates]
    circle = circle_in(edges)
    if circle:
        message = f"templates are based on each other in a circle: {' -> '.join(circle)}"
        yield ("catalog", "templates", circle[0]), message, "end it at one of them"


def _template_names(path: Path, said: Raw, catalog: Raw) -> Iterator[Problem]:
    known = {kind: catalog.get(kind) or {} for kind in ("providers", *KIND_NAMES)}
    defaults, constraints = said.get("defaults") or {}, said.get("constraints") or {}
    at: Path = (*path, "defaults")
    yield from named((*at, "services"), "service", defaults.get("services"), known["services"])
    yield from named((*at, "provider"), "provider", defaults.get("provider"), known["providers"])
    for key, kind in (("hardwaretype", "hardwaretypes"), ("imagetype", "imagetypes")):
        yield from named((*at, key), KIND_NAMES[kind], defaults.get(key), known[kind])
    for kind, names in (said.get("compatibility") or {}).items():
        yield from named((*path, "compatibility", kind), KIND_NAMES[kind], names, known[kind])
    for service, rule in (constraints.get("services") or {}).items():
        at = (*path, "constraints", "services", service)
        yield from named(at, "service", service, known["services"])
        for kind in KINDS:
            yield from named((*at, kind), KIND_NAMES[kind], rule.get(kind), known[kind])
    for kind, groups in (constraints.get("layout") or {}).items():
        for place, group in enumerate(groups):
            at = (*path, "constraints", "layout", kind, place)
            yield from named(at, "service", group, known["services"])


def _forbidden_defaults(path: Path, whole: Raw) -> Iterator[Problem]:
    """Yield the defaults of a template that it does not allow itself."""
    for key, kind in _DEFAULTS.items():
        allowed = (whole.get("compatibility") or {}).get(kind)
        said = (whole.get("defaults") or {}).get(key) or ()
        for name in (said,) if isinstance(said, str) else said:
            if allowed and name not in allowed:
                message = f"the template does not allow its own default {KIND_NAMES[kind]} `{name}`"
                yield (*path, "defaults", key), message, f"it allows {', '.join(sorted(allowed))}"


def _bounds(path: Path, own: Raw, whole: Raw) -> Iterator[Problem]:
    """Yield what excludes each other in a template, where it says something about that itself."""
    for key, value in (own.get("lease") or {}).items():
        yield from no_duration((*path, "lease", key), value)
    if own.get("lease"):
        yield from _lease((*path, "lease"), whole["lease"])
    if not own.get("constraints"):
        return
    constraints, path = whole["constraints"], (*path, "constraints")
    size = constraints.get("size") or {}
    yield from _min_max((*path, "size"), "the size", size.get("min", 1), size.get("max"))
    for service, rule in (constraints.get("services") or {}).items():
        said = rule.get("quantities") or {}
        at = (*path, "services", service, "quantities")
        least = said.get("min", min(1, said.get("max", 1)))
        yield from _min_max(at, f"`{service}`", least, said.get("max"))
    yield from _coexistence((*path, "layout"), constraints.get("layout") or {})


def _lease(path: Path, lease: Raw) -> Iterator[Problem]:
    try:
        initial, longest = (seconds(lease.get(key)) for key in ("initial", "max"))
    except ValueError:
        return
    if longest and not 0 < initial <= longest:
        message = f"the initial lease is longer than the longest, {lease['max']}"
        yield (*path, "initial"), message, "0 or nothing means for ever"


def _min_max(path: Path, what: str, least: int, most: int | None) -> Iterator[Problem]:
    if most is not None and least > most:
        message = f"{what} has a minimum of {least} above its maximum of {most}"
        yield (*path, "max"), message, "raise `max` or lower `min`"


def joined(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the must-coexist groups with those that share a service made one."""
    found: list[list[str]] = []
    for group in groups:
        own = dict.fromkeys(group)
        apart = [each for each in found if not own.keys() & set(each)]
        touching = [name for each in found if own.keys() & set(each) for name in each]
        found = [*apart, list(dict.fromkeys((*touching, *own)))]
    return found


def _coexistence(path: Path, layout: Raw) -> Iterator[Problem]:
    together = joined(layout.get("mustcoexist") or ())
    for place, group in enumerate(layout.get("cantcoexist") or ()):
        for each in together:
            if set(group).issubset(each):
                names = " and ".join(f"`{name}`" for name in group)
                message = f"{names} cannot be on one node and must be (mustcoexist)"
                yield (*path, "cantcoexist", place), message, "take one of the two rules away"
