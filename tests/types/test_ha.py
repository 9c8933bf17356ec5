"""The types `ha-resource`, `ha-constraint`, `ha-options`, `ha-node` on a cluster of three hosts.

Most of the time goes into `crm_resource --wait`, which looks every two seconds. So what does not
get into each other's way is done side by side: a lane for each host; a test awaits its part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, live_on, run_page_example
from tests.support.operator import Operator
from tests.support.power import PowerSwitch
from tests.support.tasks import OneCob

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the types; the gate has their conformance kits"),
    pytest.mark.timeout(600),
]

DEADLINE_S = 120.0
POLL_S = 0.2
FENCE_AGENT = Path(__file__).parents[2] / "inventories" / "storage" / "files" / "fence_http"
DUMMY: Mapping[str, Any] = {
    "agent": "ocf:pacemaker:Dummy",
    "operations": [{"name": "monitor", "interval": "20s"}],
}
# The second host is a node that goes to standby and maintenance meanwhile.
STEADY = {"locations": {"s02": "-INFINITY"}}
# A first election begins after 20 s, unless the configuration says otherwise.
SEED = """
cat > /var/lib/pacemaker/cib/cib.xml <<'EOF'
<cib validate-with="pacemaker-3.9" epoch="1" num_updates="0" admin_epoch="0">
<configuration><crm_config><cluster_property_set id="cib-bootstrap-options">
<nvpair id="cib-bootstrap-options-stonith-enabled" name="stonith-enabled" value="false"/>
<nvpair id="cib-bootstrap-options-dc-deadtime" name="dc-deadtime" value="2s"/>
</cluster_property_set></crm_config><nodes/><resources/><constraints/></configuration><status/></cib>
EOF
chown hacluster:haclient /var/lib/pacemaker/cib/cib.xml
chmod 0600 /var/lib/pacemaker/cib/cib.xml
"""
BROKEN = {
    "agent": "ocf:heartbeat:IPaddr2",
    "params": {"ip": "10.77.9.7", "cidr_netmask": 16, "nic": "nope0"},
    **STEADY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Three hosts with corosync and Pacemaker, each with a hand of its own."""

    fabric: Fabric
    lives: tuple[Live, ...]
    folder: Callable[[], Path]

    @property
    def hosts(self) -> tuple[FabricHost, ...]:
        return self.fabric.hosts

    def sh(self, number: int, script: str) -> str:
        """Run a script on a host and return what it prints."""
        return self.fabric.run(self.hosts[number], "sh", "-ec", script).stdout

    def cob(self, number: int, kind: str, spec: Mapping[str, Any], name: str) -> OneCob:
        """Return an object on a host."""
        return self.lives[number].cob(kind, self.hosts[number], spec, name)

    def configuration(self) -> str:
        """Return the configuration without the counters of its versions."""
        return self.sh(0, "cibadmin --query --scope configuration")

    def where(self, name: str) -> str:
        """Return where a resource runs, in the words of the tool."""
        return self.sh(0, f"crm_resource --locate --resource {name} 2>&1 || true")

    def await_line(self, number: int, words: str) -> None:
        """Wait until `crm_mon` on a host says this."""
        self.until(lambda: words in self.sh(number, "crm_mon -1 2>&1 || true"), words)

    def until(self, what: Callable[[], bool], words: str) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + DEADLINE_S
        while not what():
            assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {words}"
            time.sleep(POLL_S)


@pytest.fixture(scope="module")
def cluster(
    fabric_folder: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Return a cluster that has quorum, a DC and no resources, and does not fence."""
    with ExitStack() as stack:
        fabric = stack.enter_context(Fabric(fabric_folder(), plain=0, systemd=3, image="full"))
        for host in fabric.hosts:
            path = fabric.root(host) / "etc/corosync/corosync.conf"
            path.write_text(_corosync_conf(fabric.hosts))
            fabric.run(host, "sh", "-ec", SEED)
        for host in fabric.hosts:
            fabric.run(host, "systemctl", "start", "--no-block", "corosync", "pacemaker")
        lives = [
            stack.enter_context(live_on(fabric, tmp_path_factory.mktemp("live")))
            for _ in fabric.hosts
        ]
        made = Cluster(
            fabric=fabric, lives=tuple(lives), folder=lambda: tmp_path_factory.mktemp("site")
        )
        made.await_line(0, "Online: [ s01 s02 s03 ]")
        yield made


def _corosync_conf(hosts: tuple[FabricHost, ...]) -> str:
    nodes = "".join(
        f"node {{\nname: {it.name}\nnodeid: {it.number + 1}\nring0_addr: {it.address}\n}}\n"
        for it in hosts
    )
    return (
        "totem {\nversion: 2\ncluster_name: test\ntransport: knet\n"
        "crypto_cipher: none\ncrypto_hash: none\ntoken: 2000\n}\n"
        f"nodelist {{\n{nodes}}}\nquorum {{\nprovider: corosync_votequorum\n}}\n"
        "logging {\nto_syslog: yes\n}\n"
    )


# --- side by side


def _resource_kit(cluster: Cluster) -> None:
    changed = {**DUMMY, **STEADY, "params": {"fake": "other"}, "meta": {"resource-stickiness": 7}}
    cluster.lives[0].check_type("ha-resource", cluster.hosts[0], {**DUMMY, **STEADY}, changed)


def _failed_start(cluster: Cluster) -> None:
    """See a start fail with its exit reason, and the dependents wait for it."""
    folder = cluster.folder()
    operator = Operator(cluster.fabric, folder)
    operator.write_inventory({"app": [cluster.hosts[0]]})
    file = {"type": "file", "on": "app"}
    site = {
        "cobweb": 1,
        "inventory": "hosts.yml",
        "cobs": {
            "broken": {"type": "ha-resource", "on": "app", "spec": BROKEN},
            "page": {**file, "spec": {"path": "/srv/page", "content": ""}, "after": ["broken"]},
            "other": {**file, "spec": {"path": "/srv/other", "content": ""}},
        },
    }
    operator._write("site.yml", site)
    run = operator.apply()
    said = run.out + run.err
    assert run.code == 1, said
    assert "broken_start_0 on s0" in said
    assert "[findif] failed" in said
    assert ("s01/other", "up") in run.transitions()
    assert ("s01/page", "up") not in run.transitions()
    assert "s01/broken" in operator.cobweb("why", "s01/page").out
    operator._write("site.yml", {**site, "cobs": {}})
    gone = operator.apply()
    assert gone.code == 0, gone.out + gone.err
    assert "broken" not in cluster.configuration()


def _missing_agent(cluster: Cluster) -> None:
    """See an agent that no node has, told by its name; nothing is left behind."""
    cob = cluster.cob(0, "ha-resource", {"agent": "ocf:heartbeat:Nope", **STEADY}, "nope")
    report = cob.move("down", "up")
    assert report.outcome is Outcome.FAILED
    assert "not installed (rc=5" in report.message
    assert cob.check() == "broken"
    cob.go("broken", "down")


def _node_kit(cluster: Cluster) -> None:
    cluster.lives[1].check_type("ha-node", cluster.hosts[1], {})


def _pages(cluster: Cluster) -> None:
    """Apply the examples of the pages, again without a change, and remove them."""
    kinds = ("ha-constraint", "ha-resource", "ha-options", "ha-node")
    run_page_example(cluster.fabric, cluster.hosts[1], cluster.folder(), kinds)
    cluster.cob(1, "ha-node", {}, "node").go("standby", "online")


def _options_kit(cluster: Cluster) -> None:
    spec = {"of": "resources", "values": {"migration-threshold": 3}}
    changed = {"of": "resources", "values": {"failure-timeout": "60s"}}
    cluster.lives[0].check_type("ha-options", cluster.hosts[0], spec, changed)


def _earlier_options(cluster: Cluster) -> None:
    """Put back what a value was before; take away what was not."""
    option = {"values": {"cluster-recheck-interval": "7min", "stonith-timeout": "31s"}}
    cluster.sh(2, "crm_attribute --name cluster-recheck-interval --update 9min")
    cob = cluster.cob(2, "ha-options", option, "options")
    cob.go("down", "up")
    assert 'name="stonith-timeout" value="31s"' in cluster.configuration()
    cob.go("up", "down")
    after = cluster.configuration()
    assert 'name="cluster-recheck-interval" value="9min"' in after
    assert "stonith-timeout" not in after


def _group_and_constraint(cluster: Cluster) -> None:
    """Let a group take a resource in and out; what others name does not go."""
    one = cluster.cob(2, "ha-resource", {**DUMMY, **STEADY}, "one")
    one.go("down", "up")
    members = ["one", {"id": "two", **DUMMY}]
    group = cluster.cob(2, "ha-resource", {"kind": "group", "members": members, **STEADY}, "both")
    group.go("down", "up")
    assert one.check() == "up"
    assert cluster.where("one").split()[-1] == cluster.where("two").split()[-1]
    refused = one.move("up", "down")
    assert "one is a member of both" in refused.message
    there = {"kind": "location", "resource": "both", "node": "s03", "score": "INFINITY"}
    constraint = cluster.cob(2, "ha-constraint", there, "there")
    constraint.go("down", "up")
    assert "s03" in cluster.where("both")
    refused = group.move("up", "down")
    assert "both is named by there" in refused.message
    assert group.check() == "up"
    constraint.spec, constraint.applied = {**there, "node": "s01"}, there
    constraint.go("outdated", "up")
    assert "s01" in cluster.where("both")
    constraint.go("up", "down")
    group.go("up", "down")
    assert one.check() == "up"
    assert "NOT" in cluster.where("two") or "not found" in cluster.where("two")
    one.spec, one.applied = {"agent": "ocf:heartbeat:Dummy", **STEADY}, one.spec
    one.go("outdated", "up")
    one.go("up", "down")


_Part = Callable[[Cluster], None]
LANES: tuple[tuple[_Part, ...], ...] = (
    (_resource_kit, _missing_agent, _options_kit),
    (_node_kit, _pages, _failed_start),
    (_earlier_options, _group_and_constraint),
)
PARTS = {part.__name__.strip("_"): part for lane in LANES for part in lane}


@pytest.fixture(scope="module")
def running(
    cluster: Cluster, request: pytest.FixtureRequest
) -> Iterator[Mapping[str, Future[None]]]:
    """Begin all parts that are run: those of a lane one by one, the lanes side by side."""
    chosen = {item.name for item in request.session.items}
    with ExitStack() as stack:
        lanes = [
            (stack.enter_context(ThreadPoolExecutor(1, f"lane{number}")), lane)
            for number, lane in enumerate(LANES)
        ]
        yield {
            name: executor.submit(PARTS[name], cluster)
            for executor, lane in lanes
            for name in (part.__name__.strip("_") for part in lane)
            if f"test_a_part_goes_well[{name}]" in chosen
        }


IN_THE_GATE = ("options_kit", "node_kit", "group_and_constraint")


def _marked(part: str) -> Any:
    why = pytest.mark.gate("each type once on a real cluster")
    return pytest.param(part, marks=why if part in IN_THE_GATE else ())


@pytest.mark.parametrize("part", [_marked(part) for part in PARTS])
def test_a_part_goes_well(running: Mapping[str, Future[None]], part: str) -> None:
    """Each part says itself what it claims."""
    running[part].result()


# --- what the whole cluster is needed for; in this order


def test_without_quorum_nothing_is_changed(
    cluster: Cluster, running: Mapping[str, Future[None]]
) -> None:
    """The transition fails with the tool's words, and the configuration is as before the loss."""
    _await_all(running)
    before = cluster.configuration()
    for host in cluster.hosts[1:]:
        cluster.fabric.link_down(host)
    cluster.await_line(0, "WITHOUT quorum")
    cobs = [
        cluster.cob(0, "ha-resource", {**DUMMY, "timeout": 1}, "lonely"),
        cluster.cob(0, "ha-options", {"values": {"stop-all-resources": True}, "timeout": 1}, "o"),
    ]
    for cob in cobs:
        report = cob.move("down", "up")
        assert report.outcome is Outcome.FAILED
        assert "partition WITHOUT quorum" in report.message
        assert "Nothing was changed" in report.message
        assert cob.check() == "down"
    for host in cluster.hosts[1:]:
        cluster.fabric.link_up(host)
    lonely = cluster.cob(0, "ha-resource", DUMMY, "lonely")
    cluster.await_line(0, "Online: [ s01 s02 s03 ]")
    assert cluster.configuration() == before
    lonely.go("down", "up")
    lonely.go("up", "down")


def test_a_cut_host_is_killed_and_its_address_moves(
    cluster: Cluster, running: Mapping[str, Future[None]]
) -> None:
    """With a STONITH device; without one the cluster starts nothing, and the message says so."""
    _await_all(running)
    address = {
        "agent": "ocf:heartbeat:IPaddr2",
        "params": {"ip": "10.77.9.9", "cidr_netmask": 16, "nic": "eth0"},
        "operations": [{"name": "monitor", "interval": "5s"}],
        "locations": {"s03": 100},
    }
    with PowerSwitch(cluster.fabric) as power:
        for host in cluster.hosts:
            agent = cluster.fabric.root(host) / "usr/sbin/fence_http"
            agent.write_bytes(FENCE_AGENT.read_bytes())
            agent.chmod(0o755)
        cluster.cob(0, "ha-options", {"values": {"stonith-enabled": True}}, "fencing").go(
            "down", "up"
        )
        cob = cluster.cob(0, "ha-resource", address, "address")
        refused = cob.move("down", "up")
        assert "no STONITH resources have been defined" in refused.message
        assert cob.check() == "broken"
        cluster.cob(0, "ha-resource", _device(power.url), "fence").go("down", "up")
        cob.go("broken", "up")
        assert "s03" in cluster.where("address")
        cluster.fabric.link_down(cluster.hosts[2])
        cluster.until(lambda: power.cuts == ["s03"], "s03 is killed")
        cluster.until(lambda: cob.check() == "up", "the address is elsewhere")
        assert "s03" not in cluster.where("address")
        power.answer("/hosts/s03/on", change=True)
        cluster.until(lambda: _answers(cluster, 2), "s03 boots")
    _does_not_run_here(cluster)


def _does_not_run_here(cluster: Cluster) -> None:
    """See a host without a running Pacemaker: in standby, and it changes nothing."""
    node = cluster.cob(2, "ha-node", {"timeout": 1}, "node")
    assert node.check() == "standby"
    report = node.move("standby", "online")
    assert "the cluster does not run on this host: " in report.message
    assert cluster.cob(2, "ha-resource", DUMMY, "never").check() == "down"


def _device(url: str) -> dict[str, Any]:
    return {
        "agent": "stonith:fence_http",
        "params": {
            "url": url,
            "pcmk_host_check": "static-list",
            "pcmk_host_list": "s03",
            "pcmk_reboot_action": "off",
        },
        "operations": [{"name": "monitor", "interval": "60s"}],
        "locations": {"s03": "-INFINITY"},
    }


def _answers(cluster: Cluster, number: int) -> bool:
    try:
        return cluster.sh(number, "systemctl is-system-running || true").strip() != "starting"
    except Exception:  # noqa: BLE001 - the host is between off and on
        return False


def _await_all(running: Mapping[str, Future[None]]) -> None:
    for future in running.values():
        future.exception()
