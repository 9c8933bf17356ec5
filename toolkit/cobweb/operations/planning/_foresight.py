"""What is known of any run beforehand: mistakes, endless waits, old content that serves.

The first is what the engine's analysis finds, with the places of the needs. The second is that of
a run that sets the site up from nothing (P9). The third is of all changes at once: where units of a
limit need the new content of each other, one of them goes first, and what it needs has its old
content then (design, section 6). A plan names it of the change at hand; this does of any change,
for `validate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from cobweb.engine import Changeover, Lending, Proof, Trouble, analyse, misfits
from cobweb.errors import Finding, Place
from cobweb.kernel._result import StuckError, Wait, stuck_waits
from cobweb.kernel._sentences import chain_lines
from cobweb.model import Budget, CobId, Graph, host_of, name_of
from cobweb.operations.context._context import ExecutionContext, context_from_nothing
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._known_states import outdated_in
from cobweb.operations.planning._prediction import predict, predict_best

_SHOWN = 5
"""Of how many objects it is said why they would wait."""

_HINTS = {
    "state": "write a state of its type",
    "self": "take the need out",
    "contradiction": "take one of the needs out",
    "no-way": "add a transition to its type, or take the need out",
    "circle": "take one of these needs out",
    "push": "take one of these needs out, or change what is preferred",
}
"""What to do about each kind of trouble."""

_MISFIT_HINTS = {
    "step": "raise `max`, or let the objects go one by one",
    "all": "lower `max`",
    "serving": "say `serving: [...]` in the type",
}
"""What to do about a limit that hardly does what somebody means by it."""


def told_stuck(stuck: Sequence[Wait], context: ExecutionContext | None = None) -> StuckError:
    """Return the error that tells who would wait for ever, with the chains of a few, and why."""
    error = StuckError(stuck)
    proofs = () if context is None else context.proofs()[:_SHOWN]
    for line in chain(*map(proof_lines, proofs), *map(chain_lines, stuck[:_SHOWN])):
        error.add_note(line)
    return error


def proof_lines(proof: Proof) -> list[str]:
    """Return the needs and limits that together leave no order, each with its place."""
    reasons = [f"  {need}{_at(need.place)}" for need in proof.needs]
    reasons += [f"  limit `{budget.name}`{_at(budget.place)}" for budget in proof.budgets]
    if not reasons:
        return []
    head = "by what is known no order exists: these together leave none"
    return [f"{head}{'' if proof.smallest else ', and perhaps fewer of them'}", *reasons]


def _at(place: Place | None) -> str:
    return "" if place is None else f" ({place})"


def stuck_from_nothing(desired: Desired) -> tuple[Wait, ...]:
    """Return who would wait for ever if the site was set up from its `remove` states (P9)."""
    return stuck_waits(predict_best(context_from_nothing(desired))[1].waits)


def old_content_warnings(desired: Desired) -> Iterator[Finding]:
    """Yield the pairs of `Prediction.old_content`, once for those with alike names.

    The run of the change is gone through only where the order of new contents has a circle.
    """
    if not desired.graph.budgets:
        return
    context = _all_changed(desired)
    engine = context.engine()
    engine.start(context.known, **context.beliefs())
    if not engine.old_content:
        return
    alike: dict[tuple[str, str], list[tuple[CobId, CobId]]] = {}
    for cob, on in predict(context).old_content:
        if desired.graph.cobs[on].trust_s is not None:
            continue  # a gate, which is asked each time
        alike.setdefault((name_of(cob), name_of(on)), []).append((cob, on))
    for (cob, on), *others in alike.values():
        first = next((it for it in desired.graph.budgets if host_of(on) in _hosts(it)), None)
        more = f" ({len(others)} more like this)" if others else ""
        yield Finding(
            place=(first and first.place) or Place(file="site.yml"),
            message=f"if all changes at once, {cob} gets its new content while {on}, on which it "
            f"relies, has its old one still: with the limit they wait in a circle{more}",
            hint="where that does not do, change one of them in a commit of its own",
        )


def _all_changed(desired: Desired) -> ExecutionContext:
    """Return the context of a site that stands, of which all changes that limits hold back."""
    context, cobs = context_from_nothing(desired), desired.graph.cobs
    hosts = frozenset[str]().union(*map(_hosts, desired.graph.budgets))
    stands = {cob: it.preferred for cob, it in cobs.items()}
    guesses = {cob: outdated_in(it, stands[cob]) for cob, it in cobs.items() if it.host in hosts}
    changed = frozenset(guesses)
    before = replace(context.before, known=stands, found={}, changed=changed, added=frozenset())
    return replace(
        context,
        before=before,
        change=Changeover(hosts=hosts, changed=changed, guesses=guesses),
        lending=Lending(served=frozenset(cobs)),
    )


def _hosts(budget: Budget) -> set[str]:
    return {host_of(cob) for unit in budget.units for cob in unit.members}


def trouble_findings(graph: Graph) -> tuple[Finding, ...]:
    """Return a finding per trouble; a circle is a line per step."""
    alike: dict[Any, list[Trouble]] = {}
    for it in analyse(graph):
        # What the same mistake has in common on all hosts that it shows on.
        steps = sorted((name_of(link.cob), link.step, name_of(link.on)) for link in it.cycle)
        shape = (str(it.kind), _place(it), tuple(sorted(map(name_of, it.cobs))), tuple(steps))
        alike.setdefault(shape, []).append(it)
    return tuple(_finding(troubles[0], len(troubles) - 1) for troubles in alike.values())


def graph_warnings(graph: Graph) -> Iterator[Finding]:
    """Yield what is no mistake of the limits, but not what somebody means by them."""
    for misfit in misfits(graph):
        lines = "".join(f"\n    {link}{_at(link.place)}" for link in misfit.links)
        yield Finding(
            place=misfit.budget.place or Place(file="site.yml"),
            message=misfit.message + lines,
            hint=_MISFIT_HINTS[str(misfit.kind)],
        )


def _place(trouble: Trouble) -> Place:
    places = [link.place for link in trouble.cycle if link.place is not None]
    return trouble.place or (places[0] if places else Place(file="site.yml"))


def _finding(trouble: Trouble, more: int) -> Finding:
    rest = f", and {more} more like this on other hosts" if more else ""
    lines = "".join(f"\n    {link}" for link in trouble.cycle)
    hint = _HINTS.get(str(trouble.kind), "")
    return Finding(place=_place(trouble), message=trouble.message + rest + lines, hint=hint)
