"""`cobweb explain`: where a value came from, and what it won against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Tone
from cobweb.cli._options import examples, reference_argument, site_request
from cobweb.cli._output import Output
from cobweb.cli._plain_data import one_line, shown
from cobweb.cli._request import Request
from cobweb.cli._session import open_site

if TYPE_CHECKING:
    from cobweb.errors import Place
    from cobweb.site import Explanation


@click.command(
    "explain",
    epilog=examples(
        "cobweb explain app01/app",
        "cobweb explain app01/app.spec.port",
        "cobweb explain app01.port -o json",
    ),
)
@reference_argument()
@site_request()
def command(request: Request, reference: str) -> None:
    """Say where a value of the site came from.

    REF is host/cob, host/cob.spec.path or host.variable. Told are the value,
    its place, what it was made from, and the weaker definitions it overrode.
    """
    output = Output.of(request)
    with open_site(request) as session:
        explanation = session.evaluated.explain(reference)
    if output.data(explanation_data(explanation)):
        return
    for line in _lines(explanation):
        output.line(line, Tone.NONE if line.startswith(" ") else Tone.HEAD)


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """Return what `cobweb explain -o json` writes."""
    return {
        "format": 1,
        "ref": explanation.ref,
        "value": shown(explanation.value),
        "place": _place(explanation.place),
        "priority": explanation.priority,
        "overrode": [_place(place) for place in explanation.overrode],
        "template": explanation.template,
        "variables": [
            {"name": used.name, "value": shown(used.value), "place": _place(used.place)}
            for used in explanation.variables
        ],
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else asdict(place)


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"{explanation.ref} = {one_line(shown(explanation.value))}"
    if explanation.place is not None:
        priority = "" if explanation.priority == "normal" else f" (!{explanation.priority})"
        yield f"  from {explanation.place}{priority}"
    if explanation.template is not None:
        yield f"  made from {one_line(explanation.template)}"
    for used in explanation.variables:
        where = used.place or "Ansible's own"
        yield f"  with {used.name} = {one_line(shown(used.value))} ({where})"
    for place in explanation.overrode:
        yield f"  overrode {place}"
