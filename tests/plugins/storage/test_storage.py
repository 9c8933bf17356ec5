"""The adapter `storage`: what it makes of a model, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cobweb.errors import ModelError
from cobweb.testing import GeneratorCase, NamedCheck, generator_checks
from cobweb_plugins.storage import StorageCluster
from tests.plugins.storage.conftest import a_model

Change = Callable[[dict[str, Any]], None]


def _impossible() -> dict[str, Any]:
    model = a_model()
    model["postgres"]["primary"] = "st9"
    return model


CASE = GeneratorCase(make=StorageCluster, model=a_model(), impossible=_impossible())


@pytest.mark.parametrize("check", generator_checks(CASE), ids=str)
def test_it_passes_the_conformance_kit(check: NamedCheck) -> None:
    check()


def test_hosts_get_the_groups_of_what_they_do(model: dict[str, Any]) -> None:
    """Groups are what host patterns in the site's modules name."""
    made = StorageCluster().generate(model)["hosts.yml"]["all"]
    groups = {name: list(it["hosts"]) for name, it in made["children"].items()}
    assert groups == {
        "cluster_hosts": ["st1", "st2", "st3", "cl1"],
        "servers": ["st1", "st2", "st3"],
        "clients": ["cl1"],
        "storage": ["st1", "st2"],
        "first_server": ["st1"],
        "db": ["st1", "st2"],
        "db_primary": ["st1"],
        "db_standbys": ["st2"],
        "pair_a": ["st1", "st2"],
        "pair_b": ["st3"],
    }


def test_a_cluster_that_is_to_go_is_a_site_that_is_not_present(model: dict[str, Any]) -> None:
    """Hosts and objects are as before: only the site is said to be gone."""
    here, gone = (StorageCluster().generate({**model, "present": it}) for it in (True, False))
    assert gone["objects.yml"] == {**here["objects.yml"], "present": False}
    assert gone["hosts.yml"] == here["hosts.yml"]


def test_disks_are_objects_that_bricks_need(model: dict[str, Any]) -> None:
    """The device is the host's own: servers may name the same disk differently."""
    made = StorageCluster().generate(model)["objects.yml"]["cobs"]
    assert list(made) == ["disk-d1", "disk-d2", "glusterd", "bricks"]
    assert made["disk-d2"]["spec"]["source"] == "{{ disks[1].device }}"
    assert made["bricks"] == made["glusterd"] == {"after": ["disk-d1", "disk-d2"]}


def test_bricks_of_a_replica_set_stand_beside_each_other(model: dict[str, Any]) -> None:
    """As `gluster volume create` takes them: set after set, a server once in each."""
    made = StorageCluster().generate(model)["hosts.yml"]["all"]["vars"]["volume"]["bricks"]
    assert [(it["disk"], it["server"]) for it in made] == [
        ("d1", "st1"),
        ("d1", "st2"),
        ("d2", "st1"),
        ("d2", "st2"),
    ]


def test_a_number_stays_when_a_server_before_goes(model: dict[str, Any]) -> None:
    """Numbers are node ids: they must not move to another server."""
    for number, server in enumerate(model["servers"].values(), 1):
        server["number"] = number
    model["servers"]["st3"]["disks"] = model["servers"].pop("st2")["disks"]
    model["postgres"]["standbys"] = ["st3"]
    made = StorageCluster().generate(model)["hosts.yml"]["all"]["hosts"]
    assert {name: it["number"] for name, it in made.items() if "number" in it} == {
        "st1": 1,
        "st3": 3,
    }


IMPOSSIBLE: dict[str, tuple[Change, tuple[Any, ...], str]] = {
    "no address": (
        lambda it: it["servers"]["st1"].update(address="10.0.0.256"),
        ("servers", "st1", "address"),
        "10.0.0.256 is no address",
    ),
    "address twice": (
        lambda it: it["clients"]["cl1"].update(address="10.0.0.1"),
        ("clients", "cl1", "address"),
        "10.0.0.1 is that of st1 already",
    ),
    "virtual address taken": (
        lambda it: it["network"].update(virtual_ip="10.0.0.2"),
        ("network", "virtual_ip"),
        "10.0.0.2 is that of st2 already",
    ),
    "another network": (
        lambda it: it["servers"]["st3"].update(address="10.0.1.3"),
        ("servers", "st3", "address"),
        "10.0.1.3 is not in the network 10.0.0.0/24",
    ),
    "server and client": (
        lambda it: it["clients"].update(st1={"address": "10.0.0.12"}),
        ("clients", "st1"),
        "st1 is a server and a client",
    ),
    "third of a pair": (
        lambda it: it["servers"]["st3"].update(pair="a"),
        ("servers", "st3", "pair"),
        "the pair a has st1, st2 already",
    ),
    "number twice": (
        lambda it: it["servers"]["st3"].update(number=1),
        ("servers", "st3"),
        "st3 has the number 1 of st1",
    ),
    "unequal disks": (
        lambda it: it["servers"]["st2"].update(disks=["/dev/vdb"]),
        ("servers", "st2", "disks"),
        "st2 has 1 disks, st1 has 2",
    ),
    "one server with disks": (
        lambda it: it["servers"]["st2"].pop("disks"),
        ("servers",),
        "1 servers have disks, and a volume needs two",
    ),
    "foreign primary": (
        lambda it: it["postgres"].update(primary="cl1"),
        ("postgres", "primary"),
        "cl1 is no server",
    ),
    "primary as standby": (
        lambda it: it["postgres"].update(standbys=["st2", "st1"]),
        ("postgres", "standbys", 1),
        "st1 is the primary already",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_is_said_with_its_place(model: dict[str, Any], case: str) -> None:
    """Each problem has the path of the value and a hint."""
    change, path, message = IMPOSSIBLE[case]
    change(model)
    with pytest.raises(ModelError) as caught:
        StorageCluster().generate(model)
    assert [(it[0], it[1]) for it in caught.value.problems] == [(path, message)]
    assert all(hint for _, _, hint in caught.value.problems)
