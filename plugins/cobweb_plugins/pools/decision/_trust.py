"""Which answers of services count: lying numbers move nothing.

An answer that is missing, too old, not finite or negative, or in which a KPI is missing that an SLO
looks at, says nothing; so does one in which nearly half of the members are gone at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from cobweb_plugins.pools.decision._pools import Service, SloKind
from cobweb_plugins.pools.decision._state import (
    Holding,
    MemberState,
    Note,
    NoteKind,
    Observed,
    Phase,
    SeenState,
    ServiceState,
    View,
)

GONE = 0.45
"""The part of a service's members that may be gone from one answer to the next (measured in no
field; a rack of two is more than this, one of three is not)."""


LARGEST = 1e15
"""What KPIs and loads are at most: more is no number of anything, and sums of it are infinite."""


def trusted(
    view: View, observations: Mapping[str, Observed], now_s: float
) -> tuple[Mapping[str, Observed], tuple[Note, ...]]:
    """Return the answers that count, by service, and a note for each registered one that has none.

    An answer from the future arrived now.
    """
    expected = _expected(view, observations)
    found: dict[str, Observed] = {}
    notes = []
    for name, service in sorted(view.pools.services.items()):
        if not service.registered:
            continue
        answer = observations.get(name)
        why = _doubt(service, answer, now_s - view.pools.stale_after_s)
        if answer is not None and not why and not service.direct:
            gone = sum(not _is_heard(answer, id_) for id_ in expected[name])
            if gone > GONE * len(expected[name]):
                why = f"{gone} of its {len(expected[name])} members are gone at once"
        if answer is None or why:
            notes.append(Note(kind=NoteKind.UNTRUSTED, subject=name, text=f"unknown: {why}"))
        else:
            found[name] = answer
    return found, tuple(notes)


def claims(view: View, answers: Mapping[str, Observed]) -> Mapping[str, tuple[str, ...]]:
    """Return the resources that services claim and that are not theirs by decision, with these.

    What a resource that changes hands leaves behind for a moment is no claim: it has to be known to
    have left, and its new service to have it up for as long as the question took.
    """
    found = defaultdict[str, list[str]](list)
    for name, answer in sorted(answers.items()):
        for id_ in answer.members:
            if id_ in view.pools.resources and _may_claim(view, id_, name, answer):
                found[id_].append(name)
    return {id_: tuple(names) for id_, names in sorted(found.items())}


def _is_heard(answer: Observed, id_: str) -> bool:
    return id_ in answer.members and answer.members[id_].state is not SeenState.SILENT


def is_up(view: View, id_: str, holding: Holding) -> bool:
    """Return whether a member does what it is there for."""
    service = view.pools.services.get(holding.service)
    if service is None or service.direct:
        return True
    member = view.members.get(id_)
    return member is not None and member.state is MemberState.UP


def _expected(view: View, observations: Mapping[str, Observed]) -> Mapping[str, list[str]]:
    """Return the members by service that were up before the service was asked."""
    found = defaultdict[str, list[str]](list)
    for id_, holding in view.holdings.items():
        answer, member = observations.get(holding.service), view.members.get(id_)
        if (
            answer is not None
            and member is not None
            and holding.phase is Phase.IN
            and member.state is MemberState.UP
            and member.since_s < answer.begun_s
        ):
            found[holding.service].append(id_)
    return found


def _doubt(service: Service, answer: Observed | None, oldest_s: float) -> str:
    """Return why an answer does not count, "" if it does."""
    if answer is None:
        return "it has not answered"
    if answer.arrived_s < oldest_s:
        return "its last answer is too old"
    if answer.state is not ServiceState.RUNNING:
        return f"it is {answer.state}"
    return next(_lies(service, answer), "")


def _lies(service: Service, answer: Observed) -> Iterator[str]:
    """Yield what cannot be true of an answer, and what is missing in it."""
    for kpi in answer.kpis:
        if not _is_sane(kpi.value):
            yield f"it says that {kpi.name} is {kpi.value}"
    if not all(_is_sane(seen.load) and seen.jobs >= 0 for seen in answer.members.values()):
        yield "it says that a member has less than no load or jobs, or no number"
    told = {kpi.name for kpi in answer.kpis}
    for slo in service.slos:
        # The load of members stands for the KPI that utilisation looks at by default.
        by_load = slo.kind is SloKind.UTILISATION and slo.kpi == SloKind.UTILISATION
        if slo.kpi and slo.kpi not in told and not by_load:
            yield f"it does not say what {slo.kpi} is"


def _is_sane(value: float) -> bool:
    return 0 <= value <= LARGEST  # which no NaN is


def _may_claim(view: View, id_: str, name: str, answer: Observed) -> bool:
    holding, member = view.holdings.get(id_), view.members.get(id_)
    if name in view.left.get(id_, ()):
        return False
    if holding is None:
        return True
    if holding.service == name or holding.phase is not Phase.IN or not is_up(view, id_, holding):
        return False
    return max(holding.since_s, member.since_s if member else 0.0) < answer.begun_s
