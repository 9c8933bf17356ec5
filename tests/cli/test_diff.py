"""`cobweb diff` says what differs between generations, and between one and the files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
Edit = Callable[[str, str], None]


@pytest.fixture
def edit(site: Path) -> Edit:
    """Replace a text of site.yml."""

    def call(old: str, new: str) -> None:
        file = site / "site.yml"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    return call


@pytest.fixture
def apply(run: Run, site: Path) -> Callable[[], None]:
    """Apply the site in a simulation."""

    def call() -> None:
        assert run("-C", site, "apply", "--yes", "--executor", "simulate").code == 0

    return call


@pytest.fixture
def grown(site: Path, edit: Edit, apply: Callable[[], None]) -> Path:
    """Make a site with two generations, and other files."""
    apply()
    edit("port: 8080", "port: 8081")
    edit("    requires: [a@back]\n", "    binds: [a@back]\n    spec: {key: !vault '1'}\n")
    apply()
    edit("!vault '1'", "!vault '2'")
    edit("  a:\n    type: simple\n    on: back\n", "")
    edit("    stops: [a]\n", "")
    edit("    binds: [a@back]\n", "")
    (site / "simple" / "start.yml").write_text("- meta: noop\n", encoding="utf-8")
    return site


AHEAD = """\
- alpha/a (simple)
    -needs * -> down: beta/b down
    -needs * -> up: alpha/cfg up
    -needs outdated -> *: beta/b down
~ alpha/cfg
    -needs outdated -> *: alpha/a down
~ beta/b
    ~key: (secret changed)
    -needs * -> up: alpha/a up
    -needs in up: alpha/a up
~ file site:simple/start.yml
"""
BEFORE = """\
~ alpha/a
    +needs outdated -> *: beta/b down
~ alpha/cfg
    -text: "port=8080"
    +text: "port=8081"
~ beta/b
    +key: "(secret)"
    +needs in up: alpha/a up
"""


def data_of(ran: Any, code: int = 0) -> dict[str, Any]:
    assert ran.code == code, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_the_newest_generation_is_compared_with_the_files(run: Run, grown: Path) -> None:
    ran = run("-C", grown, "diff")
    assert ran.out == AHEAD
    assert ran.err == "generation 2 -> the site's files: objects ~1 -1, needs -6, files ~1\n"
    assert ran.code == 0
    assert run("-C", grown, "diff", "2").out == run("-C", grown, "diff", "2", "site").out == ran.out


def test_the_page_on_the_command_line_shows_what_is_really_said(run: Run, grown: Path) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    ran = run("-C", grown, "diff")
    assert f"$ cobweb diff\n{ran.out}{ran.err}```" in page


def test_two_generations_are_compared_whatever_the_site_is_now(run: Run, grown: Path) -> None:
    with (grown / "site.yml").open("a") as file:
        file.write("nonsense: 1\n")
    ran = run("-C", grown, "diff", "1", "2")
    assert ran.out == BEFORE
    assert ran.err == "generation 1 -> generation 2: objects ~2, needs +2\n"
    assert run("-C", grown, "diff").code == 3


def test_the_other_way_round_signs_are_turned(run: Run, grown: Path) -> None:
    turned = str.maketrans("+-", "-+")
    forth = run("-C", grown, "diff", "site", "1").out.splitlines()
    back = run("-C", grown, "diff", "1", "site").out.splitlines()
    signs = [line.lstrip()[0] for line in forth]
    assert sorted(signs) == sorted("".join(line.lstrip()[0] for line in back).translate(turned))


def test_what_is_for_programs_follows_the_schema(
    run: Run, grown: Path, check_schema: CheckSchema
) -> None:
    data = data_of(run("-C", grown, "diff", "-o", "json"))
    check_schema("diff", data)
    assert (data["old"]["generation"], data["new"]["generation"]) == (2, None)
    assert data["cobs"] == [
        {
            "cob": "alpha/a",
            "kind": "removed",
            "old_type": "simple",
            "new_type": None,
            "diff": [],
        },
        {
            "cob": "beta/b",
            "kind": "changed",
            "old_type": "simple",
            "new_type": "simple",
            "diff": ["~key: (secret changed)"],
        },
    ]
    need = {"cob": "beta/b", "in": "up", "on": "alpha/a", "state": "up"}
    assert {"kind": "removed", **need} in data["needs"]
    assert data["files"] == [{"file": "site:simple/start.yml", "kind": "changed"}]
    assert yaml.safe_load(run("-C", grown, "diff", "-o", "yaml").out) == data
    check_schema("diff", data_of(run("-C", grown, "diff", "1", "2", "-o", "json")))


def test_hosts_types_and_limits_are_told(
    run: Run, site: Path, edit: Edit, apply: Callable[[], None], check_schema: CheckSchema
) -> None:
    apply()
    edit("beta: {}", "beta: {ansible_port: 22}, gamma: {}")
    edit("{tasks: simple/stop.yml}\n      outdated -> up", "{tasks: x.yml}\n      outdated -> up")
    edit("cobs:", "limits: {one: {on: all, cob: b, max: 1}}\ncobs:")
    (site / "x.yml").write_text("- meta: noop\n", encoding="utf-8")
    told = run("-C", site, "diff").out
    for text in (
        "~ host beta\n    +ansible_port: 22\n+ host gamma\n",
        "+ gamma/b (simple)\n    +needs * -> up: alpha/a up\n",
        "~ type simple\n    -up -> down: tasks site:simple/stop.yml, attempts 1\n    +up -> down: ",
        "+ limit one\n",
        "+ file site:x.yml\n",
    ):
        assert text in told
    data = data_of(run("-C", site, "diff", "-o", "json"))
    check_schema("diff", data)
    assert [it["host"] for it in data["hosts"]] == ["beta", "gamma"]
    assert [it["type"] for it in data["types"]] == ["simple"]
    assert [it["limit"] for it in data["limits"]] == ["one"]


def test_an_object_whose_type_changes_tells_both(
    run: Run, site: Path, edit: Edit, apply: Callable[[], None]
) -> None:
    apply()
    edit(
        "types:\n  simple:",
        "types:\n  plain: &plain\n    states: [down, up]\n    preferred: up\n"
        "    remove: down\n    check: {tasks: simple/check.yml}\n"
        "    transitions: {down -> up: {tasks: simple/start.yml},"
        " up -> down: {tasks: simple/stop.yml}}\n  simple:",
    )
    edit("  b:\n    type: simple", "  b:\n    type: plain")
    assert "~ beta/b (simple -> plain)\n" in run("-C", site, "diff").out


def test_the_hunks_of_a_text_follow_the_schema(
    run: Run, site: Path, edit: Edit, apply: Callable[[], None], check_schema: CheckSchema
) -> None:
    edit('"port={{ port }}"', r'"one\ntwo\n"')
    apply()
    edit(r"one\ntwo\n", r"one\nthree\n")
    data = data_of(run("-C", site, "diff", "-o", "json"))
    check_schema("diff", data)
    (found,) = data["cobs"]
    lines = ["~text: +1 -1", "   @@ -1,2 +1,2 @@", "   one", "-  two", "+  three"]
    assert found["diff"] == lines


def test_nothing_that_differs_is_said(run: Run, site: Path, apply: Callable[[], None]) -> None:
    apply()
    ran = run("-C", site, "diff", "--exit-code")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "nothing differs between generation 1 and the site's files\n"


def test_the_exit_code_says_so_where_it_is_asked_for(run: Run, grown: Path) -> None:
    assert run("-C", grown, "diff", "--exit-code").code == 2
    assert data_of(run("-C", grown, "diff", "1", "2", "--exit-code", "-o", "json"), 2)["cobs"]


def test_a_comment_or_another_order_of_keys_is_no_difference(
    run: Run, site: Path, edit: Edit, apply: Callable[[], None]
) -> None:
    apply()
    edit("  a:\n    type: simple\n    on: back\n", "  # A\n  a:\n    on: back\n    type: simple\n")
    assert run("-C", site, "diff", "--exit-code").code == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [(["9"], "(known: 1 to 2)"), (["1", "4"], "(known: 1 to 2)"), (["999999999"], "1 to 2")],
)
def test_an_unknown_generation_is_told_with_those_that_there_are(
    run: Run, grown: Path, arguments: list[str], hint: str
) -> None:
    ran = run("-C", grown, "diff", *arguments)
    assert (ran.code, ran.out) == (64, "")
    assert f"there is no generation {arguments[-1]}" in ran.err
    assert hint in ran.err


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5", "sites", "", "٣", "9" * 5000, "1\n"])
def test_what_is_no_generation_is_wrong_usage(run: Run, grown: Path, word: str) -> None:
    ran = run("-C", grown, "diff", "--", word)
    assert (ran.code, ran.out) == (64, "")
    assert "neither the number of a generation nor `site`" in ran.err


def test_gaps_are_told(run: Run, grown: Path, edit: Edit, apply: Callable[[], None]) -> None:
    for old, new in pairwise(["2", "21", "22", "23"]):
        edit(f"!vault '{old}'", f"!vault '{new}'")
        apply()
    with closing(sqlite3.connect(grown / ".cobweb/state.db")) as database, database:
        database.execute("DELETE FROM cobweb_generations WHERE id = 2")
    assert "(known: 1, 3 to 5)" in run("-C", grown, "diff", "2").err


def test_a_site_without_generations_says_so_and_makes_no_database(run: Run, site: Path) -> None:
    ran = run("-C", site, "diff")
    assert (ran.code, ran.out) == (64, "")
    assert "there is no generation yet in" in ran.err
    assert "`cobweb plan` shows" in ran.err
    assert not (site / ".cobweb").exists()


def test_a_damaged_generation_is_told(run: Run, grown: Path) -> None:
    with closing(sqlite3.connect(grown / ".cobweb/state.db")) as database, database:
        database.execute("UPDATE cobweb_generations SET content = x'00' WHERE id = 1")
    ran = run("-C", grown, "diff", "1")
    assert (ran.code, ran.out) == (1, "")
    assert "is damaged" in ran.err
    assert run("-C", grown, "diff", "2").code == 0


def test_long_differences_are_cut_short_for_people_alone(
    run: Run, site: Path, edit: Edit, apply: Callable[[], None]
) -> None:
    apply()
    keys = ", ".join(f"k{number}: {number}" for number in range(100))
    edit('{text: "port={{ port }}"}', f"{{{keys}}}")
    lines = run("-C", site, "diff").out.splitlines()
    assert lines[-1] == "    ... and 61 more lines (-o json has all)"
    assert len(lines) == 1 + 40 + 1
    (found,) = data_of(run("-C", site, "diff", "-o", "json"))["cobs"]
    assert len(found["diff"]) == 101
    edit("k0: 0", f"k0: {'x' * 5000}")
    assert max(map(len, run("-C", site, "diff").out.splitlines())) == 4 + 1000
    many = ", ".join(f"h{number}: {{}}" for number in range(600))
    edit("beta: {}", many)
    lines = run("-C", site, "diff").out.splitlines()
    assert len(lines) == 1001
    assert lines[-1].endswith("more lines (-o json has all)")


def test_colours_follow_the_signs(run: Run, grown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cobweb.cli._output._terminal_with_color", lambda: True)
    told = run("-C", grown, "diff").out
    assert "\x1b[31m- alpha/a (simple)\x1b[0m" in told
    assert "\x1b[33m    ~key: (secret changed)\x1b[0m" in told
    assert "\x1b" not in run("-C", grown, "diff", "--no-color").out
