"""`cobweb init` makes a site that is valid, runs as it is, and overwrites nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
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


def jobs_of(run: Run, folder: Path, ci: str) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Make a site with an example for CI; return its jobs, and the scripts of each."""
    assert run("init", "--ci", ci, folder).code == 0
    path = {"github": ".github/workflows/cobweb.yml", "gitlab": ".gitlab-ci.yml"}[ci]
    data = yaml.safe_load((folder / path).read_text(encoding="utf-8"))
    jobs = data["jobs"] if ci == "github" else {name: data[name] for name in JOBS}
    scripts = {name: list(_scripts(job)) for name, job in jobs.items()}
    return jobs, scripts


def _scripts(job: dict[str, Any]) -> Iterator[str]:
    yield from (step["run"] for step in job.get("steps", ()) if "run" in step)
    for it in (*job.get("script", ()), *job.get("after_script", ())):
        yield from [it] if isinstance(it, str) else it


@pytest.fixture
def made(run: Run, tmp_path: Path, ci: str) -> tuple[Path, dict[str, list[str]]]:
    """Make a site with an example for CI; return it, and the scripts of each job."""
    return tmp_path, jobs_of(run, tmp_path, ci)[1]


JOBS = ("validate", "plan", "apply", "drift")
CIS = pytest.mark.parametrize("ci", ["github", "gitlab"])


@CIS
def test_ci_validates_plans_applies_that_plan_and_finds_drift(
    run: Run, tmp_path: Path, ci: str
) -> None:
    jobs, scripts = jobs_of(run, tmp_path, ci)
    assert sorted(jobs) == sorted(JOBS)
    calls = {
        name: [line for it in scripts[name] for line in it.splitlines() if line[:7] == "cobweb "]
        for name in JOBS
    }
    assert calls["validate"] == ["cobweb validate"]
    assert calls["plan"] == ["cobweb plan --out plan.json"]
    assert calls["apply"][0] == "cobweb apply plan.json --wait 30m"
    assert "cobweb report -o html --out report.html" in calls["apply"]
    assert calls["drift"] == ["cobweb drift --wait 30m"]
    assert all(name == "validate" or "environment" in job for name, job in jobs.items())


@CIS
def test_somebody_agrees_to_the_plan_before_ci_applies_it(
    run: Run, tmp_path: Path, ci: str
) -> None:
    """The job that applies has an environment of its own, and takes the plan and no leave."""
    jobs, scripts = jobs_of(run, tmp_path, ci)
    assert jobs["apply"]["needs"] in ("plan", ["plan"])
    assert "--yes" not in str(scripts)
    places = [jobs[name]["environment"] for name in ("plan", "apply", "drift")]
    if ci == "github":
        assert places == ["plan", "production", "drift"]
    else:
        assert [it["name"] for it in places] == ["plan", "production", "drift"]
        assert jobs["apply"]["rules"][-1]["when"] == "manual"
        assert jobs["plan"]["artifacts"]["paths"] == ["plan.json"]


OWN = {"RUNNER_ENVIRONMENT": "self-hosted", "STATE_IS_KEPT": "yes"}


@CIS
@pytest.mark.parametrize(
    ("state", "environment", "code"),
    [
        ("", {}, 1),
        ("", OWN, 1),
        ("state: sqlite:///.cobweb/state.db", OWN, 1),
        ("state: sqlite:////var/lib/shop/state.db", {}, 1),
        ("state: sqlite:////var/lib/shop/state.db", OWN, 0),
        ("state: postgresql+psycopg://db/shop", {}, 0),
        ('state: "postgresql+psycopg://db/shop"', OWN, 0),
        ("# state: postgresql+psycopg://db/shop", {}, 1),
    ],
)
def test_ci_refuses_a_state_database_that_is_lost_with_the_job(
    made: tuple[Path, dict[str, list[str]]],
    state: str,
    environment: dict[str, str],
    code: int,
) -> None:
    site, scripts = made
    with (site / "site.yml").open("a", encoding="utf-8") as file:
        file.write(f"\n{state}\n")
    for job in ("plan", "drift"):
        script = next(it for it in scripts[job] if "lost with this job" in it)
        assert scripts[job].index(script) < len(scripts[job]) - 1
        ran = subprocess.run(
            ["bash", "-e", "-c", script],  # as CI calls it
            cwd=site,
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code
        assert ("Set state: postgresql+psycopg://" in ran.stdout + ran.stderr) == bool(code)


@CIS
def test_what_ci_installs_knows_postgresql(run: Run, tmp_path: Path, ci: str) -> None:
    jobs_of(run, tmp_path, ci)
    name = ".github/workflows/cobweb.yml" if ci == "github" else ".gitlab-ci.yml"
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert text.count("cobweb[ansible,postgresql]") == 2
    assert "cobweb[ansible]" not in text


def test_a_plan_of_one_checkout_is_applied_in_another(run: Run, tmp_path: Path) -> None:
    """As two jobs do it that share the state database alone."""
    first, second = tmp_path / "first", tmp_path / "second"
    run("init", first)
    with (first / "site.yml").open("a", encoding="utf-8") as file:
        file.write(f"\nstate: sqlite:///{tmp_path}/state.db\n")
    shutil.copytree(first, second)
    for said in ("done (", "nothing to do, all is as it should be"):
        assert run("-C", first, "plan", "--out", tmp_path / "plan.json").code == 0
        ran = run("-C", second, "apply", tmp_path / "plan.json", "--executor", "simulate")
        assert (ran.code, said in ran.err) == (0, True), ran.err
    ran = run("-C", second, "apply", tmp_path / "plan.json", "--executor", "simulate")
    assert ran.code == 0, "an empty plan may be applied again"


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


def test_the_example_of_metal_is_valid_and_its_image_is_what_it_says(
    run: Run, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    assert run("init", "--example", "metal", site).code == 0
    ran = run("-C", site, "validate")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("site is valid: 5 hosts, 6 COBs, ")
    metal = yaml.safe_load((site / "site.yml").read_text(encoding="utf-8"))["metal"]
    image = metal["images"]["web"]
    assert hashlib.sha256((site / image["file"]).read_bytes()).hexdigest() == image["sha256"]


def test_an_example_that_there_is_not_is_named_with_those_that_there_are(
    run: Run, tmp_path: Path
) -> None:
    ran = run("init", "--example", "clouds", tmp_path / "site")
    assert ran.code == 64
    assert "namespaces" in ran.err
