"""What the engine's analysis finds, as findings with the places of the needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cobweb.engine import Trouble, analyse, misfits
from cobweb.errors import Finding, Place
from cobweb.model import Graph, name_of

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
    alike: dict[Any, list[Trouble]] = {}
    for trouble in analyse(graph):
        alike.setdefault(_shape(trouble), []).append(trouble)
    return tuple(_finding(troubles[0], len(troubles) - 1) for troubles in alike.values())


def _shape(trouble: Trouble) -> tuple[Any, ...]:
    """Return what the same mistake has in common on all hosts that it shows on."""
    steps = tuple(
        sorted((name_of(link.cob), link.step, name_of(link.on)) for link in trouble.cycle)
    )
    names = tuple(sorted(name_of(cob) for cob in trouble.cobs))
    return (str(trouble.kind), _place(trouble), names, steps)


def graph_warnings(graph: Graph) -> Iterator[Finding]:
    """Yield what is no mistake of the limits, but not what somebody means by them."""
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
