"""The section `pools` in a site: which objects and needs follow from what is decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import run

__all__ = ["run"]

SITE = """\
cobweb: 1
name: pools
inventory: {all: {hosts: {head: {}, n01: {}, n02: {}}}}
pools:
  resources:
    "n[01:02]": {type: host}
    matlab: {type: licence}
  services:
    batch: {adapter: processes, on: head, with: {folder: /srv/batch, prologue: "true"}}
    hpc: {adapter: processes, on: head, with: {folder: /srv/hpc}}
    design: {adapter: counter, on: head, with: {folder: /srv/design}}
    spare: {adapter: spare}
"""
OWN = """\
description: An adapter of this site.
holds: [host]
schema: {additionalProperties: false, required: [port], properties: {port: {type: integer}}}
member: {type: pool-process, host: resource}
"""

ENTRY = """\
types:
  own-entry:
    states: [down, draining, up]
    preferred: up
    remove: down
    serving: [draining, up]
    check: {tasks: look.yml}
    transitions:
      down -> up: {tasks: look.yml}
      up -> draining: {tasks: look.yml}
      draining -> up: {tasks: look.yml}
      draining -> down: {tasks: look.yml}
      up -> down: {tasks: look.yml}
"""

Call = Callable[..., Any]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Write a site with pools; nothing is decided."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE, encoding="utf-8")
    return folder


@pytest.fixture
def ask(run: Call, site: Path) -> Call:
    """Return what runs `cobweb` on the site."""
    return lambda *words: run("-C", site, *words)


@pytest.fixture
def decide(ask: Call) -> Call:
    """Return what decides of a resource."""

    def call(key: str, **body: Any) -> Any:
        return ask("decide", "pools", key, json.dumps(body), "--reason", "more work")

    return call


@pytest.fixture
def graph(ask: Call) -> Call:
    """Return what reads the objects and the needs of the site."""

    def call() -> tuple[dict[str, str], list[tuple[str, ...]]]:
        ran = ask("graph", "-o", "json")
        assert ran.code == 0, ran.err
        data = json.loads(ran.out)
        wants = {it["id"]: it["preferred"] for it in data["cobs"]}
        needs = [
            (it["cob"], f"{it['from']} -> {it['to']}", it["on"], it["state"])
            for it in data["needs"]
        ]
        return wants, sorted(needs)

    return call


def edit(site: Path, old: str, new: str) -> None:
    """Change the site's text."""
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_nothing_follows_from_resources_alone(graph: Call) -> None:
    assert graph() == ({}, [])


@pytest.mark.parametrize(
    ("phase", "want"), [("in", "up"), ("leaving", "draining"), ("failed", "down")]
)
def test_a_member_is_an_object_whose_want_follows_from_the_phase(
    decide: Call, graph: Call, phase: str, want: str
) -> None:
    assert decide("n01", service="batch", phase=phase, since=1).code == 0
    assert graph() == ({"n01/pool-batch-n01": want}, [])


def test_a_licence_is_an_object_on_the_host_of_its_service(decide: Call, graph: Call) -> None:
    assert decide("matlab", service="design", phase="in", since=1).code == 0
    assert graph() == ({"head/pool-design-matlab": "up"}, [])


@pytest.mark.parametrize("service", ["spare", None])
def test_what_is_at_rest_has_no_object(decide: Call, graph: Call, service: str | None) -> None:
    assert decide("n01", service=service, phase="in", since=1).code == 0
    assert graph() == ({}, [])


@pytest.mark.parametrize("phase", ["in", "leaving", "failed"])
def test_who_comes_needs_those_who_were_there_to_be_down(
    decide: Call, graph: Call, phase: str
) -> None:
    """Also on the host of another service, as a licence is; in whatever phase it is meanwhile."""
    was = ["batch", "design", "spare"]
    assert decide("n01", service="hpc", phase=phase, since=1, was=was).code == 0
    wants, needs = graph()
    assert {it: want for it, want in wants.items() if "hpc" not in it} == {
        "n01/pool-batch-n01": "down",
        "head/pool-design-n01": "down",
    }
    others = ("head/pool-design-n01", "n01/pool-batch-n01")
    ways = ("down -> up", "draining -> up")
    assert needs == [("n01/pool-hpc-n01", way, it, "down") for way in ways for it in others]


def test_who_is_taken_out_stays_an_object_that_is_down(decide: Call, graph: Call) -> None:
    assert decide("n01", service=None, phase="in", since=1, was=["batch"]).code == 0
    assert graph() == ({"n01/pool-batch-n01": "down"}, [])


def test_who_is_lost_has_no_object_on_its_host(decide: Call, graph: Call) -> None:
    was = ["batch", "design"]
    body = {"service": None, "phase": "failed", "since": 1, "lost": True}
    assert decide("n01", **body, was=was).code == 0
    assert graph() == ({"head/pool-design-n01": "down"}, [])


def test_what_the_service_says_is_in_the_spec(ask: Call, decide: Call) -> None:
    assert decide("n01", service="batch", phase="in", since=1).code == 0
    ran = ask("show", "n01/pool-batch-n01", "-o", "json")
    (host,) = json.loads(ran.out)["hosts"]
    (cob,) = host["cobs"]
    given = {"folder": "/srv/batch", "prologue": "true"}
    assert cob["type"] == "pool-process"
    assert cob["spec"] == {"service": "batch", "resource": "n01", "with": given}


def test_plan_and_explain_name_the_decision(ask: Call, decide: Call) -> None:
    assert decide("n01", service="batch", phase="in", since=1).code == 0
    for words in (("plan",), ("explain", "n01/pool-batch-n01")):
        ran = ask(*words)
        assert ran.code == 0, ran.err
        assert "decision pools/n01, revision 1, by " in ran.out
        assert "more work" in ran.out


@pytest.mark.parametrize(
    ("key", "service", "says"),
    [
        pytest.param("nx", "batch", "6:5: decision pools/nx, ", id="unknown resource"),
        pytest.param("n01", "bat", "9:5: n01 is in the service `bat` (", id="unknown service"),
        pytest.param("matlab", "batch", "9:12: matlab is in the service `batch` (", id="type"),
    ],
)
def test_a_decision_that_cannot_hold_is_refused_with_its_place(
    ask: Call, decide: Call, key: str, service: str, says: str
) -> None:
    ran = decide(key, service=service, phase="in", since=1)
    assert ran.code == 3
    assert f"site.yml:{says}" in ran.err
    assert f"`cobweb decide pools {key} null`" in ran.err
    assert json.loads(ask("decisions", "pools", "-o", "json").out)["sections"] == {
        "pools": {"revision": 0, "decisions": []}
    }


@pytest.mark.parametrize("key", ["services/x", "n01"])
def test_a_decision_on_a_service_names_one(decide: Call, key: str) -> None:
    ran = decide(key, stopped=True)
    assert ran.code == 3
    assert "site.yml:" in ran.err
    assert f"`cobweb decide pools {key} null`" in ran.err


def test_a_site_that_drops_what_was_decided_says_what_to_do(
    ask: Call, decide: Call, site: Path
) -> None:
    for id_, service in (("n01", "batch"), ("matlab", "design")):
        assert decide(id_, service=service, phase="in", since=1).code == 0
    edit(site, "    batch: ", "    night: ")
    edit(site, "    matlab: ", "    octave: ")
    ran = ask("plan")
    assert ran.code == 3
    for part in (
        "n01 is in the service `batch`",
        "`cobweb pool stop batch --free-resources`",
        "decision pools/matlab, ",
        "there is no such resource",
        "2 findings",
    ):
        assert part in ran.err


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"service": "spare"}, 0),
        ({"service": None}, 0),
        ({"service": None, "was": ["design"]}, 3),
        ({"service": "spare", "was": ["design"]}, 3),
        ({"service": "design"}, 3),
    ],
)
def test_a_resource_that_nobody_needs_may_be_taken_out_of_the_site(
    ask: Call, decide: Call, site: Path, body: dict[str, Any], code: int
) -> None:
    """What was decided of it holds again if it comes back."""
    assert decide("matlab", phase="in", since=1, **body).code == 0
    edit(site, "    matlab: ", "    octave: ")
    assert ask("plan").code == code
    edit(site, "    octave: ", "    matlab: ")
    assert ask("plan").code == 0


def test_a_body_that_is_none_is_refused(decide: Call) -> None:
    for body in (
        {"service": "batch"},
        {"service": "batch", "phase": "gone", "since": 1},
        {"service": "batch", "phase": "in", "since": -1},
        {"service": "batch", "phase": "in", "since": 1, "colour": "red"},
        {"stopped": "yes"},
    ):
        ran = decide("n01", **body)
        assert ran.code == 64, body
        assert "`pools` does not take this for `n01`" in ran.err


@pytest.fixture
def own(site: Path) -> Callable[[str], None]:
    """Return what gives the site an adapter of its own, which the service `web` has."""

    def write(text: str) -> None:
        (site / "own.yml").write_text(text, encoding="utf-8")
        service = "    web: {adapter: own, on: head, with: {port: 80}}\n    spare:"
        edit(site, "    spare:", service)
        with (site / "site.yml").open("a", encoding="utf-8") as file:
            file.write("  adapters: {own: own.yml}\n")

    return write


def test_an_adapter_may_be_a_file_of_the_site(
    ask: Call, own: Callable[[str], None], site: Path
) -> None:
    own(OWN)
    ran = ask("validate")
    assert ran.code == 0, ran.err
    edit(site, "{port: 80}", "{port: http}")
    ran = ask("validate")
    assert ran.code == 3
    assert "site.yml:12:48: `with` of service `web`: 'http' is not of type 'integer'" in ran.err


@pytest.fixture
def drains() -> str:
    """Return what else is said of entries."""
    return ""


@pytest.fixture(params=["first", "last"])
def joins(
    own: Callable[[str], None], site: Path, drains: str, request: pytest.FixtureRequest
) -> str:
    """Give the service `web` members with entries; return which of both comes first."""
    text = OWN.replace("type: pool-process", "type: own-entry")
    own(f"{text}entry: {{type: own-entry, joins: {request.param}{drains}}}\n")
    (site / "look.yml").write_text("[]", encoding="utf-8")
    with (site / "site.yml").open("a", encoding="utf-8") as file:
        file.write(ENTRY)
    return str(request.param)


def test_an_entry_goes_last_and_comes_when_the_adapter_says(
    ask: Call, decide: Call, graph: Call, joins: str
) -> None:
    """Who comes after it waits for the entry; of one that is lost the entry alone is left."""
    member, entry = "n01/pool-web-n01", "head/pool-web-n01-entry"
    assert decide("n01", service="web", phase="in", since=1).code == 0
    later, first = (member, entry) if joins == "first" else (entry, member)
    assert graph() == ({member: "up", entry: "up"}, [(later, "down -> up", first, "up")])
    assert decide("n01", service="hpc", phase="in", since=1, was=["web"]).code == 0
    wants, needs = graph()
    assert wants == {member: "down", entry: "down", "n01/pool-hpc-n01": "up"}
    assert (entry, "up -> down", member, "down") in needs
    assert ("n01/pool-hpc-n01", "down -> up", entry, "down") in needs
    body = {"service": None, "phase": "failed", "since": 1, "lost": True}
    assert decide("n01", **body, was=["web"]).code == 0
    assert graph() == ({entry: "down"}, [])
    shown = json.loads(ask("show", entry, "-o", "json").out)["hosts"][0]["cobs"][0]["spec"]
    assert (shown["lost"], shown["master"]) == (True, "head")


@pytest.mark.usefixtures("joins")
@pytest.mark.parametrize("drains", [", drains: true"])
def test_an_entry_that_drains_does_so_with_its_member(
    ask: Call, decide: Call, graph: Call, site: Path
) -> None:
    """The member need not be reached for that, and one that is not there yet comes first."""
    member, entry = "n01/pool-web-n01", "head/pool-web-n01-entry"
    assert decide("n01", service="web", phase="in", since=1).code == 0
    assert graph()[0] == {member: "up", entry: "up"}
    assert decide("n01", service="web", phase="leaving", since=1, to="hpc").code == 0
    assert graph()[0] == {member: "draining", entry: "draining"}
    for state in ("down", "up", "draining"):
        (site / "states.json").write_text(json.dumps({member: state, entry: state}))
        assert ask("simulate", "--initial", str(site / "states.json")).code == 0, state
    ran = ask("simulate", "--initial", "up", "--unreachable", "n01", "--events", "-")
    assert (ran.code, ran.out.count('"to":"draining","state":"draining"')) == (1, 1), ran.out
    assert decide("n01", service="hpc", phase="in", since=1, was=["web"]).code == 0
    wants, needs = graph()
    assert wants == {member: "down", entry: "down", "n01/pool-hpc-n01": "up"}
    assert (entry, "draining -> down", member, "down") in needs


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("holds: [", "is no YAML", id="no YAML"),
        pytest.param("- holds", "is no mapping", id="no mapping"),
        pytest.param("holds: [host]\n", "'member' is a required property", id="no member"),
        pytest.param(OWN + "hold: [host]\n", "'hold' was unexpected", id="unknown field"),
        pytest.param(
            OWN.replace("host: resource", "host: nowhere"), "member.host: ", id="wrong field"
        ),
        pytest.param(OWN.replace("[host]", "[]"), "holds: ", id="holds nothing"),
    ],
)
def test_a_broken_adapter_file_is_told_with_the_place_that_names_it(
    ask: Call, own: Callable[[str], None], text: str, says: str
) -> None:
    own(text)
    ran = ask("validate")
    assert ran.code == 3
    assert "Traceback" not in ran.err
    assert "site.yml:14:19: the service adapter own, " in ran.err
    assert "own.yml" in ran.err
    assert says in ran.err


def test_an_adapter_whose_type_there_is_not_is_told(
    decide: Call, own: Callable[[str], None]
) -> None:
    own(OWN.replace("pool-process", "pool-nothing"))
    ran = decide("n01", service="web", phase="in", since=1)
    assert ran.code == 3
    assert "pool-nothing" in ran.err


def test_a_file_that_is_not_there_is_told(
    ask: Call, own: Callable[[str], None], site: Path
) -> None:
    own(OWN)
    (site / "own.yml").unlink()
    ran = ask("validate")
    assert ran.code == 3
    assert "site.yml:14:19: there is no file own.yml" in ran.err


def test_a_member_is_what_it_joined_as(ask: Call, decide: Call) -> None:
    """Also on another host, whatever the site says of its service by now."""
    known = {"on": "n02", "with": {"folder": "/earlier"}}
    body = {"phase": "leaving", "since": 1, "settings": {"design": known}}
    assert decide("matlab", service="design", **body).code == 0
    shown = json.loads(ask("show", "-o", "json").out)
    found = {it["id"]: it["spec"] for host in shown["hosts"] for it in host["cobs"]}
    assert found["n02/pool-design-matlab"]["with"] == {"folder": "/earlier"}
