"""The type `service` on a host with systemd."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from cobweb.model import Outcome
from cobweb.plugin import data_dir
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator
from tests.support.tasks import OneCob

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

UNITS = "/etc/systemd/system"
RUNS = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


class Units:
    """The units of tests on one host; all are gone in the end."""

    def __init__(self, fabric: Fabric, host: FabricHost, live: Live) -> None:
        self.fabric = fabric
        self.host = host
        self.live = live
        self._made: list[str] = []

    def sh(self, script: str) -> str:
        """Run a script on the host and return what it prints."""
        return self.fabric.run(self.host, "sh", "-ec", script).stdout

    def make(self, name: str, text: str = RUNS) -> None:
        """Write a unit."""
        self._made.append(name)
        self.fabric.root(self.host).joinpath(UNITS[1:], name).write_text(text)
        self.sh("systemctl daemon-reload")

    def show(self, name: str, *properties: str) -> list[str]:
        """Return what systemd says of a unit."""
        asked = [f"--property={each}" for each in properties]
        said = self.fabric.run(self.host, "systemctl", "show", name, *asked).stdout
        found = dict(line.split("=", 1) for line in said.splitlines())
        return [found.get(each, "") for each in properties]

    def cob(self, **spec: Any) -> OneCob:
        """Return a service."""
        return self.live.cob("service", self.host, spec)

    def close(self) -> None:
        """Remove the units."""
        made = " ".join(self._made)
        self.sh(f"systemctl disable -q --now {made} || true; systemctl stop {made} || true")
        self.sh(f"cd {UNITS}; for unit in {made}; do rm -rf $unit $unit.d; done")
        self.sh("systemctl daemon-reload; systemctl reset-failed -q || true")


@pytest.fixture
def units(fabric: Fabric, live: Live, systemd_host: FabricHost) -> Iterator[Units]:
    """Return what makes units on a host that has none of them in the end."""
    made = Units(fabric, systemd_host, live)
    before = made.sh(f"find {UNITS}")
    yield made
    made.close()
    assert made.sh(f"find {UNITS}") == before


FILE = {"unit": "ours", "unit_file": RUNS}
DROPIN = {"dropins": {"limits": "[Service]\nLimitNOFILE=2000\n"}}
MORE = {"unit_file": RUNS.replace("infinity", "9999"), "dropins": {"x": "[Unit]\n"}}
CASES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an instance": ({"unit": "many@1"}, {"unit": "many@2", "enabled": False}),
    "its files": ({**FILE, **DROPIN}, {**FILE, **MORE}),
    "masked": ({"unit": "gone", "masked": True}, {"unit": "gone2", "masked": True}),
}


IN_THE_GATE = pytest.mark.gate("the type once on a real host")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=IN_THE_GATE if name == "its files" else ()) for name in CASES]
)
def test_it_passes_the_conformance_kit(units: Units, name: str) -> None:
    """Check, every transition, a changed spec, and back."""
    units.make("many@.service")
    spec, changed = CASES[name]
    units.live.check_type("service", units.host, spec, changed)


def test_the_example_of_its_page_works(fabric: Fabric, units: Units, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, units.host, tmp_path, "service")


DIES = "[Service]\nExecStart=/bin/sh -c 'echo cannot read my file; exit 3'\n"
TALKS = DIES.replace("echo", "for i in $(seq 30); do echo line $i; done; echo")
AGAIN = DIES + "Restart=always\nRestartSec=100ms\n"
LATER = DIES.replace("exit 3", "sleep 0.2; exit 3")
ONCE = "[Service]\nType=oneshot\nExecStart=/bin/true\n"
STAYS = ONCE + "RemainAfterExit=yes\n"
FAULTS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "dies at once": (DIES, {}, "exit status 3; journal: .*cannot read my file"),
    "dies a little later": (LATER, {}, "has started and ended.*cannot read my file"),
    "dies after many words": (TALKS, {}, "journal: .*line 30 cannot read my file"),
    "starts again and again": (AGAIN, {}, "has started and ended.*cannot read my file"),
    "comes to rest": (ONCE, {}, "comes to rest after each start"),
    "bad unit file": ("[Service]\n", {}, "cannot load it.service: .*bad unit file setting"),
    "never healthy": (
        RUNS,
        {"health": {"tcp": 1, "retries": 1, "interval": 0.1}},
        "is not healthy: port 1 of localhost does not answer: Connection refused",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_start_that_does_not_last_fails_and_leaves_nothing(units: Units, name: str) -> None:
    """The message is the tool's, and the unit is down, with no file of ours."""
    text, more, message = FAULTS[name]
    cob = units.cob(unit="it", unit_file=text, **more)
    assert cob.check() == "down"
    report = cob.move("down", "up")
    assert report.outcome is Outcome.FAILED
    assert re.search(message, report.message, re.DOTALL), report.message
    assert cob.check() == "down"
    assert units.show("it", "LoadState", "ActiveState")[1] in ("inactive", "failed")


def test_what_is_missing_is_done_and_no_more(units: Units) -> None:
    """A switch restarts nothing; a unit's file and a drop-in do, and a daemon-reload hides none."""
    units.make("made.service")
    cob = units.cob(unit="made")
    cob.go("down", "up")
    start = units.show("made", "InvocationID")
    cob.spec = {"unit": "made", "enabled": False}
    cob.applied = {"unit": "made"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert units.show("made", "InvocationID", "UnitFileState") == [*start, "disabled"]
    units.sh(f"echo '# edited' >> {UNITS}/made.service; systemctl daemon-reload")
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert units.show("made", "InvocationID") != start
    units.sh("systemctl stop made")
    assert cob.check() == "broken"
    units.sh("systemctl enable -q made")
    assert cob.check() == "broken"
    cob.go("broken", "down")


def test_a_restart_that_is_asked_for_restarts_what_is_as_it_should_be(units: Units) -> None:
    units.make("made.service")
    cob = units.cob(unit="made")
    cob.go("down", "up")
    start = units.show("made", "InvocationID")
    cob.go("outdated", "up")
    assert units.show("made", "InvocationID") == start
    cob.words = {"renew": True}
    cob.go("outdated", "up")
    assert units.show("made", "InvocationID") != start
    cob.go("up", "down")


def test_what_systemd_had_to_start_again_since_this_run_did_not_last(units: Units) -> None:
    units.make("made.service", f"{RUNS}[Service]\nRestart=always\nRestartSec=0.1\n")
    cob = units.cob(unit="made")
    cob.go("down", "up")
    cob.words = {"reached": "up"}
    assert cob.check() == "up"
    again = 'until [ "$(systemctl show --value -p NRestarts made)" = 1 ]; do :; done'
    units.sh(f"systemctl kill -s KILL made; {again}; until systemctl is-active -q made; do :; done")
    assert cob.check() == "broken"
    cob.words = {}
    assert cob.check() == "up", "of an earlier run nobody knows when it was"
    cob.go("up", "down")


def test_what_does_not_work_is_broken_and_never_outdated(units: Units) -> None:
    """Stopped or killed by hand, or not healthy, with a new content too; a change is no fault."""
    spec = {"unit": "ours", "unit_file": RUNS, "health": {"command": "test -e /srv/well"}}
    other = {**spec, "unit_file": f"{RUNS}# another\n", "health": {"tcp": 1, "interval": 0.1}}
    units.sh("touch /srv/well")
    cob = units.cob(**spec)
    cob.go("down", "up")
    cob.applied = spec
    faults = {
        "systemctl stop ours": "systemctl start ours",
        "systemctl kill -s KILL ours; until systemctl is-failed -q ours; do :; done": "",
        "rm /srv/well": "touch /srv/well",
    }
    for fault, end in faults.items():
        cob.spec = other
        assert cob.check() == "outdated", "it runs, and is well by what it was started by"
        units.sh(fault)
        assert cob.check() == "broken", fault
        cob.spec = spec
        assert cob.check() == "broken", fault
        units.sh(end)
        cob.go("broken", "up")
    units.sh("rm /srv/well; systemctl stop ours")
    assert cob.move("broken", "up").outcome is Outcome.FAILED
    assert cob.check() == "broken"
    cob.go("broken", "down")


def test_drop_ins_are_ours_alone(units: Units) -> None:
    """Those of others stay; a name that is gone from the spec goes, and all go in the end."""
    units.make("made.service")
    folder = f"{UNITS}/made.service.d"
    units.sh(f"mkdir {folder}; echo '[Unit]' > {folder}/theirs.conf; systemctl daemon-reload")
    one = {"unit": "made", "dropins": {"a": "[Service]\nLimitNOFILE=2000\n", "b": "[Unit]\n"}}
    cob = units.cob(**one)
    cob.go("down", "up")
    assert units.show("made", "LimitNOFILE") == ["2000"]
    cob.spec, cob.applied = {**one, "dropins": {"b": "[Service]\nLimitNOFILE=3000\n"}}, one
    cob.go("outdated", "up")
    assert units.show("made", "LimitNOFILE") == ["3000"]
    assert units.sh(f"ls {folder}").split() == ["cobweb-b.conf", "theirs.conf"]
    units.sh(f"systemctl stop made; rm {folder}/cobweb-b.conf; systemctl daemon-reload")
    assert cob.check() == "broken"
    cob.go("broken", "up")
    cob.go("up", "down")
    assert units.sh(f"ls {folder}").split() == ["theirs.conf"]


def test_a_masked_unit_is_unmasked_only_if_that_is_said(units: Units) -> None:
    """And it is masked again in the end."""
    cob = units.cob(unit="fabric-other")
    units.sh("mkdir -p /run/systemd/system")
    units.sh(f"ln -s /dev/null {UNITS}/packaged.service")
    units.sh(f"printf '{RUNS}' > /run/systemd/system/packaged.service; systemctl daemon-reload")
    try:
        cob = units.cob(unit="packaged", enabled=False)
        report = cob.move("down", "up")
        assert report.outcome is Outcome.FAILED
        assert "packaged.service is masked on this host" in report.message
        assert units.show("packaged", "LoadState") == ["masked"]
        cob.spec = {**cob.spec, "unmask": True}
        cob.go("down", "up")
        cob.go("up", "down")
        assert units.show("packaged", "LoadState", "ActiveState") == ["masked", "inactive"]
    finally:
        units.sh(f"rm {UNITS}/packaged.service /run/systemd/system/packaged.service")
        units.sh("systemctl daemon-reload")


HELD: Mapping[str, tuple[dict[str, bool], list[str]]] = {
    "masked": ({"masked": True}, ["masked", "inactive", "masked"]),
    "neither": ({"running": False, "enabled": False}, ["loaded", "inactive", "disabled"]),
}


@pytest.mark.parametrize("name", HELD)
def test_what_is_held_is_in_the_end_as_it_was(units: Units, name: str) -> None:
    """Running and enabled before, so again; whoever starts it meanwhile is found."""
    spec, held = HELD[name]
    run_folder = "/run/systemd/system"
    units.sh(f"mkdir -p {run_folder}; printf '{RUNS}' > {run_folder}/packaged.service")
    units.sh("systemctl daemon-reload; systemctl enable -q --now packaged")
    try:
        cob = units.cob(unit="packaged", **spec)
        assert cob.check() == "down"
        cob.go("down", "up")
        asked = ("LoadState", "ActiveState", "UnitFileState")
        assert units.show("packaged", *asked) == held
        if "masked" not in spec:
            units.sh("systemctl start packaged")
            assert cob.check() == "broken"
            cob.go("broken", "up")
        cob.go("up", "down")
        assert units.show("packaged", *asked) == ["loaded", "active", "enabled"]
    finally:
        units.sh(f"systemctl disable -q --now packaged; rm {run_folder}/packaged.service")
        units.sh("systemctl daemon-reload")


def test_timers_sockets_and_targets_are_units_too(units: Units) -> None:
    """A timer waits; one that will never elapse again is broken."""
    units.make("job.service", ONCE)
    units.make("job.timer", "[Timer]\nOnCalendar=hourly\n[Install]\nWantedBy=timers.target\n")
    units.make("talk@.service", RUNS)
    units.make("talk.socket", "[Socket]\nListenStream=/run/talk\nAccept=yes\n")
    units.make("all.target", "[Unit]\nDescription=all\n")
    for unit in ("job.timer", "talk.socket", "all.target"):
        cob = units.cob(unit=unit)
        assert cob.check() == "down"
        cob.go("down", "up")
        cob.go("up", "down")
    units.make("job.timer", "[Timer]\nOnActiveSec=0\nAccuracySec=1us\nRemainAfterElapse=yes\n")
    cob = units.cob(unit="job.timer")
    units.sh("systemctl start job.timer")
    wait = "for i in $(seq 100); do systemctl show -p SubState job.timer | grep -q elapsed && exit"
    units.sh(f"{wait}; sleep 0.1; done; exit 1")
    assert cob.check() == "broken"
    cob.go("broken", "down")


WAYS: Mapping[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "its files": ({"unit": "ours", "unit_file": RUNS, **DROPIN}, ("down", "up")),
    "masked": ({"unit": "packaged", "masked": True}, ("down", "up")),
    "stopped": ({"unit": "packaged"}, ("up", "down")),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_host_itself_can_take_a_change_back(units: Units, name: str) -> None:
    """By the texts that the dead-man switch of a type runs: files, mask, switch and running."""
    spec, way = WAYS[name]
    run_folder = "/run/systemd/system"
    units.sh(f"mkdir -p {run_folder}; printf '{RUNS}' > {run_folder}/packaged.service")
    units.sh("systemctl daemon-reload; systemctl enable -q --now packaged")
    asked = ("LoadState", "ActiveState", "UnitFileState", "LimitNOFILE")
    try:
        before = units.show(spec["unit"], *asked)
        kept = units.sh("mktemp -d").strip()
        texts = [shell_text(text, spec) for text in ("prepare", "revert")]
        units.sh(f"COBWEB_KEPT={kept}\n{texts[0]}")
        cob = units.cob(**spec)
        cob.go(*way)
        assert units.show(spec["unit"], *asked) != before
        for _ in range(2):
            units.sh(f"COBWEB_KEPT={kept}\n{texts[1]}")
            assert units.show(spec["unit"], *asked) == before
        units.sh(f"rm -rf {kept} /var/lib/cobweb/service")
    finally:
        units.sh(f"systemctl disable -q --now packaged; rm {run_folder}/packaged.service")
        units.sh("systemctl daemon-reload")


def shell_text(name: str, spec: Mapping[str, Any]) -> str:
    """Return a text of the type's dead-man switch, filled in as Ansible would."""
    environment = Environment(autoescape=False)  # noqa: S701 - shell text, not HTML
    environment.filters["quote"] = shlex.quote
    text = (Path(str(data_dir("playbooks"))) / "service" / f"{name}.sh.j2").read_text()
    return environment.from_string(text).render(cob={"spec": spec, "applied": None})


READS = """[Service]
Type=notify
NotifyAccess=all
ExecStart=/bin/sh -c 'cat /srv/conf > /srv/read; systemd-notify --ready; exec sleep infinity'
ExecReload=/bin/sh -c 'cat /srv/conf > /srv/read; echo reloaded >> /srv/reloads'
"""


def test_a_changed_file_reloads_who_watches_it(
    fabric: Fabric, units: Units, tmp_path: Path
) -> None:
    """In the run that changes it, after it; and by state, also if somebody else has changed it."""
    units.make("reads.service", READS)
    operator = Operator(fabric, tmp_path)
    operator.write_inventory({"app": [units.host]})
    name = units.host.name
    site = """
cobweb: 1
name: watching
inventory: hosts.yml
cobs:
  conf: {type: file, on: app, spec: {path: /srv/conf, content: "%s"}}
  app:
    type: service
    on: app
    spec: {unit: reads, watch: [/srv/conf], on_change: reload}
    after: [conf]
"""
    try:
        for text, reloads in (("one", 0), ("two", 1)):
            (tmp_path / "site.yml").write_text(site % text)
            run = operator.apply()
            assert run.code == 0, run.out + run.err
            assert run.transitions() == [(f"{name}/conf", "up"), (f"{name}/app", "up")]
            assert units.sh("cat /srv/read") == text
            assert units.sh("touch /srv/reloads; wc -l < /srv/reloads") == f"{reloads}\n"
        again = operator.apply("--refresh", "all")
        assert (again.code, again.transitions()) == (0, []), again.out + again.err
        cob = units.cob(unit="reads", watch={"/srv/conf": "word"})
        assert cob.check() == "outdated"
        cob.go("outdated", "up")
        units.sh("echo by hand > /srv/conf")
        assert cob.check() == "outdated"
        units.sh("systemctl restart reads")
        assert cob.check() == "up"
        (tmp_path / "site.yml").write_text("cobweb: 1\nname: x\ninventory: hosts.yml\ncobs: {}\n")
        assert operator.apply().code == 0
    finally:
        units.sh("rm -f /srv/conf /srv/read /srv/reloads")


def test_who_needs_a_service_that_dies_waits_for_it(
    fabric: Fabric, units: Units, tmp_path: Path
) -> None:
    """The report has its journal, the rest goes on."""
    units.make("dies.service", DIES)
    operator = Operator(fabric, tmp_path)
    operator.write_inventory({"app": [units.host]})
    name = units.host.name
    (tmp_path / "site.yml").write_text("""
cobweb: 1
name: dying
inventory: hosts.yml
cobs:
  dies: {type: service, on: app, spec: {unit: dies}}
  user: {type: file, on: app, spec: {path: /srv/user, content: x}, after: [dies]}
  rest: {type: file, on: app, spec: {path: /srv/rest, content: x}}
""")
    run = operator.apply()
    assert run.code == 1, run.out + run.err
    assert run.transitions() == [(f"{name}/rest", "up")]
    assert "cannot read my file" in run.out + run.err
    assert f"{name}/dies" in operator.cobweb("why", f"{name}/user").out
    units.sh("rm /srv/rest")
