"""The type `firewall` on a host, and the dead-man switch that it is made for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

SPEC = {"rules": ["ct state established,related accept", "tcp dport 9 counter drop"]}
TABLE = ("nft", "list", "table", "inet", "cobweb_it")
UNIT = "cobweb-firewall-inet-cobweb_it.service"
LEARNS = """
set seen { type ipv4_addr; flags dynamic,timeout; timeout 1h; }
chain in { type filter hook input priority 0; update @seen { ip saddr }; counter; }
"""
BAD_RULES = [
    (["tcp dport ssh allow"], "Error: syntax error, unexpected newline tcp dport ssh allow"),
    (["tcp dport 70000 drop"], "Error: Service out of range"),
    ("chain x { jump nowhere }", "nowhere"),
    ("} table inet other {", "syntax error"),
]


CLEAN = """
nft list ruleset
cd /etc/systemd/system; ls -d *firewall* /etc/nftables.d /var/lib/cobweb/firewall/* 2> /dev/null
for unit in cobweb-firewall-*; do [ ! -e "$unit" ] || systemctl -q disable --now "$unit"; done
rm -rf cobweb-firewall-* /etc/nftables.d /var/lib/cobweb/firewall; systemctl daemon-reload
nft flush ruleset
"""
"""Says what is left, and removes it: one test that fails is no reason for the next one to fail."""


@pytest.fixture
def host(fabric: Fabric, systemd_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host that has no tables, and neither tables nor what loads them in the end."""
    fabric.run(systemd_host, "nft", "flush", "ruleset")  # podman leaves tables of its own
    yield systemd_host
    assert fabric.run(systemd_host, "sh", "-c", CLEAN).stdout == ""


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    live.check_type("firewall", host, SPEC, {"rules": ["tcp dport 10 drop"], "boot": False})


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "firewall")


def test_what_others_change_is_found_and_what_changes_by_itself_is_not(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """Rules, but no counters and no addresses that a set has learnt; others' tables are theirs."""
    cob = live.cob("firewall", host, {"rules": LEARNS})
    cob.go("down", "up")
    assert "expires" in fabric.run(host, *TABLE).stdout
    assert cob.check() == "up"
    fabric.run(host, "nft", "add", "table", "inet", "others")
    fabric.run(host, "nft", "add", "rule", "inet", "cobweb_it", "in", "tcp dport 9 drop")
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert "drop" not in fabric.run(host, *TABLE).stdout
    fabric.run(host, "nft", "delete", "table", "inet", "cobweb_it")
    assert cob.check() == "broken"
    cob.go("broken", "up")
    cob.applied, cob.spec = cob.spec, {**SPEC, "table": "renamed"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert fabric.run(host, "nft", "list", "tables").stdout == (
        "table inet others\ntable inet renamed\n"
    )
    cob.go("up", "down")
    assert fabric.run(host, "nft", "list", "tables").stdout == "table inet others\n"
    fabric.run(host, "nft", "delete", "table", "inet", "others")


def test_a_table_of_somebody_else_is_neither_replaced_nor_deleted(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """What it was before is not known, so that it could not come back."""
    fabric.run(host, "nft", "add", "table", "inet", "cobweb_it")
    fabric.run(host, "nft", "add", "chain", "inet", "cobweb_it", "theirs")
    before = fabric.run(host, *TABLE).stdout
    cob = live.cob("firewall", host, SPEC)
    assert cob.check() == "down"
    assert "Cobweb did not make" in cob.move("down", "up").message
    assert cob.move("up", "down").outcome is Outcome.OK
    assert fabric.run(host, *TABLE).stdout == before
    fabric.run(host, "nft", "delete", "table", "inet", "cobweb_it")


def test_without_nft_there_is_no_table(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """The check of a bare host does not fail; the transition does, and says what is missing."""
    cob = live.cob("firewall", host, SPEC)
    fabric.run(host, "mv", "/usr/sbin/nft", "/usr/sbin/nft.away")
    try:
        assert cob.check() == "down"
        assert "this host has no nft; install it first" in cob.move("down", "up").message
    finally:
        fabric.run(host, "mv", "/usr/sbin/nft.away", "/usr/sbin/nft")


def test_it_is_loaded_at_boot(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """By a unit of its own, to the same rules."""
    cob = live.cob("firewall", host, SPEC)
    cob.go("down", "up")
    assert fabric.run(host, "systemctl", "is-enabled", UNIT).stdout == "enabled\n"
    fabric.run(host, "nft", "flush", "ruleset")
    assert cob.check() == "broken"
    cob.applied, cob.spec = SPEC, {**SPEC, "table": "renamed"}
    assert cob.check() == "broken"
    cob.applied, cob.spec = None, SPEC
    fabric.run(host, "systemctl", "restart", UNIT)
    assert cob.check() == "up"
    cob.go("up", "down")


def test_bad_rules_change_nothing(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """The old ones stay in force; the message is that of nft."""
    cob = live.cob("firewall", host, SPEC)
    cob.go("down", "up")
    before = fabric.run(host, *TABLE).stdout
    cob.applied = SPEC
    for rules, message in BAD_RULES:
        cob.spec = {"rules": rules}
        report = cob.move("outdated", "up")
        assert report.outcome is Outcome.FAILED
        assert message in report.message
    assert fabric.run(host, *TABLE).stdout == before
    cob.spec = SPEC
    assert cob.check() == "up"
    cob.go("up", "down")


def test_rules_that_cut_the_host_off_go_by_themselves(
    fabric: Fabric, host: FabricHost, tmp_path: Path
) -> None:
    """With `confirm` what was there before comes back, whole; what waits says so."""
    operator = Operator(fabric, tmp_path)
    operator.write_inventory({"walled": [host]})
    write_site(tmp_path, ["tcp dport 9 drop"])
    assert operator.apply().code == 0
    before = fabric.run(host, *TABLE).stdout

    write_site(tmp_path, ["tcp dport 22 drop"])
    cut = operator.apply()
    assert cut.code == 1
    assert "gone back by itself" in " ".join(cut.err.split())
    assert fabric.run(host, *TABLE).stdout == before

    write_site(tmp_path, ["tcp dport 9 drop"])
    assert operator.apply().transitions() == []
    (tmp_path / "site.yml").write_text(site({}))
    assert operator.apply().code == 0


def write_site(folder: Path, rules: list[str]) -> None:
    """Write a site with these rules, under a dead-man switch."""
    wall = {"type": "firewall", "on": "walled", "spec": {"rules": rules, "table": "cobweb_it"}}
    (folder / "site.yml").write_text(site({"wall": {**wall, "confirm": "8s"}}))


def site(cobs: dict[str, object]) -> str:
    """Return a site with these objects."""
    return json.dumps({"cobweb": 1, "name": "cut", "inventory": "hosts.yml", "cobs": cobs})
