"""What is known of any run beforehand: who would wait for ever, and whom old content would serve.

The first is that of a run that sets the site up from nothing (P9). The second is of all changes at
once: where units of a limit need the new content of each other, one of them goes first, and what it
needs has its old content then (design, section 6). A plan names it of the change at hand; this does
of any change, for `validate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cobweb.engine import Changeover, Lending
from cobweb.errors import Finding, Place
from cobweb.kernel._result import StuckError, Wait, stuck_waits
from cobweb.kernel._sentences import chain_lines, proof_lines
from cobweb.model import Budget, CobId, host_of, name_of
from cobweb.operations.context._context import ExecutionContext, context_from_nothing
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._known_states import outdated_in
from cobweb.operations.planning._prediction import predict, predict_best

_SHOWN = 5
"""Of how many objects it is said why they would wait."""


def told_stuck(stuck: Sequence[Wait], context: ExecutionContext | None = None) -> StuckError:
    """Return the error that tells who would wait for ever, with the chains of a few, and why."""
    error = StuckError(stuck)
    for proof in () if context is None else context.proofs()[:_SHOWN]:
        for line in proof_lines(proof):
            error.add_note(line)
    for wait in stuck[:_SHOWN]:
        for line in chain_lines(wait):
            error.add_note(line)
    return error


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
