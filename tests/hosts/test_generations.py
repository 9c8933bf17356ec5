"""A site of six hosts goes through ten generations over SSH, watched from outside throughout.

Its servers hold links to what they need and note it when one is cut; a probe asks all of them again
and again, and reads the files that they live on. So whatever was done in a wrong order was seen.
The fixture goes through the generations as an operator would, and the tests look at what happened.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cobweb.testing.promises import check_promises
from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run
from tests.support.probe import Probe, Seen, harm

pytestmark = [
    pytest.mark.full(
        "ten generations over six hosts; the gate has them simulated, and one change on real hosts"
    ),
    pytest.mark.netns,
    pytest.mark.timeout(900),
]

PORTS = {"store": 7101, "index": 7102, "app": 7103, "front": 7104, "batch": 7105}
PAIR_PORTS = {"server": 7106, "client": 7107}
CHAIN = {"h02/index", "h03/app", "h04/app", "h05/front"}
PAIRS = {"h02/left-server", "h02/left-client", "h05/right-server", "h05/right-client"}
GONE = ("batch", "batch-config", "mark", "note", "program")
MANY = 20
NOTHING: Mapping[str, Any] = {"format": 1, "cobs": [], "needs": []}
LEDGER = "var/lib/link-server.ledger"


@dataclass
class Editor:
    """The operator as the author of the site: edits its files, and commits each change."""

    operator: Operator
    fabric: Fabric
    hosts: Sequence[FabricHost]
    groups: dict[str, list[FabricHost]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    host_variables: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The site."""
        return self.operator.folder

    def imports(self, *, add: str = "", drop: str = "") -> None:
        """Add a file to the site's imports, or drop one."""
        file = self.folder / "site.yml"
        lines = file.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if not drop or line != f"  - {drop}"]
        file.write_text("\n".join([*kept, *([f"  - {add}"] if add else []), ""]), encoding="utf-8")

    def commit(self, message: str) -> None:
        """Write the inventory and the variables, and commit the site."""
        places = {
            "store_place": f"{self.groups['store'][0].address}:{PORTS['store']}",
            "index_place": f"{self.groups['index'][0].address}:{PORTS['index']}",
            "front_places": [f"{app.address}:{PORTS['app']}" for app in self.groups["app"]],
        }
        for side, other in (("left", "right"), ("right", "left")):
            if side in self.groups:
                host = self.groups[side][0]
                places[f"{side}_place"] = f"{host.address}:{PAIR_PORTS['server']}"
                assert other in self.groups
        self.operator.write_inventory(self.groups, self.host_variables)
        self.operator.set_variables(**self.variables, **places)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def git(self, *arguments: str) -> str:
        """Run Git in the site."""
        name = ("-c", "user.name=operator", "-c", "user.email=operator@localhost")
        done = subprocess.run(
            ["git", *name, *arguments],
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one generation brought: its runs, what was seen, the graphs before and after.

    `rounds` says how often the probe looked, `notes` what was added to the ledgers, by host.
    """

    runs: tuple[Run, ...]
    seen: tuple[Seen, ...]
    rounds: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    notes: Mapping[str, tuple[str, ...]]

    def done(self) -> list[tuple[str, str]]:
        """Return what the transitions led to, in their order."""
        return [pair for run in self.runs for pair in run.transitions()]

    def away(self) -> set[str]:
        """Return the servers that were up before, and were seen down at some moment."""
        return {name for seen in self.seen for name in self.seen[0].up - seen.up}

    def removed(self) -> set[str]:
        """Return the objects that are gone from the site."""
        after = {cob["id"] for cob in self.after["cobs"]}
        return {cob["id"] for cob in self.before["cobs"]} - after

    def switches(self) -> list[list[str]]:
        """Return the groups of hosts that switched, in their order."""
        return [
            event["hosts"]
            for run in self.runs
            for event in run.events
            if event["type"] == "generation.switch"
        ]

    def place(self, wanted: Callable[[Mapping[str, Any]], bool]) -> int:
        """Return the place of the first event that is wanted, over all runs."""
        events = [event for run in self.runs for event in run.events]
        return next(place for place, event in enumerate(events) if wanted(event))


@dataclass
class History:
    """The generations of the site, by what they did."""

    fabric: Fabric
    editor: Editor
    probe: Probe
    steps: dict[str, Step] = field(default_factory=dict)

    def graph(self) -> Mapping[str, Any]:
        """Return the graph of the site as it is now."""
        ran = self.editor.operator.cobweb("graph", "-o", "json")
        assert ran.code == 0, ran.err
        graph: Mapping[str, Any] = ran.data()
        return graph

    def notes(self) -> dict[str, tuple[str, ...]]:
        """Return the lines of all ledgers, by host."""
        return {host.name: _ledger(self.fabric, host) for host in self.fabric.plain}

    def go(
        self,
        name: str,
        change: Callable[[Editor], None] | None = None,
        bring_about: Callable[[Operator], Sequence[Run]] = lambda operator: [operator.apply()],
        *,
        missing: frozenset[str] = frozenset(),
        back_to: str = "",
    ) -> None:
        """Change the site and bring it about; servers that are `missing` cannot come up.

        Without a change of the site's files the site becomes what it was `back_to` some step.
        """
        before = next((step.after for step in reversed(self.steps.values())), NOTHING)
        written, seen, rounds = self.notes(), len(self.probe.log), self.probe.rounds
        if change is not None:
            change(self.editor)
            self.editor.commit(name)
        runs = tuple(bring_about(self.editor.operator))
        assert runs[-1].code == (1 if missing else 0), runs[-1].err
        after = self.steps[back_to].after if back_to else self.graph()
        wanted = _servers(after) - missing
        self.probe.wait_for(lambda now: now.up == wanted and now.said.keys() == wanted)
        self.steps[name] = Step(
            runs=runs,
            seen=self.probe.log[max(seen - 1, 0) :],
            rounds=self.probe.rounds - rounds,
            before=before,
            after=after,
            notes={host: lines[len(written[host]) :] for host, lines in self.notes().items()},
        )


def _ledger(fabric: Fabric, host: FabricHost) -> tuple[str, ...]:
    file = fabric.root(host) / LEDGER
    return tuple(file.read_text().splitlines()) if file.exists() else ()


def _servers(graph: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(cob["id"] for cob in graph["cobs"] if cob["type"] == "process")


def first(editor: Editor) -> None:
    """Write the site as it is in the beginning."""
    one, two, three, four, five, six = editor.hosts
    editor.groups = {"base": list(editor.hosts), "store": [one], "index": [two]}
    editor.groups |= {"app": [three, four], "front": [five], "batch": [six], "flags": [five, six]}
    texts = (f"{name}_text" for name in PORTS)
    editor.variables = {"note": "one", "app_places": [], **dict.fromkeys(texts, "one")}
    (editor.folder / ".gitignore").write_text(".cobweb/\nevents-*\n.ansible/\n", encoding="utf-8")
    editor.git("init", "--quiet")


def change_the_index(editor: Editor) -> None:
    """Give the index another configuration."""
    editor.variables["index_text"] = "two"


def add_pairs(editor: Editor) -> None:
    """Add four objects on two hosts, and change a file that nothing hangs on."""
    editor.groups |= {"left": [editor.hosts[1]], "right": [editor.hosts[4]]}
    editor.imports(add="pairs.yml")
    editor.variables["note"] = "three"


def drop_flags(editor: Editor) -> None:
    """Remove objects, their type and its task files in one commit."""
    editor.imports(drop="flags.yml")
    editor.git("rm", "--quiet", "-r", "flags.yml", "playbooks")
    del editor.groups["flags"]


def drop_a_host(editor: Editor) -> None:
    """Remove a host from the inventory, its group, and the file of objects that ran there."""
    editor.imports(drop="batch.yml")
    editor.git("rm", "--quiet", "batch.yml")
    editor.groups["base"] = [*editor.hosts[:5]]
    del editor.groups["batch"]


def move_the_index(editor: Editor) -> None:
    """Let another host have the index."""
    editor.groups["index"] = [editor.hosts[3]]


def drop_pairs(editor: Editor) -> None:
    """Remove the objects for which two hosts need each other."""
    editor.imports(drop="pairs.yml")
    editor.git("rm", "--quiet", "pairs.yml")
    del editor.groups["left"], editor.groups["right"]


def break_an_app(editor: Editor) -> None:
    """Let one of the two apps need what is not there."""
    nowhere = f"{editor.hosts[0].address}:7999"
    editor.variables["app_text"] = "eight"
    del editor.variables["app_places"]
    editor.host_variables = {
        "h03": {"app_places": []},
        "h04": {"app_places": [nowhere]},
    }


def mend_the_app(editor: Editor) -> None:
    """Take the last commit back."""
    editor.variables |= {"app_text": "one", "app_places": []}
    editor.host_variables = {}


def bring_all_back(editor: Editor) -> None:
    """Add the host and its objects again, move the index back, change the store."""
    whole = editor.git("log", "--format=%H", "--grep=^add$").strip()
    editor.git("checkout", "--quiet", whole, "--", "batch.yml")
    editor.imports(add="batch.yml")
    editor.groups |= {"base": list(editor.hosts), "batch": [editor.hosts[5]]}
    editor.groups["index"] = [editor.hosts[1]]
    editor.variables["store_text"] = "ten"


def rolled_back(operator: Operator) -> list[Run]:
    """Go back to the last generation that was reached; the plan of it comes first."""
    assert operator.cobweb("plan", "--generation", "7").code == 0
    return [operator.apply(command="rollback")]


def killed_twice(operator: Operator) -> list[Run]:
    """Apply, killed when an object was removed and when one was changed, until it is done."""
    runs = []
    for words in ("h04/index  up -> down", "h01/store-config  outdated -> up"):
        with operator.start_apply() as started:
            started.await_error_line(words)
            started.process.kill()
            runs.append(started.end())
    return [*runs, operator.apply()]


@pytest.fixture(scope="module")
def history(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[History]:
    """Go through the ten generations."""
    operator = operator_maker("generations")
    hosts = fabric.plain
    pairs = [(host, name) for host in hosts for name in PORTS]
    ports = {f"{host.name}/{name}": (host, PORTS[name]) for host, name in pairs}
    for side, host in (("left", hosts[1]), ("right", hosts[4])):
        for name, port in PAIR_PORTS.items():
            ports[f"{host.name}/{side}-{name}"] = (host, port)
    files = {f"{host.name}/{name}": (host, f"etc/{name}.conf") for host, name in pairs}
    with Probe(fabric, ports, files) as probe:
        made = History(fabric, Editor(operator, fabric, hosts), probe)
        made.go("first", first)
        made.go("change", change_the_index)
        made.go("add", add_pairs)
        made.go("drop flags", drop_flags)
        made.go("drop a host", drop_a_host)
        made.go("move", move_the_index)
        made.go("drop pairs", drop_pairs)
        made.go("break", break_an_app, missing=frozenset({"h04/app", "h05/front"}))
        made.go("roll back", None, rolled_back, back_to="drop pairs")
        made.go("mend", mend_the_app)
        made.go("all back", bring_all_back, killed_twice)
        yield made
    assert fabric.visitors() == []


def test_no_server_ever_missed_what_it_lives_on(history: History) -> None:
    for name, step in history.steps.items():
        assert step.rounds > MANY, name
        for seen in step.seen:
            assert harm(seen, history.probe.places) == [], name


def test_no_link_was_ever_cut(history: History) -> None:
    for name, step in history.steps.items():
        for host, lines in step.notes.items():
            told = [line for line in lines if line.split()[2] not in ("start", "stop")]
            assert told == [], (name, host)


def test_the_site_has_thirty_objects_on_six_hosts(history: History) -> None:
    for name in ("first", "all back"):
        cobs = history.steps[name].after["cobs"]
        assert len(cobs) >= 30
        assert len({cob["host"] for cob in cobs}) == 6


def test_a_change_takes_down_what_hangs_on_it_and_nothing_else(history: History) -> None:
    step = history.steps["change"]
    assert step.away() == CHAIN
    assert {seen.files["h02/index"] for seen in step.seen} == {"one\n", "two\n"}
    servers = [(cob, state) for cob, state in step.done() if cob in CHAIN]
    assert [cob for cob, _ in servers[:4:3]] == ["h05/front", "h02/index"]
    assert [cob for cob, _ in servers[4::3]] == ["h02/index", "h05/front"]
    assert len(servers) == 2 * len(CHAIN)


def test_what_is_added_and_a_changed_file_disturb_no_server(history: History) -> None:
    step = history.steps["add"]
    assert step.away() == set()
    assert step.seen[-1].up - step.seen[0].up == PAIRS
    notes = {f"{host.name}/note" for host in history.editor.hosts}
    assert {cob for cob, _ in step.done()} == PAIRS | notes


def test_a_type_goes_with_its_objects_by_the_task_files_that_were_kept(history: History) -> None:
    step = history.steps["drop flags"]
    assert sorted(step.done()) == [("h05/flag", "down"), ("h06/flag", "down")]
    assert not (history.editor.folder / "playbooks").exists()
    assert step.away() == set()
    for host in history.editor.hosts:
        assert not (history.fabric.root(host) / "var/lib/flag").exists()


def test_a_host_that_is_gone_from_the_inventory_is_cleared_in_order(history: History) -> None:
    step = history.steps["drop a host"]
    assert step.away() == {"h06/batch"}
    assert step.removed() == {f"h06/{name}" for name in GONE}
    done = [cob.removeprefix("h06/") for cob, state in step.done() if state == "down"]
    assert sorted(done) == sorted(GONE)
    assert done.index("batch") < done.index("batch-config")
    assert done.index("batch") < done.index("program")
    with_config = [seen for seen in step.seen if "h06/batch" in seen.up]
    assert all(seen.files["h06/batch"] == "one\n" for seen in with_config)
    assert step.seen[-1].files["h06/batch"] is None


def test_an_object_that_moves_is_gone_from_the_old_host_before_it_is_on_the_new(
    history: History,
) -> None:
    step = history.steps["move"]
    assert step.away() == CHAIN
    both = {"h02/index", "h04/index"}
    assert all(len(both & seen.up) < len(both) for seen in step.seen)
    old = next(n for n, seen in enumerate(step.seen) if seen.files["h02/index"] is None)
    new = next(n for n, seen in enumerate(step.seen) if seen.files["h04/index"] is not None)
    assert old < new
    assert step.seen[-1].up >= {"h04/index"}


def test_a_host_switches_after_its_removals_and_before_those_that_they_need(
    history: History,
) -> None:
    step = history.steps["move"]
    assert step.switches() == [["h01"], ["h02"], ["h03"], ["h04"], ["h05"]]
    gone = step.place(
        lambda event: event["type"] == "transition.end" and event["cob"] == "h02/index"
    )
    first = step.place(
        lambda event: event["type"] == "generation.switch" and "h02" in event["hosts"]
    )
    new = step.place(lambda event: event.get("cob") == "h04/index")
    assert gone < first < new


def test_hosts_that_need_each_other_switch_together(history: History) -> None:
    step = history.steps["drop pairs"]
    assert step.away() == PAIRS
    assert ["h02", "h05"] in step.switches()
    down = [cob for cob, _ in step.done()]
    for side, other in (("h02/left", "h05/right"), ("h05/right", "h02/left")):
        assert down.index(f"{other}-client") < down.index(f"{side}-server")


def test_what_failed_on_its_way_is_undone_by_one_command(history: History) -> None:
    failed, back, mended = (history.steps[name] for name in ("break", "roll back", "mend"))
    assert ("h03/app", "up") in failed.done()
    assert failed.seen[-1].files["h03/app"] == "eight\n"
    assert back.seen[-1].files["h03/app"] == back.seen[-1].files["h04/app"] == "one\n"
    assert back.seen[-1].up == failed.seen[0].up
    untouched = {"h01/store", "h04/index"}
    assert all(seen.up >= untouched for step in (failed, back) for seen in step.seen)
    assert mended.done() == []


def test_what_a_killed_run_had_finished_is_not_done_again(history: History) -> None:
    step = history.steps["all back"]
    assert [run.code for run in step.runs] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    notes = {
        host: sorted(line.partition(" ")[2] for line in lines) for host, lines in step.notes.items()
    }
    once = {name: [f"{PORTS[name]} start", f"{PORTS[name]} stop"] for name in PORTS}
    assert notes == {
        "h01": once["store"],
        "h02": once["index"][:1],
        "h03": once["app"],
        "h04": sorted([*once["app"], once["index"][1]]),
        "h05": once["front"],
        "h06": once["batch"][:1],
    }


def test_the_history_has_ten_generations_with_their_commits(history: History) -> None:
    data = history.editor.operator.cobweb("generations", "-o", "json").data()
    generations = data["generations"][::-1]
    assert [it["id"] for it in generations] == list(range(1, 11))
    assert [it["id"] for it in generations if it["reached"] is None] == [8]
    assert all(it["commit"] for it in generations)
    whole = history.editor.git("rev-parse", "HEAD").strip()
    assert whole.startswith(generations[-1]["commit"])


def test_in_the_end_nothing_has_drifted_and_all_is_up(history: History) -> None:
    operator = history.editor.operator
    drift = operator.cobweb("drift")
    assert drift.code == 0, drift.out + drift.err
    status = operator.cobweb("status", "-o", "json").data()
    assert {cob["state"] for cob in status["cobs"]} == {"up"}
    assert {cob["id"] for cob in status["cobs"]} == {
        cob["id"] for cob in history.steps["all back"].after["cobs"]
    }
    assert (status["generation"]["behind"], status["lock"], status["locks"]) == ({}, None, [])
    again = operator.apply("--refresh", "all")
    assert (again.code, again.transitions()) == (0, []), again.err


def test_the_same_generations_and_seed_give_the_same_runs(history: History, tmp_path: Path) -> None:
    editor = history.editor
    hashes = editor.git("log", "--reverse", "--format=%H").split()
    assert simulated(editor, hashes[:7], tmp_path / "a") == simulated(
        editor, hashes[:7], tmp_path / "b"
    )


def simulated(editor: Editor, hashes: Sequence[str], folder: Path) -> list[Mapping[str, Any]]:
    """Return the events of all these commits of the site, applied in turn without hosts."""
    editor.git("clone", "--quiet", ".", str(folder))
    operator = Operator(editor.fabric, folder)
    events: list[Mapping[str, Any]] = []
    for commit in hashes:
        editor.git("-C", str(folder), "checkout", "--quiet", commit)
        run = operator.apply("--executor", "simulate", "--seed", "7")
        assert run.code == 0, run.err
        events += run.events
    return [{**event, "time": 0, "run": ""} for event in events]


def test_the_runs_kept_their_promises(history: History) -> None:
    for name, step in history.steps.items():
        for run in step.runs:
            broken = check_promises(run.events, step.after, before=step.before)
            if run.code < 0:
                broken = [line for line in broken if not line.endswith("the run has no end")]
            assert broken == [], name
