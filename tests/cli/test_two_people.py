"""Two people, each with a checkout of the site, on one state database: the slower one is told."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgresql"])
def people(request: pytest.FixtureRequest, site: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Return the two checkouts."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/state.db"
    else:
        url = request.getfixturevalue("postgresql_url")()
    file = site / "site.yml"
    file.write_text(f"{file.read_text(encoding='utf-8')}state: '{url}'\n", encoding="utf-8")
    other = tmp_path / "other"
    shutil.copytree(site, other)
    return site, other


def set_port(checkout: Path, port: int) -> None:
    file = checkout / "site.yml"
    head, _, tail = file.read_text(encoding="utf-8").partition("port: ")
    text = f"{head}port: {port}{tail[tail.index('}') :]}"
    file.write_text(text, encoding="utf-8")


def apply(run: Run, checkout: Path, *arguments: str) -> Any:
    return run("-C", checkout, "apply", "--executor", "simulate", "--yes", *arguments)


@pytest.mark.gate("two processes and a database, the story of a stale plan")
def test_the_slower_one_is_refused_with_the_difference(
    run: Run, people: tuple[Path, Path], tmp_path: Path
) -> None:
    ours, theirs = people
    assert apply(run, ours).code == 0
    plans = [str(tmp_path / "ours.plan"), str(tmp_path / "theirs.plan")]
    for checkout, plan, port in zip(people, plans, (1111, 2222), strict=True):
        set_port(checkout, port)
        assert run("-C", checkout, "plan", "--out", plan).code == 0
    assert apply(run, ours, plans[0], "-m", "Port 1111").code == 0

    refused = apply(run, theirs, plans[1])
    assert refused.code == 1
    error, who, *objects = refused.err.splitlines()
    assert error.startswith("cobweb: the states have changed since the plan was made (make a new")
    assert who.startswith("note: run ")
    assert who.endswith(", generation 2 (Port 1111)")
    assert objects == ["note: alpha/cfg: to be changed then, up now"]

    assert run("-C", theirs, "plan", "--out", plans[1]).code == 0
    assert apply(run, theirs, plans[1]).code == 0


def test_a_plan_from_before_a_rollback_is_refused(
    run: Run, people: tuple[Path, Path], tmp_path: Path
) -> None:
    ours, theirs = people
    assert apply(run, ours).code == 0
    for checkout in people:
        set_port(checkout, 1111)
    assert apply(run, ours).code == 0
    plan = str(tmp_path / "theirs.plan")
    assert run("-C", theirs, "plan", "--out", plan).code == 0
    back = run("-C", ours, "rollback", "--executor", "simulate", "--yes")
    assert back.code == 0, back.err
    refused = apply(run, theirs, plan)
    assert refused.code == 1
    assert "the states have changed since the plan was made" in refused.err
    assert "rollback" in refused.err
    assert "note: alpha/cfg: up then, up with another content now" in refused.err
