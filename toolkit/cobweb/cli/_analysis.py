"""What the engine's analysis finds, as findings with the places of the needs."""

from __future__ import annotations

from pathlib import Path

from cobweb.errors import Finding
from cobweb.model import Graph


def trouble_findings(graph: Graph, site_dir: Path) -> tuple[Finding, ...]:
    """Return a finding per trouble; a circle is a line per step."""
    return ()
