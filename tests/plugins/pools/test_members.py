"""Members of the adapters `processes` and `counter`: real workers, queues, deaths, and licences."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cobweb.cli import main
from cobweb.model import Host, JobKind, Tasks
from cobweb.plugin import type_file
from cobweb.testing import TypeCase, type_checks
from tests.support.pool_members import (
    PLAYBOOKS,
    dies_at,
    end_marked,
    in_child,
    loaded,
    marked,
    until,
)
from tests.support.tasks import Hand, OneCob, opened_hand

POOLS = PLAYBOOKS / "pools"
ADAPTERS = {"processes": "pool-process", "counter": "pool-counter"}
KINDS = ("process", "counter")
STEPS = {
    "join": ((), "up"),
    "drain": (("join",), "draining"),
    "resume": (("join", "drain"), "up"),
    "leave": (("join", "drain"), "down"),
}
"""The steps of a member, each with those before it and the state that it leads to."""

Cob = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a service, which is not there yet; no process of it may be left."""
    try:
        yield tmp_path / "service"
        assert marked(tmp_path) == []
    finally:
        end_marked(tmp_path)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return loaded(monkeypatch, "cobweb_pool_process")


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return loaded(monkeypatch, "cobweb_pool_counter")


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    """Return the executor that carries out task files, warm for all tests."""
    with opened_hand(tmp_path_factory.mktemp("hand")) as opened:
        yield opened


class Member:
    """A member whose steps are called one by one; each leaves its state in the file system."""

    def __init__(self, module: ModuleType, folder: Path, **given: str) -> None:
        self.module = module
        self.folder = folder
        self.cob: Cob = {"spec": self.spec(**given), "applied": None}

    def spec(self, resource: str = "n1", **given: str) -> dict[str, Any]:
        spec = {"folder": str(self.folder), **given}
        return {"service": "batch", "resource": resource, "with": spec}

    def __call__(self, *steps: str) -> Member:
        for step in steps:
            self.action(step)(self.cob)
        return self

    def action(self, step: str) -> Callable[..., Any]:
        action: Callable[..., Any] = getattr(self.module, "join" if step == "resume" else step)
        return action

    @property
    def state(self) -> str:
        return str(self.module.check(self.cob)["state"])

    @property
    def message(self) -> str:
        return str(self.module.check(self.cob).get("message", ""))

    @property
    def observed(self) -> dict[str, Any]:
        spec = {key: self.cob["spec"][key] for key in ("service", "with")}
        found: dict[str, Any] = self.module.observe({"spec": spec})["observed"]
        return found

    @property
    def owner(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "members" / "n1").read_text())
        return found

    def refuses(self, step: str) -> str:
        """Return why a step fails."""
        with pytest.raises((failed_class(), OSError)) as refused:
            self(step)
        assert "\n" not in str(refused.value)
        return str(refused.value)


class Gate:
    """A job that says that it has begun, and ends when it is told to."""

    def __init__(self, folder: Path, name: str = "gated") -> None:
        self.begun, self.go = folder / f"{name}.begun", folder / f"{name}.go"
        os.mkfifo(self.begun)
        os.mkfifo(self.go)
        self.text = f"echo begun > {self.begun}\nread -r code < {self.go}\nexit $code\n"

    def await_begun(self) -> None:
        assert self.begun.read_text() == "begun\n"

    def open(self, code: int = 0) -> None:
        self.go.write_text(f"{code}\n")


def submit(folder: Path, name: str, text: str) -> None:
    """Put a job into a queue as a client does."""
    queue = folder / "queue"
    queue.mkdir(parents=True, exist_ok=True)
    (queue / f".{name}").write_text(text)
    (queue / f".{name}").rename(queue / name)


def failed_class() -> type[Exception]:
    """Return what a module that was loaded last refuses by."""
    failed: type[Exception] = vars(sys.modules["ansible.module_utils.cobweb_host"])["Failed"]
    return failed


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


# --- types and adapters


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_says_what_a_pool_needs(name: str) -> None:
    """And the spec of its members has the same `with` as its services."""
    adapter = yaml.safe_load((POOLS / f"{name}.yml").read_text())
    assert set(adapter) == {"description", "holds", "schema", "member", "observe"}
    Draft202012Validator.check_schema(adapter["schema"])
    kind = ADAPTERS[name]
    made = type_file(POOLS / kind / "type.yml")().cob_type()
    assert adapter["member"]["type"] == made.name == kind
    assert made.spec_schema is not None
    ours = made.spec_schema["properties"]["with"]
    assert ours["properties"] == adapter["schema"]["properties"]
    assert (POOLS / adapter["observe"]["tasks"]).is_file()


@pytest.mark.parametrize("kind", ADAPTERS.values())
def test_the_matrix_is_that_of_a_member(kind: str) -> None:
    """No way passes over `draining`, where jobs are looked for."""
    made = type_file(POOLS / kind / "type.yml")().cob_type()
    assert made.states == ("down", "draining", "up")
    assert (made.preferred, made.remove) == ("up", "down")
    assert set(made.serving) == {"draining", "up"}
    assert {(step.source, step.dest) for step in made.transitions} == {
        ("down", "up"),
        ("up", "draining"),
        ("draining", "up"),
        ("draining", "down"),
    }


@pytest.mark.gate("real Ansible, through all steps of both types")
@pytest.mark.parametrize("kind", KINDS)
def test_a_type_passes_the_conformance_kit(kind: str, hand: Hand, folder: Path) -> None:
    """A member moves to another folder, and is in one at a time."""
    spec = {"service": "batch", "resource": "n1", "with": {"folder": f"{folder}/a"}}
    case = TypeCase(
        make=type_file(POOLS / f"pool-{kind}" / "type.yml"),
        spec=spec,
        changed_spec={**spec, "with": {"folder": f"{folder}/b"}},
        host=Host(name="h1"),
        executor=hand.executor,
        numbers=hand.numbers,
    )
    for check in type_checks(case):
        check()
    assert names(folder / "a" / "members") == names(folder / "b" / "members") == set()


@pytest.mark.gate("real Ansible")
@pytest.mark.parametrize(("name", "kpi"), [("processes", "pending"), ("counter", "used")])
def test_an_observation_is_handed_back_as_results(
    name: str, kpi: str, hand: Hand, folder: Path
) -> None:
    """By the tasks of the adapter; a failure is one line."""
    type_path = POOLS / ADAPTERS[name] / "type.yml"
    member = OneCob(type_file(type_path)().cob_type(), hand, spec={})
    service = {"service": "batch", "with": {"folder": str(folder)}}
    member.spec = {**service, "resource": "n1"}
    member.go("down", "up")
    submit(folder, ".later", "exit 0")
    watch = OneCob(
        replace(member.type, check=Tasks(path=str(POOLS / f"{name}-observe.yml"))), hand, {}
    )
    watch.spec = service
    report = watch._run(watch.type.check, JobKind.CHECK)
    assert report.state == "running"
    assert report.results == {
        "state": "running",
        "kpis": [{"name": kpi, "value": 0}],
        "members": {"n1": {"idle": True, "jobs": 0}},
    }
    member.go("up", "draining")
    member.go("draining", "down")
    watch.spec = {**service, "with": {"folder": __file__}}
    assert f"{__file__} is not a folder" in watch.failing_check()


SITE = """
cobweb: 1
name: pools
inventory:
  all:
    hosts:
      n1: {ansible_connection: local}
      n2: {ansible_connection: local}
    vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}"}
"""


def write_site(site: Path, folder: Path, *, hosts: Sequence[str], preferred: str = "up") -> None:
    """Write a site of workers and one licence, with copies of the types and their tasks."""
    shutil.copytree(POOLS, site, dirs_exist_ok=True)
    types = {}
    for kind in ADAPTERS.values():
        made = yaml.safe_load((site / kind / "type.yml").read_text())
        for step in (made["check"], *made["transitions"].values()):
            step["tasks"] = f"{kind}/{step['tasks']}"
        types[f"a-{kind}"] = {**made, "preferred": preferred}
        types[f"a-{kind}"].pop("description")
    prologue = f"echo made > {folder.parent}/$COBWEB_RESOURCE-$COBWEB_SERVICE"
    batch = {"folder": f"{folder}/batch", "prologue": prologue}
    cobs: dict[str, Any] = {}
    for host in hosts:
        spec = {"service": "batch", "resource": host, "with": batch}
        cobs[f"batch-{host}"] = {"type": "a-pool-process", "on": host, "spec": spec}
    if hosts:
        spec = {"service": "cad", "resource": "matlab1", "with": {"folder": f"{folder}/cad"}}
        cobs["cad-matlab1"] = {"type": "a-pool-counter", "on": hosts[0], "spec": spec}
    (site / "site.yml").write_text(SITE + yaml.safe_dump({"types": types, "cobs": cobs}))


@pytest.mark.gate("the whole of Cobweb, once")
def test_members_of_a_site_join_work_drain_and_leave(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host with a job stays until that has ended; the run says which one."""

    def apply(hosts: Sequence[str], preferred: str = "up") -> tuple[int, str]:
        write_site(tmp_path / "site", folder, hosts=hosts, preferred=preferred)
        code = main(["-C", str(tmp_path / "site"), "apply", "--yes"])
        said = capsys.readouterr()
        return code, said.out + said.err

    code, said = apply(["n1", "n2"])
    assert code == 0, said
    assert names(folder / "batch" / "members") == {"n1", "n2"}
    assert names(folder / "cad" / "members") == {"matlab1"}
    assert (tmp_path / "n2-batch").read_text() == "made\n"
    gate = Gate(tmp_path)
    submit(folder / "batch", "gated", gate.text)
    gate.await_begun()
    code, said = apply(["n1", "n2"], "draining")
    assert code == 0, said
    assert names(folder / "batch" / "draining") == {"n1", "n2"}
    code, said = apply([])
    assert code != 0
    assert "cannot leave batch, jobs at work in " in said
    assert "gated" in said
    (left,) = names(folder / "batch" / "members")
    gate.open()
    until(lambda: not names(folder / "batch" / "running" / left))
    code, said = apply([])
    assert code == 0, said
    assert names(folder / "batch" / "members") == names(folder / "cad" / "members") == set()
    assert names(folder / "batch" / "done") == {"gated.0"}


# --- each step, without Ansible around it


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_may_be_done_twice(
    kind: str, step: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    before, state = STEPS[step]
    member = Member(request.getfixturevalue(kind), folder)(*before)
    assert (member(step).state, member(step).state) == (state, state)
    assert (names(folder / "members") == set()) is (state == "down")
    member("drain", "leave") if state != "down" else member("leave")


@pytest.mark.gate("each moment of each step")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_was_killed_anywhere_may_be_done_again(
    kind: str, step: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    """And meanwhile the owner's file is there as long as anything of the member is."""
    before, state = STEPS[step]
    module = request.getfixturevalue(kind)
    given = {"prologue": "true", "epilogue": "true"} if kind == "process" else {}
    moments = 0
    for moment in itertools.count():
        member = Member(module, folder / str(moment), **given)(*before)
        died = dies_at(moment, member.action(step), member.cob)
        if member.state != "down":
            assert names(member.folder / "members") - {".n1.cobweb"} == {"n1"}
        assert member(step).state == state
        if state != "down":
            member("drain", "leave")
        assert member.state == "down"
        moments += died
        if not died:
            break
    assert moments >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_join_has_left_can_leave(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    """At each third moment, whatever was there."""
    module = request.getfixturevalue(kind)
    for moment in itertools.count(step=3):
        member = Member(module, folder / str(moment))
        died = dies_at(moment, module.join, member.cob)
        assert member("leave").state == "down"
        if not died:
            break


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_there_before_the_first_join(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    member = Member(request.getfixturevalue(kind), folder)
    assert member.state == "down"
    assert member.observed["members"] == {}
    assert [it["value"] for it in member.observed["kpis"]] == [0]
    member("leave")
    assert member.refuses("drain") == f"n1 is no member of batch in {folder}"
    assert not folder.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_a_file_is_told(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    folder.write_text("")
    member = Member(request.getfixturevalue(kind), folder)
    told = f"{folder} is not a folder; move it away, or change `folder`"
    for step in (*STEPS, "check"):
        assert (member.refuses(step) if step != "check" else refused_check(member)) == told
    (folder.with_name("other")).mkdir()
    member = Member(request.getfixturevalue(kind), folder.with_name("other"))
    (member.folder / "members").write_text("")
    with pytest.raises(OSError, match=r"Not a directory: '.*/other/members"):
        member.observed  # noqa: B018 - it is asked for
    assert "other/members" in member.refuses("join")


def refused_check(member: Member) -> str:
    with pytest.raises(failed_class()) as refused:
        member.module.check(member.cob)
    return str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_one_folder_is_of_one_service(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    """The member of another is not ours: neither seen, nor taken over, nor removed."""
    module = request.getfixturevalue(kind)
    member, other = Member(module, folder)("join"), Member(module, folder)
    other.cob["spec"]["service"] = "other"
    assert (other.state, other.message) == ("down", "is a member of the service batch")
    assert other.observed["members"] == {}
    assert "n1 is a member of the service batch; no two services" in other.refuses("join")
    other("leave")
    assert member.state == "up"
    member("drain", "leave")


@pytest.mark.parametrize("kind", KINDS)
def test_work_keeps_a_member_where_it_is(
    kind: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A leave that is refused changes nothing; five names are enough."""
    member = Member(request.getfixturevalue(kind), folder)("join")
    work = folder / ("running" if kind == "process" else "uses") / "n1"
    gate = Gate(tmp_path, "j0")
    if kind == "process":
        submit(folder, "j0", gate.text)
        gate.await_begun()
    member("drain")
    for number in range(kind == "process", 7):
        (work / f"j{number}").touch()
    assert member.observed["members"] == {"n1": {"idle": False, "jobs": 7}}
    before = member.owner
    what = "jobs" if kind == "process" else "uses"
    told = f"n1 cannot leave batch, {what} at work in {work}: j0, j1, j2, j3, j4 and 2 more"
    assert member.refuses("leave") == told
    assert (member.owner, member.state) == (before, "draining")
    for number in range(1, 7):
        (work / f"j{number}").unlink()
    if kind == "process":
        gate.open(3)
    else:
        (work / "j0").unlink()
    until(lambda: not names(work))
    assert member("leave").state == "down"
    assert kind == "counter" or names(folder / "done") == {"j0.3"}


# --- workers


def test_a_worker_takes_the_oldest_job_first(process: ModuleType, folder: Path) -> None:
    """Drafts and folders are no jobs; what a job says and how it ends is kept."""
    for age, name in enumerate(("c", "a", "b")):
        submit(
            folder, name, f"echo {name} in $PWD for $COBWEB_SERVICE on $COBWEB_RESOURCE; exit {age}"
        )
        os.utime(folder / "queue" / name, (age, age))
    submit(folder, "d", "cat order; kill -9 $$")
    (folder / "queue" / ".draft").write_text("touch drafted")
    (folder / "queue" / "folder").mkdir()
    member = Member(process, folder)
    assert member.observed["kpis"] == [{"name": "pending", "value": 4}]
    member("join")
    until(lambda: len(names(folder / "done")) == 4)
    assert names(folder / "done") == {"c.0", "a.1", "b.2", "d.137"}
    done = sorted((folder / "output").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert [path.name for path in done] == ["c", "a", "b", "d"]
    assert (folder / "output" / "a").read_text() == f"a in {folder} for batch on n1\n"
    assert names(folder / "queue") == {".draft", "folder"}
    member("drain", "leave")


@pytest.mark.gate("many real jobs")
def test_after_a_drain_no_job_begins_and_none_is_lost(process: ModuleType, folder: Path) -> None:
    """While three workers race for one queue, one is drained again and again."""
    total = 200
    members = [Member(process, folder) for _ in range(3)]
    for number, member in enumerate(members, start=1):
        member.cob["spec"] = member.spec(f"n{number}")
        member("join")
    for number in range(total):
        text = f'echo "$COBWEB_RESOURCE j{number}" >> {folder}/begun; sleep 0.01'
        submit(folder, f"j{number}", text)
    begun = folder / "begun"

    def by_first() -> set[str]:
        return {line for line in begun.read_text().splitlines() if line.startswith("n1 ")}

    until(lambda: begun.exists() and by_first())
    drains = 0

    def waiting() -> int:
        return len(names(folder / "queue"))

    while waiting() > 10:
        members[0]("drain")
        at_work = {f"n1 {name}" for name in names(folder / "running" / "n1")}
        until(lambda: not names(folder / "running" / "n1"))
        known, goal = by_first() | at_work, max(0, waiting() - 3)
        until(partial(lambda goal: waiting() <= goal, goal))
        assert by_first() <= known
        members[0]("resume")
        drains += 1
    until(lambda: len(names(folder / "done")) == total)
    assert drains
    jobs = [line.split()[1] for line in begun.read_text().splitlines()]
    assert sorted(jobs) == sorted(f"j{number}" for number in range(total))
    for member in members:
        member("drain", "leave")


@pytest.mark.parametrize("kind", KINDS)
def test_a_drain_waits_for_what_is_just_beginning(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    """Who takes a job, or a licence, has seen no mark and holds the lock of the member."""
    member = Member(request.getfixturevalue(kind), folder)("join")
    with (folder / "locks" / "n1").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def let_go_and_drain() -> None:
            lock.close()  # the child's copy, or it would wait for itself
            member("drain")

        drain = in_child(let_go_and_drain)
        waits = re.compile(rf"-> FLOCK .* {drain} ")
        until(lambda: waits.search(Path("/proc/locks").read_text()))
        assert not (folder / "draining" / "n1").exists()
    assert os.waitpid(drain, 0) == (drain, 0)
    assert (folder / "draining" / "n1").exists()
    member("leave")


def test_a_worker_that_has_died_is_started_again(
    process: ModuleType, folder: Path, tmp_path: Path
) -> None:
    """Its job waits again, and what was left of it has ended before."""
    gate = Gate(tmp_path)
    submit(folder, "gated", gate.text)
    member = Member(process, folder)("join")
    gate.await_begun()
    first = member.owner["pid"]
    os.kill(first, signal.SIGKILL)
    until(lambda: member.state == "draining")
    assert member.message == f"its worker has died; its output is in {folder}/log/n1"
    (job,) = marked(tmp_path)
    assert "jobs at work" in member("drain").refuses("leave")
    assert member.refuses("leave").endswith(": gated")
    member("resume")
    assert member.state == "up"
    gate.await_begun()
    assert job not in marked(tmp_path)
    assert member.owner["pid"] != first
    gate.open()
    until(lambda: names(folder / "done") == {"gated.0"})
    member("drain", "leave")


@pytest.mark.parametrize("step", ["drain", "leave"])
def test_the_job_of_a_dead_worker_goes_to_another(
    process: ModuleType, folder: Path, tmp_path: Path, step: str
) -> None:
    """Under its own name, or by another where that is in use by now."""
    gate = Gate(tmp_path)
    submit(folder, "gated", gate.text)
    member = Member(process, folder)("join")
    gate.await_begun()
    for pid in marked(tmp_path):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not marked(tmp_path))
    submit(folder, "gated", "exit 0")
    assert member.observed["members"]["n1"] == {"idle": False, "jobs": 1}
    assert member(step).state == ("draining" if step == "drain" else "down")
    assert names(folder / "queue") == {"gated", "gated~2"}
    assert (folder / "queue" / "gated~2").read_text() == gate.text
    if step == "drain":
        assert member.observed["members"]["n1"] == {"idle": True, "jobs": 0}
    member("leave")


def test_a_pid_that_was_given_out_again_is_no_worker(process: ModuleType, folder: Path) -> None:
    """Neither one of this boot, nor one of an earlier; and the stranger is not ended."""
    member = Member(process, folder)("join")
    worker = member.owner["pid"]
    stranger = in_child(signal.pause)
    try:
        for change in ({"pid": stranger}, {"boot": "earlier"}):
            owner = folder / "members" / "n1"
            owner.write_text(json.dumps({**member.owner, **change}))
            assert (member.state, member.message[:15]) == ("draining", "its worker has ")
            assert member("resume").state == "up"
            assert worker not in marked(folder)
            assert member.owner["pid"] not in (worker, stranger)
            assert os.waitpid(stranger, os.WNOHANG) == (0, 0)
            worker = member.owner["pid"]
    finally:
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)
    member("drain", "leave")


def test_a_copied_owners_file_does_not_end_the_worker_of_another(
    process: ModuleType, folder: Path
) -> None:
    first = Member(process, folder)("join")
    worker = first.owner["pid"]
    other = Member(process, folder)
    other.cob = {"spec": other.spec("n2"), "applied": None}
    copy = {**first.owner, "resource": "n2"}
    (folder / "members" / "n2").write_text(json.dumps(copy))
    assert (other.state, other.message[:15]) == ("draining", "its worker has ")
    other("leave")
    assert (first.state, first.owner["pid"]) == ("up", worker)
    first("drain", "leave")


def test_a_worker_ends_when_the_member_is_not_its_own(process: ModuleType, folder: Path) -> None:
    """Its owner's file is gone, or names another; until then the check says so."""
    member = Member(process, folder)("join")
    owner = folder / "members" / "n1"
    text = owner.read_text()
    owner.unlink()
    until(lambda: not marked(folder))
    assert (member.state, member.message) == ("draining", f"{owner} is gone")
    assert member("leave").state == "down"
    member("join")
    owner.write_text(text)
    until(lambda: not marked(folder))
    assert member("drain", "leave").state == "down"


def test_no_host_is_free_while_its_folder_is_out_of_sight(
    process: ModuleType, folder: Path
) -> None:
    """As where its file system is not mounted any more: the worker lives."""
    gate = Gate(folder.parent)
    submit(folder, "gated", gate.text)
    member = Member(process, folder)("join")
    gate.await_begun()
    away = folder.rename(folder.with_name("away"))
    assert member.state == "draining"
    assert f"{folder}/members/n1 is gone, and processes live: " in member.message
    assert f"{folder} is missing, and processes of its member live" in member.refuses("leave")
    away.rename(folder)
    assert member.state == "up"
    gate.open()
    until(lambda: names(folder / "done") == {"gated.0"})
    member("drain", "leave")


def test_what_a_job_leaves_behind_ends_with_the_member(process: ModuleType, folder: Path) -> None:
    """No process of it is on a host that another service takes."""
    submit(folder, "daemon", "setsid sleep 1000 &")
    member = Member(process, folder)("join")
    until(lambda: names(folder / "done") == {"daemon.0"})
    assert len(marked(folder)) == 2
    assert member("drain", "leave").state == "down"
    assert marked(folder) == []


# --- prologue and epilogue


def test_a_prologue_that_fails_leaves_what_leave_can_clean_up(
    process: ModuleType, folder: Path
) -> None:
    """The owner's file comes before it, and the worker after it."""
    flag = folder.parent / "flag"
    prologue = f"test -f {folder}/members/n1; echo one >&2; touch {flag}; echo no disk >&2; false"
    member = Member(process, folder, prologue=prologue, epilogue=f"rm -f {flag}")
    told = "`prologue` of batch on n1 failed: no disk"
    assert (member.refuses("join"), member.refuses("join")) == (told, told)
    assert (member.state, member.message) == ("draining", "its prologue has not ended well")
    assert flag.exists()
    assert marked(folder) == []
    assert member("leave").state == "down"
    assert not flag.exists()
    member = Member(process, folder, prologue="exit 7")
    assert member.refuses("join").endswith("failed: exit status 7")
    member("leave")


def test_an_epilogue_that_fails_keeps_the_member(process: ModuleType, folder: Path) -> None:
    """A resume runs the prologue again, for part of that was taken back."""
    flag = folder.parent / "flag"
    scripts = {
        "prologue": f"echo $COBWEB_RESOURCE of $COBWEB_SERVICE >> {flag}",
        "epilogue": f"test -f {folder}/members/n1; test -f {flag}.ok || (echo busy >&2; exit 1)",
    }
    member = Member(process, folder, **scripts)("join", "drain")
    told = "`epilogue` of batch on n1 failed: busy"
    assert (member.refuses("leave"), member.refuses("leave")) == (told, told)
    assert (member.state, member.message) == ("draining", "its epilogue has not ended well")
    assert member("resume").state == "up"
    assert flag.read_text() == "n1 of batch\n" * 2
    (folder.parent / "flag.ok").touch()
    assert member("drain", "leave").state == "down"


def test_a_member_gets_another_with(process: ModuleType, folder: Path) -> None:
    """Its prologue is run, its worker goes on; only another folder is another member."""
    flag = folder.parent / "flag"
    member = Member(process, folder)("join")
    worker = member.owner["pid"]
    member.cob["applied"] = member.cob["spec"]
    member.cob["spec"] = member.spec(prologue=f"echo made > {flag}")
    assert (member.state, member.message) == ("draining", "works by an earlier `with`")
    assert member("resume").state == "up"
    assert flag.exists()
    assert member.owner["pid"] == worker
    member.cob["applied"] = member.cob["spec"]
    member.cob["spec"] = {**member.spec(), "with": {"folder": f"{folder}-new"}}
    assert (member.state, member.message) == ("draining", f"is still a member in {folder}")
    assert member("resume").state == "up"
    assert names(folder / "members") == set()
    assert names(Path(f"{folder}-new") / "members") == {"n1"}
    assert member("drain").state == "draining"
    member("leave")


def test_work_in_the_folder_of_before_comes_first(counter: ModuleType, folder: Path) -> None:
    """No new use begins there, and the member is not in both."""
    member = Member(counter, folder)("join")
    (folder / "uses" / "n1" / "ann").touch()
    member.cob["applied"] = member.cob["spec"]
    member.cob["spec"] = {**member.spec(), "with": {"folder": f"{folder}-new"}}
    assert member.refuses("resume").endswith(": ann")
    assert names(folder / "draining") == {"n1"}
    assert not Path(f"{folder}-new").exists()
    (folder / "uses" / "n1" / "ann").unlink()
    assert member("resume").state == "up"
    member("drain", "leave")


# --- what is observed


def test_a_counter_counts_what_is_used(counter: ModuleType, folder: Path) -> None:
    members = [Member(counter, folder) for _ in range(2)]
    for name, member in zip(("matlab 1", ".hidden"), members, strict=True):
        member.cob["spec"] = member.spec(name)
        member("join")
    for use in ("ann", "bob"):
        (folder / "uses" / "matlab%201" / use).touch()
    assert members[0].observed == {
        "state": "running",
        "kpis": [{"name": "used", "value": 2}],
        "members": {"matlab 1": {"idle": False, "jobs": 2}, ".hidden": {"idle": True, "jobs": 0}},
    }


def test_no_use_begins_after_a_drain(counter: ModuleType, folder: Path) -> None:
    """By the words that the file of the adapter says, also where they wait for the drain."""
    text = (POOLS / "counter.yml").read_text()
    words = " ".join(re.findall("^#   +(.*)$", text, re.MULTILINE)).replace("\\ ", "")
    assert words.startswith("flock ")
    for name, value in (("FOLDER", str(folder)), ("ID", "n1"), ("NAME", "ann")):
        words = words.replace(name, value)
    member = Member(counter, folder)("join")
    assert subprocess.run(["sh", "-c", words], check=False).returncode == 0
    assert names(folder / "uses" / "n1") == {"ann"}
    (folder / "uses" / "n1" / "ann").unlink()
    with (folder / "locks" / "n1").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        user = subprocess.Popen(["sh", "-c", words])
        (folder / "draining" / "n1").touch()
    assert user.wait() == 1
    assert names(folder / "uses" / "n1") == set()
    assert member("leave").state == "down"


def test_a_file_that_says_nothing_still_owns(counter: ModuleType, folder: Path) -> None:
    """Rather one owner too many than a resource that counts as free."""
    member = Member(counter, folder)("join")
    for text in ("", "[]", "{}"):
        (folder / "members" / "n1").write_text(text)
        assert list(member.observed["members"]) == ["n1"]
        assert member.state == "up"
    assert member("drain", "leave").state == "down"


def test_an_answer_that_is_too_long_is_refused(counter: ModuleType, folder: Path) -> None:
    owners = folder / "members"
    owners.mkdir(parents=True)
    for number in range(1_900):
        (owners / f"n{number:04}").touch()
    with pytest.raises(failed_class(), match=r"too many members, 1900: .* 65536"):
        counter.observe({"spec": {"service": "batch", "with": {"folder": str(folder)}}})
