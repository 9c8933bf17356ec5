"""What the engine's analysis finds, as findings with the places of the needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cobweb.errors import Finding, Place, SiteError

if TYPE_CHECKING:
    from cobweb.cli._session import Session
    from cobweb.engine import Trouble
    from cobweb.model import Graph

__all__ = ["check_all", "check_graph", "trouble_findings"]


def trouble_findings(graph: Graph, site_dir: Path) -> tuple[Finding, ...]:
    """Return a finding per trouble; a circle is a line per step."""
    from cobweb.engine import analyse

    return tuple(_finding(trouble, site_dir) for trouble in analyse(graph))


def check_graph(graph: Graph, site_dir: Path) -> None:
    """Raise SiteError with what can never work; task files are not looked at."""
    findings = trouble_findings(graph, site_dir)
    if findings:
        raise SiteError(findings)


def check_all(session: Session, limit: str | None) -> None:
    """Raise SiteError with everything that is wrong with the site before anything runs."""
    graph = session.graph(limit)
    findings = [
        *session.site.findings_of_files(),
        *trouble_findings(graph, session.site.dir),
    ]
    if findings:
        raise SiteError(findings)


def _finding(trouble: Trouble, site_dir: Path) -> Finding:
    places = [step.place for step in trouble.cycle if step.place is not None]
    place = trouble.place or (places[0] if places else Place(file=str(site_dir / "site.yml")))
    lines = "".join(f"\n    {step}" for step in trouble.cycle)
    return Finding(place=place, message=trouble.message + lines, hint=trouble.hint)
