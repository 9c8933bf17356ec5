"""How the modules of the `ha-` types read a cluster and write its configuration; no cluster here.

tests/types/test_ha.py has a real one.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest

DUMMY = {"agent": "ocf:pacemaker:Dummy"}
ADDRESS = {
    "agent": "ocf:heartbeat:IPaddr2",
    "params": {"ip": "192.0.2.1", "cidr_netmask": 32},
    "meta": {"allow-migrate": False},
    "operations": [{"name": "monitor", "interval": "10s"}],
}
ADDRESS_XML = """
<primitive id="vip" class="ocf" provider="heartbeat" type="IPaddr2">
  <instance_attributes id="vip-params">
    <nvpair id="vip-params-cidr_netmask" name="cidr_netmask" value="32"/>
    <nvpair id="vip-params-ip" name="ip" value="192.0.2.1"/>
  </instance_attributes>
  <meta_attributes id="vip-meta">
    <nvpair id="vip-meta-allow-migrate" name="allow-migrate" value="false"/>
  </meta_attributes>
  <operations>
    <op id="vip-monitor-10s" name="monitor" interval="10s"/>
  </operations>
</primitive>
"""
# The same, as another tool writes it.
ELSEWHERE_XML = """
<primitive class="ocf" id="vip" provider="heartbeat" type="IPaddr2">
  <operations><op name="monitor" interval="10s" id="a"/></operations>
  <meta_attributes id="b"><nvpair value="false" name="allow-migrate" id="c"/></meta_attributes>
  <instance_attributes id="d">
    <nvpair name="ip" value="192.0.2.1" id="e"/><nvpair name="cidr_netmask" value="32" id="f"/>
  </instance_attributes>
  <utilization id="g"><nvpair name="cpu" value="1" id="h"/></utilization>
</primitive>
"""


def _xml(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own text


def _cib(resources: str = "", constraints: str = "", options: str = "") -> ET.Element:
    return _xml(
        f"<cib><configuration><crm_config>{options}</crm_config><resources>{resources}</resources>"
        f"<constraints>{constraints}</constraints></configuration><status/></cib>"
    )


def _monitor(resources: str = "", failures: str = "", quorum: str = "true") -> ET.Element:
    return _xml(
        f'<r><summary><current_dc present="true" name="n1" with_quorum="{quorum}"/></summary>'
        f"<resources>{resources}</resources><failures>{failures}</failures></r>"
    )


def _running(name: str, **changes: str) -> str:
    attributes = {
        "role": "Started",
        "active": "true",
        "orphaned": "false",
        "blocked": "false",
        "failed": "false",
        **changes,
    }
    words = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f'<resource id="{name}" {words}/>'


def test_the_same_spec_gives_the_same_xml(cib_module: ModuleType) -> None:
    """Identifiers are made of the object's; values are written as Pacemaker does."""
    made = cib_module.build_resource("vip", ADDRESS, _cib())
    assert ET.canonicalize(ET.tostring(made), strip_text=True) == ET.canonicalize(
        ADDRESS_XML, strip_text=True
    )


def test_xml_is_compared_by_what_it_says(cib_module: ModuleType) -> None:
    """Not by ids, order of attributes or of sets; but a further set is a difference."""
    ours, theirs = _xml(ADDRESS_XML), _xml(ELSEWHERE_XML)
    assert cib_module.canonical(ours) != cib_module.canonical(theirs)
    utilization = theirs.find("utilization")
    assert utilization is not None
    theirs.remove(utilization)
    assert cib_module.canonical(ours) == cib_module.canonical(theirs)


def test_the_order_of_members_counts(cib_module: ModuleType) -> None:
    """Members of a group start in order."""
    cib = _cib('<primitive id="a"/><primitive id="b"/>')
    both, reverse = (
        cib_module.build_resource("g", {"kind": "group", "members": members}, cib)
        for members in (["a", "b"], ["b", "a"])
    )
    assert cib_module.canonical(both) != cib_module.canonical(reverse)


@pytest.mark.parametrize(
    ("agent", "attributes"),
    [
        ("ocf:heartbeat:IPaddr2", {"class": "ocf", "provider": "heartbeat", "type": "IPaddr2"}),
        ("systemd:nginx", {"class": "systemd", "type": "nginx"}),
        ("stonith:fence_ipmilan", {"class": "stonith", "type": "fence_ipmilan"}),
    ],
)
def test_an_agent_has_parts(cib_module: ModuleType, agent: str, attributes: dict[str, str]) -> None:
    """Class, provider and type."""
    assert cib_module.agent_attributes(agent) == attributes


@pytest.mark.parametrize("agent", ["ocf:IPaddr2", "systemd:", "nginx", "systemd:a:b"])
def test_what_is_no_agent_is_told(cib_module: ModuleType, agent: str) -> None:
    """With what to write."""
    with pytest.raises(cib_module.Failed, match=f"{agent} is no agent; write ocf:PROVIDER:NAME"):
        cib_module.agent_attributes(agent)


def test_a_missing_member_is_told(cib_module: ModuleType) -> None:
    """By its name."""
    with pytest.raises(cib_module.Failed, match="the cluster has no resource nix"):
        cib_module.build_resource("g", {"kind": "group", "members": ["nix"]}, _cib())


CONSTRAINTS = (
    '<rsc_location id="vip-on-n1" rsc="vip" node="n1" score="100"/>'
    '<rsc_location id="mine" rsc="vip" node="n2" score="1"/>'
    '<rsc_colocation id="web-with-vip" rsc="web" with-rsc="vip" score="INFINITY"/>'
    '<rsc_order id="o"><resource_set id="s"><resource_ref id="vip"/></resource_set></rsc_order>'
    '<rsc_location id="cli-ban-vip-on-n3" rsc="vip" node="n3" score="-INFINITY"/>'
    '<rsc_order id="vip-after-db" first="db" then="vip" kind="Mandatory"/>'
)


def test_own_constraints_are_known_by_their_ids(cib_module: ModuleType) -> None:
    """What another object brought along, or somebody made, is not ours."""
    cib = _cib(constraints=CONSTRAINTS)
    own = [it.get("id") for it in cib_module.own_constraints(cib, "vip")]
    assert own == ["vip-on-n1", "vip-after-db"]
    naming = cib_module.constraints_naming(cib, ["vip"])
    by_hand = [it.get("id") for it in naming if cib_module.is_by_hand(it)]
    assert len(naming) == 6
    assert by_hand == ["cli-ban-vip-on-n3"]


def test_a_patch_changes_only_what_differs(cib_module: ModuleType) -> None:
    """A constraint that is as wanted stays, one that is not goes, one that lacks comes."""
    cib = _cib(constraints=CONSTRAINTS)
    spec = {"locations": {"n1": 100, "n2": "INFINITY"}}
    patch = cib_module.Patch()
    patch.set_constraints(
        cib_module.own_constraints(cib, "vip"), cib_module.build_constraints("vip", spec)
    )
    assert patch.text() == (
        '<diff format="2">'
        '<change operation="delete" '
        "path=\"/cib/configuration/constraints/rsc_order[@id='vip-after-db']\" />"
        '<change operation="create" path="/cib/configuration/constraints" position="9999">'
        '<rsc_location id="vip-on-n2" rsc="vip" node="n2" score="INFINITY" /></change></diff>'
    )


VIP = ADDRESS_XML.replace("\n", "")
PROBE = (
    '<node_state uname="n2"><lrm_rsc_op operation_key="vip_monitor_0" rc-code="5" '
    'exit-reason="no such agent"/></node_state>'
)
FAILED = '<failure op_key="vip_start_0" node="n1" exitstatus="error" exitcode="{}" status="c"/>'
BANNED = '<rsc_location id="x" rsc="vip" node="n1" score="-INFINITY"/>'


def _switch(name: str, value: str) -> str:
    pair = f'<nvpair id="z" name="{name}" value="{value}"/>'
    return VIP.replace("</meta_attributes>", f"{pair}</meta_attributes>")


@pytest.mark.parametrize(
    ("resource", "instance", "more", "state"),
    [
        ("", "", {}, "down"),
        ("", _running("vip", orphaned="true"), {}, "broken"),
        ("", "", {"constraints": CONSTRAINTS}, "broken"),
        (VIP, _running("vip"), {}, "up"),
        (VIP, _running("vip"), {"constraints": CONSTRAINTS}, "outdated"),
        (VIP, _running("vip"), {"quorum": "false"}, "broken"),
        (VIP, _running("vip", active="false", role="Stopped"), {}, "broken"),
        (VIP, _running("vip", failed="true"), {}, "broken"),
        (VIP, _running("vip", blocked="true"), {}, "broken"),
        (VIP, _running("vip", pending="Starting"), {}, "broken"),
        (VIP, _running("vip"), {"failures": FAILED.format(1)}, "up"),
        (VIP, _running("vip"), {"failures": FAILED.format(5)}, "outdated"),
        (VIP, _running("vip"), {"failures": FAILED.format(5), "constraints": BANNED}, "up"),
        (VIP.replace("192.0.2.1", "192.0.2.2"), _running("vip"), {}, "outdated"),
        (VIP.replace("192.0.2.1", "192.0.2.2"), _running("vip", failed="true"), {}, "broken"),
        (VIP.replace("192.0.2.1", "192.0.2.2"), _running("vip", active="false"), {}, "broken"),
        (_switch("target-role", "Started"), _running("vip"), {}, "up"),
        (_switch("target-role", "Stopped"), _running("vip", active="false"), {}, "stopped"),
        (_switch("target-role", "Stopped"), _running("vip"), {}, "broken"),
        (_switch("maintenance", "true"), _running("vip"), {}, "maintenance"),
        (_switch("is-managed", "false"), _running("vip", active="false"), {}, "maintenance"),
    ],
)
def test_the_state_follows_from_the_cluster(
    ha_resource_module: ModuleType,
    resource: str,
    instance: str,
    more: dict[str, str],
    state: str,
) -> None:
    """From the configuration, and from what runs."""
    cib = _cib(resource, more.get("constraints", ""))
    monitor = _monitor(instance, more.get("failures", ""), more.get("quorum", "true"))
    cluster = ha_resource_module.Cluster(monitor, cib)
    cob = {"name": "vip", "spec": ADDRESS, "applied": None}
    assert ha_resource_module._state(cluster, cob) == state


def test_a_probe_without_an_agent_is_a_failure(ha_resource_module: ModuleType) -> None:
    """Although `crm_mon` does not list it."""
    cib = _cib(VIP)
    status = cib.find("status")
    assert status is not None
    status.append(_xml(PROBE))
    cluster = ha_resource_module.Cluster(_monitor(_running("vip")), cib)
    cob = {"name": "vip", "spec": ADDRESS, "applied": None}
    assert ha_resource_module._state(cluster, cob) == "outdated"
    (failure,) = cluster.failures(["vip"])
    assert ha_resource_module.pacemaker.failure_text(failure) == (
        "vip_monitor_0 on n2: not installed (rc=5, complete): no such agent"
    )


@pytest.mark.parametrize(
    ("operation", "resource"),
    [
        ("vip_start_0", "vip"),
        ("vip_2_monitor_10000", "vip_2"),
        ("web:1_stop_0", "web"),
        ("vm_migrate_to_0", "vm"),
    ],
)
def test_an_operation_belongs_to_a_resource(
    pacemaker_module: ModuleType, operation: str, resource: str
) -> None:
    """Also where names have underscores or instances."""
    assert pacemaker_module._resource_of(operation) == resource


def _changes(patch: Any) -> list[tuple[str, str]]:
    return [
        (str(it.get("operation")), str(it.get("path")).replace("/cib/configuration/", ""))
        for it in _xml(patch.text())
    ]


GROUP = '<group id="g"><primitive id="a" class="ocf" provider="pacemaker" type="Dummy"/></group>'


@pytest.mark.parametrize(
    ("members", "resources", "changes"),
    [
        (
            ["a"],
            GROUP[len('<group id="g">') : -len("</group>")],
            [("delete", "resources/primitive[@id='a']"), ("create", "resources")],
        ),
        (["a"], GROUP, []),
        (
            [{"id": "b", **DUMMY}],
            GROUP,
            [
                ("delete", "resources/group[@id='g']"),
                ("create", "resources"),
                ("create", "resources"),
            ],
        ),
    ],
    ids=["takes-in", "as-asked", "lets-out"],
)
def test_a_group_takes_members_in_and_lets_them_out(
    ha_resource_module: ModuleType,
    members: list[Any],
    resources: str,
    changes: list[tuple[str, str]],
) -> None:
    """In one patch, so that a resource never stands twice or nowhere."""
    wanted = ha_resource_module.Wanted("g", {"kind": "group", "members": members}, {})
    cluster = ha_resource_module.Cluster(_monitor(), _cib(resources))
    assert _changes(ha_resource_module._patch(cluster, wanted, {})) == changes


def test_values_of_private_parameters_are_hidden(
    ha_resource_module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent says may repeat what it was given."""
    said = "login with hunter2 at 192.0.2.9 failed"
    monkeypatch.setattr(ha_resource_module.pacemaker, "reasons", lambda *_: said)
    spec = {"agent": "stonith:x", "params": {"passwd": "hunter2", "ip": "192.0.2.9"}}
    wanted = ha_resource_module.Wanted("fence", spec, {})
    cluster = ha_resource_module.Cluster(_monitor(), _cib())
    assert ha_resource_module._trouble(cluster, wanted, "up", "outdated") == (
        "fence is outdated, not up: login with ******** at 192.0.2.9 failed"
    )


@pytest.mark.parametrize(
    ("node", "quorum", "state"),
    [
        ({}, "true", "online"),
        ({"standby": "true"}, "true", "standby"),
        ({"standby": "true", "resources_running": "1"}, "true", "outdated"),
        ({"maintenance": "true", "resources_running": "1"}, "true", "maintenance"),
        ({"pending": "true"}, "true", "outdated"),
        ({"online": "false"}, "true", "outdated"),
        ({}, "false", "standby"),
        ({"resources_running": "1"}, "false", "outdated"),
    ],
)
def test_the_state_of_a_node_follows_from_the_cluster(
    ha_node_module: ModuleType, node: dict[str, str], quorum: str, state: str
) -> None:
    """A node that is empty without quorum counts as in standby."""
    monitor = _monitor(quorum=quorum)
    attributes = {"name": "n1", "online": "true", "resources_running": "0", **node}
    ET.SubElement(ET.SubElement(monitor, "nodes"), "node", attributes)
    cluster = ha_node_module.Cluster(monitor, _cib())
    assert ha_node_module._state(cluster, "n1") == state


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (("100", "true", None), "up"),
        (("7", "true", None), "outdated"),
        (("100", "true", {"id": "vip-after-db"}), "outdated"),
        (("100", "false", None), "broken"),
        (("7", "false", None), "broken"),
        (("100", "", {"id": "vip-after-db"}), "broken"),
        (("gone", "true", None), "down"),
        (("gone", "", None), "down"),
    ],
)
def test_a_constraint_without_a_cluster_that_acts_is_broken(
    ha_constraint_module: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    seen: tuple[str, str, dict[str, str] | None],
    state: str,
) -> None:
    """One that has no quorum, or does not run here ("")."""
    module, (score, quorum, applied) = ha_constraint_module, seen
    name = "gone" if score == "gone" else "vip-on-n1"
    cib = _cib(constraints=CONSTRAINTS)
    cluster = sys.modules[module.pacemaker.__name__].Cluster(_monitor(quorum=quorum or "true"), cib)
    monkeypatch.setattr(module.pacemaker, "look", lambda: cluster if quorum else None)
    monkeypatch.setattr(module.pacemaker, "kept_cib", lambda: cib)
    spec = {"kind": "location", "resource": "vip", "node": "n1", "score": score}
    assert module.check({"name": name, "spec": spec, "applied": applied}) == {"state": state}


OPTIONS = '<cluster_property_set id="o"><nvpair id="p" name="x" value="1"/></cluster_property_set>'


@pytest.mark.parametrize(
    ("of", "values", "changes"),
    [
        ("cluster", {"x": "1"}, []),
        (
            "cluster",
            {"x": "2"},
            [
                ("delete", "crm_config/cluster_property_set[@id='o']/nvpair[@id='p']"),
                ("create", "crm_config/cluster_property_set[@id='o']"),
            ],
        ),
        ("cluster", {"y": "1"}, [("create", "crm_config/cluster_property_set[@id='o']")]),
        (
            "cluster",
            {"x": None},
            [("delete", "crm_config/cluster_property_set[@id='o']/nvpair[@id='p']")],
        ),
        ("resources", {"x": "1"}, [("create", "/cib/configuration")]),
    ],
    ids=["as-asked", "other-value", "new", "taken-away", "first-of-its-section"],
)
def test_options_are_changed_one_by_one(
    ha_options_module: ModuleType,
    of: str,
    values: dict[str, str | None],
    changes: list[tuple[str, str]],
) -> None:
    """What others set stays."""
    patch = ha_options_module._patch(_cib(options=OPTIONS), {"of": of}, values)
    assert _changes(patch) == changes


def test_options_that_change_their_section_are_put_back_in_the_earlier_one(
    ha_options_module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else they would stay in force for ever, and the check would say that all is well."""
    module = ha_options_module
    cluster = module.Cluster(_monitor(), _cib())
    calls: list[tuple[str, dict[str, str | None]]] = []

    def put(cib: object, spec: dict[str, Any], values: dict[str, str | None]) -> bool:
        del cib
        calls.append((spec["of"], values))
        return True

    monkeypatch.setattr(sys.modules[module.Record.__module__], "state_dir", lambda _: tmp_path)
    monkeypatch.setattr(module, "_set", put)
    for name in ("look", "await_ready", "read_back"):
        monkeypatch.setattr(module.pacemaker, name, lambda *_: cluster)
    monkeypatch.setattr(module.pacemaker, "alone", nullcontext)
    earlier = {"of": "resources", "values": {"timeout": 20}}
    cob = {"name": "defaults", "spec": earlier, "applied": None}
    module.apply(cob)
    cob = {**cob, "spec": {**earlier, "of": "operations"}, "applied": earlier}
    assert module.check(cob) == {"state": "outdated"}
    silent = module.Cluster(_monitor(quorum="false"), _cib())
    for found in (silent, None):
        monkeypatch.setattr(module.pacemaker, "look", lambda found=found: found)
        assert module.check(cob) == {"state": "broken"}
        assert module.check({**cob, "spec": earlier}) == {"state": "broken"}
    assert module.check({**cob, "name": "other", "applied": None}) == {"state": "down"}
    monkeypatch.setattr(module.pacemaker, "look", lambda: cluster)
    calls.clear()
    module.apply(cob)
    assert calls == [("resources", {"timeout": None}), ("operations", {"timeout": "20"})]
    assert [path.name for path in tmp_path.rglob("*.json")] == ["operations-defaults.json"]


def test_without_a_dc_nothing_is_changed(
    pacemaker_module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what is missing, and how to see it."""
    monitor = _monitor()
    summary = monitor.find("summary/current_dc")
    assert summary is not None
    summary.set("present", "false")
    ET.SubElement(ET.SubElement(monitor, "nodes"), "node", {"name": "n1", "online": "true"})
    cluster = pacemaker_module.Cluster(monitor, _cib())
    monkeypatch.setattr(pacemaker_module, "look", lambda: cluster)
    with pytest.raises(pacemaker_module.Failed, match=r"has no DC .*; online: n1\. Nothing was"):
        pacemaker_module.await_ready(0)
