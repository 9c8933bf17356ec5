"""The order of the hosts in a group is one: in specs, patterns, tasks, and for Ansible itself."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Job
from cobweb.site import Site, load_site
from cobweb_plugins.ansible._adapter import AnsibleInventory
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._workspace import ansible_tool
from tests.plugins.ansible.conftest import LOCAL, PLAIN, MakeBench
from tests.support.loaded_ansible import loaded_ansible

pytestmark = [pytest.mark.gate("Ansible itself reads each inventory")]

Groups = Mapping[str, Mapping[str, list[str]]]
HOSTS = ["ha", "hb", "hc", "hd", "he"]
NAMES = ["db", "app", "mon"]


def permuted(seed: int) -> Groups:
    """Return groups whose hosts are in any order: own ones, below one, none at all."""
    chance = random.Random(seed)
    groups = {name: {"hosts": chance.sample(HOSTS, 3)} for name in chance.sample(NAMES, 3)}
    groups["top"] = {"hosts": chance.sample(HOSTS, 1), "children": chance.sample(NAMES, 2)}
    groups["empty"] = {"hosts": []}
    names = chance.sample(sorted(groups), len(groups))
    return {name: groups[name] for name in names}


def as_yaml(folder: Path, groups: Groups) -> str:
    data = {
        name: {key: dict.fromkeys(names) for key, names in body.items()}
        for name, body in groups.items()
    }
    (folder / "hosts.yml").write_text(json.dumps(data))
    return "hosts.yml"


def as_ini(folder: Path, groups: Groups) -> str:
    lines = []
    for name, body in groups.items():
        lines += [f"[{name}]", *body["hosts"]]
        lines += [f"[{name}:children]", *body["children"]] if "children" in body else []
    (folder / "hosts.ini").write_text("\n".join(lines))
    return "hosts.ini"


def as_script(folder: Path, groups: Groups) -> str:
    order = [host for body in groups.values() for host in body["hosts"]]
    data = {"all": {"hosts": order[::-1]}, **groups, "_meta": {"hostvars": {}}}
    path = folder / "hosts.py"
    path.write_text(f"#!{sys.executable}\nprint({json.dumps(data)!r})\n")
    path.chmod(0o755)
    return "hosts.py"


def as_plugin(folder: Path, groups: Groups) -> str:
    """Write hosts as INI, and groups that a plugin makes of their variables."""
    lines = [f"{host} in_{name}=1" for name, body in groups.items() for host in body["hosts"]]
    (folder / "inv").mkdir()
    (folder / "inv/1.ini").write_text("\n".join(lines))
    made = {name: f"in_{name} is defined" for name in groups}
    plugin = f"plugin: ansible.builtin.constructed\ngroups: {json.dumps(made)}\n"
    (folder / "inv/2.constructed.yml").write_text(plugin)
    return "inv"


FORMS = [as_yaml, as_ini, as_script, as_plugin]


@pytest.fixture(scope="module", autouse=True)
def _ansible() -> Iterator[None]:
    with loaded_ansible():
        yield


def of_ansible(source: Path) -> dict[str, list[str]]:
    """Return the hosts of each group as a task of Ansible's has them in `groups`."""
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader

    found = InventoryManager(loader=DataLoader(), sources=[str(source)]).get_groups_dict()
    return {name: list(hosts) for name, hosts in found.items()}


def site_of(folder: Path, source: str) -> Site:
    (folder / "site.yml").write_text(f"cobweb: 1\ninventory: {source}\n")
    return load_site(folder, adapters=[AnsibleInventory()])


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.full("more of them"))])
@pytest.mark.parametrize("form", FORMS)
def test_groups_are_as_ansible_has_them(
    tmp_path: Path, form: Callable[[Path, Groups], str], seed: int
) -> None:
    """All groups, those without hosts too, whatever names them; and so patterns and specs."""
    groups = permuted(seed)
    source = form(tmp_path, groups)
    theirs = of_ansible(tmp_path / source)
    site = site_of(tmp_path, source)
    assert {name: list(hosts) for name, hosts in site.groups.items()} == theirs
    assert list(site.groups) == list(theirs)
    for name in NAMES:
        assert site.select(f"{name}[0]") == (theirs[name][0],)
    assert list(site.select("h*")) == hosts_of(tmp_path / source, "h*")


def hosts_of(source: Path, pattern: str) -> list[str]:
    """Return what `ansible PATTERN --list-hosts` says."""
    command = [ansible_tool("ansible"), "-i", str(source), pattern, "--list-hosts"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.split()[2:]


SAY = """
- ansible.builtin.set_fact:
    cob_results:
      groups: "{{ groups }}"
      mine: "{{ group_names }}"
      dir: "{{ inventory_dir }}"
      file: "{{ inventory_file }}"
"""


@pytest.mark.parametrize("kind", [AnsibleExecutor, PLAIN])
def test_tasks_have_the_same_order(make_bench: MakeBench, tmp_path: Path, kind: Any) -> None:
    """A task, with whatever executor, finds the groups, and where the inventory is."""
    (tmp_path / "site").mkdir()
    groups: Groups = {
        "z": {"hosts": ["h1"]},
        "db": {"hosts": ["hc", "ha"]},
        "none": {"hosts": []},
        "top": {"children": ["db"]},
    }
    site = site_of(tmp_path / "site", as_yaml(tmp_path / "site", groups))
    hosts = {name: site.hosts[name] for name in site.hosts}
    for host in hosts.values():
        host.variables.update(LOCAL)  # type: ignore[attr-defined]  # a mapping of the test's own
    bench = make_bench(kind, inventory=hosts, groups=site.groups)
    job: Job = bench.job(bench.tasks("say.yml", SAY), host="ha")
    (report,) = bench.run(job)
    said = report.results
    assert said["groups"] == {name: list(of) for name, of in site.groups.items()}
    assert (said["groups"]["db"], said["groups"]["none"]) == (["hc", "ha"], [])
    assert said["groups"]["all"] == ["h1", "hc", "ha"]
    assert said["mine"] == ["db", "top"]
    assert (said["dir"], said["file"]) == (str(site.dir), f"{site.dir}/hosts.yml")
