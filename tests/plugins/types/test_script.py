"""The type `script`: exit statuses, paths, secrets, time limits, and what cannot be undone."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.tasks import Hand, OneCob, built_in, digest_of, vaulted


@pytest.fixture
def spec(system: Path) -> dict[str, Any]:
    """Return scripts that keep a line in a file."""
    return {
        "check": 'test -e mark || exit 1; test "$(cat mark)" = "$WANTED" || exit 10',
        "do": 'printf %s "$WANTED" > mark',
        "undo": "rm -f mark",
        "env": {"WANTED": "hello"},
        "cwd": str(system),
    }


@pytest.fixture
def one(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the variable `cob` of these scripts."""
    return {"id": "h1/thing", "name": "thing", "host": "h1", "spec": spec, "applied": None}


@pytest.mark.gate("the life of a script by Ansible itself")
def test_whole_life(hand: Hand, spec: dict[str, Any], system: Path) -> None:
    """Down, up, outdated, up, down; a secret comes by the environment and is never shown."""
    cob = OneCob(built_in("script"), hand, spec)
    assert cob.check() == "down"
    cob.go("down", "up")
    cob.spec = {**spec, "env": {"WANTED": vaulted("s3cret")}}
    before = digest_of(system)
    assert cob.check() == "outdated"
    assert digest_of(system) == before
    cob.go("outdated", "up")
    assert (system / "mark").read_text() == "s3cret"
    cob.spec = {**cob.spec, "undo": 'echo "cannot: $WANTED {{ this }}" >&2; exit 5'}
    report = cob.move("up", "down")
    assert report.outcome is Outcome.FAILED
    assert "`undo` of h1/thing ended with exit status 5: cannot: ******** {{ this }}" in (
        report.message
    )
    assert "s3cret" not in str(report)
    cob.spec = spec
    cob.go("up", "down")


def test_a_script_without_undo_is_not_revertible(hand: Hand, spec: dict[str, Any]) -> None:
    """Going down fails and says why."""
    del spec["undo"]
    cob = OneCob(built_in("script"), hand, spec)
    cob.go("down", "up")
    assert "h1/thing is not revertible: its spec has no `undo`" in cob.move("up", "down").message
    assert cob.check() == "up"


def test_an_empty_undo_leaves_it_as_it_is(hand: Hand, spec: dict[str, Any]) -> None:
    spec["undo"] = ""
    cob = OneCob(built_in("script"), hand, spec)
    cob.go("down", "up")
    assert cob.move("up", "down").outcome is Outcome.OK
    assert cob.check() == "up"


def test_what_only_checks_says_why_it_does_not_hold_and_can_be_removed(
    hand: Hand, system: Path
) -> None:
    gate = {"check": f"test ! -e {system}/full || {{ echo no room; exit 1; }}"}
    cob = OneCob(built_in("script"), hand, gate)
    (system / "full").touch()
    assert cob.check() == "down"
    assert "h1/thing does not hold: no room" in cob.move("down", "up").message
    (system / "full").unlink()
    cob.go("down", "up")
    assert cob.move("up", "down").outcome is Outcome.OK
    assert cob.check() == "up"


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("cwd", "/nowhere", "No such file or directory: /nowhere"),
        ("cwd", "/dev/null", "Not a directory: /dev/null"),
        ("interpreter", ["/bin/nosh", "-e"], "No such file or directory: /bin/nosh"),
        ("interpreter", "/etc", "Permission denied: /etc"),
    ],
)
def test_what_does_not_start_names_the_word_of_the_spec(
    script_module: ModuleType, one: dict[str, Any], key: str, value: object, named: str
) -> None:
    one["spec"][key] = value
    with pytest.raises(script_module.Failed) as failed:
        script_module.check(one)
    assert (
        str(failed.value) == f"`check` of h1/thing does not start: {named}, the `{key}` of its spec"
    )


@pytest.mark.parametrize(("code", "state"), [(0, "up"), (1, "down"), (10, "outdated")])
def test_the_status_of_the_check_is_the_state(
    script_module: ModuleType, one: dict[str, Any], code: int, state: str
) -> None:
    """Three exit statuses mean a state."""
    one["spec"]["check"] = f"exit {code}"
    assert script_module.check(one) == {"state": state}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit 2", "ended with exit status 2"),
        ("no-such-command", "ended with exit status 127: .*no-such-command"),
        ("if then", "ended with exit status 2: .*yntax error"),
        ("kill -9 $$", "was ended by SIGKILL"),
    ],
)
def test_every_other_status_is_a_failed_check(
    script_module: ModuleType, one: dict[str, Any], text: str, reason: str
) -> None:
    """The trouble of a shell or a tool is not taken for a state."""
    one["spec"]["check"] = text
    with pytest.raises(script_module.Failed, match=f"`check` of h1/thing {reason}"):
        script_module.check(one)


@pytest.mark.parametrize(
    ("creates", "removes", "state"),
    [
        ("there", None, "up"),
        ("absent", None, "down"),
        (None, "there", "down"),
        (None, "absent", "up"),
        ("there", "absent", "up"),
        ("there", "there", "down"),
    ],
)
def test_paths_in_place_of_a_check(
    script_module: ModuleType,
    system: Path,
    creates: str | None,
    removes: str | None,
    state: str,
) -> None:
    """Without `check` the state follows from which paths exist."""
    (system / "there").symlink_to("nowhere")
    paths = {"creates": creates, "removes": removes}
    spec = {key: str(system / name) for key, name in paths.items() if name}
    assert script_module.check({"id": "h1/x", "spec": {**spec, "do": ":"}}) == {"state": state}


def test_nothing_is_run_that_is_done_already(
    script_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """Repeated transitions ask the check first."""
    assert script_module.do(one) == {"changed": True}
    before = digest_of(system)
    assert script_module.do(one) == {"changed": False}
    assert digest_of(system) == before
    assert script_module.undo(one) == {"changed": True}
    assert script_module.undo(one) == {"changed": False}


def test_the_check_has_the_last_word(script_module: ModuleType, one: dict[str, Any]) -> None:
    """A `do` that ends well and does nothing has failed."""
    one["spec"]["do"] = ":"
    with pytest.raises(script_module.Failed, match="the check still says down, not up"):
        script_module.do(one)


def test_a_failing_line_ends_the_script(
    script_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """By default a shell stops at the first command that fails."""
    one["spec"]["do"] = "false; touch reached"
    with pytest.raises(script_module.Failed, match="ended with exit status 1"):
        script_module.do(one)
    assert not (system / "reached").exists()


def test_any_interpreter_serves(
    script_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """The interpreter gets the script as a file that it can open."""
    one["spec"] |= {
        "interpreter": [sys.executable, "-I"],
        "check": "import os, sys; sys.exit(not os.path.exists('mark'))",
        "do": "import os; open('mark', 'w').write(os.environ['COBWEB_ID'])",
    }
    script_module.do(one)
    assert (system / "mark").read_text() == "h1/thing"


def test_no_argument_names_a_secret_or_the_script(
    script_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """What `ps` shows is the interpreter and the number of an open file."""
    one["spec"] |= {"do": "tr '\\0' ' ' < /proc/$$/cmdline > mark", "check": "test -e mark"}
    script_module.do(one)
    assert (system / "mark").read_text().startswith("/bin/sh -e /dev/fd/")


def test_a_time_limit_ends_all_that_the_script_started(
    script_module: ModuleType, one: dict[str, Any], system: Path
) -> None:
    """Children in other sessions go too."""
    one["spec"] |= {
        "do": "setsid sh -c 'echo $$ >> pids; exec sleep 1000' & echo $$ >> pids; wait",
        "timeout": 1,
    }
    with pytest.raises(script_module.Failed, match="`do` of h1/thing took longer than 1 s"):
        script_module.do(one)
    pids = (system / "pids").read_text().split()
    assert len(pids) == 2
    assert not [pid for pid in pids if script_module.supervision.read_row(int(pid))]


def test_a_long_output_is_cut(script_module: ModuleType, one: dict[str, Any]) -> None:
    """The message has the end of it, where the reason stands."""
    one["spec"]["do"] = "seq 100000; echo the reason; exit 3"
    with pytest.raises(script_module.Failed, match="the reason") as failed:
        script_module.do(one)
    assert len(str(failed.value)) < 2 * script_module.OUTPUT_LIMIT


def test_a_secret_that_the_limit_of_the_output_cuts_is_not_shown(
    script_module: ModuleType, one: dict[str, Any]
) -> None:
    """Only the end of what a script prints is told, and it may begin within a secret."""
    secret = "".join(f"s3cret{number:03}" for number in range(30))
    one["spec"]["env"] = {"WANTED": secret}
    one["spec"]["do"] = 'echo "$WANTED"; head -c 1900 /dev/zero | tr "\\0" .; exit 5'
    with pytest.raises(script_module.Failed) as found:
        script_module.do(one)
    assert "s3cret" not in str(found.value)
    assert "....." in str(found.value)
