"""What a run hands to its record, round by round, to be handed over again and timed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks._sites import write_site
from cobweb.kernel._record import Record
from cobweb.operations import Caller, Orders, desired_of, simulate_site
from cobweb.plugin import load_plugins
from cobweb.site import Site, load_site

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
Round = Sequence[Call]

SEED = 7
ONE_IN = 100


def trouble(site: Site) -> Mapping[str, Any]:
    """Return options for `simulate`: random durations, 1% of the objects and of the hosts fail."""
    graph, choose = site.graph(None), random.Random(SEED)  # noqa: S311  # no secret
    cobs, hosts = sorted(graph.cobs), sorted(graph.hosts())
    return {
        "fail": choose.sample(cobs, max(1, len(cobs) // ONE_IN)),
        "unreachable": choose.sample(hosts, max(1, len(hosts) // ONE_IN)),
        "durations": {"part": [1, 30]},
    }


def rounds_of_a_run(hosts: int) -> list[Round]:
    """Run the large site and return what it recorded, one list of calls for each flush."""
    rounds: list[list[Call]] = [[]]

    class Taped(Record):
        """Notes every call before it is carried out."""

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if name.startswith("_") or not callable(found):
                return found
            if name == "flush":
                rounds.append([])
                return found

            def noted(*args: Any, **named: Any) -> Any:
                rounds[-1].append((name, args, named))
                return found(*args, **named)

            return noted

    taping = patch("cobweb.operations._operations.Record", Taped)
    with tempfile.TemporaryDirectory() as folder, taping:
        write_site(Path(folder), hosts)
        site = load_site(Path(folder))
        orders = Orders(executor="simulate", parallel=1_000_000, options=trouble(site))
        simulate_site(desired_of(site), load_plugins(), orders, Caller())
    return [calls for calls in rounds if calls]


def merged(rounds: Sequence[Round], together: int) -> Iterator[Round]:
    """Yield rounds of which `together` were made one, as if their reports came at once."""
    for first in range(0, len(rounds), together):
        yield [call for calls in rounds[first : first + together] for call in calls]


def play(rounds: Sequence[Round], record: Record) -> None:
    """Hand all calls to a record, which flushes after each round."""
    for calls in rounds:
        for name, args, named in calls:
            getattr(record, name)(*args, **named)
        record.flush()
