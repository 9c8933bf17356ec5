"""`cobweb status`: what the journal believes of objects, locks and runs."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

import click

from cobweb import operations
from cobweb._clock import wall_clock
from cobweb._tables import Cell, Column, Tone
from cobweb._text import some_of
from cobweb.cli._options import examples, limit_option, reference_argument, site_request
from cobweb.cli._output import Output
from cobweb.cli._plain_data import run_data
from cobweb.cli._render import write_table
from cobweb.cli._request import Request
from cobweb.cli._running import tell_rollback
from cobweb.cli._session import open_site
from cobweb.cli._text import count, moment
from cobweb.errors import UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.model import Cob, CobId, Results
    from cobweb.store import CobRecord, RunRecord, Store

_SHOWN_BEHIND = 8
"""So many hosts that have an earlier generation are named."""

_NOT_OF_STATUS = frozenset({"host", "pid", "generation"})
"""What only `cobweb runs` tells of a run."""

_COLUMNS = (
    Column(title="OBJECT"),
    Column(title="TYPE", flexible=True),
    Column(title="STATE"),
    Column(title="WANTED"),
    Column(title="SINCE"),
    Column(title="NOTE", flexible=True),
)

_RESULT_COLUMNS = (
    Column(title="HOST"),
    Column(title="RESULT"),
    Column(title="VALUE", flexible=True),
)


@click.command(
    "status",
    epilog=examples("cobweb status", "cobweb status app01/app", "cobweb status -o json"),
)
@reference_argument(required=False)
@limit_option
@site_request()
def command(request: Request, reference: str | None, limit: str | None) -> int:
    """Show states, locks and the last run.

    These are the beliefs of the journal; `cobweb drift` finds out what is true.
    """
    output = Output.of(request)
    with open_site(request) as session:
        data = status_data(session, reference, limit)
        if not output.data(data):
            _tell(output, data, detailed=reference is not None)
            lock = session.store().site_lock(clock=wall_clock)
            if doubt := lock.doubt(lock.show()):
                output.summary(doubt, Tone.CAREFUL)
            if any(cob["changed"] or cob["since"] is None for cob in data["cobs"]):
                tell_rollback(output, session.store())
    return 0


def status_data(session: Site, reference: str | None, limit: str | None) -> dict[str, Any]:
    """Return what `cobweb status -o json` writes; UsageError for an unknown object."""
    from cobweb.model import host_of

    store = session.store()
    records = store.states()
    graph = session.graph(limit)
    hosts = set(session.evaluated.select(limit)) if limit else None
    wanted = [cob for cob in graph.cobs if hosts is None or graph.cobs[cob].host in hosts]
    gone = [] if limit else [cob for cob in records if cob not in graph.cobs]
    if reference is not None:
        wanted = [cob for cob in wanted if cob == reference]
        gone = [cob for cob in gone if cob == reference]
        if not (wanted or gone):
            raise UsageError(f"there is no object {reference!r}", hint="see `cobweb show`")
    locks = [
        {"cob": cob, "holder": holder, "state": state}
        for cob, holder, state in store.locks()
        if reference in (None, cob, holder)
    ]
    results = store.results()
    told = {host_of(cob) for cob in (*wanted, *gone)}
    owner = store.site_lock(clock=wall_clock).show()
    last = store.last_run()
    return {
        "format": 1,
        "site": session.evaluated.name,
        "cobs": [
            *(_cob(cob, graph.cobs[cob], records.get(cob), results) for cob in wanted),
            *(_cob(cob, None, records[cob], results) for cob in gone),
        ],
        "results": {host: it for host, it in results.items() if host in told},
        "generation": _generation(store, hosts),
        "given_up": sorted(told & store.given_up()),
        "locks": locks,
        "lock": None if owner is None else owner.line(wall_clock()),
        "run": None if last is None else _run(last, goes_on=store.goes_on(last)),
    }


def _generation(store: Store, hosts: set[str] | None) -> dict[str, Any]:
    """Return the current generation, and the hosts that have an earlier one."""
    current = store.current_generation_id()
    return {
        "current": current,
        "behind": {
            host: generation
            for host, generation in sorted(store.host_generations().items())
            if generation not in (0, current) and (hosts is None or host in hosts)
        },
    }


def _cob(
    cob: CobId, wanted: Cob | None, record: CobRecord | None, results: Results
) -> dict[str, Any]:
    """Return what is told of one object; `wanted` is None for one that is gone from the site."""
    return {
        "id": cob,
        "type": wanted.type.name if wanted else None,
        "state": record.state if record else "unknown",
        "preferred": wanted.preferred if wanted else None,
        "changed": _is_changed(wanted, record, results),
        "in_transition": list(record.in_transition) if record and record.in_transition else None,
        "attempt": record.attempt if record and record.in_transition else None,
        "executor": record.executor if record and record.in_transition else None,
        "failed": bool(record and record.failed),
        "stopped": bool(record and record.stopped),
        "reachable": record.reachable if record else True,
        "drifted": bool(record and record.reason == "drift"),
        "since": record.since if record else None,
        "run": record.run if record else None,
    }


def _is_changed(wanted: Cob | None, record: CobRecord | None, results: Results) -> bool:
    """Say whether the site wants another content than the one that the journal's state is of."""
    from cobweb.generation import content_of

    if wanted is None or record is None or not record.content:
        return False
    return operations.is_another(wanted, record, content_of(wanted), results)


def _run(record: RunRecord, *, goes_on: bool) -> dict[str, Any]:
    data = run_data(record, goes_on=goes_on)
    return {key: value for key, value in data.items() if key not in _NOT_OF_STATUS}


def _tell(output: Output, data: Mapping[str, Any], *, detailed: bool) -> None:
    given_up = set(data["given_up"])
    write_table(output, _COLUMNS, [_row(cob, given_up) for cob in data["cobs"]])
    if data["locks"] and detailed:
        output.line()
    for lock in data["locks"] if detailed else ():
        output.line(f"{lock['cob']} is locked {lock['state']} for {lock['holder']}")
    if data["results"] and detailed:
        output.line()
        rows = [
            (host, key, json.dumps(value, ensure_ascii=False))
            for host, values in data["results"].items()
            for key, value in values.items()
        ]
        write_table(output, _RESULT_COLUMNS, rows)
    cobs = data["cobs"]
    settled = sum(map(_is_settled, cobs))
    gone = sum(cob["type"] is None for cob in cobs)
    told = [f"{settled} of {count(len(cobs) - gone, 'object')} as wanted"]
    if changed := sum(cob["changed"] for cob in cobs):
        told.append(f"{changed} to be changed")
    if gone:
        told.append(f"{gone} to be removed")
    output.summary(", ".join(told))
    _tell_behind(output, data["generation"])
    for host in data["given_up"]:
        output.summary(f"host {host} is {operations.given_up_text(host)}", Tone.CAREFUL)
    if data["run"]:
        from cobweb.api import NO_END

        run = data["run"]
        result = run["result"] or ("goes on" if run["goes_on"] else NO_END)
        output.summary(f"last run: {run['id']} ({run['command']}) by {run['user']}: {result}")
    if data["lock"]:
        output.summary(f"locked by {data['lock']}", Tone.CAREFUL)


def _is_settled(cob: Mapping[str, Any]) -> bool:
    return cob["state"] == cob["preferred"] and not cob["changed"]


def _tell_behind(output: Output, generation: Mapping[str, Any]) -> None:
    """Say which hosts have not switched to the current generation."""
    if behind := [f"{host} ({number})" for host, number in generation["behind"].items()]:
        text = f"not yet switched to generation {generation['current']}"
        output.summary(f"{text}: {some_of(behind, _SHOWN_BEHIND)}", Tone.CAREFUL)


def _row(cob: Mapping[str, Any], given_up: Container[str]) -> tuple[Cell | str, ...]:
    tone = Tone.GOOD if _is_settled(cob) else Tone.BAD if cob["failed"] else Tone.CAREFUL
    return (
        cob["id"],
        cob["type"] or "-",
        Cell(text=cob["state"], tone=tone),
        cob["preferred"] or "-",
        "" if cob["since"] is None else moment(cob["since"]),
        _note(cob, given_up),
    )


def _note(cob: Mapping[str, Any], given_up: Container[str]) -> str:
    notes = ["given up"] if cob["id"].partition("/")[0] in given_up else []
    if cob["type"] is None:
        notes.append("to be removed")
    if cob["changed"]:
        notes.append("to be changed")
    if cob["in_transition"]:
        again = f" (attempt {cob['attempt']})" if cob["attempt"] > 1 else ""
        notes.append("in transition " + " -> ".join(cob["in_transition"]) + again)
    if cob["failed"]:
        notes.append("stopped" if cob["stopped"] else "failed")
    if cob["drifted"]:
        notes.append("drifted")
    if not cob["reachable"]:
        notes.append("unreachable")
    return ", ".join(notes)
