"""What the engine's analysis finds, as findings with the places of the needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb.errors import Finding, Place, SiteError

if TYPE_CHECKING:
    from cobweb.cli._session import Session
    from cobweb.engine import Trouble
    from cobweb.model import Graph

__all__ = ["check_all", "check_graph", "trouble_findings"]

_HINTS = {
    "state": "write a state of its type",
    "self": "take the need out",
    "contradiction": "take one of the needs out",
    "no-way": "add a transition to its type, or take the need out",
    "circle": "take one of these needs out",
    "push": "take one of these needs out, or change what is preferred",
}
"""What to do about each kind of trouble."""


def trouble_findings(graph: Graph) -> tuple[Finding, ...]:
    """Return a finding per trouble; a circle is a line per step."""
    from cobweb.engine import analyse

    return tuple(_finding(trouble) for trouble in analyse(graph))


def check_graph(graph: Graph) -> None:
    """Raise SiteError with what can never work; task files are not looked at."""
    findings = trouble_findings(graph)
    if findings:
        raise SiteError(findings)


def check_all(session: Session, limit: str | None) -> None:
    """Raise SiteError with everything that is wrong with the site before anything runs."""
    graph = session.graph(limit)
    findings = [
        *session.site.findings_of_files(),
        *trouble_findings(graph),
    ]
    if findings:
        raise SiteError(findings)


def _finding(trouble: Trouble) -> Finding:
    places = [link.place for link in trouble.cycle if link.place is not None]
    place = trouble.place or (places[0] if places else Place(file="site.yml"))
    lines = "".join(f"\n    {link}" for link in trouble.cycle)
    hint = _HINTS.get(str(trouble.kind), "")
    return Finding(place=place, message=trouble.message + lines, hint=hint)
