"""The page on service adapters: its files are those of the example package, its examples work."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cobweb.cli import main
from cobweb.model import Decided, Decision
from cobweb_plugins.pools._section import expand_pools
from cobweb_plugins.pools.kit import AdapterCase, adapter_checks
from tests.support.example_plugin import PACKAGE

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "write-a-service-adapter.md"
TEXT = PAGE.read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
YAML = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
SOURCE = PACKAGE / "src" / "cobweb_example"
FILES = [SOURCE / "_haproxy.py", *(it for it in (SOURCE / "haproxy").rglob("*.*") if it.is_file())]
SITE = """
cobweb: 1
name: shop
inventory: {all: {hosts: {balancer: {}, web1: {}}}}
"""


@pytest.mark.parametrize(
    "path", [it for it in FILES if it.suffix != ".pyc"], ids=lambda it: str(it.relative_to(SOURCE))
)
def test_the_files_of_the_page_are_those_of_the_package(path: Path) -> None:
    blocks = [re.sub(r"\A# [a-z/-]+[.]yml\n", "", it) for it in [*PYTHON, *YAML]]
    assert path.read_text(encoding="utf-8") in blocks


def test_the_table_of_checks_is_that_of_the_kit(example_plugin: Path) -> None:  # noqa: ARG001  # puts it on the path
    case = _run(next(it for it in PYTHON if "AdapterCase" in it))["CASE"]
    case = AdapterCase(
        adapter=case.adapter,
        type=case.type,
        settings=case.settings,
        executor=case,
        busy=case,
        hold=case,
    )
    checks = adapter_checks(case)
    assert [
        it for it in checks if f"\n| `{it}` | {it.claim[0].lower()}{it.claim[1:-1]} |" not in TEXT
    ] == []
    assert TEXT.count("| `") >= len(checks)
    for check in checks[:3]:
        check()


def test_a_site_has_the_adapter_without_a_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SOURCE / "haproxy", tmp_path / "haproxy")
    used, own = (it for it in YAML if it.startswith("pools:"))
    pools, arrow, types = own.partition("types:")
    section = used.replace("pools:\n", pools)
    (tmp_path / "site.yml").write_text(f"{SITE}{section}{arrow}{types}")
    assert main(["-C", str(tmp_path), "validate"]) == 0, capsys.readouterr()


def test_an_entry_goes_after_the_object_of_its_member() -> None:
    on_n1 = {"service": "b", "phase": "in", "since": 1, "was": ["a"]}
    cobs = _expanded({"n1": on_n1})
    assert {name: (it["on"], it["want"]) for name, it in cobs.items()} == {
        "pool-a-n1": ("n1", "down"),
        "pool-a-n1-entry": ("m1", "down"),
        "pool-b-n1": ("n1", "up"),
        "pool-b-n1-entry": ("m2", "up"),
    }
    goes = {"when": "* -> down", "cob": "pool-a-n1", "on": "n1", "state": "down"}
    comes = {"when": "* -> up", "cob": "pool-a-n1-entry", "on": "m1", "state": "down"}
    needs = {name: it["needs"] for name, it in cobs.items()}
    assert (needs.pop("pool-a-n1"), needs.pop("pool-a-n1-entry")) == ([], [goes])
    assert needs == {"pool-b-n1": [comes], "pool-b-n1-entry": [comes]}


def test_of_a_lost_member_its_entry_goes_alone() -> None:
    lost = {"service": None, "phase": "failed", "since": 1, "was": ["a"], "lost": True}
    cobs = _expanded({"n1": lost})
    assert {name: (it["want"], it["needs"]) for name, it in cobs.items()} == {
        "pool-a-n1-entry": ("down", [])
    }


def test_the_example_in_python_reads_what_its_master_lists() -> None:
    answer = _queue()().read(None, {"lines": ["n1 0", "n2 3"]})
    members = {"n1": {"idle": True, "jobs": 0}, "n2": {"idle": False, "jobs": 3}}
    assert answer == {"state": "running", "members": members}


def _queue() -> Any:
    return _run(next(it for it in PYTHON if "class Queue" in it))["Queue"]


def _run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__file__": str(PAGE)}
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page's own
    return names


def _expanded(decided: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the objects of two services of the page's adapter in Python."""
    at: Mapping[str, Any] = {
        "service_adapter": {"queue": _queue()},
        "pool_policy": {"priority": object},
    }
    context: Any = SimpleNamespace(
        site_dir=Path("/site"),
        read=lambda _name: None,
        extensions_at=at.__getitem__,
        decisions={
            key: Decision(
                section="pools", key=key, body=body, revision=1, author="x", reason="", time=1.0
            )
            for key, body in decided.items()
        },
    )
    services = {"a": {"adapter": "queue", "on": "m1"}, "b": {"adapter": "queue", "on": "m2"}}
    section = {"resources": {"n1": {}}, "services": services}
    cobs = expand_pools({"pools": section}, context).cobs
    return {name: it.value if isinstance(it, Decided) else it for name, it in cobs.items()}
