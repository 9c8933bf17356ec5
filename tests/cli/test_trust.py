"""What runs of a site's repository: programs for what plans or moves, nothing for what looks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.shell_completion import ShellComplete

from cobweb.cli._group import cobweb

Run = Callable[..., Any]
REFUSED = "may run programs, which this command lets no inventory do"
SITE = """\
cobweb: 1
inventory: inventory.sh
types:
  simple:
    states: [up, down]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: }
cobs: {a: {type: simple, on: h}}
"""
PROGRAM = """\
#!/bin/sh
echo ran >> ran
echo '{"all": {"hosts": ["h"]}, "_meta": {"hostvars": {}}}'
"""
LOOKING = (
    ("validate",),
    ("show",),
    ("show", "h/a"),
    ("graph",),
    ("explain", "h/a"),
    ("simulate",),
    ("simulate", "--from-journal"),
    ("status",),
    ("forget", "h/b", "--yes"),
)
"""Commands that need the evaluated site, and run no task of it."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a site whose inventory is a program that leaves a mark."""
    for name, text in (("site.yml", SITE), ("inventory.sh", PROGRAM), ("check.yml", "- debug:\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "inventory.sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_command_that_looks_runs_no_program_of_the_inventory(
    run: Run, site: Path, words: tuple[str, ...]
) -> None:
    ran = run(*words)
    assert ran.code == 3, ran
    assert (
        f"site.yml:2:12: inventory adapter ansible-inventory: `inventory.sh` {REFUSED}" in ran.err
    )
    assert "`--trust-inventory`" in ran.err
    assert not (site / "ran").exists()


@pytest.mark.parametrize("source", ["hosts.ini", "cloud.yml"])
def test_a_source_that_may_start_a_program_is_one(run: Run, site: Path, source: str) -> None:
    """`ansible.cfg` beside an INI file may name plugins, and a YAML file may be for a plugin."""
    (site / source).write_text("plugin: constructed\n", encoding="utf-8")
    (site / "site.yml").write_text(SITE.replace("inventory.sh", source), encoding="utf-8")
    ran = run("validate")
    assert ran.code == 3
    assert REFUSED in ran.err


@pytest.mark.parametrize(
    "words", [("validate", "--trust-inventory"), ("--trust-inventory", "show"), ("plan",)]
)
def test_a_program_runs_where_it_is_trusted_and_for_a_plan(
    run: Run, site: Path, words: tuple[str, ...]
) -> None:
    ran = run(*words)
    assert ran.code == 0, ran
    assert (site / "ran").exists()


def test_completion_runs_no_program(site: Path) -> None:
    completion = ShellComplete(cobweb, {}, "cobweb", "_COBWEB_COMPLETE")
    assert completion.get_completions(["status", "--limit"], "") == []
    assert not (site / "ran").exists()
    (site / "site.yml").write_text(
        SITE.replace("inventory.sh", "{all: {hosts: {h: }}}"), encoding="utf-8"
    )
    found = completion.get_completions(["status", "--limit"], "")
    assert [item.value for item in found] == ["h"]


def test_files_elsewhere_are_for_the_user_to_allow(run: Run, site: Path) -> None:
    outside = site.parent / f"{site.name}.yml"
    outside.write_text("all: {hosts: {h: }}\n", encoding="utf-8")
    (site / "site.yml").write_text(
        SITE.replace("inventory.sh", f"../{outside.name}"), encoding="utf-8"
    )
    for words in (("validate",), ("plan",), ("runs",), ("status",)):
        refused = run(*words)
        allowed = run(*words, "--allow-outside")
        if words != ("runs",):  # which does not read the inventory
            assert (refused.code, allowed.code) == (3, 0), (refused, allowed)
            assert "outside of the site's repository" in refused.err
    system = SITE.replace("inventory.sh", "/proc/self/environ")
    (site / "site.yml").write_text(system, encoding="utf-8")
    ran = run("validate", "--allow-outside")
    assert ran.code == 3
    assert "is of the running system" in ran.err


def test_what_looks_runs_no_filter_of_the_repository(run: Run, site: Path) -> None:
    (site / "site.yml").write_text(
        SITE.replace("inventory.sh", "{all: {hosts: {h: }}}"), encoding="utf-8"
    )
    (site / ".gitattributes").write_text("* filter=mark\n", encoding="utf-8")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    steps: list[tuple[str, ...]] = [("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "a")]
    for words in steps:
        subprocess.run(["git", *words], check=True, cwd=site)
    for key in ("filter.mark.clean", "filter.mark.smudge", "core.fsmonitor"):
        mark = f"touch {site}/ran; cat"
        subprocess.run(["git", "config", key, mark], check=True, cwd=site)
    (site / "site.yml").touch()
    subprocess.run(["git", "update-index", "--force-remove", "check.yml"], check=True, cwd=site)
    (site / "ran").unlink(missing_ok=True)
    for words in LOOKING[:6]:
        run(*words)
    assert not (site / "ran").exists()


# --- the workflows of `cobweb init`


def jobs_of(run: Run, folder: Path, ci: str) -> tuple[dict[str, Any], str]:
    run("init", "--ci", ci, folder)
    path = ".github/workflows/cobweb.yml" if ci == "github" else ".gitlab-ci.yml"
    text = (folder / path).read_text(encoding="utf-8")
    return yaml.safe_load(text), text


def test_the_github_workflow_may_read_and_is_pinned(run: Run, tmp_path: Path) -> None:
    flow, text = jobs_of(run, tmp_path / "s", "github")
    assert flow["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (\S+)", text)
    assert len(used) == 11
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", each) for each in used)
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")


def test_a_pull_request_is_validated_and_no_more(run: Run, tmp_path: Path) -> None:
    flow, _ = jobs_of(run, tmp_path / "s", "github")
    on_request = [job for job in flow["jobs"].values() if "if" not in job]
    (steps,) = [job["steps"] for job in on_request]
    assert [it["run"] for it in steps if "cobweb " in it.get("run", "")] == ["cobweb validate"]
    assert "environment" not in on_request[0]
    rest = {
        name: (job["if"], job["environment"]) for name, job in flow["jobs"].items() if "if" in job
    }
    assert rest == {
        "plan": ("github.event_name == 'push'", "plan"),
        "apply": ("github.event_name == 'push'", "production"),
        "drift": ("github.event_name == 'schedule'", "drift"),
    }


def test_a_merge_request_is_validated_and_no_more(run: Run, tmp_path: Path) -> None:
    flow, _ = jobs_of(run, tmp_path / "s", "gitlab")
    jobs = {name: it for name, it in flow.items() if isinstance(it, dict) and "script" in it}
    rules = {name: [rule["if"] for rule in it["rules"]] for name, it in jobs.items()}
    assert [name for name, it in rules.items() if any("merge_request" in each for each in it)] == [
        "validate"
    ]
    assert jobs["validate"]["script"] == ["cobweb validate"]
    assert all(it for it in rules.values())


def installs(data: Any) -> Iterator[str]:
    """Yield the lines of a workflow that install."""
    if isinstance(data, str):
        yield from [data] if "pip install" in data else []
    elif isinstance(data, dict | list):
        for each in data.values() if isinstance(data, dict) else data:
            yield from installs(each)


@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_nothing_is_installed_until_the_user_says_from_where(
    run: Run, tmp_path: Path, ci: str
) -> None:
    flow, text = jobs_of(run, tmp_path / "s", ci)
    variables = flow["env" if ci == "github" else "variables"]
    assert variables["COBWEB_SOURCE"] == ""
    assert set(variables.values()) == {""}
    lines = list(installs(flow))
    assert lines
    for line in lines:
        told = subprocess.run(
            ["sh", "-c", f'pip() {{ echo "installed $2"; }}; {line}'],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode != 0
        assert "COBWEB_SOURCE: is not set, see the top of" in told.stderr
        assert not told.stdout
    assert not re.search(r"pip install '?cobweb", text)
