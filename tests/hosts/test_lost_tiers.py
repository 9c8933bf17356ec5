"""A host that is lost in the middle of a change leaves nothing else down that could be up.

Three tiers on hosts over SSH, watched from outside: to change the configuration of the db, the
fronts and then the apps go down first; when the fronts are down, the link of one app's host is cut.
So the db never goes down, and what was stopped for it was stopped for nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.hosts.conftest import SITES, OperatorMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run
from tests.support.probe import Probe, Seen, harm

pytestmark = [
    pytest.mark.full("three tiers that lose hosts; the gate has lost hosts once"),
    pytest.mark.netns,
    pytest.mark.timeout(900),
]

PORTS = {"db": 7201, "app": 7202, "front": 7203}
NEAR_FRONT, FAR_FRONT = "h05/front", "h06/front"
LOST = "h04/app"
ALL = {"h01/db", "h02/app", "h03/app", LOST, NEAR_FRONT, FAR_FRONT}


@dataclass
class Tiers:
    """The site, applied: who works on it, and who looks on.

    The front of h05 needs the apps of h02 and h03, that of h06 those of h03 and h04.
    """

    fabric: Fabric
    operator: Operator
    probe: Probe

    @property
    def lost(self) -> FabricHost:
        """The host whose link is cut."""
        return self.fabric.plain[3]

    def write(self, text: str) -> None:
        """Write the variables of the site, with this configuration of the db."""
        self.operator.set_variables(
            db_text=text, db_place=f"{self.fabric.plain[0].address}:{PORTS['db']}"
        )

    def change_and_lose(
        self, text: str, *options: str, left: set[str]
    ) -> tuple[Run, Sequence[Seen]]:
        """Change the db's configuration and cut the link when the fronts are down.

        Return the run, and what was seen from its begin until what is `left` up in the end, and
        nothing else; the link is up again.
        """
        self.write(text)
        before = len(self.probe.log)
        try:
            with self.operator.start_apply(*options) as started:
                self.probe.wait_for(lambda seen: not {NEAR_FRONT, FAR_FRONT} & seen.up)
                self.fabric.link_down(self.lost)
                run = started.end()
            self.probe.wait_for(lambda seen: seen.up == left)
            return run, self.probe.log[before - 1 :]
        finally:
            self.fabric.link_up(self.lost)

    def converge(self) -> Run:
        """Apply when the link is back: all is up, on the configuration that is wanted."""
        run = self.operator.apply()
        assert run.code == 0, run.err
        self.probe.wait_for(lambda seen: seen.up == ALL)
        return run


@pytest.fixture(scope="module")
def tiers(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Tiers]:
    """Apply the site for the first time; take it down again in the end."""
    operator = operator_maker("tiers")
    shutil.copy(SITES / "generations" / "link-server.py", operator.folder)
    hosts = fabric.plain
    groups = {"db": hosts[:1], "app": hosts[1:4], "front": hosts[4:]}
    apps = [f"{host.address}:{PORTS['app']}" for host in groups["app"]]
    operator.write_inventory(
        groups,
        {
            "h05": {"apps": "h02:h03", "app_places": apps[:2]},
            "h06": {"apps": "h03:h04", "app_places": apps[1:]},
        },
    )
    ports = {f"{host.name}/{name}": (host, PORTS[name]) for name in groups for host in groups[name]}
    with Probe(fabric, ports, {"h01/db": (hosts[0], "etc/db.conf")}) as probe:
        made = Tiers(fabric, operator, probe)
        made.write("one")
        made.converge()
        yield made
        gone = operator.folder / "site.yml"
        gone.write_text(gone.read_text(encoding="utf-8") + "present: false\n", encoding="utf-8")
        assert operator.apply().code == 0
    assert fabric.visitors() == []


def told(run: Run) -> str:
    """Return what a run said, in one line."""
    return " ".join((run.out + run.err).split())


def test_what_was_stopped_for_nothing_comes_home_on_the_old_configuration(tiers: Tiers) -> None:
    left = {"h01/db", "h02/app", "h03/app", NEAR_FRONT}
    lost, seen = tiers.change_and_lose("two", left=left)
    assert lost.code == 1, lost.err
    assert all("h01/db" in moment.up for moment in seen)
    assert any(not {"h02/app", "h03/app"} & moment.up for moment in seen)
    assert seen[-1].up == left
    assert {moment.files["h01/db"] for moment in seen} == {"one\n"}
    assert "host h04 cannot be reached" in told(lost)
    assert f"h01/db waits for {LOST}" in told(lost)
    assert f"{FAR_FRONT} is kept down for {LOST}" in told(lost)

    back = tiers.converge()
    assert tiers.probe.log[-1].files["h01/db"] == "two\n"
    assert tiers.operator.broken_promises([lost, back]) == []


def test_it_stays_as_it_was_left_where_that_was_asked_for(tiers: Tiers) -> None:
    lost, seen = tiers.change_and_lose("three", "--on-failure", "stay", left={"h01/db"})
    assert lost.code == 1, lost.err
    assert seen[-1].up == {"h01/db"}
    assert {moment.files["h01/db"] for moment in seen} == {"two\n"}
    assert f"h01/db waits for {LOST}" in told(lost)

    back = tiers.converge()
    assert tiers.probe.log[-1].files["h01/db"] == "three\n"
    assert tiers.operator.broken_promises([lost, back]) == []


def test_no_server_ever_missed_what_it_lives_on(tiers: Tiers) -> None:
    assert any(NEAR_FRONT in seen.down for seen in tiers.probe.log)
    assert [found for seen in tiers.probe.log for found in harm(seen, tiers.probe.places)] == []
    for host in tiers.fabric.plain:
        ledger = (tiers.fabric.root(host) / "var/lib/link-server.ledger").read_text()
        notes = [line.split()[1:3] for line in ledger.splitlines()]  # other sites have some, too
        ours = {what for port, what in notes if int(port) in PORTS.values()}
        assert ours == {"start", "stop"}, ledger
