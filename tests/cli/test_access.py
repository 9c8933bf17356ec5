"""What a command of a plugin gets of the command line: the site, shared options, the output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest

from cobweb.errors import ModelError
from cobweb.plugin import Plugins, SiteAccess, load_plugins, on_site, site_access

Run = Callable[..., Any]
SITE = """\
cobweb: 1
inventory: {all: {hosts: {alpha: {}}}}
imports: [more.yml]
types:
  simple:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: {tasks: up.yml}, up -> down: {tasks: down.yml}}
cobs:
  a: {type: simple, on: alpha}
"""
MORE = """\
racks:
  left: {height: 42}
"""


class Racks:
    """A section of a plugin."""

    name: ClassVar[str] = "racks"
    schema: ClassVar[Mapping[str, Any]] = {
        "additionalProperties": {"properties": {"height": {"type": "integer"}}}
    }


Act = Callable[[SiteAccess], object]
REAL = load_plugins()


@pytest.fixture
def call(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Act, Sequence[str]], Any]:
    """Run `cobweb racks list WORDS` of a plugin, which does what a test says with its site."""
    (tmp_path / "site.yml").write_text(SITE)
    (tmp_path / "more.yml").write_text(MORE)
    for task in ("check", "up", "down"):
        (tmp_path / f"{task}.yml").write_text("- ansible.builtin.debug:\n")

    def run_it(act: Act, words: Sequence[str] = ()) -> Any:
        @click.group("racks")
        def racks() -> None:
            """Do racks."""

        @racks.command("list")
        @click.pass_context
        def _list(context: click.Context) -> Any:
            """List them."""
            return act(site_access(context))

        plugins = replace(REAL, commands={"racks": on_site(racks)}, sections={"racks": Racks})
        monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_options: plugins)
        monkeypatch.setattr("cobweb.cli._group._has_foreign_plugins", lambda: True)
        return run("racks", "list", "-C", tmp_path, *words)

    return run_it


def test_it_has_the_sections_where_they_are_written(call: Any, tmp_path: Path) -> None:
    seen: list[Any] = []
    assert call(lambda site: seen.append((site.dir, site.sections()))).code == 0
    assert seen == [(tmp_path, {"racks": {"left": {"height": 42}}})]


def test_a_section_that_does_not_fit_is_a_finding(call: Any, tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("racks: {left: {height: tall}}\n")
    ran = call(lambda site: site.sections())
    assert ran.code == 3
    assert "more.yml:1:24: section `racks`: `left.height` must be a whole number" in ran.err


def test_its_problems_get_their_places(call: Any) -> None:
    def refuse(site: SiteAccess) -> None:
        problem = (("racks", "left", "height"), "the ceiling is too low", "saw it off")
        raise site.placed(ModelError([problem]))

    ran = call(refuse)
    assert ran.code == 3
    assert "more.yml:2:18: the ceiling is too low (saw it off)" in ran.err


def test_what_is_not_in_the_site_was_asked_for_on_the_command_line(call: Any) -> None:
    def refuse(site: SiteAccess) -> None:
        raise site.placed(ModelError([(("racks", "right"), "there is no room", "")]))

    assert "command line: there is no room" in call(refuse).err


def test_it_reads_what_it_has_edited(call: Any, tmp_path: Path) -> None:
    seen: list[Any] = []

    def edit(site: SiteAccess) -> None:
        site.sections()
        (tmp_path / "more.yml").write_text("racks: {right: {}}\n")
        seen.extend([list(site.sections()["racks"]), site.read("more.yml"), site.read("none")])

    call(edit)
    assert seen == [["right"], "racks: {right: {}}\n", None]


def test_it_has_the_graph_and_the_journal(call: Any) -> None:
    seen: list[Any] = []

    def look(site: SiteAccess) -> None:
        seen.append(list(site.graph().cobs))
        seen.append(site.states())
        site.run("apply", "--executor", "simulate", "--yes")
        seen.append(site.states())

    ran = call(look)
    assert ran.code == 0, ran.err
    assert seen == [["alpha/a"], {}, {"alpha/a": "up"}]


def test_a_command_that_it_calls_gives_its_exit_code(call: Any) -> None:
    assert call(lambda site: site.run("plan", "--detailed-exitcode")).code == 2
    assert call(lambda site: site.run("nothing")).code == 64


def test_it_writes_as_other_commands_do(call: Any) -> None:
    def tell(site: SiteAccess) -> None:
        if not site.data({"format": 1, "racks": ["left"]}):
            site.line("racks \x1b[31m")
            site.table(("RACK", "HEIGHT"), [("left", "42")])
            site.summary("1 rack")

    ran = call(tell, ["-o", "json"])
    assert json.loads(ran.out) == {"format": 1, "racks": ["left"]}
    ran = call(tell)
    assert ran.out.splitlines() == ["racks \\x1b[31m", "RACK  HEIGHT", "left  42"]
    assert ran.err == "1 rack\n"


def test_only_a_marked_command_has_the_shared_options(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = click.Command("plain", help="Be plain.")
    marked = on_site(click.Command("marked", help="Be marked."))
    plugins = Plugins(commands={"plain": plain, "marked": marked})
    monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_options: plugins)
    monkeypatch.setattr("cobweb.cli._group._has_foreign_plugins", lambda: True)
    assert "--site" not in run("plain", "--help").out
    for _ in range(2):
        assert run("marked", "--help").out.count("-C, --site") == 1


def test_elsewhere_there_is_no_site() -> None:
    with pytest.raises(RuntimeError, match="only a command that `cobweb` calls"):
        site_access(click.Context(click.Command("alone")))


def test_the_example_of_the_page_works(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "plugins" / "index.md"
    blocks = page.read_text(encoding="utf-8").split("```python\n")[1:]
    code = next(it.partition("```")[0] for it in blocks if "on_site(racks)" in it)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - it is our own page
    commands = {it.name: it for it in names["cobweb_register_commands"]()}
    sections = {it.name: it for it in names["cobweb_register_sections"]()}
    plugins = replace(REAL, commands=commands, sections=sections)
    monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_options: plugins)
    monkeypatch.setattr("cobweb.cli._group._has_foreign_plugins", lambda: True)
    (tmp_path / "site.yml").write_text("cobweb: 1\nracks: {left: {height: 42}}\n")
    assert run("racks", "-C", tmp_path).out.splitlines() == ["RACK  HEIGHT", "left  42"]
    data = json.loads(run("racks", "-C", tmp_path, "-o", "json").out)
    assert data == {"format": 1, "racks": {"left": {"height": 42}}}


def test_a_document_may_be_of_no_site(call: Any, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"high": {"type": "integer"}}}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "own.yml").write_text("high: 3\n")
    (tmp_path / "site.yml").unlink()
    seen: list[Any] = []
    call(lambda site: seen.append(site.document(elsewhere / "own.yml", schema).data))
    assert seen == [{"high": 3}]
    (elsewhere / "own.yml").write_text("high: tall\n")
    ran = call(lambda site: site.document(elsewhere / "own.yml", schema, "the rack"))
    assert (ran.code, "own.yml:1:7: `high` must be a whole number" in ran.err) == (3, True)
