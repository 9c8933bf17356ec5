"""A broken plugin as a user meets it: others go on, `cobweb plugins` says why, strict ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cobweb.cli import main

Install = Callable[..., Path]
Capture = pytest.CaptureFixture[str]
SITE = """
cobweb: 1
name: small
inventory: {all: {hosts: {one: }}}
cobs:
  a: {type: TYPE, on: all, spec: {path: /tmp/a, content: x}}
"""


@pytest.fixture
def site(tmp_path: Path, install: Install) -> Path:
    """Return a site with a valid COB, beside which a broken plugin is installed."""
    install("broken", "raise ValueError('half written')")
    (tmp_path / "site.yml").write_text(SITE.replace("TYPE", "file"))
    return tmp_path


def test_other_commands_go_on(site: Path) -> None:
    assert main(["-C", str(site), "validate"]) == 0


def test_plugins_says_what_was_left_out_and_why(site: Path, capsys: Capture) -> None:
    assert main(["-C", str(site), "plugins", "-o", "json"]) == 0
    (failed,) = json.loads(capsys.readouterr().out)["failed"]
    assert failed["name"] == "broken"
    assert failed["distribution"] == "broken-dist"
    assert "ValueError: half written at " in failed["reason"]


@pytest.mark.parametrize("command", ["validate", "plugins", "simulate"])
def test_strict_ends_every_command(command: str, site: Path, capsys: Capture) -> None:
    assert main(["-C", str(site), "--strict-plugins", command]) == 1
    shown = capsys.readouterr().err
    assert "plugin broken: broken_module cannot be imported: ValueError: half written" in shown
    assert "Traceback" not in shown


def test_a_type_that_is_missing_for_it_is_explained(site: Path, capsys: Capture) -> None:
    (site / "site.yml").write_text(SITE.replace("TYPE", "gadget"))
    assert main(["-C", str(site), "validate"]) == 3
    shown = capsys.readouterr().err
    assert "unknown type `gadget`" in shown
    assert "plugin broken was left out, see `cobweb plugins`" in shown


def test_a_plugin_that_breaks_at_work_is_named(
    install: Install, tmp_path: Path, capsys: Capture
) -> None:
    source = """
        from cobweb.model import Tasks
        class E:
            name = "fragile"
            actions = frozenset({Tasks})
            def open(self, setting): pass
            def submit(self, job): raise RuntimeError("dropped it")
            def wait(self, timeout_s): return []
            def wake(self): pass
            def now(self): return 0.0
            def close(self, *, kill=False): pass
        @hookimpl
        def cobweb_register_executors(): return [E]
    """
    install("fragile", source)
    (tmp_path / "site.yml").write_text(SITE.replace("TYPE", "file"))
    code = main(["-C", str(tmp_path), "apply", "--yes", "--executor", "fragile"])
    shown = capsys.readouterr().err
    assert code == 1
    assert "plugin fragile: executor fragile: submit() raised RuntimeError: dropped it" in shown
    assert "Traceback" not in shown
