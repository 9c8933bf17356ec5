"""`cobweb init` makes a site that is valid, runs as it is, and overwrites nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb.cli.init import site_files
from cobweb.cli.schema import read_schema

Run = Callable[..., Any]


def test_the_new_site_is_valid(run: Run, tmp_path: Path) -> None:
    ran = run("init", tmp_path / "my-site")
    assert ran.code == 0
    assert "cobweb -C" in ran.err
    ran = run("-C", tmp_path / "my-site", "validate")
    assert (ran.code, ran.err) == (0, ran.err)
    assert ran.err.startswith("my-site is valid: 1 host, 3 COBs, ")


def test_the_new_site_names_its_schemas_and_has_them(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path)
    for name, schema in (("site.yml", "site"), ("hosts.yml", "inventory")):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith(f"# yaml-language-server: $schema=schemas/{schema}.schema.json\n")
        rules = (tmp_path / f"schemas/{schema}.schema.json").read_text(encoding="utf-8")
        assert json.loads(rules) == read_schema(schema)


def test_the_new_site_comes_up_in_a_simulation(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path)
    ran = run("-C", tmp_path, "simulate")
    assert ran.code == 0, ran.err


def test_the_file_changes_only_while_the_process_is_down(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path)
    data = json.loads(run("-C", tmp_path, "graph", "-o", "json").out)
    need = {"cob": "local/greeting", "from": "outdated", "to": "up"}
    assert {**need, "on": "local/reader", "state": "down"} in data["needs"]


@pytest.mark.parametrize(
    ("ci", "path"), [("github", ".github/workflows/cobweb.yml"), ("gitlab", ".gitlab-ci.yml")]
)
def test_the_ci_example_validates_plans_applies_and_finds_drift(
    run: Run, tmp_path: Path, ci: str, path: str
) -> None:
    assert run("init", "--ci", ci, tmp_path).code == 0
    text = (tmp_path / path).read_text(encoding="utf-8")
    yaml.safe_load(text)
    calls = ("validate", "plan --detailed-exitcode", "apply --yes", "report -o html --out", "drift")
    for call in calls:
        assert f"cobweb {call}" in text


def test_without_ci_there_is_no_example(run: Run, tmp_path: Path) -> None:
    run("init", "--ci", "none", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"site.yml", "hosts.yml", ".gitignore", "schemas"}


def test_the_state_database_is_not_for_git(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path)
    assert ".cobweb/" in (tmp_path / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("mine", encoding="utf-8")
    ran = run("init", tmp_path)
    assert ran.code == 64
    assert "hosts.yml" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yml"]
    assert (tmp_path / "hosts.yml").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_made_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ran = run("init", tmp_path / "file" / "site")
    assert ran.code == 1
    assert "cannot write" in ran.err


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("My Site", "my-site"),
        ("2024", "site-2024"),
        ("größe", "gr-e"),
        ("日本", "site"),
        ("x" * 99, "x" * 40),
        ("no: {yaml}", "no-yaml"),
    ],
)
def test_any_folder_gives_a_harmless_name(tmp_path: Path, folder: str, name: str) -> None:
    assert yaml.safe_load(site_files(tmp_path / folder, "none")["site.yml"])["name"] == name


def test_two_sites_do_not_share_a_folder_on_the_host(tmp_path: Path) -> None:
    texts = {site_files(tmp_path, "none")["hosts.yml"] for _ in range(3)}
    assert len(texts) == 3


def test_the_example_of_clusters_is_valid_and_has_all_that_it_names(
    run: Run, tmp_path: Path
) -> None:
    assert run("init", "--example", "namespaces", tmp_path / "site").code == 0
    ran = run("-C", tmp_path / "site", "validate")
    assert ran.code == 0, ran.err
    ran = run(
        "-C",
        tmp_path / "site",
        "cluster",
        "solve",
        "--template",
        "lamp",
        "--nodes",
        "3",
        "-o",
        "json",
    )
    assert ran.code == 0, ran.err
    web, database = json.loads(ran.out)["layout"]
    assert web["services"] == ["apache-httpd", "base", "perl", "site"]
    assert (web["count"], database["count"]) == (2, 1)


def test_an_example_that_there_is_not_is_named_with_those_that_there_are(
    run: Run, tmp_path: Path
) -> None:
    ran = run("init", "--example", "clouds", tmp_path / "site")
    assert ran.code == 64
    assert "namespaces" in ran.err
