"""A change that nobody has agreed to, where nobody can be asked, is refused and leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

SIMULATED = ("--executor", "simulate")
REFUSED = "cobweb: nothing was done: nobody can be asked without a terminal (add --yes, or save"


def test_a_change_without_a_terminal_takes_a_yes(run: Run, site: Path) -> None:
    ran = run("-C", site, "apply", *SIMULATED)
    assert (ran.code, ran.out) == (64, "")
    assert ran.err.startswith(REFUSED)
    assert len(ran.err.splitlines()) == 1
    assert "not locked" in run("-C", site, "lock", "show").out
    assert "no generation yet" in run("-C", site, "generations").err
    assert run("-C", site, "apply", *SIMULATED, "--yes").code == 0


def test_a_check_that_may_find_something_is_a_change(run: Run, site: Path) -> None:
    assert run("-C", site, "apply", *SIMULATED, "--yes").code == 0
    assert run("-C", site, "apply", *SIMULATED, "--refresh", "all").code == 64


def test_what_has_nothing_to_do_needs_nobody(run: Run, site: Path) -> None:
    assert run("-C", site, "apply", *SIMULATED, "--yes").code == 0
    ran = run("-C", site, "apply", *SIMULATED)
    assert ran.code == 0
    assert "nothing to do" in ran.err


def test_a_saved_plan_is_an_agreement(run: Run, site: Path, tmp_path: Path) -> None:
    plan = tmp_path / "my.plan"
    assert run("-C", site, "plan", "--out", plan).code == 0
    assert run("-C", site, "apply", plan, *SIMULATED).code == 0


@pytest.mark.parametrize("arguments", [(), ("1",)], ids=["last", "first"])
def test_a_rollback_takes_a_yes(run: Run, site: Path, arguments: tuple[str, ...]) -> None:
    assert run("-C", site, "apply", *SIMULATED, "--yes").code == 0
    text = (site / "site.yml").read_text(encoding="utf-8")
    (site / "site.yml").write_text(text.replace("port=", "port "), encoding="utf-8")
    assert run("-C", site, "apply", *SIMULATED, "--yes").code == 0
    ran = run("-C", site, "rollback", *arguments, *SIMULATED)
    assert ran.code == 64
    assert ran.err.splitlines()[-1] == f"{REFUSED.partition(' (')[0]} (add --yes)"
    assert run("-C", site, "rollback", *arguments, *SIMULATED, "--yes").code == 0
