"""The key of a site changes with everything that the site is made from, and with nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

import cobweb
from cobweb.model import Host
from cobweb.site import _key, load_site
from cobweb.site.reading._files import unchanged

Maker = Any

FILES = {
    "site.yml": """
cobweb: 1
imports: [more.yml, "parts/*.yml"]
inventory: hosts
cobs:
  a: {type: simple, on: app, spec: {x: "{{ port }}"}}
types:
  simple:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: {role: web}, up -> down: , outdated -> up: , outdated -> down: }
    spec: {properties: {file: {type: string, x-cobweb: template}}}
""",
    "more.yml": "cobs: {b: {type: simple, on: app, spec: {file: t.j2}}}",
    "parts/one.yml": "cobs: {c: {type: simple, on: app}}",
    "hosts/hosts.yml": "app: {hosts: {app01: , app02: }}",
    "hosts/group_vars/app.yml": "port: 1",
    "host_vars/app01/own.yml": "x: 1",
    "t.j2": "{{ port }}",
    "tasks/check.yml": "- debug:",
    "roles/web/tasks/main.yml": "- debug:",
}


def key(root: Path, **options: Any) -> str | None:
    """Return the key of the whole site at `root`, all its files read."""
    site = load_site(root, **options)
    site.graph()
    assert site.findings_of_files() == ()
    assert unchanged(site._parts.files.notes)
    return site.content_key()


@pytest.fixture
def root(maker: Maker) -> Path:
    maker.site(FILES)
    return Path(maker.root)


def test_the_key_is_of_what_was_read(root: Path) -> None:
    before = key(root)
    assert before is not None
    (root / "README.md").write_text("not a part of it", encoding="utf-8")
    os.utime(root / "more.yml", (1, 1))
    assert key(root) == before


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_changed_file_changes_the_key(root: Path, name: str) -> None:
    before, site = key(root), load_site(root)
    site.graph()
    site.findings_of_files()
    with (root / name).open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    assert not unchanged(site._parts.files.notes)
    assert key(root) != before


@pytest.mark.parametrize(
    "name",
    [
        "parts/two.yml",
        "hosts/more.yml",
        "hosts/group_vars/all.yml",
        "group_vars/app.yml",
        "host_vars/app02.yml",
        "host_vars/app01/more.yml",
        "check.yml",
        "tasks/beside.j2",
        "roles/web/templates/web.j2",
    ],
)
def test_a_new_file_that_counts_changes_the_key(root: Path, name: str) -> None:
    before, site = key(root), load_site(root)
    site.graph()
    site.findings_of_files()
    (root / name).parent.mkdir(exist_ok=True)
    text = "{app: }" if name == "hosts/more.yml" else "- debug:" if "check" in name else "{}"
    (root / name).write_text(text, encoding="utf-8")
    assert not unchanged(site._parts.files.notes)
    assert key(root) != before


def test_a_role_that_is_gone_is_noticed(root: Path) -> None:
    site = load_site(root)
    site.findings_of_files()
    (root / "roles").rename(root / "gone")
    assert not unchanged(site._parts.files.notes)


def test_an_unreadable_file_is_a_change(root: Path) -> None:
    site = load_site(root)
    (root / "more.yml").unlink()
    assert not unchanged(site._parts.files.notes)


def test_plugins_the_home_and_the_place_count(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key(root)
    assert key(root, sections={"pool": {"type": "object"}}) != before
    foreign = load_site(root).types["simple"]
    (root / "site.yml").write_text(FILES["site.yml"].partition("types:")[0], encoding="utf-8")
    with_type = key(root, types={"simple": foreign})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert key(root, types={"simple": foreign}) != with_type


def test_the_machine_and_the_code_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(root)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "byteorder", "other")
        assert key(root) != before
    monkeypatch.setattr(_key, "code_of", lambda _path: ["one.py of another content"])
    assert key(root) != before


def test_the_compiled_code_beside_the_package_counts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cobweb, "__file__", str(tmp_path / "lib" / "cobweb" / "__init__.py"))
    (tmp_path / "lib" / "cobweb").mkdir(parents=True)
    before = key(root)
    (tmp_path / "lib" / "cobweb_engine__mypyc.so").write_bytes(b"compiled")
    assert key(root) != before


class Program:
    """An adapter whose hosts could be others the next time."""

    name: ClassVar[str] = "program"

    def reads(self, source: Path) -> bool:
        return source.suffix == ".sh"

    def hosts(self, source: Path) -> list[Host]:
        return [Host(name=source.stem, groups=("app",))]


def test_what_a_plugin_tells_has_no_key(root: Path) -> None:
    (root / "hosts" / "more.sh").write_text("", encoding="utf-8")
    (root / "site.yml").write_text(
        (root / "site.yml")
        .read_text(encoding="utf-8")
        .replace("inventory: hosts", "inventory: [hosts/hosts.yml, hosts/more.sh]"),
        encoding="utf-8",
    )
    assert key(root, adapters=[Program()]) is None


def test_the_source_of_what_plugins_add_counts(root: Path, tmp_path: Path) -> None:
    class Bulb:
        point: ClassVar[str] = "bulb"
        name: ClassVar[str] = "led"
        source: ClassVar[Path] = tmp_path / "led.yml"

    class Plain:
        point: ClassVar[str] = "bulb"
        name: ClassVar[str] = "plain"

    Bulb.source.write_text("lumen: 400", encoding="utf-8")
    before = key(root, extensions=[Bulb, Plain])
    assert key(root, extensions=[Bulb, Plain]) == before
    Bulb.source.write_text("lumen: 800", encoding="utf-8")
    assert key(root, extensions=[Bulb, Plain]) != before
