"""`cobweb generations`: what was desired, when, by whom, and whether it was reached."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cobweb.api import Site
from cobweb.cli._locking import locked_site
from cobweb.cli._options import (
    examples,
    output_option,
    pass_request,
    site_options,
    wait_option,
)
from cobweb.cli._output import Output, Tone
from cobweb.cli._render import Cell, Column, write_table
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count
from cobweb.errors import UsageError

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
_SHOWN = 20
_COMMIT_DIGITS = 7


@click.command(
    "generations",
    epilog=examples(
        "cobweb generations", "cobweb generations -o json", "cobweb generations --gc --keep 5"
    ),
)
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=_SHOWN,
    show_default=True,
    help="Only the last N generations.",
)
@click.option("--gc", is_flag=True, help="Delete old generations that nothing refers to.")
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(1, 100_000),
    help="With --gc: keep at least the newest N; default 10.",
)
@wait_option
@output_option()
@site_options
@pass_request
def command(request: Request, *, last: int, gc: bool, keep: int | None, wait: float | None) -> int:
    """List the generations of the site, the newest first.

    A generation is the evaluated site as an apply began with it. REACHED says
    whether a run brought it about whole, HOSTS how many hosts are in it now.
    With --gc old ones are deleted; what a host is in, what an object of the
    journal needs, and the last two that were reached are kept.
    """
    if not gc and (keep is not None or wait is not None):
        raise UsageError(f"--{'wait' if keep is None else 'keep'} is for --gc")
    output = Output.of(request)
    with open_site(request) as session:
        store = session.history()
        deleted = _collect(session, output, keep, wait) if gc and store.generations() else ()
        data = _data(store, last, deleted)
        label = store.label
    if not output.data(data):
        _tell(output, data, deleted, gc=gc, label=label)
    return 0


def _collect(
    session: Site, output: Output, keep: int | None, wait_s: float | None
) -> tuple[GenerationInfo, ...]:
    from cobweb.operations import KEPT, collect_generations

    store = session.history(create=True)
    with locked_site(session, output, "generations --gc", wait_s, store):
        return collect_generations(store, keep=keep or KEPT)


def _data(store: Store, last: int, deleted: Sequence[GenerationInfo]) -> dict[str, Any]:
    infos, hosts = store.generations(), store.host_generations()
    return {
        "format": 1,
        "current": infos[0].id if infos else None,
        "generations": [_generation(info) for info in infos[:last]],
        "hosts": dict(hosts),
        "deleted": [info.id for info in deleted],
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
        "reached": info.reached,
        "size": info.size,
    }


def _tell(
    output: Output,
    data: Mapping[str, Any],
    deleted: Sequence[GenerationInfo],
    *,
    gc: bool,
    label: str,
) -> None:
    if gc:
        for info in deleted:
            output.line(f"deleted generation {info.id} of {_day(info.time)} ({info.author})")
        output.summary(f"{count(len(deleted), 'generation')} deleted")
        return
    generations, current = data["generations"], data["current"]
    hosts = Counter(data["hosts"].values())
    rows = [_row(it, hosts[it["id"]], is_current=it["id"] == current) for it in generations]
    write_table(output, _COLUMNS, rows)
    if not generations:
        output.summary(f"no generation yet in {label}")
        return
    behind = sum(number for generation, number in hosts.items() if generation != current)
    output.summary(f"{count(len(generations), 'generation')}, * is the current one")
    if behind:
        verb = "is" if behind == 1 else "are"
        output.summary(f"{count(behind, 'host')} {verb} in an earlier one", Tone.CAREFUL)


def _row(generation: Mapping[str, Any], hosts: int, *, is_current: bool) -> tuple[Cell | str, ...]:
    reached = generation["reached"] is not None
    return (
        str(generation["id"]),
        "*" if is_current else "",
        _day(generation["time"]),
        generation["author"],
        Cell(text="yes" if reached else "no", tone=Tone.GOOD if reached else Tone.CAREFUL),
        str(hosts or "-"),
        _short(generation["commit"]),
        generation["message"],
    )


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _short(commit: str) -> str:
    """Return the first digits of a commit, and a plus where there were changes."""
    digits, mark, _ = commit.partition("+")
    return digits[:_COMMIT_DIGITS] + mark
