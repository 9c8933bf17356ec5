"""What the section `applications` refuses, with the place and a hint, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run

HEAD = """\
cobweb: 1
name: refused
inventory: {all: {hosts: {n1: , n2: }, vars: {ansible_connection: local,
  ansible_python_interpreter: "{{ ansible_playbook_python }}"}}}
applications:
"""

WriteSite = Callable[[str], Path]


@pytest.fixture
def write_site(tmp_path: Path) -> WriteSite:
    """Return what writes a site with this text below `applications:`, whose first line is 6."""

    def write(text: str) -> Path:
        (tmp_path / "site.yml").write_text(HEAD + text, encoding="utf-8")
        return tmp_path

    return write


def application(text: str, name: str = "ring") -> str:
    """Return an application on all hosts, on lines 6 and 7, with text from line 8."""
    return f"  {name}:\n    on: all\n" + "".join(f"    {it}\n" for it in text.splitlines())


ONE = "phases: {one: {run: 'true'}}\n"


def two(barrier: str) -> str:
    """Return two phases with a barrier, on line 10, between them."""
    one = "phases:\n  one: {run: 'true'}\n"
    return f"{one}  two: {{run: 'true', after: [one], barrier: {barrier}}}"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (
            application("phases:\n  one: {run: 'true'}\n  two: {run: 'true', after: [won]}"),
            "10:",
            ["there is no phase `won`", "there are one, two"],
        ),
        (
            application(
                "phases:\n  one: {run: 'true', after: [two]}\n  two: {run: 'true', after: [one]}"
            ),
            "9:",
            ["phases wait for each other in a circle: one after two after one", "take one"],
        ),
        (
            application("phases:\n  one: {run: 'true', after: [one]}"),
            "9:",
            ["phases wait for each other in a circle: one after one"],
        ),
        (
            application("phases:\n  one: {run: 'true', barrier: {}}"),
            "9:",
            ["the phase `one` has a barrier, and is after no other one", "say `after`"],
        ),
        (
            application("phases:\n  one: {run: 'true', timeout: soon}"),
            "9:",
            ["`soon`", "as in `60s`"],
        ),
        (
            application("phases:\n  one: {run: 'true', health: 'true', every: 5 parsecs}"),
            "9:",
            ["`5 parsecs`", "as in `60s`"],
        ),
        (
            application("phases:\n  one: {run: 'true', stop_timeout: -1s}"),
            "9:",
            ["`-1s`", "as in `60s`"],
        ),
        (application(ONE + "members: {join_timeout: soon}"), "9:", ["`soon`", "as in `60s`"]),
        (application(ONE + "members: {at_least: 101%}"), "9:", ["101%"]),
        (application(ONE + "members: {at_least: 0}"), "9:", ["at_least"]),
        (application(ONE + "members: {at_least: 0%}"), "9:", ["0%"]),
        (application(ONE + "env: {'A=B': 1}"), "9:", ["A=B"]),
        (application(ONE + "env: {COBWEB_HOST: n1}"), "9:", ["COBWEB_HOST"]),
        (application("phases:\n  one: {run: 'true', stop_signal: SIGNO}"), "9:", ["`SIGNO`"]),
        (
            application("phases: {b-c: {run: 'true'}}", "a")
            + application("phases: {c: {run: 'true'}}", "a-b"),
            "11:",
            ["the phase `c` of `a-b` and the phase `b-c` of `a` have one name: `app-a-b-c`"],
        ),
        (application(ONE + "members: {outstanding: 0}"), "9:", ["outstanding"]),
        (application(ONE + "members: {most: 3}"), "9:", ["most"]),
        (application(ONE + "members: {flaps: often}"), "9:", ["often"]),
        (application(ONE + "members: {flaps: 3}"), "9:", ["flaps"]),
        (application(ONE + "members: {flaps: 0 in 10m}"), "9:", ["0 in 10m"]),
        (application(ONE + "members: {flaps: 3 in soon}"), "9:", ["soon"]),
        (application(ONE + "members: {lost_after: soon}"), "9:", ["`soon`", "as in `60s`"]),
        (application(ONE + "members: {lost_after: -1s}"), "9:", ["`-1s`", "as in `60s`"]),
        (application(ONE + "members: {orphan: soon}"), "9:", ["`soon`", "as in `60s`"]),
        (application(two("{wait: soon}")), "10:", ["`soon`", "as in `60s`"]),
        (application(two("{wait: -1s}")), "10:", ["`-1s`", "as in `60s`"]),
        (application(two("{else: restart}")), "10:", ["restart"]),
        (application(two("{waits: 10m}")), "10:", ["waits"]),
        (application(ONE + "recover: restart"), "9:", ["recover"]),
        (application(ONE + "recover: {do: reboot}"), "9:", ["reboot"]),
        (application(ONE + "recover: {do: restart, on: [exits]}"), "9:", ["exits"]),
        (application(ONE + "recover: {do: restart, on: exit}"), "9:", ["on"]),
        (application(ONE + "recover: {do: restart, times: -1}"), "9:", ["times"]),
        (application(ONE + "recover: {do: restart, times: often}"), "9:", ["times"]),
        (application(ONE + "recover: {do: restart, else: restart}"), "9:", ["else"]),
        (application(ONE + "recover: {do: restart, most: 3}"), "9:", ["most"]),
        (application("phases: {}"), "8:", ["phases"]),
        (application("phases:\n  one: {run: ''}"), "9:", ["run"]),
        (application("phases:\n  one: {run: []}"), "9:", ["run"]),
        (application("phases:\n  one: {}"), "9:", ["run"]),
        (application("phases:\n  one: {run: 'true', barrier: true}"), "9:", ["barrier"]),
        (application("phases:\n  one: {run: 'true', stop_signal: TERM}"), "9:", ["stop_signal"]),
        (application("phases:\n  one: {runs: 'true'}"), "9:", ["runs"]),
        (application("phases:\n  One: {run: 'true'}"), "9:", ["One"]),
        (application("phases:\n  one_two: {run: 'true'}"), "9:", ["one_two"]),
        (application(ONE + "phase: {}"), "9:", ["phase"]),
        (application(ONE, name="Ring"), "6:", ["Ring"]),
        (application(ONE, name="a/b"), "6:", ["a/b"]),
        (application(ONE + "cwd: here"), "", ["here"]),
        (application(ONE + "state_dir: here"), "", ["here"]),
        (application(ONE + "files: [{archive: a, sha256: 12, dest: /opt}]"), "9:", ["sha256"]),
        (application(ONE).replace("on: all", "on: nobody"), "6:", ["nobody"]),
        (application("phases:\n  one: {run: 'echo {{ unknown }}'}"), "6:", ["unknown"]),
        ("  ring: {phases: {one: {run: 'true'}}}\n", "6:", ["on"]),
        ("  ring:\n", "6:", ["ring"]),
    ],
    ids=str,
)
def test_it_is_refused_with_place_and_hint(
    run: Run, write_site: WriteSite, text: str, place: str, said: list[str]
) -> None:
    ran = run("-C", write_site(text), "validate")
    assert ran.code == 3, ran.out + ran.err
    assert f"site.yml:{place}" in ran.err
    assert [it for it in said if it not in ran.err] == [], ran.err
    assert "Traceback" not in ran.err


def test_all_that_is_wrong_is_said_at_once(run: Run, write_site: WriteSite) -> None:
    one = "phases:\n  one: {run: 'true', timeout: soon, barrier: {}}\n"
    two = "members: {join_timeout: later}\n"
    ran = run("-C", write_site(application(one + two) + application(one, "rung")), "validate")
    assert ran.code == 3
    assert ran.err.count("soon") == 2
    assert ran.err.count("has a barrier") == 2
    assert ran.err.count("later") == 1


@pytest.mark.parametrize("command", ["run", "stop", "status", "why", "logs"])
def test_commands_refuse_a_wrong_section_as_validate_does(
    run: Run, write_site: WriteSite, command: str
) -> None:
    site = write_site(application("phases:\n  one: {run: 'true', after: [won]}"))
    words = ["--yes"] if command in ("run", "stop") else []
    ran = run("-C", site, "app", command, "ring", *words)
    assert ran.code == 3, ran.err
    assert "site.yml:9:" in ran.err
    assert "there is no phase `won`" in ran.err


def test_a_site_without_the_section_has_no_applications(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(HEAD.removesuffix("applications:\n"), encoding="utf-8")
    ran = run("-C", tmp_path, "app", "run", "ring", "--yes")
    assert ran.code == 64
    assert "the site has no section `applications`" in ran.err


def test_what_was_never_started_is_said_to_be_so(run: Run, write_site: WriteSite) -> None:
    site = write_site(application(ONE))
    assert run("-C", site, "app", "status", "ring").out.splitlines()[0] == "ring was never started"
    assert run("-C", site, "app", "why", "ring").out == "ring was never started\n"
    assert run("-C", site, "app", "logs", "ring").code == 64
    ran = run("-C", site, "app", "stop", "ring", "--yes")
    assert (ran.code, ran.err) == (0, "nothing of ring is at work\n")


@pytest.mark.gate("a run with Ansible")
def test_apply_starts_nothing(run: Run, write_site: WriteSite, tmp_path: Path) -> None:
    phase = f"phases:\n  one: {{run: 'touch {tmp_path}/begun'}}\nstate_dir: {tmp_path}/state"
    ran = run("-C", write_site(application(phase)), "apply", "--yes")
    assert ran.code == 0, ran.err
    assert not (tmp_path / "begun").exists()
