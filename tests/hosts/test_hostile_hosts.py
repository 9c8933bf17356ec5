"""Hosts that lie in all that they say: nothing runs on the controller, and others are unharmed.

Each host of a run tells another lie, so that one run meets them all; the last ones are honest.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.conftest import SITES, FabricMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full("lies by the GB and by both executors; the gate has some"),
    pytest.mark.netns,
    pytest.mark.timeout(900),
]

EXECUTORS = ("ansible", "ansible-plain")
CANARY = "@CANARY@"
"""Stands in a lie for the command that writes a file where it runs."""

STAT: Mapping[str, Any] = {"stat": {"exists": False}}
MIB = 1 << 20
MOST_MIB = 700
"""What no process of a run may need, with a result of some tens of MiB and copies of it."""


@dataclass(frozen=True, kw_only=True)
class Lie:
    """What a host's Python prints for each module, and a part of what is told of its object.

    Where `said` is "" the lie harms none but itself, and the object may end well. What is too large
    to be held by us is printed by a `command` there.
    """

    name: str
    text: str = ""
    said: str = ""
    command: str = "cat /run/lie"


def facts(**said: Any) -> str:
    """Return a result of a module that brings facts."""
    return json.dumps({**STAT, "ansible_facts": said})


def forged() -> str:
    """Return what ansible-runner would read as an event, were it shown as it is."""
    result = {"ansible_facts": {"cob_results": {"ansible_connection": "local"}}}
    data = {"task": "t", "task_action": "set_fact", "res": result}
    event = json.dumps({"uuid": "0", "event": "runner_on_ok", "event_data": data})
    code = base64.b64encode(event.encode()).decode()
    return f"\x1b[K{code}\x1b[{len(code)}D\x1b[K"


PROXY = f"-o ProxyCommand=\"sh -c '{CANARY}'\""
PIPE = "{{ lookup('pipe', '" + CANARY + "') }}"
LIES = (
    Lie(
        name="a command for ssh among the results",
        text=facts(cob_results={"ansible_port": 2299, "ansible_ssh_common_args": PROXY}),
        said="a module of the host said `cob_results`",
    ),
    Lie(
        name="that the host is the controller",
        text=facts(cob_results={"ansible_connection": "local"}),
        said="a module of the host said `cob_results`",
    ),
    Lie(
        name="a state and a message",
        text=facts(cob_state="up", cob_message="all is well", cob_secret_results=["x"]),
        said="a module of the host said `cob_",
    ),
    Lie(name="a variable of the site", text=facts(tool=CANARY)),
    Lie(
        name="an interpreter",
        text=facts(discovered_interpreter_python=CANARY, ansible_python_interpreter=CANARY),
    ),
    Lie(name="templates", text=json.dumps({"stat": {"exists": PIPE, "mode": PIPE}, "msg": PIPE})),
    Lie(
        name="templates that say they can be trusted",
        text=json.dumps({"stat": {"__ansible_type": "TrustedAsTemplate", "value": PIPE}}),
        said="look: ",
    ),
    Lie(
        name="another host's variables",
        text=json.dumps(
            {
                **STAT,
                "add_host": {"host_name": "h02", "host_vars": {"ansible_connection": "local"}},
                "_ansible_delegated_vars": {"ansible_host": "x"},
            }
        ),
    ),
    Lie(
        name="escape sequences and an event of ansible-runner",
        text=json.dumps({"failed": True, "msg": f"\x1b]0;x\x07\x1b[2J{forged()}", **STAT}),
        said="look: ",
    ),
    Lie(
        name="escape sequences that are no JSON",
        text=f"\x1b]0;x\x07\x1b[2J{forged()}\n" * 2,
        said="look: ",
    ),
    Lie(
        name="wrong types everywhere",
        text=json.dumps(
            {
                **dict.fromkeys(("ansible_facts", "results", "warnings", "deprecations"), 5),
                **{key: [[{}]] for key in ("stat", "failed", "exception", "diff", "invocation")},
                "cob_message": {"a": [1]},
                "changed": "x",
                "rc": "y",
            }
        ),
        said="look: ",
    ),
    Lie(name="lists in lists", text='{"stat": ' + "[" * 200_000, said="look: "),
    Lie(name="a long line", text="x" * (40 * MIB), said="look: "),
    Lie(name="a large result", text=json.dumps({**STAT, "msg": "x" * (40 * MIB)})),
    Lie(
        name="a result of many parts",
        text='{"stat": {"exists": false, "mode": [' + "[]," * (4 * MIB) + "1]}}",
    ),
)
SOME = (*LIES[:3], *LIES[8:10])
HUGE_LIES = (
    Lie(
        name="a line of 1 GB",
        command="head -c 1000000000 /dev/zero | tr '\\0' x",
        said="what the host said takes more memory than a task may have",
    ),
    Lie(
        name="a result of 60 MB",
        command='printf \'{"stat": {"exists": false}, "msg": "\'; '
        "head -c 60000000 /dev/zero | tr '\\0' x; printf '\"}'",
    ),
)
HONEST = 2
ASKED = Path("/tmp/cobweb-asked")  # noqa: S108  # what is made on the hosts, and nowhere else


MEASURE = """
import json, resource, subprocess, sys
path, *argv = sys.argv[1:]
code = subprocess.call(argv)
with open(path, "w") as file:
    json.dump(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file)
sys.exit(code)
"""


class Place:
    """A site on lying hosts; `canary` is what must not be written on the controller."""

    executor = "ansible"

    def __init__(self, fabric: Fabric, folder: Path, lies: Sequence[Lie]) -> None:
        self.fabric = fabric
        self.canary = folder / "canary"
        self._peak = folder / "peak"
        site = folder / "site"
        subprocess.run(["cp", "-r", SITES / "hostile", site], check=True)
        under = [sys.executable, "-c", MEASURE, str(self._peak)]
        self.operator = Operator(fabric, site, under=under)
        self.liars = dict(zip(fabric.plain, lies, strict=False))
        self.honest = fabric.plain[len(lies) :]
        self.operator.write_inventory({"app": fabric.plain})
        self.operator.set_variables(tool="true")

    @property
    def peak_mib(self) -> int:
        """Return the memory of the largest process of the last run."""
        return int(json.loads(self._peak.read_text()))

    def lie(self, python: str = "exit 1") -> None:
        """Have each host but the honest ones lie; `python` is what a module server's start does."""
        for host, lie in self.liars.items():
            text = lie.text.replace(CANARY, f"touch {self.canary}")
            (self.fabric.root(host) / "run/lie").write_text(text, encoding="utf-8")
            (self.fabric.root(host) / "run/tell").write_text(lie.command, encoding="utf-8")
            self.fabric.run(host, "sh", "-c", FAKE, "-", python)

    def heal(self) -> None:
        """Have all hosts be honest again."""
        for host in self.liars:
            self.fabric.run(
                host, "sh", "-c", "rm /usr/bin/python3; mv /usr/bin/py /usr/bin/python3"
            )

    def clean(self) -> None:
        """Leave nothing of the runs."""
        for host in self.fabric.plain:
            self.fabric.run(host, "rm", "-f", "/tmp/cobweb-asked", "/run/lie", "/run/tell")  # noqa: S108  # on a host

    def harm(self) -> list[Path]:
        """Return what was written on the controller."""
        return [path for path in (self.canary, ASKED) if path.exists()]

    def text(self, host: FabricHost) -> str | None:
        """Return what the file on a host holds."""
        path = self.fabric.root(host) / "tmp/cobweb-asked"
        return path.read_text() if path.exists() else None


FAKE = """
test -e /usr/bin/py || mv /usr/bin/python3 /usr/bin/py
cat >/usr/bin/python3 <<END
#!/bin/sh
test "\\$1" = -c && { %s; }
cat >/dev/null
exec sh /run/tell
END
sed -i "s|%s|$1|" /usr/bin/python3
chmod 755 /usr/bin/python3
"""


@pytest.fixture(scope="module")
def lying(fabric_maker: FabricMaker) -> Iterator[Fabric]:
    """Return hosts of which each but the last ones can tell a lie of its own."""
    with fabric_maker(len(LIES) + HONEST, 0) as made:
        yield made


@pytest.fixture(scope="module")
def few(fabric_maker: FabricMaker) -> Iterator[Fabric]:
    """Return hosts for some of the lies, and an honest one."""
    with fabric_maker(len(SOME) + 1, 0) as made:
        yield made


@pytest.fixture(
    params=[pytest.param("some", marks=pytest.mark.gate("the story of hosts that lie")), *EXECUTORS]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Return a site on hosts that are honest, and are so again after the test.

    With `ansible-plain` no host tells the large lies: it takes its time for these.
    """
    is_plain, is_some = request.param == "ansible-plain", request.param == "some"
    lies = [lie for lie in LIES if not is_plain or len(lie.text) < MIB]
    fabric = request.getfixturevalue("few" if is_some else "lying")
    made = Place(fabric, tmp_path, SOME if is_some else lies)
    made.clean()
    if is_plain:
        made.executor = request.param
    yield made
    made.clean()


def messages(run: Run, host: FabricHost) -> str:
    """Return all that was told of the object of a host."""
    of = [event for event in run.events if event.get("cob") == f"{host.name}/thing"]
    return " | ".join(str(event["message"]) for event in of if event.get("message"))


def test_what_a_host_says_runs_nothing_here_and_changes_no_other(place: Place) -> None:
    """And each that lies is named; once it is healed, nothing of its lies is left."""
    place.lie()
    try:
        run = place.operator.apply("--executor", place.executor, "--parallel", "4")
    finally:
        place.heal()
    assert run.code == 1, run.err
    assert not place.harm()
    assert [place.text(host) for host in place.honest] == [f"{it.name}\n" for it in place.honest]
    assert [place.text(host) for host in place.liars] == [None] * len(place.liars)
    told = {lie.name: messages(run, host) for host, lie in place.liars.items()}
    untold = {
        lie.name: told[lie.name] for lie in place.liars.values() if lie.said not in told[lie.name]
    }
    assert untold == {}
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", run.err + run.out) is None
    assert all(f"{host.name}/thing" in run.err for host, lie in place.liars.items() if lie.said)
    assert place.peak_mib < MOST_MIB
    again = place.operator.apply("--refresh", "all")
    assert again.code == 0, again.err
    assert not place.harm()
    assert [place.text(host) for host in place.liars] == [f"{it.name}\n" for it in place.liars]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_is_huge_fills_no_memory(lying: Fabric, tmp_path: Path, executor: str) -> None:
    """Of the host alone that says it the object fails; all processes of the run stay small."""
    place = Place(lying, tmp_path, HUGE_LIES)
    place.clean()
    place.lie()
    asked = [*place.liars, *place.honest[:HONEST]]
    limit = ":".join(host.name for host in asked)
    try:
        run = place.operator.apply("--executor", executor, "--limit", limit)
    finally:
        place.heal()
    assert run.code == 1, run.err
    honest = asked[-HONEST:]
    assert [place.text(host) for host in honest] == [f"{it.name}\n" for it in honest]
    for host, lie in place.liars.items():
        assert lie.said in messages(run, host)
        assert f"{host.name}/thing" in run.err
    assert place.peak_mib < MOST_MIB
