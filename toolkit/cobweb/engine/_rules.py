"""The rules that one object runs on every change (section 5.4 of the paper, numbered as there).

`settle` is the whole algorithm: what to ask for (2, 4), what to give back (6, 7, recall), what to
recall, what to grant (3), what may start (5). Rule 1, the target, is the node's own.
"""

from __future__ import annotations

from operator import itemgetter

from cobweb.engine._machine import Machine
from cobweb.engine._needs import Wanted, agreed, of_state, of_step
from cobweb.engine._node import CHURNED, MOVING, UNPLANNED, Node
from cobweb.engine._state_locks import grant_all, recall, release, request
from cobweb.engine._tables import Move
from cobweb.engine._values import StartTransition, made
from cobweb.model import UNKNOWN, CobId, State, Transition

NOWHERE: tuple[Move | None, State] = (None, "")
"""Ahead of an object that goes nowhere and is asked for nothing."""


def settle(machine: Machine, node: Node) -> None:
    """Look at one object and do all that its rules allow now."""
    if node.frozen:
        _recall_lent(machine, node)
        return
    if node.serves and not (node.serves == node.state and _is_waited_for(node)):
        node.serves = ""
        node.retarget()
    move, asked = _ahead(machine, node) if node.known else NOWHERE
    if move is not node.plan_move or asked != node.plan_asked or node.lent_states != node.plan_lent:
        _change_plan(machine, node, move, asked)
    if node.recalled or node.at_rest:
        _yield_recalled(machine, node)
        _recall_lent(machine, node)
    if node.missing or node.twisted:
        return
    if node.plan_asked:
        # rule 3: in the target state, all lock dependencies held: grant all requests for it
        gates = machine.gates
        may_grant = node.state in node.pending and not node.recalled
        if may_grant and (gates is None or gates.let_lend(machine, node)):
            grant_all(machine, node)
            node.news = node.queued  # with locks out its plan is another one
    elif node.plan_move is not None and not node.lent:
        machine.ready.append(node)


def start(machine: Machine, node: Node) -> None:
    """Rule 5, when all who have something to say have said it: start what still may.

    A request that is on its way is heard first: who is asked to stay does not leave and come back.
    """
    move = node.plan_move
    if move is None or not node.is_ready:
        return
    is_asked = node.state in node.pending
    if is_asked and node.target == node.goal and not node.directive and _is_waited_for(node):
        node.serves = node.state
        node.retarget()
        machine.touch(node)
    else:
        _start(machine, node, move)


def _is_waited_for(node: Node) -> bool:
    """Say whether a step of others waits for nothing but the state that the object is in."""
    words = (*node.pending.get(node.state, {}).values(), *node.lent.get(node.state, {}).values())
    return any(
        it.plan_move is not None and (it.activity is MOVING or it.missing == (not word.granted))
        for word in words
        if (it := word.holder) is not None
    )


def replan(machine: Machine, node: Node) -> None:
    """Have an object whose needs are other ones now say anew what it asks for."""
    node.plan_lent = (UNKNOWN,)  # which no plan has
    machine.touch(node)


def _ahead(machine: Machine, node: Node) -> tuple[Move | None, State]:
    """Return the next move, or the state that others ask for where the object is to stay.

    Where a slot or a canary holds it back, it asks for nothing yet.
    """
    state = node.state
    move = node.table.moves[state].get(node.target)
    if move is not None and not node.stuck:
        if not machine.counts:
            return move, ""
        hosts, lender = machine.hosts, machine.lender
        is_late = hosts is not None and hosts.holds_back(node)
        may = lender is None or node.standing is None or lender.lets_move(node, move.step)
        if may and not is_late:
            return move, ""
    return (None, state) if state in node.pending or state in node.lent else NOWHERE


def _change_plan(machine: Machine, node: Node, move: Move | None, asked: State) -> None:
    """Say which needs matter now - rules 2 and 4, and P3 for what is lent - and pursue them."""
    if node.epoch != machine.epoch:
        node.epoch, node.new_plans = machine.epoch, 0
    node.new_plans += 1
    most = machine.settings.max_new_plans
    many = most < node.new_plans and most * (1 + node.asks() + len(node.wishes)) < node.new_plans
    if many and not node.stuck:  # restless, while nothing happens anywhere
        node.stuck |= CHURNED
        move, asked = _ahead(machine, node) if node.known else NOWHERE
    node.plan_lent, node.plan_asked, node.plan_move = node.lent_states, asked, move
    if node.wishes or node.lock_needs or (move is not None and node.step_needs):
        _pursue(machine, node)


def _pursue(machine: Machine, node: Node) -> None:
    """Ask for what the plan needs and release all else: rules 2, 4, 6 and 7."""
    wanted = _wanted(machine, node)
    wishes = node.wishes
    for on in sorted(wishes) if len(wishes) > 1 else tuple(wishes):
        if wishes[on].state and on not in wanted:
            release(machine, node, on)
    node.missing = 0
    for on, state in wanted.items():
        word = wishes.get(on)
        if word is None or word.state != state:
            request(machine, node, on, state)
            node.missing += 1
        elif not word.granted:
            node.missing += 1
    if not wishes:
        node.wishes = {}  # an emptied one keeps its memory


def _wanted(machine: Machine, node: Node) -> dict[CobId, State]:
    """Merge the needs of the plan, one state per object: what is lent binds first."""
    cobs = machine.cobs
    wanted: dict[CobId, State] = {}
    ahead: Wanted = ()
    move = node.plan_move
    if move is not None and node.step_needs is not None:
        ahead = of_step(node.step_needs, move.step.source, move.step.dest)
    if node.lock_needs is not None:
        for lent in node.plan_lent:
            wanted.update(agreed(of_state(node.lock_needs, lent), cobs))
        node.base = tuple(wanted.items())
        if node.plan_asked:
            ahead = of_state(node.lock_needs, node.plan_asked)
    node.twisted = False
    for on, state in agreed(ahead, cobs):
        first = wanted.setdefault(on, state)
        if first != state and (cobs is None or cobs[on].type.meet((first, state)) != first):
            node.twisted = True
    return wanted


def _yield_recalled(machine: Machine, node: Node) -> None:
    """Give back at once what is asked back, unless a lock lent on top of it is out; ask again."""
    if not node.recalled:
        return
    bound = {on for on, _ in node.base}
    for on in sorted(node.recalled - bound):
        node.missing += 1
        request(machine, node, on, node.wishes[on].state)


def _recall_lent(machine: Machine, node: Node) -> None:
    """Ask for the locks back that keep the object from its aim, or that it can't vouch for."""
    state = node.state
    sure = node.known and not node.recalled
    keep = state if sure and (node.target == state or node.move() is None) else ""
    if node.lent_states == (keep,):
        return
    words = [
        (holder, word)
        for state, bucket in node.lent.items()
        if state != keep
        for holder, word in bucket.items()
        if not word.recalled
    ]
    for holder, word in sorted(words, key=itemgetter(0)):
        recall(machine, node, holder, word)


def _start(machine: Machine, node: Node, move: Move) -> None:
    """Rule 5: all transition dependencies held, no own lock out: start, if limits allow."""
    if machine.halted:
        return
    if node.taken is None:
        node.taken = [0] * node.table.steps
    if node.taken[move.number] >= machine.settings.max_same_transition:
        node.stuck |= CHURNED
        machine.touch(node)
        return
    if machine.book.limits and machine.book.wait(node, move.step):
        node.news = node.queued  # there may be room when its turn comes
        return
    if machine.gates is not None and not machine.gates.let_start(machine, node):
        return
    if machine.tracks and not _may_go_out(machine, node, move.step):
        return
    node.taken[move.number] += 1
    requesters = node.pending.get(node.target)
    if requesters:
        node.pusher = min(requesters)
    locks: Wanted = ()
    if node.wishes:
        locks = tuple(sorted((on, it.state) for on, it in node.wishes.items() if it.state))
    machine.effects.append(made(StartTransition, (node.id, move.step, node.target, locks)))
    if machine.lender is not None and node.standing is not None:
        machine.lender.began(node, move.step)
    machine.begin(node, MOVING, move.step)


def _may_go_out(machine: Machine, node: Node, step: Transition) -> bool:
    """Say whether a step may take its object out, where it does; the last look before it starts."""
    may = machine.may_go_out
    if may is not None and node.id not in may and machine.working.goes_out(node, step):
        node.stuck |= UNPLANNED
        machine.touch(node)
        return False
    lender = machine.lender
    if lender is None or node.standing is None or lender.has_slots(node, step):
        return True
    replan(machine, node)
    return False
