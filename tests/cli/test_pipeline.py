"""In a pipeline `apply` and `report` tell what went wrong the way that the pipeline shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

Run = Callable[..., Any]


@pytest.fixture
def failing(run: Run, site: Path) -> Path:
    """Write the events of a run that failed."""
    events = site.parent / "events.jsonl"
    assert run("-C", site, "simulate", "--fail", "alpha/a", "--events", events).code == 1
    return events


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)


def test_github_gets_annotations(run: Run, failing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "::error" not in run("report", "--events", failing).err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error title=" in run("report", "--events", failing).err
    assert "::error" not in run("report", "--events", failing, "--no-annotations").err
    told = run("report", "--events", failing, "-o", "json")
    assert "::error" not in told.out + told.err


def test_gitlab_gets_a_section(run: Run, failing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITLAB_CI", "true")
    lines = run("report", "--events", failing).err.splitlines()
    assert any("section_start:" in line for line in lines)
    assert "alpha/a: down -> up failed" in lines
    assert any("section_end:" in line for line in lines)


def test_apply_tells_the_pipeline_too(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (site / "simple" / "check.yml").write_text("- set_fact: {cob_state: up}\n", encoding="utf-8")
    told = run("-C", site, "apply", "--yes", "--executor", "simulate")
    assert told.code == 0
    assert "::" not in told.err


@pytest.mark.gate("what a pipeline sees of a real failure")
def test_apply_tells_the_pipeline_what_failed_after_its_result(
    run: Run, make_site: Callable[[str], Path], site_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = site_text.replace("{port: 8080}", "{port: 1, ansible_connection: local}")
    site = make_site(local.replace("beta: {}", "beta: {ansible_connection: local}"))
    (site / "simple" / "check.yml").write_text("- set_fact: {cob_state: down}\n", encoding="utf-8")
    (site / "simple" / "start.yml").write_text("- fail: {msg: no luck}\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    told = run("-C", site, "apply", "--yes")
    assert told.code == 1
    *_, result, first, second = told.err.splitlines()
    assert result.startswith("3 objects not settled")
    failed = "::error title=cobweb%3A alpha/cfg%3A down -> up failed::"
    assert first.startswith(failed)
    assert "no luck" in first
    assert second.startswith("::warning title=cobweb%3A 2 waiting%3A alpha/cfg failed in this run")
    assert "::" not in run("-C", site, "apply", "--yes", "--no-annotations").err


@pytest.mark.parametrize("form", ["junit", "github", "gitlab", "text", "yaml"])
def test_every_form_goes_into_a_file(run: Run, failing: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    assert run("report", "--events", failing, "-o", form, "--out", out).code == 0
    text = out.read_text(encoding="utf-8")
    assert "alpha/a" in text
    if form == "junit":
        assert ET.fromstring(text).tag == "testsuites"  # noqa: S314  # our own text
    if form == "gitlab":
        assert json.loads(text)[0]["severity"] == "critical"
