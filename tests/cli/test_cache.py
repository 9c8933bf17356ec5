"""Commands keep a large site, unless they are told not to; what they say stays the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cobweb.site._evaluation import Evaluation

Run = Any


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that is kept in."""
    monkeypatch.delenv("COBWEB_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "cobweb"


@pytest.mark.parametrize("command", [["validate"], ["show"], ["graph", "-o", "json"], ["plan"]])
def test_the_second_time_nothing_is_evaluated(
    run: Run, site: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    first = run("-C", str(site), *command)
    assert {path.name.partition(".")[0] for path in folder.iterdir()} >= {"graph", "site"}

    def refuse(*_args: object) -> None:
        raise AssertionError("it was evaluated again")

    monkeypatch.setattr(Evaluation, "graph", refuse)
    second = run("-C", str(site), *command)
    assert (second.code, second.out, second.err) == (first.code, first.out, first.err)


@pytest.mark.parametrize("off", ["--no-cache", "COBWEB_NO_CACHE"])
def test_nothing_is_kept_where_it_is_not_wanted(
    run: Run, site: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    options = [off] if off.startswith("-") else []
    if not options:
        monkeypatch.setenv(off, "1")
    assert run("-C", str(site), "validate", *options).code == 0
    assert not folder.exists()


def test_a_site_that_another_command_has_kept_is_validated_with_the_same_words(
    run: Run, site: Path, folder: Path
) -> None:
    """Also of variables that no object uses, which only `validate` and runs read."""
    (site / "host_vars").mkdir(exist_ok=True)
    (site / "host_vars" / "idle.yml").write_text("is_on: yes\n")
    text = (site / "site.yml").read_text()
    more = text.replace("inventory:\n", "inventory:\n  idle: {hosts: {idle: {}}}\n")
    (site / "site.yml").write_text(more)
    first = run("-C", str(site), "--no-cache", "validate")
    assert "host_vars/idle.yml:1:8: `yes` here is read as true" in first.err
    assert run("-C", str(site), "show").code == 0
    assert {path.name.partition(".")[0] for path in folder.iterdir()} >= {"graph", "site"}
    for _ in range(2):
        again = run("-C", str(site), "validate")
        assert (again.code, again.out, again.err) == (first.code, first.out, first.err)
