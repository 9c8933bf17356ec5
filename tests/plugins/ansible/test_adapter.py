"""The adapter `ansible-inventory` reads what only Ansible can read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cobweb.errors import CobwebError
from cobweb.site import Site, load_site
from cobweb_plugins.ansible._adapter import AnsibleInventory
from cobweb_plugins.ansible._workspace import ansible_tool

SOURCES = Path(__file__).parent / "sources"


def site_in(folder: Path, files: Mapping[str, str]) -> Site:
    """Write the files of a site, and load it."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return load_site(folder, adapters=[AnsibleInventory()])


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("hosts.ini", True),
        ("dynamic.py", True),
        ("cloud.aws_ec2.yml", True),
        ("plain.yml", False),
        ("missing.ini", False),
    ],
)
def test_reads_what_the_core_does_not(name: str, reads: bool) -> None:  # noqa: FBT001
    """INI, scripts and plugin configurations are for the adapter, plain YAML is not."""
    assert AnsibleInventory().reads(SOURCES / name) is reads


def test_ini_gives_ranges_groups_by_descent_and_variables() -> None:
    """What INI says arrives as hosts with all their groups."""
    hosts = {host.name: host for host in AnsibleInventory().hosts(SOURCES / "hosts.ini")}
    assert sorted(hosts) == ["db1", "web01.example", "web02.example", "web03.example"]
    assert hosts["web02.example"].groups == ("app", "web")
    assert hosts["web02.example"].variables == {"ansible_port": 2222, "tier": "one"}
    assert hosts["db1"].variables["note"] == "a b"


def test_script_keeps_vault_marks_and_templates() -> None:
    """Vaulted values stay marks, templates stay templates, unknown keys of _meta do no harm."""
    (host,) = AnsibleInventory().hosts(SOURCES / "dynamic.py")
    assert (host.name, host.groups) == ("d1", ("g",))
    assert host.variables["secret"]["__ansible_vault"].startswith("$ANSIBLE_VAULT;1.1;AES256")
    assert host.variables["url"] == "http://{{ inventory_hostname }}/"


GROUPS = "[login]\n\n[compute]\n\n[batch:children]\nlogin\ncompute\n[batch:vars]\nqueue=short\n"
HOSTS = "[login]\nin1\n[compute]\nc1 queue=long\n[scratch:children]\nbatch\n"


@pytest.mark.gate("Ansible itself reads sources in one go, seven times")
def test_a_source_is_read_after_those_before_it(tmp_path: Path) -> None:
    """It uses their groups, and brings the variables that it adds, or changes."""
    before, source = tmp_path / "groups.ini", tmp_path / "hosts.ini"
    before.write_text(GROUPS)
    source.write_text(HOSTS)
    adapter = AnsibleInventory()
    assert list(adapter.hosts(before)) == []
    hosts = {host.name: host for host in adapter.hosts_after(source, [before])}
    assert hosts["in1"].groups == ("batch", "login", "scratch")
    assert hosts["c1"].variables == {"queue": "long"}
    before.write_text(GROUPS.replace("short", "night"))
    assert list(adapter.hosts(before)) == []
    source.write_text("[login]\nin1\n")
    (host,) = adapter.hosts_after(source, [before])
    assert host.variables == {"queue": "night"}
    source.write_text("in1 nice=1\n")
    (host,) = adapter.hosts_after(source, [before])
    assert (host.groups, host.variables) == ((), {"nice": 1})


@pytest.mark.gate("Ansible itself reads sources in one go, six times")
def test_yaml_ini_and_a_folder_make_one_inventory(tmp_path: Path) -> None:
    """The order of the sources is that of their strength, whoever reads them."""
    files = {
        "site.yml": "cobweb: 1\ninventory: [a.yml, b.ini, c.yml, d]\n",
        "a.yml": "web: {hosts: {w1: {x: a, y: a}}}\ntop: {children: {web: }}\n",
        "b.ini": "[web]\nw2 x=b\n[edge:children]\ntop\n[web:vars]\nz=b\n",
        "c.yml": "edge: {hosts: {e1: }}\nweb: {hosts: {w1: {y: c}}}\n",
        "d/10-groups.ini": "[far]\n[out:children]\nfar\n",
        "d/20-hosts.ini": "[far]\nf1\n[all:children]\nout\n",
    }
    site = site_in(tmp_path, files)
    groups = {name: host.groups for name, host in site.hosts.items()}
    assert groups == {
        "w1": ("edge", "top", "web"),
        "w2": ("edge", "top", "web"),
        "e1": ("edge",),
        "f1": ("far", "out"),
    }
    assert site.hosts["w1"].variables == {"x": "a", "y": "c", "z": "b"}
    assert site.hosts["w2"].variables == {"x": "b", "z": "b"}


@pytest.mark.gate("Ansible itself reads sources in one go, three times")
def test_yaml_after_groups_in_ini_has_their_children_and_variables(tmp_path: Path) -> None:
    """What YAML says itself keeps its place, and its precedence below host_vars."""
    files = {
        "site.yml": "cobweb: 1\ninventory: [groups.ini, hosts.yml]\n",
        "groups.ini": "[front]\n[web:children]\nfront\n[web:vars]\nx=ini\ny=ini\n",
        "hosts.yml": "front: {hosts: {w1: , w2: {x: own}}, vars: {z: yaml}}\n",
        "host_vars/w1.yml": "z: file\n",
    }
    site = site_in(tmp_path, files)
    assert {name: host.groups for name, host in site.hosts.items()} == dict.fromkeys(
        ("w1", "w2"), ("front", "web")
    )
    assert site.hosts["w1"].variables == {"x": "ini", "y": "ini", "z": "file"}
    assert site.hosts["w2"].variables == {"x": "own", "y": "ini", "z": "yaml"}


JOINED = {
    "a.yml": "t: {hosts: {t1: {v: true, w: 0}}}\n",
    "b.ini": "[t]\nt1 v=1 w=False\n"
    "[g]\ng1\n[g:vars]\nv=ini\n"
    "[k]\nk1 v=host\n"
    "[q]\n[p:children]\nq\n[q:vars]\nv=child\n"
    "[s]\ns1\n[s:vars]\nv=ini\n",
    "c.yml": "g: {vars: {v: yml}}\nk: {vars: {v: yml}}\n"
    "q: {hosts: {q1: }}\np: {vars: {v: parent, w: parent}}\ns: {hosts: {s3: }}\n",
    "d.ini": "[r]\ns1\n",
}
"""Of each group another question of precedence, by its hosts in `test_of_several_sources...`."""


@pytest.mark.gate("Ansible itself reads sources in one go, four times and as the measure")
def test_of_several_sources_hosts_have_what_ansible_says(tmp_path: Path) -> None:
    site = site_in(tmp_path, {**JOINED, "site.yml": f"cobweb: 1\ninventory: {[*JOINED]}\n"})
    asked = [word for name in JOINED for word in ("-i", str(tmp_path / name))]
    command = [ansible_tool("ansible-inventory"), "--list", *asked]
    said = subprocess.run(command, capture_output=True, check=True)
    found = {name: dict(sorted(host.variables.items())) for name, host in site.hosts.items()}
    assert json.dumps(found, sort_keys=True) == json.dumps(
        json.loads(said.stdout)["_meta"]["hostvars"], sort_keys=True
    )
    wanted = {
        "t1": {"v": 1, "w": False},  # what only Python takes for the same
        "g1": {"v": "yml"},  # another value of a group's variable
        "k1": {"v": "host"},  # which a host's own one stays above
        "q1": {"v": "child", "w": "parent"},  # and that of a child, too
        "s1": {"v": "ini"},
        "s3": {"v": "ini"},  # a host in YAML between two sources in INI
    }
    assert json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


@pytest.mark.parametrize("name", ["damaged.ini", "missing.ini", "cloud.aws_ec2.yml"])
def test_what_ansible_cannot_read_is_an_error(name: str) -> None:
    """A source that Ansible only warns about is an error that names it."""
    with pytest.raises(CobwebError, match=name):
        list(AnsibleInventory().hosts(SOURCES / name))


PLUGIN = """
from ansible.plugins.inventory import BaseInventoryPlugin
DOCUMENTATION = "name: KIND\\noptions: {plugin: {description: x}}\\n"
class InventoryModule(BaseInventoryPlugin):
    NAME = "KIND"
    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path)
        self._read_config_data(path)
        inventory.add_group("made")
        inventory.add_host("made-by-KIND".replace(".", "-"), group="made")
"""


@pytest.mark.gate("Ansible itself reads two sources")
@pytest.mark.parametrize("where", ["", "inventories/prod/"])
def test_plugins_for_inventories_are_found_beside_the_site(tmp_path: Path, where: str) -> None:
    """In a collection, and in a folder for them; also for an inventory further down."""
    beside = "collections/ansible_collections/my/cloud/plugins/inventory/hosts.py"
    for name, kind in ((beside, "my.cloud.hosts"), ("inventory_plugins/near.py", "near")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PLUGIN.replace("KIND", kind))
    (tmp_path / "ansible.cfg").write_text("[inventory]\nenable_plugins = near, my.cloud.hosts\n")
    (tmp_path / where).mkdir(parents=True, exist_ok=True)
    for number, kind in enumerate(("near", "my.cloud.hosts")):
        (tmp_path / where / f"{number}.yml").write_text(f"plugin: {kind}\n")
    sources = f"inventory: [{where}0.yml, {where}1.yml]\n"
    site = site_in(tmp_path, {"site.yml": f"cobweb: 1\n{sources}"})
    assert site.groups["made"] == ["made-by-near", "made-by-my-cloud-hosts"]
