"""A site of six hosts goes through ten generations over SSH, watched from outside throughout.

Its servers hold links to what they need and note it when one is cut; a probe asks all of them again
and again, and reads the files that they live on. So whatever was done in a wrong order was seen.
The fixture goes through the generations as an operator would, and the tests look at what happened.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run
from tests.support.probe import Probe, Seen, harm

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.timeout(900)]

PORTS = {"store": 7101, "index": 7102, "app": 7103, "front": 7104, "batch": 7105}
PAIR_PORTS = {"server": 7106, "client": 7107}
CHAIN = {"h02/index", "h03/app", "h04/app", "h05/front"}
NOTHING: Mapping[str, Any] = {"format": 1, "cobs": [], "needs": []}
LEDGER = "var/lib/link-server.ledger"


@dataclass
class Editor:
    """The operator as the author of the site: edits its files, and commits each change."""

    operator: Operator
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
    """What one generation brought: its runs, what was seen, the graphs before and after."""

    runs: tuple[Run, ...]
    seen: tuple[Seen, ...]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    notes: Mapping[str, tuple[str, ...]]

    @property
    def run(self) -> Run:
        """The one run of a generation that was neither interrupted nor rolled back."""
        (run,) = self.runs
        return run

    def away(self) -> set[str]:
        """Return the servers that were seen down at some moment, and were up before."""
        return {name for seen in self.seen for name in self.seen[0].up - seen.up}

    def switches(self) -> list[list[str]]:
        """Return the groups of hosts that switched, in their order."""
        return [
            event["hosts"]
            for run in self.runs
            for event in run.events
            if event["type"] == "generation.switch"
        ]


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
        change: Callable[[Editor], None],
        *,
        bring_about: Callable[[Operator], Sequence[Run]] = lambda operator: [operator.apply()],
        up: frozenset[str] | None = None,
    ) -> None:
        """Change the site, bring it about, and wait until the servers that are to be up are."""
        before = next((step.after for step in reversed(self.steps.values())), NOTHING)
        written, seen = self.notes(), len(self.probe.log)
        change(self.editor)
        self.editor.commit(name)
        runs = tuple(bring_about(self.editor.operator))
        assert runs[-1].code == 0, runs[-1].err
        after = self.graph()
        wanted = _servers(after) if up is None else up
        self.probe.wait_for(lambda now: now.up == wanted and now.said.keys() == wanted)
        self.steps[name] = Step(
            runs=runs,
            seen=self.probe.log[max(seen - 1, 0) :],
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
    editor.git("revert", "--no-edit", "HEAD")
    editor.variables |= {"app_text": "one", "app_places": []}
    editor.host_variables = {}


def bring_all_back(editor: Editor) -> None:
    """Add the host and its objects again, move the index back, change the store."""
    editor.git("checkout", "--quiet", "HEAD~6", "--", "batch.yml")
    editor.imports(add="batch.yml")
    editor.groups |= {"base": list(editor.hosts), "batch": [editor.hosts[5]]}
    editor.groups["index"] = [editor.hosts[1]]
    editor.variables["store_text"] = "ten"


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
        made = History(fabric, Editor(operator, hosts), probe)
        made.go("first", first)
        made.go("change", change_the_index)
        made.go("add", add_pairs)
        yield made
    assert fabric.visitors() == []


def done(step: Step) -> list[tuple[str, str]]:
    """Return what the transitions of a step's runs led to, in their order."""
    return [pair for run in step.runs for pair in run.transitions()]


def test_no_server_ever_missed_what_it_lives_on(history: History) -> None:
    for name, step in history.steps.items():
        assert len(step.seen) > 1, name
        for seen in step.seen:
            assert harm(seen, history.probe.places) == [], name


def test_no_link_was_ever_cut(history: History) -> None:
    for name, step in history.steps.items():
        for host, lines in step.notes.items():
            told = [line for line in lines if line.split()[2] not in ("start", "stop")]
            assert told == [], (name, host)


def test_the_site_has_thirty_objects_on_six_hosts(history: History) -> None:
    for name in ("first", "add"):
        cobs = history.steps[name].after["cobs"]
        assert len(cobs) >= 30
        assert len({cob["host"] for cob in cobs}) == 6


def test_a_change_takes_down_what_hangs_on_it_and_nothing_else(history: History) -> None:
    step = history.steps["change"]
    assert step.away() == CHAIN
    assert {seen.files["h02/index"] for seen in step.seen} == {"one\n", "two\n"}
    servers = [(cob, state) for cob, state in done(step) if cob in CHAIN]
    assert [cob for cob, _ in servers[:4:3]] == ["h05/front", "h02/index"]
    assert [cob for cob, _ in servers[4::3]] == ["h02/index", "h05/front"]
    assert len(servers) == 2 * len(CHAIN)


def test_what_is_added_and_a_changed_file_disturb_no_server(history: History) -> None:
    step = history.steps["add"]
    assert step.away() == set()
    added = {"h02/left-server", "h02/left-client", "h05/right-server", "h05/right-client"}
    assert step.seen[-1].up - step.seen[0].up == added
    notes = {f"{host.name}/note" for host in history.editor.hosts}
    assert {cob for cob, _ in done(step)} == added | notes
