"""The border: what is asked for wrongly, what fails, and what each ends with."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

import cobweb
from cobweb.cli import main
from cobweb.cli._group import COMMANDS, PLUGGED
from cobweb.errors import (
    CobwebError,
    Finding,
    LockedError,
    Place,
    PlanError,
    PluginError,
    SiteError,
    StoreError,
    UsageError,
)
from cobweb.plugin import Kind, Plugins, load_plugins

Run = Callable[..., Any]


def _python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make `cobweb schema` raise an error."""

    def fail(error: BaseException) -> None:
        def raising(*_arguments: Any, **_options: Any) -> None:
            raise error

        monkeypatch.setattr("cobweb.cli.schema.schema_files", raising)

    return fail


# --- help


def test_help_has_one_line_per_command_and_an_example(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    for name, text in COMMANDS.items():
        assert f"  {name}" in ran.out
        assert text in " ".join(ran.out.split())
    assert "Examples:" in ran.out


def test_help_fits_80_columns(run: Run) -> None:
    assert max(len(line) for line in run("--help").out.splitlines()) <= 80


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - PLUGGED))
def test_the_table_says_what_the_command_says(name: str) -> None:
    command = import_module(f"cobweb.cli.{name}").command
    assert command.name == name
    assert command.get_short_help_str(limit=200) == COMMANDS[name]


@pytest.mark.parametrize("name", sorted(PLUGGED))
def test_the_table_says_what_the_command_of_a_built_in_plugin_says(name: str) -> None:
    command = load_plugins(strict=True).commands[name]
    assert command.name == name
    assert command.get_short_help_str(limit=200) == COMMANDS[name]


def test_no_other_command_is_one_of_a_built_in_plugin() -> None:
    loaded = load_plugins().loaded
    ours = [it for it in loaded if it.module.startswith("cobweb_plugins.")]
    assert {name for it in ours for name in it.registered.get(Kind.COMMANDS, ())} == PLUGGED


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"cluster", "import"}))
def test_help_of_each_command_has_an_example(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert ran.code == 0
    assert f"\n    cobweb {name}" in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= 80


def test_version_is_that_of_the_package(run: Run) -> None:
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"cobweb {cobweb.__version__}\n")


# --- wrong usage


def test_no_argument_shows_the_help_as_wrong_usage(run: Run) -> None:
    ran = run()
    assert ran.code == 64
    assert "Usage: cobweb" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["valdate"], "there is no command 'valdate' (did you mean validate?)"),
        (["zzz"], "there is no command 'zzz'"),
        (["--nope"], "No such option"),
        (["validate", "--nope"], "No such option"),
        (["validate", "surplus"], "unexpected extra argument"),
        (["validate", "-o", "xml"], "'xml' is not one of"),
        (["explain"], "Missing argument 'REF'"),
        (["graph", "--limit"], "requires an argument"),
        (["lock"], "Usage: cobweb lock"),
        (["lock", "hold"], "Missing option '--for'"),
        (["lock", "hold", "--for", "soon"], "'soon' is no duration"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
        (["schema", "sit"], "there is no schema 'sit'"),
    ],
)
def test_wrong_usage_is_64_and_says_what_is_wrong(
    run: Run, arguments: list[str], words: str
) -> None:
    ran = run(*arguments)
    assert ran.code == 64
    assert words in ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_arguments_cannot_write_escape_sequences(run: Run) -> None:
    for arguments in (["\x1b[2J"], ["schema", "\x1b[2J"], ["--\x1b[2J"]):
        assert "\x1b" not in run(*arguments).err


# --- errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CobwebError("broken", hint="mend it"), 1),
        (StoreError("broken", hint="mend it"), 1),
        (PlanError("broken", hint="mend it"), 1),
        (PluginError("p", "broken", hint="mend it"), 1),
        (LockedError("broken", hint="mend it"), 5),
        (UsageError("broken", hint="mend it"), 64),
    ],
)
def test_an_error_is_one_line_with_its_hint_and_exit_code(
    run: Run, failing: Callable[[BaseException], None], error: CobwebError, code: int
) -> None:
    failing(error)
    ran = run("schema")
    assert ran.code == code
    assert ran.err.startswith("cobweb: ")
    assert "broken" in ran.err
    assert ran.err.endswith("(mend it)\n")
    assert ran.err.count("\n") == 1


def test_findings_are_printed_one_per_line_with_a_count(
    run: Run, failing: Callable[[BaseException], None]
) -> None:
    place = Place(file="site.yml", line=3, column=5)
    finding = Finding(place=place, message="unknown key 'nme'", hint="did you mean name?")
    other = Finding(place=Place(file="hosts.yml"), message="is empty")
    failing(SiteError([finding, other]))
    ran = run("schema")
    assert ran.code == 3
    assert ran.err.splitlines() == [
        "site.yml:3:5: unknown key 'nme' (did you mean name?)",
        "hosts.yml: is empty",
        "2 findings",
    ]


def test_notes_of_an_error_are_told(run: Run, failing: Callable[[BaseException], None]) -> None:
    error = CobwebError("broken")
    error.add_note("see there")
    failing(error)
    assert run("schema").err == "cobweb: broken\nnote: see there\n"


def test_an_interrupt_is_130(run: Run, failing: Callable[[BaseException], None]) -> None:
    failing(KeyboardInterrupt())
    ran = run("schema")
    assert (ran.code, ran.err) == (130, "interrupted\n")


def test_an_abort_of_a_question_is_130(run: Run, failing: Callable[[BaseException], None]) -> None:
    failing(click.Abort())
    assert run("schema").code == 130


def test_a_defect_shows_its_traceback(run: Run, failing: Callable[[BaseException], None]) -> None:
    failing(ZeroDivisionError("one / nothing"))
    ran = run("schema")
    assert ran.code == 1
    assert "Traceback" in ran.err
    assert "ZeroDivisionError: one / nothing" in ran.err
    assert "defect" in ran.err


# --- commands of plugins


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a plugin have a command of its own, and one that is called as a built-in is."""

    @click.command("greet")
    def greet() -> None:
        """Say hello."""
        click.echo("hello")

    @click.command("schema")
    def schema() -> None:
        """Take over."""
        click.echo("taken over")

    plugins = Plugins(commands={"greet": greet, "schema": schema})
    monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_options: plugins)
    monkeypatch.setattr("cobweb.cli._group._has_foreign_plugins", lambda: True)


@pytest.mark.usefixtures("foreign")
def test_a_plugin_adds_a_command(run: Run) -> None:
    ran = run("greet")
    assert (ran.code, ran.out) == (0, "hello\n")
    assert "Commands of plugins:\n  greet  Say hello." in run("--help").out
    assert "did you mean greet" in run("gret").err


@pytest.mark.usefixtures("foreign")
def test_a_plugin_cannot_take_a_built_in_name(run: Run) -> None:
    assert "taken over" not in run("schema").out
    assert "schema of a plugin is hidden" in run("plugins").err


# --- as a process


def test_the_module_and_the_program_are_the_same() -> None:
    ran = _python("-m", "cobweb", "--version")
    assert (ran.returncode, ran.stdout) == (0, f"cobweb {cobweb.__version__}\n")


def test_exit_codes_reach_the_shell() -> None:
    assert _python("-m", "cobweb", "nope").returncode == 64


def test_a_closed_pipe_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [sys.executable, "-m", "cobweb", "schema", "events"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a Linux device")
def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "cobweb", "schema", "events"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr == "cobweb: cannot write to standard output: No space left on device\n"


def test_a_narrow_encoding_does_not_break_output() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    script = (
        "from cobweb.cli import main\nimport cobweb.cli.schema as s\n"
        "s.schema_files = lambda: {}\ns.data_dir = None\n"
        "from cobweb.errors import CobwebError\n"
        "def fail(): raise CobwebError('größe')\ns.schema_files = fail\nmain(['schema'])\n"
    )
    ran = _python("-c", script, env=environment)
    assert ran.stderr == "cobweb: gr\\xf6\\xdfe\n"


@pytest.fixture
def collector() -> Iterator[None]:
    """Have Python collect as before in the end: a process of Cobweb's own does so rarely."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_main_reads_the_arguments_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cobweb", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("cobweb ")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash: apt-get install bash")
@pytest.mark.parametrize(("closing", "code"), [("2>&-", 64), (">&- 2>&-", 64)])
def test_closed_streams_are_silent_ones(closing: str, code: int) -> None:
    command = f"{sys.executable} -m cobweb nope {closing}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash: apt-get install bash")
def test_output_that_nothing_could_take_is_a_failure() -> None:
    command = f"{sys.executable} -m cobweb schema >&-"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    message = "cobweb: cannot write to standard output: it is closed\n"
    assert (ran.returncode, ran.stderr) == (1, message)


def test_a_folder_that_is_gone_is_an_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = run("validate")
    assert ran.code == 1
    assert "the current folder cannot be read" in ran.err
