"""`cobweb apply` over agents, from outside: real processes, a real server, and what kills them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import HOSTS, Apply, Owned, until
from tests.support.example_plugin import PACKAGE

pytestmark = [
    pytest.mark.gate("processes that own hosts, over a real server: the main path"),
    pytest.mark.timeout(300),
]

WEB = HOSTS[1:]
PAIR = ("db", "web1")
LIMITS = {"web": {"on": "web", "cob": "srv", "max": 1}}


def chain(site: Owned, version: str, agents: Sequence[str] = PAIR, **more: Any) -> None:
    """Have `page` of web1 require `conf` of db, both with this content."""
    cobs = {
        "conf": site.file("db", "conf", version),
        "page": site.file("web1", "page", version, requires=["conf@db"]),
    }
    site.base.write(cobs | more, agents=agents)


def gated(site: Owned, version: str) -> None:
    """Have web1's file pass a gate before it is what `version` says, and db's wait for it."""
    first = site.file("web1", "first", version, validate=site.gate("first"))
    last = site.file("db", "last", version, requires=["first@web1"])
    site.base.write({"first": first, "last": last}, agents=PAIR)


def rolled(site: Owned, version: str) -> None:
    """Have a process on each of three hosts, one of which may be out."""
    site.base.write({"srv": site.process("web", version)}, agents=WEB, limits=LIMITS)


def brings(site: Owned, version: str, *names: str) -> None:
    """Have files hold this now."""
    assert {it: site.read(it) for it in names} == dict.fromkeys(names, version)


def one_by_one(apply: Apply, cob: str) -> None:
    """Have no two units of an apply been out at once, as its merged events tell."""
    out: set[str] = set()
    for event in apply.events():
        if event["type"] == "slot.take":
            out.add(event["unit"])
        elif event["type"] == "transition.start" and event["cob"].endswith(f"/{cob}"):
            out.add(event["cob"].partition("/")[0])
        elif event["type"] == "slot.return":
            out.discard(event["unit"])
        assert len(out) <= 1, event


def test_a_first_apply_goes_in_order_and_a_second_one_moves_nothing(site: Owned) -> None:
    chain(site, "one")
    site.start(*PAIR)
    first = site.applied()
    assert first.moved() == {"db/conf", "web1/page"}
    site.keeps_promises(first)
    brings(site, "one", "conf", "page")
    site.settles()
    assert site.states() == {"db/conf": "up", "web1/page": "up"}
    chain(site, "two")
    changed = site.applied()
    site.keeps_promises(changed)
    brings(site, "two", "conf", "page")


@pytest.mark.full("three agents and a second coordinator")
def test_who_has_no_slot_does_not_move_when_the_coordinator_is_dead(site: Owned) -> None:
    rolled(site, "one")
    site.start(*WEB)
    site.applied()
    rolled(site, "two")
    killed = site.apply()
    killed.await_event("slot.take")
    killed.kill()
    with site.listening() as listener:
        for name in WEB:
            listener.await_report(name, idle=True)
    lent = {f"{it['unit']}/srv" for it in killed.of_type("slot.take")}
    assert len(lent) == 1
    versions = site.versions()
    assert versions.keys() == {f"{it}/srv" for it in WEB}
    assert {cob for cob, version in versions.items() if version != "one"} <= lent
    again = site.applied()
    assert site.versions() == dict.fromkeys(versions, "two")
    one_by_one(again, "srv")
    site.settles()


def silenced(site: Owned, silence: signal.Signals) -> None:
    """Bring about a change while web1's agent says nothing, and see who has it."""
    agents = ("db", "web1", "web2")
    files = {host: f"file-{host}" for host in agents}

    def write(version: str) -> None:
        cobs = {name: site.file(host, name, version) for host, name in files.items()}
        site.base.write(cobs, agents=agents)

    write("one")
    site.start(*agents)
    site.applied()
    write("two")
    silent = site.agents["web1"]
    silent.signal(silence)
    ran = site.applied(1)
    assert "web1/file-web1" in ran.said
    assert "web1 cannot be reached" in ran.said
    brings(site, "two", "file-db", "file-web2")
    brings(site, "one", "file-web1")
    with site.listening() as listener:
        if silence == signal.SIGSTOP:
            silent.signal(signal.SIGCONT)
        else:
            silent.process.wait()
            site.restart("web1")
        listener.await_reader(site.agents["web1"])
    brings(site, "one", "file-web1")
    assert site.applied().moved() == {"web1/file-web1"}
    brings(site, "two", *files.values())


@pytest.mark.full("15 s until it counts as silent")
def test_a_stopped_agent_is_told_of_and_moves_nothing_afterwards(site: Owned) -> None:
    silenced(site, signal.SIGSTOP)


@pytest.mark.full("as with one that is stopped; half a minute")
def test_a_killed_agent_is_told_of_and_moves_nothing_afterwards(site: Owned) -> None:
    silenced(site, signal.SIGKILL)


@pytest.mark.full("15 s until it counts as silent")
def test_who_was_stopped_while_it_waited_begins_nothing_when_the_lock_comes(site: Owned) -> None:
    """What it waits for comes while it is stopped, and so does the end of the run."""

    def write(version: str) -> None:
        conf = site.file("db", "conf", version, validate=site.gate("conf"))
        page = site.file("web1", "page", version, requires=["conf@db"])
        site.base.write({"conf": conf, "page": page}, agents=PAIR)

    write("one")
    site.open_gate("conf")
    site.start(*PAIR)
    site.applied()
    write("two")
    run = site.apply()
    site.await_gate("conf")
    run.await_event("lock.request")
    site.agents["web1"].signal(signal.SIGSTOP)
    site.open_gate("conf")
    run.ends(1)
    assert "web1 cannot be reached" in run.said
    brings(site, "two", "conf")
    with site.listening() as listener:
        site.agents["web1"].signal(signal.SIGCONT)
        listener.await_reader(site.agents["web1"])
    brings(site, "one", "page")
    assert site.applied().moved() == {"web1/page"}
    brings(site, "two", "page")


def test_what_agents_cannot_do_yet_is_refused_before_anything_changes(site: Owned) -> None:
    chain(site, "one")
    site.start(*PAIR)
    site.applied()
    site.base.write({"conf": site.file("db", "conf", "two")}, agents=PAIR)
    removal = site.applied(64, "--max-removals", "100%")
    assert removal.events() == []
    chain(site, "two")
    for words in (["--limit", "web1"], ["--limit", "db"]):
        assert site.applied(64, *words).events() == []
    brings(site, "one", "conf", "page")
    assert site.states() == {"db/conf": "up", "web1/page": "up"}
    site.applied()
    brings(site, "two", "conf", "page")


@pytest.mark.full("three lives of agents in one apply")
def test_an_agent_that_is_killed_while_it_waits_comes_back_into_the_run(site: Owned) -> None:
    gated(site, "one")
    site.start(*PAIR)
    run = site.apply()
    site.await_gate("first")
    site.agents["db"].kill()
    site.restart("db")
    site.open_gate("first")
    run.ends(0)
    brings(site, "one", "first", "last")
    site.settles()


@pytest.mark.full("three lives of agents in one apply")
def test_an_agent_that_is_killed_at_its_task_comes_back_into_the_run(site: Owned) -> None:
    page = site.file("web1", "page", "one", requires=["conf@db"], validate=site.gate("page"))
    site.base.write({"conf": site.file("db", "conf", "one"), "page": page}, agents=PAIR)
    site.start(*PAIR)
    run = site.apply()
    site.await_gate("page")
    site.agents["web1"].kill()
    site.restart("web1")
    site.open_gate("page")
    run.ends(0)
    brings(site, "one", "conf", "page")
    site.settles()


@pytest.mark.full("three lives of agents in one apply")
@pytest.mark.xfail(strict=True, reason="on one machine a new life of one ends the jobs of others")
def test_others_go_on_when_one_that_was_killed_at_its_task_is_back(site: Owned) -> None:
    gated(site, "one")
    site.start(*PAIR)
    run = site.apply()
    site.await_gate("first")
    site.agents["web1"].kill()
    site.restart("web1")
    site.open_gate("first")
    run.ends(0)
    brings(site, "one", "first", "last")


@pytest.mark.full("the supervisor takes a second to start it again")
def test_an_apply_goes_on_when_the_server_does(site: Owned) -> None:
    gated(site, "one")
    site.start(*PAIR)
    run = site.apply()
    site.await_gate("first")
    server = site.base.server()
    server.kill()
    site.open_gate("first")
    run.ends(0)
    assert site.base.server().pid != server.pid
    brings(site, "one", "first", "last")
    site.settles()


@pytest.mark.full("vaulted values and Python types with a coordinator and agents")
def test_what_needs_the_coordinator_stays_with_it(
    site: Owned, tmp_path: Path, example_plugin: Path
) -> None:
    """A host with a vaulted variable, and one with an object of a Python type, have no agent."""
    password = tmp_path / "password"
    password.write_text("secret", encoding="utf-8")
    site.environment = {
        "ANSIBLE_VAULT_PASSWORD_FILE": str(password),
        "PYTHONPATH": os.pathsep.join((str(PACKAGE / "src"), str(example_plugin))),
    }
    vaulted = subprocess.run(
        [Path(sys.executable).parent / "ansible-vault", "encrypt_string", "hidden"],
        env={**os.environ, **site.environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.partition("\n")[2]
    text = "\n".join(line.strip() for line in vaulted.splitlines()) + "\n"
    marks = {"folder": str(site.path("marks")), "text": "one"}

    def write(version: str) -> None:
        cobs: Mapping[str, Any] = {
            "conf": site.file("db", "conf", version),
            "page": site.file("web2", "page", "{{ hidden }}", requires=["conf@db"]),
            "mark": {
                "type": "marker",
                "on": "web3",
                "spec": {**marks, "text": version},
                "requires": ["page@web2"],
            },
            "last": site.file("web1", "last", version, requires=["mark@web3"]),
        }
        hidden = {"web2": {"hidden": {"__ansible_vault": text}}}
        site.base.write(cobs, variables=hidden)

    write("one")
    site.start(*PAIR)
    for version in ("one", "two"):
        write(version)
        site.applied()
        brings(site, version, "conf", "last", "marks/web3--mark")
        assert site.read("page") == "hidden"
    site.settles()


def test_a_task_that_fails_is_told_in_its_words_and_who_needs_it_waits(site: Owned) -> None:
    def write(content: str) -> None:
        check = ["sh", "-c", "grep -q good \"$0\" || { echo 'this is not good' >&2; false; }", "%s"]
        first = site.file("web1", "first", content, validate=check)
        last = site.file("db", "last", content, requires=["first@web1"])
        other = site.file("db", "other", content)
        site.base.write({"first": first, "last": last, "other": other}, agents=PAIR)

    write("bad")
    site.start(*PAIR)
    failed = site.applied(1)
    assert "this is not good" in failed.said
    assert "db/last" in failed.said
    site.keeps_promises(failed)
    brings(site, "bad", "other")
    assert (site.read("first"), site.read("last")) == (None, None)
    write("good")
    site.applied()
    brings(site, "good", "first", "last", "other")


def test_an_interrupt_lets_agents_end_what_they_are_at(site: Owned) -> None:
    gated(site, "one")
    site.start(*PAIR)
    run = site.apply()
    site.await_gate("first")
    with site.listening() as listener:
        run.signal(signal.SIGINT)
        listener.await_report("db", stage="ended")
    assert run.process.poll() is None
    site.open_gate("first")
    run.ends(130)
    brings(site, "one", "first")
    assert site.read("last") is None
    assert site.applied().moved() == {"db/last"}
    brings(site, "one", "last")


@pytest.mark.full("15 s until it counts as silent")
def test_a_slot_that_a_dead_coordinator_lent_is_lent_to_nobody_else(site: Owned) -> None:
    """Its holder is stopped in the middle of its step; the next coordinator cannot ask it."""

    def write(version: str) -> None:
        cobs = {
            name: site.file(name, f"srv-{name}", version, validate=site.gate(name)) for name in WEB
        }
        limits = {"web": {"on": "web", "cob": "srv-*", "max": 1, "transition": "* -> up"}}
        named = {f"srv-{name}": it for name, it in cobs.items()}
        site.base.write(named, agents=WEB, limits=limits)

    write("one")
    site.start(*WEB)
    killed = site.apply()
    holder = site.await_gate(*WEB)
    killed.kill()
    others = [it for it in WEB if it != holder]
    site.agents[holder].signal(signal.SIGSTOP)
    for name in others:
        site.open_gate(name)
    site.applied(1)
    assert [site.read(f"srv-{it}") for it in WEB] == [None] * 3
    site.agents[holder].signal(signal.SIGCONT)
    site.open_gate(holder)
    site.applied()
    brings(site, "one", *(f"srv-{it}" for it in WEB))


def test_a_part_that_goes_in_several_papers_arrives(site: Owned) -> None:
    text = "0123456789abcdef" * 2**16
    site.base.write({"large": site.file("web1", "large", text)}, agents=["web1"])
    site.start("web1")
    run = site.apply()
    until(lambda: site.read("large") == text, "the file is there")
    run.ends(0)


def test_an_agent_that_refuses_is_told_of(site: Owned) -> None:
    """Where its site is to be, there is a folder."""
    chain(site, "one")
    (site.folder / "agents" / "web1" / "site" / "site.yml").mkdir(parents=True)
    site.start(*PAIR)
    ran = site.applied(1)
    assert site.read("page") is None
    assert "web1/page" in ran.said
    assert "cannot write" in ran.said


def test_what_is_told_of_a_failure_is_the_same_with_one_owner(site: Owned) -> None:
    """The output without its last line, the counts, and which locks went."""

    def told(agents: Sequence[str], version: str) -> tuple[Any, ...]:
        first = site.file("web1", f"first-{version}", "bad", validate=["grep", "good", "%s"])
        conf = site.file("db", f"conf-{version}", version)
        last = site.file("db", f"last-{version}", version, requires=["first@web1"])
        cobs = {"conf": conf, "first": {**first, "requires": ["conf@db"]}, "last": last}
        site.base.again()
        site.base.write(cobs, agents=agents)
        ran = site.applied(1)
        (end,) = ran.of_type("run.end")
        lines = [line.partition("  (")[0] for line in ran.said.splitlines()[:-1]]
        locks = [(it["type"], it["cob"]) for it in ran.events() if it["type"].startswith("lock.")]
        return (
            sorted(line.replace(version, "") for line in lines),
            {name: end["counts"][name] for name in ("settled", "failed", "waiting")},
            sorted(locks),
        )

    site.start(*PAIR)
    for mine, theirs in zip(told(PAIR, "v1"), told([], "v2"), strict=True):
        assert mine == theirs


@pytest.mark.full("four applies; that other journals are noticed is in the gate")
def test_what_somebody_else_has_moved_meanwhile_is_checked(site: Owned) -> None:
    """A host leaves its agent, is changed, and comes back with the content of before."""

    def write(version: str, *agents: str) -> None:
        cobs = {name: site.file(name, name, version) for name in PAIR}
        site.base.write(cobs, agents=agents)

    site.start(*PAIR)
    for version, agents in (("one", PAIR), ("two", PAIR[:1]), ("one", PAIR)):
        write(version, *agents)
        site.applied()
        brings(site, version, *PAIR)
    again = site.applied()
    assert again.of_type("check.end") == []
    assert again.moved() == set()


@pytest.mark.gate("a run of some objects, over agents")
def test_some_objects_alone_are_moved_with_what_they_need(site: Owned) -> None:
    """Agents of other hosts are not asked; where other changes wait, nothing is begun."""
    other = site.file("web2", "other", "one")
    chain(site, "one", agents=WEB, other=other)
    site.start(*WEB)
    some = site.applied(0, "--only", "web1/page")
    assert some.moved() == {"db/conf", "web1/page"}
    assert site.read("other") is None
    assert site.applied().moved() == {"web2/other"}
    beside = {"other": other, "beside": site.file("web1", "beside", "two")}
    chain(site, "two", agents=WEB, **beside)
    assert site.applied(64, "--only", "web1/page").events() == []
    brings(site, "one", "conf", "page")
    assert site.applied().moved() == {"db/conf", "web1/page", "web1/beside"}
