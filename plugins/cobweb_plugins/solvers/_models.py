"""The questions that are left to CP-SAT, of OR-tools; all of them only ask for yes or no.

One worker, one seed and a limit in deterministic time make the answer the same on every machine;
where the limit is reached that is an error, not a no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cobweb.errors import CobwebError
from cobweb_plugins.solvers._atoms import Atoms, Places, bits
from cobweb_plugins.solvers._errors import too_many

MAX_COLUMNS = 100_000
"""How many greatest sets are handed to CP-SAT."""

MAX_EFFORT = 300
"""How long CP-SAT works on one question, in its own deterministic units, about seconds."""


def greatest_sets(atoms: Atoms, free: int, base: int, size: int) -> Iterator[int]:
    """Yield the valid sets of free atoms, beside base, that no atom can be added to.

    `size` bounds how many services they have; `MAX_COLUMNS` how many there are.
    """
    weights = [len(names) for names in atoms.services]
    stack = [(0, free, 0, 0)]
    count = 0
    while stack:
        chosen, left, out, weight = stack.pop()
        if not left:
            if any(
                weight + weights[a] <= size and atoms.joins(a, chosen | base) for a in bits(out)
            ):
                continue
            count += 1
            if count > MAX_COLUMNS:
                raise too_many(
                    f"more than {MAX_COLUMNS:,} sets of services matter", "ask for fewer services"
                )
            yield chosen
            continue
        low = left & -left
        atom = low.bit_length() - 1
        rest = left ^ low
        heavier = weight + weights[atom]
        if heavier > size or not atoms.joins(atom, chosen | base):
            stack.append((chosen, rest, out, weight))
            continue
        foes = atoms.foes[atom]
        full = weight + sum(weights[a] for a in bits(left)) > size
        if foes & rest or full or any(apart & low for apart in atoms.apart):
            stack.append((chosen, rest, out | low, weight))
        stack.append((chosen | low, rest & ~foes, out, heavier))


def solvable(
    atoms: Atoms,
    groups: Sequence[tuple[Places, Sequence[int]]],
    used: Sequence[int],
    *,
    going: int,
) -> bool:
    """Say whether the nodes of all groups can be given sets within their columns; by CP-SAT.

    A column is a set of free atoms; a node has its group's base and any part of one column, but
    not nothing. `used` are nodes that atoms have already, `going` how many nodes go.
    """
    model = _cp_model().CpModel()
    totals: list[list[Any]] = [[count] for count in used]
    stays = []
    for place, columns in groups:
        low = 0 if place.goes else place.nodes
        staying = model.new_int_var(low, place.nodes, "")
        stays.append(staying)
        counts = [model.new_int_var(0, place.nodes, "") for _ in columns]
        model.add(sum(counts) == staying)
        placed = []
        for atom in bits(place.free):
            having = [c for c, column in zip(counts, columns, strict=True) if column >> atom & 1]
            some = model.new_int_var(0, place.nodes, "")
            model.add(some <= sum(having))
            placed.append(some)
            totals[atom].append(some)
        if not place.base:
            model.add(sum(placed) >= staying)
        for atom in bits(place.base):
            totals[atom].append(staying)
    if any(place.goes for place, _ in groups):
        model.add(sum(stays) == sum(place.nodes for place, _ in groups) - going)
    for atom, parts in enumerate(totals):
        domain = _cp_model().Domain.from_values(atoms.counts[atom])
        if atoms.counts[atom].step == 1 and atoms.counts[atom]:
            domain = _cp_model().Domain(atoms.counts[atom][0], atoms.counts[atom][-1])
        model.add_linear_expression_in_domain(sum(parts), domain)
    return _solved(model)


def covered(needs: Sequence[int], columns: Sequence[int], nodes: int) -> bool:
    model = _cp_model().CpModel()
    counts = [
        model.new_int_var(0, min(nodes, max(needs[atom] for atom in bits(column))), "")
        for column in columns
    ]
    model.add(sum(counts) <= nodes)
    for atom, need in enumerate(needs):
        if need:
            having = [c for c, column in zip(counts, columns, strict=True) if column >> atom & 1]
            model.add(sum(having) >= need)
    return _solved(model)


def _solved(model: Any, solver: Any = None) -> bool:
    cp_model = _cp_model()
    status = (solver or _solver()).solve(model)
    if status == cp_model.UNKNOWN:
        raise too_many("CP-SAT came to no end", "ask for fewer services")
    assert status in {cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE}, status
    return bool(status != cp_model.INFEASIBLE)


def _solver() -> Any:
    solver = _cp_model().CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = MAX_EFFORT
    return solver


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise CobwebError(
            "this question needs OR-tools", hint="install Cobweb with its extra `cluster`"
        ) from error
    return cp_model


def placed(
    atoms: Atoms,
    needs: Sequence[int],
    nodes: int,
    refused: Callable[[int], bool],
    *,
    size: int,
) -> bool:
    """Say whether needs can be met node by node; for few nodes, however many sets there are.

    No node has more than `size` services, nor a set that is `refused`; only sets of that size may
    be. The greatest clique of foes is put on the first nodes, which are as good as any others.
    """
    cp_model = _cp_model()
    model = cp_model.CpModel()
    wanted = [atom for atom, need in enumerate(needs) if need]
    has = [{atom: model.new_bool_var("") for atom in wanted} for _ in range(nodes)]
    for here in has:
        _keep_valid(model, atoms, here, size)
    for atom in wanted:
        model.add(sum(here[atom] for here in has) >= needs[atom])
    first = 0
    for atom in _clique(atoms, needs, wanted):
        for here in has[first : first + needs[atom]]:
            model.add(here[atom] == 1)
        first += needs[atom]
    while True:
        solver = _solver()
        if not _solved(model, solver):
            return False
        masks = [sum(1 << a for a, has_it in h.items() if solver.value(has_it)) for h in has]
        wrong = {mask for mask in masks if refused(mask)}
        if not wrong:
            return True
        for mask in wrong:
            for here in has:
                model.add(sum(here[atom] for atom in bits(mask)) < mask.bit_count())


def _keep_valid(model: Any, atoms: Atoms, here: dict[int, Any], size: int) -> None:
    """Add what holds for one node."""
    for atom, has_it in here.items():
        for foe in bits(atoms.foes[atom]):
            if foe > atom and foe in here:
                model.add_at_most_one([has_it, here[foe]])
    for apart in atoms.apart:
        if all(atom in here for atom in bits(apart)):
            model.add_bool_or([here[atom].negated() for atom in bits(apart)])
    model.add(sum(has_it * len(atoms.services[atom]) for atom, has_it in here.items()) <= size)
    kinds = [model.new_bool_var("") for _ in atoms.fits]
    model.add_exactly_one(kinds)
    for atom, has_it in here.items():
        fitting = [k for k, fit in zip(kinds, atoms.fits, strict=True) if fit >> atom & 1]
        if len(fitting) < len(kinds):
            model.add_bool_or([has_it.negated(), *fitting])


def _clique(atoms: Atoms, needs: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return foes of each other that need many nodes together."""
    best: list[int] = []
    for first in wanted:
        clique = [first]
        for atom in sorted(wanted, key=lambda a: (-needs[a], -atoms.foes[a].bit_count(), a)):
            if all(atoms.foes[other] >> atom & 1 for other in clique):
                clique.append(atom)
        if sum(needs[a] for a in clique) > sum(needs[a] for a in best):
            best = clique
    return best
