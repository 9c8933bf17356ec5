"""The broker of module servers, and servers that lie, while transitions are at work elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost, in_namespace
from tests.support.gates import await_gate, gated_site, is_marked, open_gate
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.full("the servers of modules over SSH; the gate has them on the local connection"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

OPEN = """\
- name: wait until the test opens the gate
  ansible.builtin.shell: |
    if [ -p /run/begun ]; then
      echo begun > /run/begun
      cat /run/gate
    fi
    echo >> {{ cob.spec.mark }}
"""
"""Without an environment of its own, so that a module server runs it."""

LIAR = """
mkfifo /run/told /run/lied
mv /usr/bin/python3 /usr/bin/py
cat >/run/liar.py <<'END'
import json, os, sys
os.write(1, b"cobweb module server 1\\n")
for line in sys.stdin.buffer:
    if line.startswith(b'{"module"'):
        break
os.write(1, json.dumps({"id": json.loads(line)["id"], "op": "begun"}).encode() + b"\\n")
open("/run/told").read()
os.write(1, b"debug: hello\\n")
sys.stdin.buffer.read()
open("/run/lied", "w").write("lied")
END
cat >/usr/bin/python3 <<'END'
#!/bin/sh
exec /usr/bin/py /run/liar.py
END
chmod 755 /usr/bin/python3
"""
"""Makes a host's Python begin with a call, wait to be told, say a stray line, and tell its end."""

HEAL = "rm -f /usr/bin/python3 /run/told /run/lied; mv /usr/bin/py /usr/bin/python3"


@pytest.fixture
def operator(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Operator]:
    """Return who works on the gated site, whose gates are opened by module servers."""
    with gated_site(fabric, operator_maker("gated")) as operator:
        path = operator.folder / "playbooks/gate/open.yml"
        path.write_text(OPEN, encoding="utf-8")
        yield operator


@pytest.fixture
def liar(fabric: Fabric) -> Iterator[FabricHost]:
    """Return a host whose module server says a stray line once it is told to."""
    host = fabric.plain[1]
    fabric.run(host, "sh", "-c", LIAR)
    yield host
    fabric.run(host, "sh", "-c", HEAL)


def brokers(fabric: Fabric) -> set[int]:
    """Return the parents of the ways to module servers."""
    found = set()
    for folder in in_namespace("net", fabric.network.stat().st_ino):
        if b"COBWEB_JOB=---" in (folder / "cmdline").read_bytes():
            fields = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
            found.add(int(fields[1]))
    return found


def test_a_stray_line_of_one_host_harms_no_other(
    fabric: Fabric, operator: Operator, gate: FabricHost, liar: FabricHost
) -> None:
    with operator.start_apply() as started:
        await_gate(fabric, gate)
        fabric.run(liar, "sh", "-c", "echo >/run/told")
        assert fabric.run(liar, "cat", "/run/lied").stdout == "lied"
        open_gate(fabric, gate)
        run = started.end()
    assert run.code == 1, run.err
    names = ("gate", "gate", "after-cut", "after-free")
    hosts = (gate, *(fabric.plain[number] for number in (2, 3, 5)))
    pairs = zip(hosts, names, strict=True)
    assert set(run.transitions()) == {(f"{host.name}/{name}", "up") for host, name in pairs}
    assert f"{liar.name}/gate" in run.err
    said = [str(event.get("message")) for event in run.events if event.get("message")]
    assert any("the module server there said what is no message" in text for text in said), said
    assert not any(gate.name in text for text in said)
    assert operator.broken_promises([run]) == []


def test_a_broker_that_is_killed_is_started_anew_and_nothing_fails(
    fabric: Fabric, operator: Operator, gate: FabricHost
) -> None:
    """What was at work is ended on its host, found not to be done, and done again."""
    with operator.start_apply() as started:
        await_gate(fabric, gate)
        (broker,) = brokers(fabric)
        os.kill(broker, signal.SIGKILL)
        await_gate(fabric, gate)
        assert broker not in brokers(fabric)
        assert len(brokers(fabric)) == 1
        open_gate(fabric, gate)
        run = started.end()
    assert run.code == 0, run.err
    assert (fabric.root(gate) / "var/lib/gate").read_text() == "\n"
    assert all(is_marked(fabric, host) for host in fabric.plain[3:])
    assert operator.broken_promises([run]) == []
