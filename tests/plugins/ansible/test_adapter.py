"""The adapter `ansible-inventory` reads what only Ansible can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobweb.errors import CobwebError
from cobweb_plugins.ansible._adapter import AnsibleInventory

SOURCES = Path(__file__).parent / "sources"


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


@pytest.mark.parametrize("name", ["damaged.ini", "missing.ini", "cloud.aws_ec2.yml"])
def test_what_ansible_cannot_read_is_an_error(name: str) -> None:
    """A source that Ansible only warns about is an error that names it."""
    with pytest.raises(CobwebError, match=name):
        list(AnsibleInventory().hosts(SOURCES / name))
