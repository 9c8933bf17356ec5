"""A run that dies at any of its writes is taken up by the next one: nothing is lost or done twice.

The run changes, adds and removes objects of two hosts that need each other's, so it has both acts.
It is killed by SIGKILL at every write to the state database in turn, once before the transaction
and once when it is on the disk. What was really done is read from the slates (`slate/`).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cobweb.testing.promises import check_promises
from tests.support.nursery import NEVER, Ended, Nursery

pytestmark = [
    pytest.mark.full(
        "a run that dies at each of its writes; test_interrupts.py kills at one in the gate"
    )
]

PLUGIN = Path(__file__).with_name("slate")
MOMENTS = 30
SEED = 20_261_121

BEFORE = """
cobweb: 1
name: slates
inventory: {all: {hosts: {left: {}, right: {}}}}
cobs:
  base: {type: slate, on: all, spec: {text: base}}
  config: {type: slate, on: left, spec: {text: one}, stops: [server]}
  server: {type: slate, on: left, spec: {text: server}, requires: [base, config]}
  client: {type: slate, on: right, spec: {text: client}, requires: [base, server@left]}
  old-server: {type: slate, on: right, spec: {text: old}, requires: [base]}
  old-client: {type: slate, on: left, spec: {text: old}, requires: [base, old-server@right]}
  between: {type: slate, on: right, spec: {text: between}, requires: [old-client@left]}
"""

AFTER = """
cobweb: 1
name: slates
inventory: {all: {hosts: {left: {}, right: {}}}}
cobs:
  base: {type: slate, on: all, spec: {text: base}}
  config: {type: slate, on: left, spec: {text: two}, stops: [server]}
  server: {type: slate, on: left, spec: {text: server}, requires: [base, config]}
  client: {type: slate, on: right, spec: {text: client}, requires: [base, server@left]}
  between: {type: slate, on: right, spec: {text: between}, requires: [base]}
  new: {type: slate, on: right, spec: {text: new}, requires: [client]}
"""


@dataclass(frozen=True, slots=True)
class Slates:
    """A site of slates in a folder."""

    nursery: Nursery
    folder: Path

    def cobweb(self, *arguments: str, moment: int = NEVER) -> Ended:
        """Run `cobweb`, which dies at this moment if it comes to it."""
        return self.nursery.run(moment, ("-C", str(self.folder), *arguments))

    def apply(self, moment: int = NEVER) -> Ended:
        """Apply with one job at a time, the events on standard output."""
        return self.cobweb("apply", "--yes", "--parallel", "1", "--events", "-", moment=moment)

    def write(self, text: str) -> None:
        """Write the site."""
        (self.folder / "site.yml").write_text(text, encoding="utf-8")

    def graph(self) -> Mapping[str, Any]:
        """Return `cobweb graph -o json`."""
        graph: Mapping[str, Any] = json.loads(self.cobweb("graph", "-o", "json").out)
        return graph

    def done(self) -> dict[str, list[Any]]:
        """Return what was really done and came to its end, by object, in its order."""
        files = sorted((self.folder / "slates").iterdir())
        lines = {file.name: map(json.loads, file.read_text().splitlines()) for file in files}
        return {name: [what for what in notes if what[0] == "end"] for name, notes in lines.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What is to be done: the site before it in `start`, and how it looks when all went well."""

    nursery: Nursery
    start: Path
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    done: Mapping[str, list[Any]]

    def begin(self, folder: Path) -> Slates:
        """Return a copy of the site that is applied as it was, and written as it shall be."""
        shutil.copytree(self.start, folder)
        slates = Slates(self.nursery, folder)
        slates.write(AFTER)
        return slates


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Return where runs are begun."""
    path = [str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {"PYTHONPATH": os.pathsep.join(path)}
    made = Nursery(tmp_path_factory.mktemp("nursery"), env)
    yield made
    made.close()


@pytest.fixture(scope="module")
def story(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Apply the site before, then undisturbed the one after, to know what that does."""
    folder = tmp_path_factory.mktemp("start") / "site"
    (folder / "slates").mkdir(parents=True)
    first = Slates(nursery, folder)
    first.write(BEFORE)
    ran = first.apply()
    assert ran.code == 0, ran.err
    calm = Slates(nursery, folder.with_name("calm"))
    shutil.copytree(folder, calm.folder)
    before = calm.graph()
    calm.write(AFTER)
    ran = calm.apply()
    assert ran.code == 0, ran.err
    return Story(nursery=nursery, start=folder, before=before, after=calm.graph(), done=calm.done())


def deaths(story: Story, folder: Path) -> Iterator[tuple[int, Slates]]:
    """Yield each moment with the site as a run left it that died then."""
    for moment in range(NEVER):
        slates = story.begin(folder / str(moment))
        code = slates.apply(moment).code
        if code == 0:
            return
        assert code == -signal.SIGKILL
        yield moment, slates


def assert_all_done(story: Story, slates: Slates, moment: object) -> None:
    """Apply once more, and fail if anything is missing then, or was done twice."""
    ran = slates.apply()
    assert ran.code == 0, (moment, ran.err)
    assert slates.done() == story.done, moment
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert check_promises(events, story.after, before=story.before) == [], moment
    status = json.loads(slates.cobweb("status", "-o", "json").out)
    assert {cob["id"]: cob["state"] for cob in status["cobs"]} == {
        cob["id"]: "up" for cob in story.after["cobs"]
    }, moment
    assert (status["lock"], status["locks"], status["generation"]["behind"]) == (None, [], {}), (
        moment
    )
    shutil.rmtree(slates.folder)


@pytest.mark.timeout(400)
def test_whatever_write_a_run_dies_at_the_next_one_goes_on(story: Story, tmp_path: Path) -> None:
    moments = 0
    for moment, slates in deaths(story, tmp_path):
        assert_all_done(story, slates, moment)
        moments += 1
    assert moments > 2 * len(story.after["cobs"]), "a run has more writes than objects"


@pytest.mark.timeout(400)
def test_the_run_that_goes_on_may_die_as_well(story: Story, tmp_path: Path) -> None:
    choose = random.Random(SEED)
    deaths_in_a_row = 0
    for first, slates in deaths(story, tmp_path):
        second = choose.randrange(MOMENTS)
        deaths_in_a_row += slates.apply(second).code == -signal.SIGKILL
        assert_all_done(story, slates, (first, second))
    assert deaths_in_a_row > MOMENTS // 2, "choose other moments"
