"""`cobweb run` over agents, from outside: real processes, a real server, and what stands still."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import psutil
import pytest

from tests.support.agents import SERVER, Owned, until

pytestmark = pytest.mark.timeout(300)

WHO = "tr '\\0' ' ' </proc/$PPID/cmdline"
"""What is the parent of a command: an agent, or the shell that Cobweb has started itself."""


def asked(site: Owned, *words: str, code: int = 0) -> Mapping[str, Any]:
    """Run a command; return its answers by host, and who is missing under ""."""
    made = site.base.call("run", "-o", "json", *words)
    assert made.returncode == code, made.stderr
    data = json.loads(made.stdout)
    answers = {host: it for it in data["answers"] for host in it["hosts"]}
    return {**answers, "": {host: it["reason"] for it in data["missing"] for host in it["hosts"]}}


def by_agent(answer: Mapping[str, Any], host: str) -> bool:
    return f"agent run --name {host}" in answer["output"]


@pytest.mark.gate("agents, an apply beside it and the way round one: the main path")
def test_agents_answer_beside_an_apply_and_another_way_is_found_round_a_frozen_one(
    site: Owned,
) -> None:
    first = site.file("web1", "first", "one", validate=site.gate("first"))
    site.base.write({"first": first}, agents=("db", "web1"))
    site.start("db", "web1")
    apply = site.apply()
    site.await_gate("first")
    found = asked(site, "--on", "db,web1,web2", "--", WHO)
    assert [by_agent(found[it], it) for it in ("db", "web1", "web2")] == [True, True, False]
    site.open_gate("first")
    apply.ends(0)
    assert apply.moved() == {"web1/first"}
    site.agents["db"].signal(signal.SIGSTOP)
    found = asked(site, "--on", "db,web1", "--", f"{WHO}; exit 3", code=1)
    assert [by_agent(found[it], it) for it in ("db", "web1")] == [False, True]
    assert {found[it]["code"] for it in ("db", "web1")} == {3}


@pytest.mark.full("a server that stands still is noticed after seconds")
def test_without_a_server_another_way_is_taken_and_said(site: Owned) -> None:
    site.base.write({}, agents=("db",))
    site.start("db")
    server = site.base.server()
    server.suspend()
    try:
        made = site.base.call("run", "--on", "db", "--", "echo hi")
        assert (made.returncode, made.stdout) == (0, "db: hi\n")
        assert "agents: no server" in made.stderr
    finally:
        server.resume()
    until(lambda: by_agent(asked(site, "--on", "db", "--", WHO)["db"], "db"), "the agent is back")


@pytest.mark.full("an agent is given up after 15 s")
def test_who_dies_under_a_command_is_missing_and_the_command_is_not_begun_again(
    site: Owned,
) -> None:
    site.base.write({}, agents=("db", "web1"))
    site.start("db", "web1")
    words = ("run", "-o", "json", "--on", "db,web1", "--", f"echo $$ >> {site.path('pids')}; exec")
    call = [sys.executable, "-m", "cobweb", "-C", str(site.base.folder), *words[:-1]]
    command = f"{words[-1]} sleep 20"
    with subprocess.Popen([*call, command], stdout=subprocess.PIPE, text=True) as run:
        until(lambda: len((site.read("pids") or "").split()) == 2, "both have begun")
        site.agents["db"].kill()
        site.restart("db")
        out, _ = run.communicate()
        assert run.returncode == 1
    data = json.loads(out)
    assert [it["hosts"] for it in data["answers"]] == [["web1"]]
    assert [it["hosts"] for it in data["missing"]] == [["db"]]
    assert len((site.read("pids") or "").split()) == 2


@pytest.mark.full("a command is ended when nobody has asked for it for 30 s")
def test_a_command_ends_when_cobweb_was_killed_and_the_agent_stays(site: Owned) -> None:
    site.base.write({"note": site.file("db", "note", "one")}, agents=("db",))
    site.start("db")
    site.applied()  # after which an agent at rest becomes a new process, but for a command
    agent = site.agents["db"].process.pid
    begun = psutil.Process(agent).create_time()
    command = f"echo $$ > {site.path('pid')}; exec sleep 600"
    call = [sys.executable, "-m", "cobweb", "-C", str(site.base.folder), "run", "--on", "db", "--"]
    with subprocess.Popen([*call, command]) as run:
        until(lambda: site.read("pid"), "it has begun")
        run.kill()
    pid = int(site.read("pid") or "")
    until(lambda: not psutil.pid_exists(pid), "its end")
    assert psutil.Process(agent).create_time() == begun
    assert by_agent(asked(site, "--on", "db", "--", WHO)["db"], "db")


@pytest.mark.gate("a file over an agent")
def test_files_go_over_agents_as_well(site: Owned) -> None:
    site.base.write({}, agents=("db",))
    site.start("db")
    source = site.path("source")
    source.write_bytes(bytes(range(256)) * 8192)
    put = site.base.call("put", "--on", f"db,{SERVER}", str(source), str(site.path("there")))
    assert (put.returncode, put.stdout) == (0, f"db,{SERVER} (2 hosts): was put\n"), put.stderr
    got = site.base.call("get", "--on", "db", str(site.path("there")), str(site.path("here")))
    assert got.returncode == 0, got.stderr
    assert (site.path("here") / "db" / "there").read_bytes() == source.read_bytes()
