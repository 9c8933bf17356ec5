"""`cobweb generations`: what was desired, when, by whom, and whether it was reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Cell, Column, Tone
from cobweb.cli._options import examples, last_option, site_request
from cobweb.cli._output import Output
from cobweb.cli._render import write_table
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count, day

if TYPE_CHECKING:
    from cobweb.store import GenerationInfo, Store

_COLUMNS = (
    Column(title="GEN", right=True),
    Column(title=""),
    Column(title="MADE"),
    Column(title="WHO", flexible=True),
    Column(title="REACHED"),
    Column(title="HOSTS", right=True),
    Column(title="COMMIT"),
    Column(title="MESSAGE", flexible=True),
)
_COMMIT_DIGITS = 7


@click.command(
    "generations",
    epilog=examples("cobweb generations", "cobweb generations -n 5", "cobweb generations -o json"),
)
@last_option("generations")
@site_request()
def command(request: Request, *, last: int) -> int:
    """List the generations of the site, the newest first.

    A generation is the evaluated site as an apply began with it. REACHED says
    whether a run brought it about whole, HOSTS how many hosts are in it now.
    `cobweb gc` deletes old ones.
    """
    output = Output.of(request)
    with open_site(request) as session:
        store = session.history()
        data = _data(store, last)
        label = store.label
    if not output.data(data):
        _tell(output, data, label)
    return 0


def _data(store: Store, last: int) -> dict[str, Any]:
    infos, hosts = store.generations(), store.host_generations()
    return {
        "format": 1,
        "current": infos[0].id if infos else None,
        "stored": len(infos),
        "generations": [_generation(info) for info in infos[:last]],
        "hosts": dict(hosts),
    }


def _generation(info: GenerationInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "parent": info.parent,
        "digest": info.digest,
        "author": info.author,
        "time": info.time,
        "message": info.message,
        "commit": info.commit,
        "decisions": dict(info.decisions),
        "reached": info.reached,
        "size": info.size,
    }


def _tell(output: Output, data: Mapping[str, Any], label: str) -> None:
    generations, current = data["generations"], data["current"]
    hosts = Counter(data["hosts"].values())
    rows = [_row(it, hosts[it["id"]], is_current=it["id"] == current) for it in generations]
    write_table(output, _COLUMNS, rows)
    if not generations:
        output.summary(f"no generation yet in {label}")
        return
    behind = sum(number for generation, number in hosts.items() if generation != current)
    what, shown = count(data["stored"], "generation"), len(generations)
    if shown < data["stored"]:
        what = f"the last {shown} of {what}; -n shows more"
    output.summary(f"{what}, * is the current one")
    if behind:
        verb = "is" if behind == 1 else "are"
        output.summary(f"{count(behind, 'host')} {verb} in an earlier one", Tone.CAREFUL)


def _row(generation: Mapping[str, Any], hosts: int, *, is_current: bool) -> tuple[Cell | str, ...]:
    reached = generation["reached"] is not None
    return (
        str(generation["id"]),
        "*" if is_current else "",
        day(generation["time"]),
        generation["author"],
        Cell(text="yes" if reached else "no", tone=Tone.GOOD if reached else Tone.CAREFUL),
        str(hosts or "-"),
        _short(generation["commit"]),
        generation["message"],
    )


def _short(commit: str) -> str:
    """Return the first digits of a commit, and a plus where there were changes."""
    digits, mark, _ = commit.partition("+")
    return digits[:_COMMIT_DIGITS] + mark
