"""`cobweb show catalog`: what a site's catalog has, without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb.plugin import Plugins
from cobweb_plugins.cluster._show import shown_catalog

SITE = """\
cobweb: 1
inventory: {all: {hosts: {alpha: {}}}}
catalog:
  providers:
    lab: {type: nobody-knows, description: The lab, fields: {api_password: hunter2, region: x}}
    cloud: {type: nobody-knows}
  services:
    base: {description: All machines}
    web: {}
  templates:
    plain: {defaults: {services: [base], config: {a: 1}}}
    more: {extends: plain, defaults: {config: {b: 2}}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site with a catalog."""
    (tmp_path / "site.yml").write_text(SITE)
    return tmp_path


def test_the_whole_is_an_overview(run: Any, site: Path) -> None:
    ran = run("show", "catalog", "-C", site)
    assert ran.code == 0, ran.err
    lines = ["providers: lab, cloud", "services: base, web", "templates: plain, more"]
    assert ran.out.splitlines() == lines
    assert ran.err == "`cobweb show catalog templates` shows more\n"


def test_a_kind_is_a_table(run: Any, site: Path) -> None:
    ran = run("show", "catalog", "services", "-C", site)
    assert ran.out.splitlines() == ["NAME  DESCRIPTION", "base  All machines", "web"]
    assert ran.err == "catalog services: 2 entries\n"


def test_a_template_is_shown_with_what_it_is_based_on(run: Any, site: Path) -> None:
    ran = run("show", "catalog", "templates", "more", "-C", site)
    found = yaml.safe_load(ran.out)
    assert found["defaults"] == {"services": ["base"], "config": {"a": 1, "b": 2}}
    ran = run("show", "catalog", "templates", "more", "extends", "-C", site)
    assert ran.out == "plain\n"


def test_json_and_yaml_are_the_same_data(run: Any, site: Path, check_schema: Any) -> None:
    data = json.loads(run("show", "catalog", "services", "-C", site, "-o", "json").out)
    check_schema("show-section", data)
    assert data["path"] == ["services"]
    assert data["data"] == {"base": {"description": "All machines"}, "web": {}}
    ran = run("show", "catalog", "services", "-C", site, "-o", "yaml")
    assert yaml.safe_load(ran.out) == data


def test_secrets_are_not_shown(run: Any, site: Path) -> None:
    ran = run("show", "catalog", "providers", "lab", "-C", site)
    assert "hunter2" not in ran.out
    assert yaml.safe_load(ran.out)["fields"] == {"api_password": "(secret)", "region": "x"}


class Lab:
    """A provider that says which of its fields are secret."""

    fields: dict[str, Any] = {  # noqa: RUF012 - as a provider declares it
        "properties": {"key": {"x-cobweb": "secret"}, "api_password": {}}
    }


def test_a_provider_says_what_is_secret() -> None:
    fields = {"key": "k", "api_password": "none", "other": {"env": "KEY"}}
    catalog = {"providers": {"lab": {"type": "lab", "fields": fields}}}
    plugins = Plugins(providers={"lab": Lab()})  # type: ignore[dict-item]  # it says its fields
    shown = shown_catalog({"catalog": catalog}, plugins)
    assert shown["providers"]["lab"]["fields"] == {**fields, "key": "(secret)"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["servces"], "there is no 'servces' in catalog (did you mean services?)"),
        (["services", "x"], "there is no 'x' in catalog services (there is base, web)"),
        (["services", "web", "x"], "there is no 'x' in catalog services web"),
        (
            ["services", "base", "description", "x"],
            "there is no 'x' in catalog services base description (see `cobweb show catalog`)",
        ),
    ],
)
def test_a_word_that_is_not_there(run: Any, site: Path, words: list[str], message: str) -> None:
    ran = run("show", "catalog", *words, "-C", site)
    assert ran.code == 64
    assert message in ran.err


def test_a_section_that_the_site_has_not_is_empty(run: Any, site: Path) -> None:
    ran = run("show", "tenants", "-C", site)
    assert (ran.code, ran.out, ran.err) == (0, "", "tenants has nothing\n")


def test_a_host_of_this_name_comes_first(run: Any, site: Path) -> None:
    (site / "site.yml").write_text(SITE.replace("alpha: {}", "catalog: {}"))
    ran = run("show", "catalog", "-C", site)
    assert ran.out == "catalog (groups: ungrouped)\n"
    assert "note: catalog is a host or group" in ran.err


def test_a_wrong_catalog_is_a_finding_and_a_wrong_site_is_none(run: Any, site: Path) -> None:
    (site / "site.yml").write_text(SITE + "cobs: {x: {type: nothing}}\n")
    assert run("show", "catalog", "-C", site).code == 0
    (site / "site.yml").write_text(SITE.replace("extends: plain", "extends: plane"))
    ran = run("show", "catalog", "-C", site)
    assert ran.code == 3
    assert "site.yml:12:21: there is no template `plane` (did you mean `plain`?)" in ran.err


def test_a_catalog_without_clusters_is_checked_and_needs_no_host(run: Any, site: Path) -> None:
    text = SITE.replace("inventory: {all: {hosts: {alpha: {}}}}\n", "")
    (site / "site.yml").write_text(text)
    assert run("validate", "-C", site).code == 0
    (site / "site.yml").write_text(text.replace("extends: plain", "extends: plane"))
    ran = run("validate", "-C", site)
    assert ran.code == 3
    assert "there is no template `plane`" in ran.err


def test_words_are_for_sections(run: Any, site: Path) -> None:
    ran = run("show", "alpha", "beta", "-C", site)
    assert ran.code == 64
    assert "alpha is no section" in ran.err
