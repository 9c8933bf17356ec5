"""A unit gets another name: its predecessor is stopped, disabled and gone before it starts."""

from __future__ import annotations

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric

pytestmark = [
    pytest.mark.full("odd names of units on a real systemd"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

NAMES = ("early", "late")


def test_a_unit_is_renamed(fabric: Fabric, operator_maker: OperatorMaker) -> None:
    host = fabric.systemd[0]
    operator = operator_maker("renamed")
    operator.write_inventory({"hosts": [host]})
    try:
        for name in NAMES:
            operator.set_variables(unit=name)
            run = operator.apply()
            assert run.code == 0, run.err
        shown = "systemctl show --property=ActiveState,UnitFileState --value"
        for name, states in zip(NAMES, (["inactive", ""], ["active", "enabled"]), strict=True):
            said = fabric.run(host, *shown.split(), name).stdout
            assert sorted(said.splitlines()) == sorted(states)
        file = f"/etc/systemd/system/{NAMES[0]}.service"
        assert fabric.run(host, "test", "-e", file, check=False).returncode == 1
    finally:
        for name in NAMES:
            fabric.run(host, "systemctl", "disable", "--now", name, check=False)
            fabric.run(host, "rm", "-f", f"/etc/systemd/system/{name}.service")
        fabric.run(host, "systemctl", "daemon-reload")
