"""`cobweb show` and `cobweb explain` tell what the site comes to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
VAULT = """\
!vault |
        $ANSIBLE_VAULT;1.1;AES256
        6162636465
"""


@pytest.fixture
def secret_site(make_site: Callable[[str], Path], site_text: str) -> Path:
    """Make a site with a vaulted value in a spec."""
    return make_site(site_text.replace('{text: "port={{ port }}"}', f"\n      text: {VAULT}"))


def test_hosts_and_their_objects_are_shown(run: Run, site: Path) -> None:
    ran = run("-C", site, "show")
    assert ran.code == 0
    assert ran.out.splitlines()[:1] == ["alpha (groups: back)"]
    assert "  cfg: simple (outdated, down, up; preferred up)\n    text: port=8080\n" in ran.out
    assert "    needs * -> up: alpha/a up\n" in ran.out
    assert ran.err == "2 hosts, 3 COBs\n"


def test_json_and_yaml_are_the_same_data(run: Run, site: Path, check_schema: CheckSchema) -> None:
    data = json.loads(run("-C", site, "show", "-o", "json").out)
    check_schema("show", data)
    assert yaml.safe_load(run("-C", site, "-o", "yaml", "show").out) == data
    assert [host["name"] for host in data["hosts"]] == ["alpha", "beta"]
    assert data["hosts"][0]["cobs"][1]["spec"] == {"text": "port=8080"}


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("beta", ["beta/b"]),
        ("back", ["alpha/a", "alpha/cfg"]),
        ("all:!beta", ["alpha/a", "alpha/cfg"]),
        ("alpha/cfg", ["alpha/cfg"]),
        ("all/?", ["alpha/a", "beta/b"]),
    ],
)
def test_a_pattern_selects(run: Run, site: Path, pattern: str, ids: list[str]) -> None:
    data = json.loads(run("-C", site, "show", pattern, "-o", "json").out)
    assert [cob["id"] for host in data["hosts"] for cob in host["cobs"]] == ids


@pytest.mark.parametrize("pattern", ["gamma", "alpha/none"])
def test_a_pattern_that_fits_nothing_is_an_error(run: Run, site: Path, pattern: str) -> None:
    ran = run("-C", site, "show", pattern)
    assert ran.code in {3, 64}
    assert pattern.rpartition("/")[2] in ran.err


def test_variables_are_shown_where_asked_for(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    assert "port = 8080" in run("-C", site, "show", "--vars").out
    data = json.loads(run("-C", site, "show", "--vars", "-o", "json").out)
    check_schema("show", data)
    assert data["hosts"][0]["variables"]["port"] == 8080


def test_secrets_are_never_shown(run: Run, secret_site: Path) -> None:
    for arguments in (["show"], ["show", "-o", "json"], ["explain", "alpha/cfg.spec.text"]):
        ran = run("-C", secret_site, *arguments)
        assert ran.code == 0, ran.err
        assert "(vaulted)" in ran.out
        assert "6162636465" not in ran.out + ran.err


def test_a_value_is_explained(run: Run, site: Path, check_schema: CheckSchema) -> None:
    ran = run("-C", site, "explain", "alpha/cfg.spec.text")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "alpha/cfg.spec.text = port=8080"
    assert lines[1] == "  from site.yml:23:18"
    assert lines[2] == "  made from port={{ port }}"
    assert lines[3].startswith("  with port = 8080 (site.yml:6:")
    data = json.loads(run("-C", site, "explain", "alpha/cfg.spec.text", "-o", "json").out)
    check_schema("explain", data)
    assert data["place"]["line"] == 23


def test_a_weaker_value_that_was_overridden_is_named(
    run: Run, make_site: Callable[[str], Path], site_text: str, check_schema: CheckSchema
) -> None:
    folder = make_site(f"imports: [more.yml]\n{site_text}".replace('text: "', 'text: !force "'))
    more = "cobs:\n  cfg:\n    spec: {text: weak}\n"
    (folder / "more.yml").write_text(more, encoding="utf-8")
    data = json.loads(run("-C", folder, "explain", "alpha/cfg.spec.text", "-o", "json").out)
    check_schema("explain", data)
    assert data["priority"] == "force"
    assert data["overrode"] == [{"file": "more.yml", "line": 3, "column": 18}]
    assert "overrode more.yml:3:18" in run("-C", folder, "explain", "alpha/cfg.spec.text").out


def test_objects_and_variables_are_explained(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    for reference in ("alpha/cfg", "alpha.port"):
        check_schema("explain", json.loads(run("-C", site, "explain", reference, "-o", "json").out))
    assert run("-C", site, "explain", "alpha.port").out.startswith("alpha.port = 8080\n")


@pytest.mark.parametrize(
    "reference", ["gamma/a", "alpha/cgf", "alpha/cfg.spec.txet", "alpha.prot", "nothing"]
)
def test_a_wrong_reference_is_wrong_usage(run: Run, site: Path, reference: str) -> None:
    ran = run("-C", site, "explain", reference)
    assert ran.code == 64
    assert reference in ran.err
    assert "(" in ran.err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\\n", "text: one"),
        ("one\\ntwo\\n", "text: one ... (8 characters; -o json has all)"),
        ("x" * 300, f"text: {'x' * 200} ... (300 characters; -o json has all)"),
    ],
)
def test_a_long_value_is_cut_short_in_text(
    run: Run, make_site: Callable[[str], Path], site_text: str, text: str, line: str
) -> None:
    folder = make_site(site_text.replace("port={{ port }}", text))
    assert f"    {line}\n" in run("-C", folder, "show", "alpha/cfg").out
