"""`cobweb graph`: COBs and their needs, for programs and as drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Tone
from cobweb.cli._options import examples, limit_option, site_request
from cobweb.cli._output import Output
from cobweb.cli._plain_data import need_data, need_data_text
from cobweb.cli._request import Format, Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count
from cobweb.errors import UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.model import Cob, CobId, Graph, Need, State


@click.command(
    "graph",
    epilog=examples(
        "cobweb graph",
        "cobweb graph -o json",
        "cobweb graph -o svg > site.svg",
        "cobweb graph --limit 'web*' -o mermaid",
    ),
)
@limit_option
@site_request(*Format)
def command(request: Request, limit: str | None) -> None:
    """Write the graph of COBs and needs.

    An arrow points from a COB to what it needs: solid if a state of the COB
    needs it for as long as it lasts, dashed if only a transition does.
    """
    output = Output.of(request)
    with open_site(request) as session:
        graph = session.graph(limit)
        if output.format in (Format.JSON, Format.YAML):
            output.data(graph_data(graph, current_states(session)))
        elif output.format is Format.TEXT:
            _write_text(output, graph)
        else:
            output.write(_drawing(output.format, graph))


def current_states(session: Site) -> Mapping[CobId, State]:
    """Return the states that the state database knows; one in transition is unknown."""
    records = session.store().states()
    return {cob: record.state for cob, record in records.items() if not record.in_transition}


def _drawing(wanted: Format, graph: Graph) -> str:
    from cobweb.cli._draw import MOST_BOXES, dot_source, mermaid_source, svg_source

    if wanted is Format.DOT:
        return dot_source(graph)
    if wanted is Format.MERMAID:
        return mermaid_source(graph)
    if len(graph.cobs) > MOST_BOXES:
        message = f"{len(graph.cobs)} objects are too many for a drawing of at most {MOST_BOXES}"
        raise UsageError(message, hint="choose hosts with --limit")
    return svg_source(graph)


def _write_text(output: Output, graph: Graph) -> None:
    needs: dict[CobId, list[Need]] = {}
    for need in graph.needs:
        needs.setdefault(need.cob, []).append(need)
    for cob in graph.cobs.values():
        output.line(f"{cob.id} ({cob.type.name})", Tone.HEAD)
        for need in needs.get(cob.id, ()):
            output.line(f"  {need_data_text(need_data(need))}")
    output.summary(f"{count(len(graph.cobs), 'COB')}, {count(len(graph.needs), 'need')}")


def graph_data(graph: Graph, current: Mapping[CobId, State]) -> dict[str, Any]:
    """Return all COBs and needs, `*` expanded; a COB that is not in `current` is unknown.

    Two words can ask for the same (`binds` and `requires` both let X wait until A is down): it is
    told once.
    """
    from cobweb.model import UNKNOWN

    needs: list[Need] = [*graph.transition_needs(), *graph.lock_needs()]
    limits = graph.bounded()
    return {
        "format": 1,
        "cobs": [
            _cob(cob, current.get(cob.id, UNKNOWN), limits.get(cob.id, ()))
            for cob in graph.cobs.values()
        ],
        "needs": [need_data(need) for need in dict.fromkeys(needs)],
    }


def _cob(cob: Cob, current: State, limits: Sequence[str]) -> dict[str, Any]:
    groups = {name: list(states) for name, states in cob.type.groups.items()}
    return {
        "id": str(cob.id),
        "host": cob.host,
        "name": cob.name,
        "type": cob.type.name,
        "states": list(cob.type.states),
        "preferred": cob.preferred,
        "remove": cob.type.remove,
        **({"groups": groups} if groups else {}),
        **({"limits": list(limits)} if limits else {}),
        "transitions": [[step.source, step.dest] for step in cob.type.transitions],
        "current": current,
    }
