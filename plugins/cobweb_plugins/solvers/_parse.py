"""From the plain data of the solver protocol to a `LayoutProblem`; every mistake is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any

from cobweb.errors import ModelError, NoLayoutError
from cobweb_plugins.solvers._problem import (
    Comparator,
    Existing,
    LayoutProblem,
    NodeLayout,
    Rule,
)

Key = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A service's rule as it was written; None where nothing was.

    Steps begin at `base`, and where there is none at `min`.
    """

    hardwaretypes: frozenset[str] | None = None
    imagetypes: frozenset[str] | None = None
    min: int | None = None
    max: int | None = None
    ratio: Fraction | None = None
    step: int | None = None
    base: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Template and constraints, read and checked, before anything is worked out of them."""

    nodes: int
    services: tuple[str, ...]
    hardwaretypes: tuple[str, ...]
    imagetypes: tuple[str, ...]
    hardwaretype: str | None
    imagetype: str | None
    size: tuple[int, int | None]
    rules: Mapping[str, Bounds]
    must: tuple[frozenset[str], ...]
    cant: tuple[frozenset[str], ...]
    clashes: tuple[tuple[str, ...], ...]
    existing: tuple[Existing, ...]


def read(
    template: Mapping[str, Any], constraints: Mapping[str, Any], comparator: Comparator
) -> Question:
    """Return the question; ModelError with the keys of all that is malformed."""
    at = _Reader()
    services = tuple(sorted(set(at.names(template, "services"))))
    rules = at.mapping(template, "rules")
    size = at.mapping(template, "size")
    existing = [
        at.existing(entry, ("existing", index))
        for index, entry in enumerate(at.entries(constraints, "existing"))
    ]
    question = Question(
        nodes=at.count(constraints, "nodes", (), least=1) or 0,
        services=services,
        hardwaretypes=tuple(sorted(set(at.names(template, "hardwaretypes")))),
        imagetypes=tuple(sorted(set(at.names(template, "imagetypes")))),
        hardwaretype=at.name(constraints, "hardwaretype"),
        imagetype=at.name(constraints, "imagetype"),
        size=(at.count(size, "min", ("size",)) or 0, at.count(size, "max", ("size",))),
        rules={name: at.bounds(rules.get(name), ("rules", name)) for name in sorted(rules)},
        must=at.sets(template, "mustcoexist", services),
        cant=tuple(s for s in at.sets(template, "cantcoexist") if s <= set(services)),
        clashes=tuple(
            sorted({tuple(sorted(s)) for s in at.sets(template, "conflicts") if s <= set(services)})
        ),
        existing=_alike(existing, comparator),
    )
    if constraints.get("nodes") is None:
        at.problems.append((("nodes",), "`nodes` is missing: how many nodes there are", ""))
    if at.problems:
        raise ModelError(at.problems)
    return question


def build(question: Question) -> LayoutProblem:
    """Return the problem; NoLayoutError where one constraint alone leaves no layout."""
    if refused := next(_refusals(question), ""):
        raise NoLayoutError(f"no layout: {refused}", conflict=(refused,))
    chosen, image = question.hardwaretype, question.imagetype
    return LayoutProblem(
        nodes=question.nodes,
        services=question.services,
        hardwaretypes=(chosen,) if chosen else question.hardwaretypes,
        imagetypes=(image,) if image else question.imagetypes,
        rules={name: _rule(question, name) for name in question.services},
        must=question.must,
        cant=question.cant,
        existing=question.existing,
    )


def _refusals(question: Question) -> Iterator[str]:
    """Yield each constraint that leaves no layout whatever the others say."""
    nodes, (least, most) = question.nodes, question.size
    if nodes < least:
        yield f"the template needs at least {least} nodes, the cluster has {nodes}"
    if most is not None and nodes > most:
        yield f"the template allows at most {most} nodes, the cluster has {nodes}"
    if not question.services:
        yield "no service is requested, and each node needs one"
    for one, *others in question.clashes:
        yield f"{one} conflicts with {', '.join(others)}: one cluster can't have both"
    if not question.existing or nodes > sum(group.count for group in question.existing):
        yield from _type_refusals("hardware type", question.hardwaretype, question.hardwaretypes)
        yield from _type_refusals("image type", question.imagetype, question.imagetypes)


def _type_refusals(what: str, chosen: str | None, allowed: Sequence[str]) -> Iterator[str]:
    if not allowed:
        yield f"the template allows no {what}"
    elif chosen is not None and chosen not in allowed:
        yield f"the {what} {chosen} is requested, which the template does not allow"


def _rule(question: Question, name: str) -> Rule:
    bounds = question.rules.get(name, Bounds())
    least = 1 if bounds.min is None else bounds.min
    share = ceil(bounds.ratio * question.nodes) if bounds.ratio is not None else 0
    most = question.nodes if bounds.max is None else min(bounds.max, question.nodes)
    return Rule(
        hardwaretypes=bounds.hardwaretypes,
        imagetypes=bounds.imagetypes,
        low=max(least, share),
        high=most,
        base=least if bounds.base is None else bounds.base,
        step=bounds.step or 1,
    )


def _alike(nodes: Sequence[Existing], comparator: Comparator) -> tuple[Existing, ...]:
    """Put nodes that are alike together; the order is that in which existing nodes choose."""
    groups: dict[tuple[NodeLayout, frozenset[str], frozenset[str]], list[tuple[int, int]]] = {}
    for node in nodes:
        entries = groups.setdefault((node.layout, node.may_gain, node.may_lose), [])
        entries += (entry for entry in node.entries if entry[1])
    return tuple(
        Existing(entries=tuple(entries), layout=layout, may_gain=gain, may_lose=lose)
        for (layout, gain, lose), entries in sorted(
            groups.items(),
            key=lambda item: (comparator(item[0][0]), sorted(item[0][1]), sorted(item[0][2])),
        )
        if entries
    )


@dataclass(slots=True)
class _Reader:
    """Reads values of mappings and notes what is not as it should be."""

    problems: list[tuple[tuple[Key, ...], str, str]] = field(default_factory=list)

    def mapping(self, where: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = where.get(key)
        if value is None or isinstance(value, Mapping):
            return value or {}
        self._wrong((key,), "must be a mapping", value)
        return {}

    def entries(self, where: Mapping[str, Any], key: str, path: Sequence[Key] = ()) -> list[Any]:
        value = where.get(key)
        if value is None or (isinstance(value, Sequence) and not isinstance(value, str)):
            return list(value or ())
        self._wrong((*path, key), "must be a list", value)
        return []

    def names(self, where: Mapping[str, Any], key: str, path: Sequence[Key] = ()) -> list[str]:
        values = self.entries(where, key, path)
        for index, value in enumerate(values):
            if not isinstance(value, str) or not value:
                self._wrong((*path, key, index), "must be a name", value)
        return [value for value in values if isinstance(value, str)]

    def name(self, where: Mapping[str, Any], key: str, path: Sequence[Key] = ()) -> str | None:
        value = where.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        self._wrong((*path, key), "must be a name", value)
        return None

    def count(
        self, where: Mapping[str, Any], key: str, path: Sequence[Key], *, least: int = 0
    ) -> int | None:
        value = where.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self._wrong((*path, key), f"must be a whole number from {least}", value)
        return None

    def sets(
        self, where: Mapping[str, Any], key: str, only: Iterable[str] | None = None
    ) -> tuple[frozenset[str], ...]:
        """Return the sets in the order of their names, each once; `only` these members."""
        sets = set()
        for index, names in enumerate(self.entries(where, key)):
            if not isinstance(names, Sequence) or isinstance(names, str):
                self._wrong((key, index), "must be a list of names", names)
                continue
            members = frozenset(self.names({str(index): names}, str(index), (key,)))
            sets.add(members if only is None else members & frozenset(only))
        return tuple(sorted((s for s in sets if s), key=sorted))

    def bounds(self, value: Any, path: tuple[Key, ...]) -> Bounds:
        if value is None or not isinstance(value, Mapping):
            if value is not None:
                self._wrong(path, "must be a mapping", value)
            return Bounds()
        return Bounds(
            hardwaretypes=frozenset(self.names(value, "hardwaretypes", path)) or None,
            imagetypes=frozenset(self.names(value, "imagetypes", path)) or None,
            min=self.count(value, "min", path),
            max=self.count(value, "max", path),
            ratio=self._ratio(value, path),
            step=self.count(value, "step", path, least=1),
        )

    def existing(self, value: Any, path: tuple[Key, ...]) -> Existing:
        if not isinstance(value, Mapping):
            self._wrong(path, "must be a mapping", value)
            value = {"hardwaretype": "-", "imagetype": "-"}
        count = self.count(value, "count", path)
        types = [self.name(value, key, path) for key in ("hardwaretype", "imagetype")]
        if None in types:
            self._wrong(path, "must have `hardwaretype` and `imagetype`", types)
        return Existing(
            entries=((int(path[-1]), 1 if count is None else count),),
            layout=NodeLayout(
                hardwaretype=types[0] or "",
                imagetype=types[1] or "",
                services=tuple(sorted(set(self.names(value, "services", path)))),
            ),
            may_gain=frozenset(self.names(value, "may_gain", path)),
            may_lose=frozenset(self.names(value, "may_lose", path)),
        )

    def _ratio(self, value: Mapping[str, Any], path: tuple[Key, ...]) -> Fraction | None:
        """Return the ratio as it was written: 0.1 is a tenth."""
        ratio = value.get("ratio")
        if ratio is None:
            return None
        if isinstance(ratio, int | float) and not isinstance(ratio, bool) and 0 <= ratio <= 1:
            return Fraction(str(ratio))
        self._wrong((*path, "ratio"), "must be a number from 0 to 1", ratio)
        return None

    def _wrong(self, path: tuple[Key, ...], what: str, value: Any) -> None:
        keys = ".".join(str(key) for key in path)
        self.problems.append((path, f"`{keys}` {what}, not {value!r}", ""))
