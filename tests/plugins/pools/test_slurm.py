"""What the adapter `slurm` reads out of answers of a Slurm 22.05, and what it does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from tests.support.pool_members import loaded

NODE = {
    "architecture": "x86_64",
    "cpus": 2,
    "name": "n01",
    "hostname": "n01",
    "state": "mixed",
    "state_flags": ["DYNAMIC_NORM"],
    "partitions": ["main"],
    "real_memory": 2000,
    "reason": "",
    "alloc_cpus": 1,
    "idle_cpus": 1,
}
JOB: dict[str, Any] = {
    "array_job_id": 0,
    "array_task_id": None,
    "array_max_tasks": 0,
    "array_task_string": "",
    "cpus_per_task": None,
    "eligible_time": 1796022159,
    "job_id": 19,
    "job_state": "PENDING",
    "max_nodes": 0,
    "memory_per_node": None,
    "minimum_cpus_per_node": 1,
    "name": "wrap",
    "node_count": 1,
    "nodes": "",
    "cpus": 1,
    "partition": "main",
    "priority": 4294901744,
    "required_nodes": "",
    "state_reason": "Resources",
    "user_name": "batch",
}
RUNNING = {**JOB, "job_id": 7, "job_state": "RUNNING", "nodes": "n[01-02]", "state_reason": "None"}
TASK = {**RUNNING, "array_job_id": 43, "array_task_id": 1, "job_id": 50, "nodes": "n01"}
ARRAY = {"array_job_id": 43, "array_task_string": "4-199:3%2", "array_max_tasks": 2}
CONFIG = """\
Configuration data as of 2026-11-30T07:00:57
ClusterName             = test
SlurmctldHost[0]        = slc(10.0.0.1)
SlurmctldHost[1]        = sld
SlurmctldPort           = {port}
SlurmctldParameters     = {parameters}
"""
NO_MEMBER = "PartitionName=main AllowGroups=ALL Default=YES MaxNodes={} MaxTime=UNLIMITED Nodes=n01"
LONG_AGO, MUCH_LATER = 1, 4102444800


class World:
    """A cluster that answers what it is told to."""

    def __init__(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module = module
        self.nodes = answer("nodes", [NODE])
        self.jobs = answer("jobs", [])
        self.config = CONFIG.format(port="6817", parameters="enable_configless")
        self.partitions = NO_MEMBER.format("UNLIMITED")
        monkeypatch.setattr(module.Controller, "say", lambda _self, *argv: self.said(*argv))

    def said(self, *argv: str) -> str:
        """Return the answer of a tool."""
        answers = {"sinfo": self.nodes, "squeue": self.jobs}
        of_scontrol = self.config if argv[-1] == "config" else self.partitions
        return answers.get(argv[0], of_scontrol)

    def observed(self, **settings: str) -> Mapping[str, Any]:
        """Return what observe() makes of it."""
        found: Mapping[str, Any] = self.module.observe({"spec": {"with": settings}})["observed"]
        return found

    def kpi(self, name: str, **settings: str) -> float:
        """Return the value of a KPI."""
        kpis = {it["name"]: it["value"] for it in self.observed(**settings)["kpis"]}
        return float(kpis[name])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a cluster with one member."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # next to the modules of hosts
    return World(loaded(monkeypatch, "cobweb_slurm"), monkeypatch)


def answer(key: str, rows: Sequence[Any], **more: Any) -> str:
    """Return what a tool prints with --json."""
    return json.dumps({"meta": {}, "errors": [], key: rows, **more})


def test_members_are_all_nodes_with_the_jobs_that_are_there(world: World) -> None:
    silent = {**NODE, "name": "n02.lab", "state": "down", "alloc_cpus": 0}
    world.nodes = answer("nodes", [NODE, silent])
    world.jobs = answer("jobs", [RUNNING, TASK, {**RUNNING, "job_state": "COMPLETED"}])
    assert world.observed()["members"] == {
        "n01": {"idle": False, "jobs": 2, "load": 0.5, "state": "up"},
        "n02": {"idle": False, "jobs": 1, "load": 0.0, "state": "silent"},
    }
    assert (world.kpi("running"), world.kpi("utilisation")) == (2, 0.5)


@pytest.mark.parametrize(
    ("state", "flags", "seen"),
    [
        ("idle", [], "up"),
        ("idle", ["PLANNED"], "up"),
        ("allocated", ["DRAIN"], "draining"),
        ("idle", ["DRAIN", "DYNAMIC_NORM"], "draining"),
        ("idle", ["INVALID_REG"], "draining"),
        ("unknown", [], "silent"),
        ("down", ["DRAIN"], "silent"),
        ("idle", ["NOT_RESPONDING"], "silent"),
        (["IDLE", "DRAIN"], [], "draining"),
    ],
)
def test_what_a_member_is(world: World, state: Any, flags: list[str], seen: str) -> None:
    world.nodes = answer("nodes", [{**NODE, "state": state, "state_flags": flags}])
    assert world.observed()["members"]["n01"]["state"] == seen


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"])
def test_jobs_that_are_not_gone_are_at_work(world: World, state: str) -> None:
    world.jobs = answer("jobs", [{**RUNNING, "job_state": state}])
    assert world.observed()["members"]["n01"]["idle"] is False


@pytest.mark.parametrize(
    ("words", "pending"),
    [
        ({}, 1),
        ({"state_reason": "None"}, 1),
        ({"state_reason": "Priority"}, 1),
        ({"state_reason": "ReqNodeNotAvail"}, 1),
        ({"state_reason": "ReqNodeNotAvail", "required_nodes": "n03"}, 0),
        ({"state_reason": "JobHeldUser", "priority": 0}, 0),
        ({"state_reason": "None", "priority": 0}, 0),
        ({"state_reason": "Dependency", "eligible_time": 0}, 0),
        ({"state_reason": "None", "eligible_time": 0}, 0),
        ({"state_reason": "BeginTime", "eligible_time": MUCH_LATER}, 0),
        ({"state_reason": "BeginTime", "eligible_time": LONG_AGO}, 0),
        ({"state_reason": "BadConstraints"}, 0),
        ({"state_reason": "PartitionTimeLimit"}, 0),
        ({"state_reason": "AssocGrpCpuLimit"}, 0),
        ({"state_reason": "JobArrayTaskLimit", **ARRAY}, 0),
        ({"job_state": "COMPLETING"}, 0),
        ({**ARRAY, "array_task_string": "1-5,9"}, 2),
        ({**ARRAY, "array_task_string": "1-5,9", "array_max_tasks": 0}, 6),
        ({**ARRAY, "array_task_string": "1-7:2", "array_max_tasks": 0}, 4),
        # Too large for the one member of two processors that there is.
        ({"state_reason": "PartitionConfig", "minimum_cpus_per_node": 4, "cpus": 4}, 0),
        ({"state_reason": "PartitionConfig", "memory_per_node": 9000, "node_count": 2}, 0),
        ({"state_reason": "PartitionConfig", "node_count": 2, "cpus": 4}, 1),
        # Said when there was no member, and not looked at since.
        ({"state_reason": "PartitionConfig"}, 1),
        ({"state_reason": "PartitionConfig", "features": "big"}, 0),
        ({"state_reason": "PartitionConfig", "tres_per_node": "gres:gpu:1"}, 0),
        ({"state_reason": "PartitionConfig", "node_count": 2, "max_nodes": 1, "cpus": 3}, 0),
        ({"state_reason": "PartitionNodeLimit", "node_count": 2, "max_nodes": 2}, 1),
    ],
)
def test_pending_is_what_a_further_member_would_begin(
    world: World, words: Mapping[str, Any], pending: int
) -> None:
    world.jobs = answer("jobs", [{**JOB, **words}])
    assert world.kpi("pending") == pending


def test_where_there_is_no_member_all_is_too_large_and_waits(world: World) -> None:
    world.nodes = answer("nodes", [])
    large = {**JOB, "state_reason": "PartitionConfig", "cpus": 64, "minimum_cpus_per_node": 64}
    world.jobs = answer("jobs", [large])
    assert (world.kpi("pending"), world.kpi("pending_slots"), world.kpi("utilisation")) == (
        1,
        64,
        1,
    )


def test_a_job_beyond_the_limit_of_its_partition_is_not_pending(world: World) -> None:
    world.jobs = answer("jobs", [{**JOB, "state_reason": "PartitionNodeLimit", "node_count": 3}])
    assert world.kpi("pending") == 1
    world.partitions = NO_MEMBER.format(2)
    assert world.kpi("pending") == 0


def test_tasks_at_work_count_for_the_limit_of_an_array(world: World) -> None:
    world.jobs = answer("jobs", [TASK, {**JOB, **ARRAY}])
    assert world.kpi("pending") == 1


def test_a_partition_has_its_own_work_and_nodes(world: World) -> None:
    world.jobs = answer("jobs", [{**JOB, "partition": "main,other"}, {**JOB, "partition": "big"}])
    assert (world.kpi("pending", partition="main"), world.kpi("pending")) == (1, 2)
    assert world.observed(partition="big")["members"] == {}


@pytest.mark.parametrize(
    ("port", "parameters", "server"),
    [
        ("6817", "cloud_reg_addrs,enable_configless", "slc,sld"),
        ("7000-7003", "enable_configless", "slc:7000,sld:7000"),
        ("6817", "(null)", ""),
    ],
)
def test_hosts_get_their_configuration_of_the_controller_if_it_gives_it(
    world: World, port: str, parameters: str, server: str
) -> None:
    world.config = CONFIG.format(port=port, parameters=parameters)
    about = world.module.about({"spec": {"resource": "n01", "with": {}}})["about"]
    assert about == {"cluster": "test", "server": server, "heard": True, "static": False}


DEAD = [{"description": "Failed while looking for jobs", "error": "Unspecified error"}]


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ("", "cut short"),
        (answer("jobs", [JOB])[:-9], "cut short"),
        ("[]", "has no jobs"),
        (answer("nodes", []), "has no jobs"),
        (answer("jobs", [], errors=DEAD), "Failed while looking for jobs .*slurmctld"),
        (answer("jobs", [7]), "7 where"),
        (answer("jobs", [{**JOB, "job_state": None}]), "no job_state"),
        (answer("jobs", [{**JOB, "job_id": None, "array_job_id": None}]), "no job_id"),
        (answer("jobs", [{**JOB, "cpus": "two"}]), "'two' in its answer is no cpus"),
        (answer("jobs", [{**RUNNING, "nodes": "n[01-"}]), "no list of hosts"),
        (answer("jobs", [{**JOB, "array_task_string": "1,3,..."}]), "no list of tasks"),
    ],
)
def test_a_broken_answer_fails(world: World, jobs: str, says: str) -> None:
    world.jobs = jobs
    with pytest.raises(Exception, match=says):
        world.observed()


@pytest.mark.parametrize("key", ["name", "state", "state_flags", "cpus", "alloc_cpus"])
def test_a_node_that_is_not_whole_fails(world: World, key: str) -> None:
    world.nodes = answer("nodes", [{name: it for name, it in NODE.items() if name != key}])
    with pytest.raises(Exception, match=f"sinfo: a part of its answer has no {key}"):
        world.observed()


@pytest.mark.parametrize(
    ("node", "alive", "state"),
    [
        ({}, True, "up"),
        ({"state": "down"}, True, "draining"),
        ({"state_flags": ["DYNAMIC_NORM", "DRAIN"]}, True, "draining"),
        ({"partitions": []}, True, "draining"),
        ({}, False, "draining"),
        ({"state_flags": ["DYNAMIC_NORM", "DRAIN"], "alloc_cpus": 1}, False, "draining"),
        ({"state_flags": ["DYNAMIC_NORM", "DRAIN"], "alloc_cpus": 0}, False, "down"),
        ({"name": "n02"}, True, "draining"),
        ({"name": "n02"}, False, "down"),
    ],
)
def test_the_state_of_a_member(
    world: World, node: Mapping[str, Any], *, alive: bool, state: str
) -> None:
    world.nodes = answer("nodes", [{**NODE, **node}])
    cob = {"spec": {"resource": "n01", "with": {}}, "daemon": {"alive": alive, "cluster": "test"}}
    assert world.module.check(cob)["state"] == state
    other = {"alive": True, "cluster": "other"}
    if not alive:
        assert world.module.check({**cob, "daemon": other})["state"] == state


@pytest.mark.parametrize(
    ("flags", "reason", "target", "state"),
    [
        ([], "", "up", "up"),
        ([], "", "draining", "up"),
        (["DRAIN"], "cobweb pools: leaves batch", "up", "draining"),
        (["DRAIN"], "cobweb pools: leaves batch", "down", "draining"),
        (["DRAIN"], "its fan is broken", "up", "up"),
        (["DRAIN"], "its fan is broken", "draining", "draining"),
    ],
)
def test_the_entry_drains_where_pools_have_drained_the_node(
    world: World, flags: list[str], reason: str, target: str, state: str
) -> None:
    world.nodes = answer("nodes", [{**NODE, "state_flags": flags, "reason": reason}])
    cob = {"spec": {"resource": "n01", "with": {}}, "target": target}
    assert world.module.entry_check(cob) == {"state": state}
