"""Why there is no layout: the smallest set of constraints that can't hold together, in words.

First one constraint after the other is left out, and stays out if there is still no layout: what
remains is irreducible. Then a smaller set is looked for by implicit hitting sets (Ignatiev et al.,
"Smallest MUS Extraction with Minimal Hitting Set Dualization", 2015): every set in conflict has a
constraint in common with the complement of every set that has a layout; so the smallest set that
hits all the complements known so far either is in conflict, and then it is a smallest one, or
grows into a set that has a layout, whose complement is new. After `MAX_QUESTIONS` more questions
the irreducible set is the answer, and says that it may not be the smallest.

That a requested service is on at least one node, that each node has a service, which types the
template allows and what the hardware of existing nodes is, is taken for granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from cobweb.errors import NoLayoutError
from cobweb_plugins.solvers._parse import Bounds, Question, build
from cobweb_plugins.solvers._problem import Existing, LayoutProblem

MAX_QUESTIONS = 200
"""How often it is asked whether some constraints have a layout, to find a smaller conflict."""

_NAMED = 12
"""How many services of a node a sentence names."""

_KINDS = 4
"""Up to how many kinds of existing nodes are constraints of their own."""

_ALL = -1
"""Stands for all existing nodes in place of the number of a kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A constraint that can be left out: its kind, whose it is, and what it says."""

    kind: str
    of: str | int
    text: str


def explain(question: Question, possible: Callable[[LayoutProblem], bool]) -> NoLayoutError:
    """Return the error for a question without a layout; `possible` proves whether there is one."""
    constraints = constraints_of(question)
    asked = _Asked(question=question, constraints=constraints, possible=possible)
    found = _irreducible(asked)
    smaller, proven = _smallest(asked, found)
    texts = tuple(constraints[index].text for index in sorted(smaller))
    hint = "" if proven else "none of these can be spared, but a smaller set may be in conflict too"
    nodes = f"{question.nodes} node{'s' if question.nodes > 1 else ''}"
    return NoLayoutError(f"no layout for {nodes}: {'; '.join(texts)}", conflict=texts, hint=hint)


def constraints_of(question: Question) -> tuple[Constraint, ...]:
    """Return all constraints that can be left out, in a fixed order."""
    found = [*_of_nodes(question)]
    for service in question.services:
        found += _of_service(question, service, question.rules.get(service, Bounds()))
    for index, together in enumerate(question.must):
        if len(together) > 1:
            first, *others = sorted(together)
            found.append(
                Constraint(
                    kind="must", of=index, text=f"{first} must be with {' and '.join(others)}"
                )
            )
    for index, apart in enumerate(question.cant):
        first, *others = sorted(apart)
        text = (
            f"{first} can't be with {' and '.join(others)}"
            if others
            else f"{first} can't be on any node"
        )
        found.append(Constraint(kind="cant", of=index, text=text))
    return tuple(found)


def without(question: Question, dropped: Iterable[Constraint]) -> Question:
    """Return the question with some constraints left out."""
    gone: dict[str, set[str | int]] = {}
    for constraint in dropped:
        gone.setdefault(constraint.kind, set()).add(constraint.of)
    free = frozenset(question.services)
    return replace(
        question,
        hardwaretype=None if "hardwaretype" in gone else question.hardwaretype,
        imagetype=None if "imagetype" in gone else question.imagetype,
        rules={
            name: _weaker(bounds, {kind for kind, of in gone.items() if name in of})
            for name, bounds in question.rules.items()
        },
        must=_but(question.must, gone.get("must", set())),
        cant=_but(question.cant, gone.get("cant", set())),
        existing=tuple(
            replace(group, may_gain=free, may_lose=frozenset(group.layout.services))
            if gone.get("existing", set()) & {index, _ALL}
            else group
            for index, group in enumerate(question.existing)
        ),
    )


def _weaker(bounds: Bounds, kinds: set[str]) -> Bounds:
    if not kinds:
        return bounds
    weaker = replace(
        bounds,
        hardwaretypes=None if "hardware" in kinds else bounds.hardwaretypes,
        imagetypes=None if "image" in kinds else bounds.imagetypes,
        max=None if "max" in kinds else bounds.max,
        ratio=None if "ratio" in kinds else bounds.ratio,
        step=None if "step" in kinds else bounds.step,
    )
    return (
        replace(weaker, min=min(1, bounds.min or 0), base=bounds.min) if "min" in kinds else weaker
    )


def _but(sets: Sequence[frozenset[str]], gone: set[str | int]) -> tuple[frozenset[str], ...]:
    return tuple(members for index, members in enumerate(sets) if index not in gone)


@dataclass(slots=True)
class _Asked:
    """Whether some constraints have a layout together; each is asked once."""

    question: Question
    constraints: Sequence[Constraint]
    possible: Callable[[LayoutProblem], bool]
    known: dict[frozenset[int], bool] = field(default_factory=dict)

    def feasible(self, kept: frozenset[int]) -> bool:
        if kept not in self.known:
            dropped = [c for index, c in enumerate(self.constraints) if index not in kept]
            self.known[kept] = self.possible(build(without(self.question, dropped)))
        return self.known[kept]


def _irreducible(asked: _Asked) -> frozenset[int]:
    """Return constraints in conflict, none of which can be spared."""
    kept = frozenset(range(len(asked.constraints)))
    size = max(1, len(kept) // 4)
    while size:
        for start in range(0, len(asked.constraints), size):
            fewer = kept - frozenset(range(start, start + size))
            if fewer != kept and not asked.feasible(fewer):
                kept = fewer
        size //= 2
    return kept


def _smallest(asked: _Asked, found: frozenset[int]) -> tuple[frozenset[int], bool]:
    """Return a smallest set in conflict and True, or `found` and False where that is not proven."""
    everything = frozenset(range(len(asked.constraints)))
    spared: list[frozenset[int]] = []
    enough = len(asked.known) + MAX_QUESTIONS
    while len(asked.known) < enough:
        hit = _hitting_set(spared, len(found) - 1)
        if hit is None:
            return found, True
        if not asked.feasible(hit):
            return hit, True
        spared.append(everything - _grown(asked, hit, sorted(everything - hit)))
    return found, False


def _grown(asked: _Asked, kept: frozenset[int], others: Sequence[int]) -> frozenset[int]:
    """Add all of the others that leave a layout, in their order, in halves where they do not."""
    if not others:
        return kept
    if asked.feasible(kept | frozenset(others)):
        return kept | frozenset(others)
    if len(others) == 1:
        return kept
    middle = len(others) // 2
    return _grown(asked, _grown(asked, kept, others[:middle]), others[middle:])


def _hitting_set(sets: Sequence[frozenset[int]], most: int) -> frozenset[int] | None:
    """Return a smallest set with a member of each of `sets`; None if it has more than `most`."""
    for size in range(most + 1):
        found = next(_hitting(sets, size), None)
        if found is not None:
            return found
    return None


def _hitting(sets: Sequence[frozenset[int]], size: int) -> Iterator[frozenset[int]]:
    if not sets:
        yield frozenset()
    elif size:
        smallest = min(sets, key=_size)
        for member in sorted(smallest):
            rest = [s for s in sets if member not in s]
            for others in _hitting(rest, size - 1):
                yield others | {member}


def _size(members: frozenset[int]) -> tuple[int, list[int]]:
    return (len(members), sorted(members))


def _of_nodes(question: Question) -> Iterator[Constraint]:
    there = sum(group.count for group in question.existing)
    if question.nodes > there:
        for kind, what, chosen, allowed in (
            ("hardwaretype", "hardware", question.hardwaretype, question.hardwaretypes),
            ("imagetype", "image", question.imagetype, question.imagetypes),
        ):
            if chosen and len(allowed) > 1:
                text = f"new nodes get the {what} type {chosen}"
                yield Constraint(kind=kind, of="", text=text)
    if len(question.existing) > _KINDS:
        yield Constraint(kind="existing", of=_ALL, text=_stay(question.existing))
        return
    for index, group in enumerate(question.existing):
        yield Constraint(kind="existing", of=index, text=_stays(group))


def _of_service(question: Question, name: str, bounds: Bounds) -> Iterator[Constraint]:
    nodes = question.nodes
    if bounds.hardwaretypes is not None:
        text = f"{name} needs {_types(question, 'hardwaretypes', bounds.hardwaretypes)}"
        yield Constraint(kind="hardware", of=name, text=text)
    if bounds.imagetypes is not None:
        text = f"{name} needs {_types(question, 'imagetypes', bounds.imagetypes)}"
        yield Constraint(kind="image", of=name, text=text)
    if (bounds.min or 0) > 1:
        text = f"{name} needs at least {bounds.min} nodes, the cluster has {nodes}"
        yield Constraint(kind="min", of=name, text=text)
    if bounds.ratio is not None and (share := ceil(bounds.ratio * nodes)) > 1:
        text = f"{name} needs {float(bounds.ratio):g} of {nodes} nodes, which is {share}"
        yield Constraint(kind="ratio", of=name, text=text)
    if bounds.max is not None and bounds.max < nodes:
        text = f"{name} may be on at most {bounds.max} of {nodes} nodes"
        yield Constraint(kind="max", of=name, text=text)
    if (bounds.step or 1) > 1:
        least = 1 if bounds.min is None else bounds.min
        text = f"the number of nodes with {name} is {least} plus a multiple of {bounds.step}"
        yield Constraint(kind="step", of=name, text=text)


def _types(question: Question, what: str, wanted: frozenset[str]) -> str:
    """Say which types a service needs, and if nothing has them."""
    there = {getattr(group.layout, what[:-1]) for group in question.existing}
    new = question.nodes > sum(group.count for group in question.existing)
    allowed = set(getattr(question, what)) if new else set()
    names = " or ".join(sorted(wanted))
    if wanted & (there | allowed):
        return names
    return f"{names}, which {'the template does not allow' if new else 'no node has'}"


def _stay(groups: Sequence[Existing]) -> str:
    """Say what all existing nodes may become, where they are of too many kinds to name each."""
    gain = ", ".join(sorted(frozenset().union(*(group.may_gain for group in groups))))
    lose = ", ".join(sorted(frozenset().union(*(group.may_lose for group in groups))))
    nodes = sum(group.count for group in groups)
    return f"{nodes} existing nodes may gain {gain or 'nothing'} and lose {lose or 'nothing'}"


def _stays(group: Existing) -> str:
    services = group.layout.services
    names = ", ".join(services[:_NAMED]) + (", ..." if len(services) > _NAMED else "")
    nodes = "1 existing node" if group.count == 1 else f"{group.count} existing nodes"
    gain = ", ".join(sorted(group.may_gain)) or "nothing"
    lose = ", ".join(sorted(group.may_lose)) or "nothing"
    return f"{nodes} with {names or 'no service'} may gain {gain} and lose {lose}"
