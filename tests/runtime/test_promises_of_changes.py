"""Runs from one generation to the next keep P1 to P5, each host under the needs of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings

from cobweb.cli._graph_data import graph_data
from cobweb.inventory import load_site
from cobweb.store import open_store
from cobweb.testing.promises import check_promises
from tests.runtime.test_two_generations import applied, changes
from tests.support.plain_promises import plain_check_promises
from tests.support.random_sites import Case


@settings(max_examples=20)
@given(changes())
def test_a_run_to_another_generation_keeps_the_promises(change: tuple[Case, Case]) -> None:
    """Whatever fails, in the run and in the one after it that goes on."""
    first, second = change
    with tempfile.TemporaryDirectory() as name, open_store("sqlite://", Path(name)) as store:
        applied(Path(name), store, first, "one")
        before = graph_data(load_site(Path(name)).graph(), {})
        for run, options in (("two", second.trouble), ("three", {})):
            _, _, events = applied(Path(name), store, second, run, **options)
            graph = graph_data(load_site(Path(name)).graph(), {})
            assert check_promises(events, graph, before=before) == []
            assert plain_check_promises(events, graph, before=before) == []
