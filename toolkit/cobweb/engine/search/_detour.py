"""Look-ahead in a run: carry out an order that the local rules do not find (section 5b).

When nothing moves and objects are not where they should be, the search (`_search`) is asked for
each part of them. The order that it finds is injected through the locks: every object of the part
stays where it is whatever it is asked, but for the one whose step it is. So its needs are granted
by the same rules as ever, and no wrong order can break a promise. An order is left as soon as
anything is found other than it should be. No situation of a part is searched from twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from cobweb.engine._machine import Machine
from cobweb.engine._node import IDLE, STAY, Node
from cobweb.engine.search._cone import parts
from cobweb.engine.search._problem import Problem, Standing
from cobweb.engine.search._proof import Proof, explain
from cobweb.engine.search._search import NoOrder, Order, find_order
from cobweb.model import UNKNOWN, CobId, Graph, State, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """An order for a part of the objects, from the states that they are believed to be in."""

    steps: tuple[tuple[CobId, Transition], ...]
    states: tuple[tuple[CobId, State], ...]


@dataclass(slots=True, eq=False)
class Detour:
    """An order under way: the steps that are left, and the objects of its part."""

    steps: deque[tuple[CobId, Transition]]
    nodes: list[Node]


def foresee(machine: Machine) -> tuple[Foreseen, ...]:
    """Return the cheapest orders from where objects are expected to be; before anything starts."""
    return tuple(_orders(machine, set()))


def prove(machine: Machine) -> tuple[Proof, ...]:
    """Return why parts have no order from where objects are expected to be, if they have none."""
    problem = problem_of(machine)
    return tuple(
        explain(problem, part)
        for part in parts(problem)
        if isinstance(find_order(problem, part), NoOrder)
    )


def look_ahead(machine: Machine) -> bool:
    """Search an order for all that is not where it should be; say whether one was found."""
    if not any(n.known and n.away and not (n.stuck or n.absent) for n in machine.nodes.values()):
        return False
    orders = tuple(_orders(machine, machine.searched))
    for order in orders:
        begin(machine, order)
    return bool(orders)


def _orders(machine: Machine, searched: set[tuple[tuple[CobId, State], ...]]) -> Iterator[Foreseen]:
    """Yield the cheapest order of each part that has one, unless it was searched from there."""
    problem = problem_of(machine)
    for part in parts(problem):
        states = tuple((cob, problem.states[cob]) for cob in part)
        if states in searched:
            continue
        searched.add(states)
        order = find_order(problem, part)
        if isinstance(order, Order) and order.steps:
            yield Foreseen(steps=order.steps, states=states)


def begin(machine: Machine, order: Foreseen) -> None:
    """Begin an order; its objects stay where they are believed to be until it is their turn."""
    nodes = [machine.nodes[cob] for cob, _ in order.states if cob in machine.nodes]
    if len(nodes) < len(order.states):
        return
    detour = Detour(deque(order.steps), nodes)
    for node, (_, state) in zip(nodes, order.states, strict=True):
        _direct(machine, node, state)
    machine.detours.append(detour)
    machine.detoured = True
    _go_on(machine, detour)


def advance(machine: Machine) -> bool:
    """Go on with orders whose step has ended, leave those that went wrong; say if any moved."""
    moved = False
    for detour in tuple(machine.detours):
        cob, step = detour.steps[0]
        node = machine.nodes[cob]
        if node.activity is not IDLE or node.suspect:
            continue
        if node.state == step.dest and _is_as_thought(detour, node):
            detour.steps.popleft()
            if detour.steps:
                _go_on(machine, detour)
            else:
                _end(machine, detour)
            moved = True
        elif node.state != step.source or not _is_as_thought(detour, node):
            _end(machine, detour)
            moved = True
    return moved


def abandon(machine: Machine) -> bool:
    """Leave all orders, which nothing moves any more; say whether there were any."""
    there = bool(machine.detours)
    for detour in tuple(machine.detours):
        _end(machine, detour)
    return there


def problem_of(machine: Machine) -> Problem:
    """Return what the search is asked: where objects are, and where they should be now."""
    nodes = machine.nodes
    goals: dict[CobId, State] = {}
    fixed: set[CobId] = set()
    for cob, node in nodes.items():
        if _is_fixed(machine, node):
            fixed.add(cob)
        elif node.leaves or node.goal != STAY:
            goals[cob] = node.type.remove if node.leaves else node.goal
    lender = machine.lender
    may_go_out, working = machine.may_go_out, machine.working

    def may(cob: CobId, step: Transition) -> bool:
        is_named = may_go_out is None or cob in may_go_out
        return is_named or not working.goes_out(nodes[cob], step)

    return Problem(
        graph=Graph(cobs={cob: node.cob for cob, node in nodes.items()}, limits=machine.limits),
        states={cob: machine.expected(node) for cob, node in nodes.items()},
        needs={cob: node.needs for cob, node in nodes.items() if node.needs},
        budgets=() if lender is None else tuple(book.budget for book in lender.books),
        goals=goals,
        fixed=fixed,
        standing=Standing() if lender is None else lender.standing(),
        may=may,
    )


def _is_fixed(machine: Machine, node: Node) -> bool:
    """Say whether an object does not move in this run, or not yet."""
    if node.stuck or node.absent or not node.up or node.suspect:
        return True
    if node.state == UNKNOWN and node.id not in machine.guesses:
        return True
    hosts, lender = machine.hosts, machine.lender
    is_late = hosts is not None and (hosts.holds_back(node) or hosts.is_kept(node))
    if is_late or lender is None or node.standing is None:
        return is_late
    return lender.canaries.holds(node) or any(map(lender.is_too_much, node.standing.scopes))


def _is_as_thought(detour: Detour, at: Node) -> bool:
    """Say whether all objects of an order but the one whose step it is are where it has them."""
    return all(
        not node.failed
        and node.up
        and not node.absent
        and (node is at or node.state in (UNKNOWN, node.directive) or node.activity is not IDLE)
        for node in detour.nodes
    )


def _go_on(machine: Machine, detour: Detour) -> None:
    cob, step = detour.steps[0]
    _direct(machine, machine.nodes[cob], step.dest)


def _end(machine: Machine, detour: Detour) -> None:
    machine.detours.remove(detour)
    for node in detour.nodes:
        _direct(machine, node, machine.renewing.get(node.id, ""))


def _direct(machine: Machine, node: Node, state: State) -> None:
    node.directive = state
    node.retarget()
    machine.touch(node)
