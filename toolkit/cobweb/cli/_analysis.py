"""What the engine's analysis finds, as findings with the places of the needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cobweb.cli._kept import Sound, find_sound, keep_sound, sound
from cobweb.errors import Finding, Place, SiteError

if TYPE_CHECKING:
    from cobweb.cli._session import Session
    from cobweb.engine import Trouble
    from cobweb.model import Graph

__all__ = ["check_all", "check_graph", "check_whole", "trouble_findings"]

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


def trouble_findings(graph: Graph) -> tuple[Finding, ...]:
    """Return a finding per trouble; a circle is a line per step."""
    from cobweb.engine import analyse

    alike: dict[Any, list[Trouble]] = {}
    for trouble in analyse(graph):
        alike.setdefault(_shape(trouble), []).append(trouble)
    return tuple(_finding(troubles[0], len(troubles) - 1) for troubles in alike.values())


def _shape(trouble: Trouble) -> tuple[Any, ...]:
    """Return what the same mistake has in common on all hosts that it shows on."""
    from cobweb.model import name_of

    steps = tuple(
        sorted((name_of(link.cob), link.step, name_of(link.on)) for link in trouble.cycle)
    )
    names = tuple(sorted(name_of(cob) for cob in trouble.cobs))
    return (str(trouble.kind), _place(trouble), names, steps)


def check_graph(graph: Graph) -> None:
    """Raise SiteError with what can never work; task files are not looked at."""
    findings = trouble_findings(graph)
    if findings:
        raise SiteError(findings)


def check_all(session: Session, limit: str | None) -> None:
    """Raise SiteError with everything that is wrong with the site before anything runs."""
    if limit is None:
        check_whole(session)
    else:
        _check(session, session.graph(limit))


def check_whole(session: Session) -> Sound:
    """Return the size of a whole site and what it is warned of; SiteError as from `check_all`."""
    known = find_sound(session)
    if known is not None:
        return known
    graph = session.graph()
    _check(session, graph)
    found = sound(graph, (*session.site.notes(), *_warnings(graph)))
    keep_sound(session, graph, found)
    return found


def _check(session: Session, graph: Graph) -> None:
    findings = [*session.site.findings_of_files(), *trouble_findings(graph)]
    if findings:
        raise SiteError(findings)


def _warnings(graph: Graph) -> Iterator[Finding]:
    """Yield what is no mistake of the limits, but not what somebody means by them."""
    from cobweb.engine import misfits

    for misfit in misfits(graph):
        lines = "".join(
            f"\n    {link}" + (f" ({link.place})" if link.place else "") for link in misfit.links
        )
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
