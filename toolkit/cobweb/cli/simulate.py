"""`cobweb simulate`: the real engine on the site, without hosts."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb import operations
from cobweb._durations import LONGEST_S
from cobweb._foreign_json import JsonError, json_file
from cobweb._text import did_you_mean
from cobweb.cli._observers import observe_option
from cobweb.cli._options import (
    events_option,
    examples,
    limit_option,
    max_failures_option,
    max_unreachable_option,
    parallel_option,
    site_request,
)
from cobweb.cli._output import Output
from cobweb.cli._parameters import Allowance
from cobweb.cli._request import Request
from cobweb.cli._running import failure_bound, goals_of, listening, lost_bound, tell_result
from cobweb.cli._session import open_site
from cobweb.errors import SiteError, UsageError

if TYPE_CHECKING:
    from cobweb.model import Graph

_PARALLEL = 1_000_000
_ENDS = 2


@click.command(
    "simulate",
    epilog=examples(
        "cobweb simulate",
        "cobweb simulate --initial up --events events.jsonl",
        "cobweb simulate --fail app01/app --unreachable db01",
        "cobweb simulate --from-journal --unreachable db01",
    ),
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all randomness.")
@click.option(
    "--initial",
    metavar="STATE|FILE",
    help="What checks find: one state for all, or a JSON file {id: state}.",
)
@click.option("--fail", metavar="ID", multiple=True, help="Its transitions fail; repeatable.")
@click.option("--unreachable", metavar="HOST", multiple=True, help="Cannot be reached; repeatable.")
@click.option(
    "--durations",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON file {id, name or type: seconds} of simulated time.",
)
@click.option(
    "--from-journal",
    is_flag=True,
    help="Rehearse what an apply would do now, on the states that the journal knows.",
)
@events_option
@observe_option
@limit_option
@max_failures_option
@max_unreachable_option(None)
@parallel_option
@site_request()
def command(  # noqa: PLR0913  # one parameter per option of section 7
    request: Request,
    *,
    seed: int,
    initial: str | None,
    fail: tuple[str, ...],
    unreachable: tuple[str, ...],
    durations: Path | None,
    from_journal: bool,
    events: str | None,
    limit: str | None,
    max_failures: Allowance | None,
    max_unreachable: Allowance | None,
    parallel: int | None,
) -> int:
    """Run the site without hosts.

    Every object starts in its `remove` state unless --initial says otherwise,
    and every transition takes one second of simulated time. With
    --from-journal the change at hand is rehearsed: from the states that the
    journal knows, with what is removed. Nothing is written down. The exit codes
    are those of apply.
    """
    from cobweb.model import host_of

    if from_journal and initial is not None:
        raise UsageError("--initial does not go with --from-journal", hint="leave one of them out")
    output = Output.of(request)
    with open_site(request) as session:
        graph = session.graph(limit)
        if findings := operations.trouble_findings(graph):
            raise SiteError(findings)
        desired = session.desired(limit)
        store = session.store() if from_journal else None
        gone = {} if store is None else store.states()
        hosts = [*session.evaluated.hosts, *map(host_of, gone)]
        options = {
            "initial": _initial(graph, initial),
            "fail": _known(fail, [*map(str, graph.cobs), *map(str, gone)], "object"),
            "unreachable": _known(unreachable, hosts, "host"),
            "durations": _durations(graph, durations),
        }
        orders = operations.Orders(
            executor="simulate",
            parallel=parallel or _PARALLEL,
            max_failures=failure_bound(max_failures),
            max_unreachable=lost_bound(max_unreachable),
            seed=seed,
            options=options,
        )
        quiet = request.verbosity == 0
        with listening(output, goals_of(desired), events, quiet=quiet) as caller:
            result = session.simulate(desired, orders, caller=caller, from_journal=from_journal)
    tell_result(output, result, simulated=True)
    return result.exit_code


def _initial(graph: Graph, text: str | None) -> Mapping[str, str]:
    """Return the first state of each object that `--initial` speaks of."""
    if text is None:
        return {}
    every = {state for cob in graph.cobs.values() for state in cob.type.states}
    if text in every:
        return {str(id_): text for id_, cob in graph.cobs.items() if text in cob.type.states}
    if not isfile(text):  # noqa: PTH113 - nor is a name that is too long
        hint = f"states: {', '.join(sorted(every))}"
        raise UsageError(f"--initial {text}: neither a state of this site nor a file", hint=hint)
    states = _json_file(Path(text))
    _known(states, [str(cob) for cob in graph.cobs], "object")
    for id_, cob in graph.cobs.items():
        state = states.get(str(id_))
        if state is not None and state not in cob.type.states:
            known = ", ".join(cob.type.states)
            raise UsageError(f"{text}: {id_} has no state {state!r}", hint=f"states: {known}")
    return states


def _durations(graph: Graph, path: Path | None) -> Mapping[str, Any]:
    """Read `--durations`; UsageError for what is no number of seconds, or named by nothing."""
    if path is None:
        return {}
    seconds = _json_file(path)
    types = {cob.type.name for cob in graph.cobs.values()}
    names = {cob.name for cob in graph.cobs.values()}
    _known(seconds, [*map(str, graph.cobs), *names, *types], "object, name or type")
    for name, value in seconds.items():
        ends = value if isinstance(value, list) and len(value) == _ENDS else [value, value]
        numbers = [end for end in ends if isinstance(end, int | float) and 0 <= end <= LONGEST_S]
        if len(numbers) != _ENDS or isinstance(value, bool) or ends[0] > ends[1]:
            hint = "seconds from 0 to 366 days, or [least, most]"
            raise UsageError(f"{path}: {name} takes {value!r}", hint=hint)
    return seconds


def _known(names: Mapping[str, Any] | tuple[str, ...], known: list[str], kind: str) -> list[str]:
    """Return the names; UsageError for one that the site does not have."""
    have = set(known)
    for name in names:
        if name not in have:
            raise UsageError(f"there is no {kind} {name!r}", hint=did_you_mean(name, known))
    return list(names)


def _json_file(path: Path) -> Mapping[str, Any]:
    try:
        data = json_file(path)
    except JsonError as error:
        raise UsageError(str(error), hint="a JSON object is wanted") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path}: this is no JSON object", hint='{"host/name": ...}')
    return data
