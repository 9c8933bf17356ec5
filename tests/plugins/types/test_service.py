"""How the module of `service` reads what systemd says; tests/hosts has real systemd."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

GOOD = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
}
FAKE = """#!/bin/sh
for unit; do :; done
cat "{folder}/$unit" || { echo "Unit $unit: no answer" >&2; exit 1; }
"""


class Systemctl:
    """A `systemctl` that answers with what the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "systemctl"
        program.write_text(FAKE.replace("{folder}", str(folder)))
        program.chmod(0o755)

    def says(self, unit: str, **properties: str) -> None:
        """Set the properties of a unit."""
        lines = [f"{key}={value}" for key, value in {**GOOD, **properties}.items()]
        (self.folder / unit).write_text("\n".join(lines))


@pytest.fixture
def systemctl(system: Path, monkeypatch: pytest.MonkeyPatch) -> Systemctl:
    """Put the fake before the real one."""
    monkeypatch.setenv("PATH", f"{system}:/usr/bin:/bin")
    return Systemctl(system)


def _check(module: ModuleType, applied: dict[str, Any] | None = None, **spec: Any) -> str:
    cob = {"id": "h1/thing", "spec": {"unit": "app", **spec}, "applied": applied}
    return str(module.check(cob)["state"])


@pytest.mark.parametrize(
    ("properties", "state"),
    [
        ({}, "up"),
        ({"ActiveState": "reloading"}, "up"),
        ({"UnitFileState": "static"}, "up"),
        ({"UnitFileState": "enabled-runtime"}, "up"),
        ({"UnitFileState": "disabled"}, "outdated"),
        ({"NeedDaemonReload": "yes"}, "outdated"),
        ({"ActiveState": "activating"}, "outdated"),
        ({"ActiveState": "deactivating"}, "outdated"),
        ({"ActiveState": "inactive"}, "down"),
        ({"ActiveState": "failed"}, "down"),
        ({"ActiveState": "inactive", "LoadState": "not-found", "UnitFileState": ""}, "down"),
    ],
)
def test_the_state_follows_from_the_unit(
    service_module: ModuleType, systemctl: Systemctl, properties: dict[str, str], state: str
) -> None:
    """Each answer of systemd means one state."""
    systemctl.says("app", **properties)
    assert _check(service_module) == state


def test_a_unit_may_be_wanted_disabled(service_module: ModuleType, systemctl: Systemctl) -> None:
    """`enabled: false` makes an enabled unit outdated."""
    systemctl.says("app")
    assert _check(service_module, enabled=False) == "outdated"
    systemctl.says("app", UnitFileState="disabled")
    assert _check(service_module, enabled=False) == "up"


def test_the_unit_of_an_earlier_spec_is_outdated(
    service_module: ModuleType, systemctl: Systemctl
) -> None:
    """As long as it runs."""
    systemctl.says("app")
    systemctl.says("old")
    assert _check(service_module, applied={"unit": "old"}) == "outdated"
    systemctl.says("old", ActiveState="inactive")
    assert _check(service_module, applied={"unit": "old"}) == "up"


def test_only_known_units_are_stopped(service_module: ModuleType, systemctl: Systemctl) -> None:
    """A unit without a file is stopped only while it still runs."""
    cob = {"id": "h1/thing", "spec": {"unit": "app"}, "applied": {"unit": "old"}}
    systemctl.says("app")
    systemctl.says("old", LoadState="not-found")
    assert service_module.units(cob) == {"earlier": ["old"], "all": ["old", "app"]}
    systemctl.says("old", LoadState="not-found", ActiveState="inactive")
    assert service_module.units(cob) == {"earlier": [], "all": ["app"]}
    systemctl.says("app", LoadState="not-found", ActiveState="inactive")
    assert service_module.units({**cob, "applied": None}) == {"earlier": [], "all": []}


def test_without_systemd_the_check_says_so(
    service_module: ModuleType, systemctl: Systemctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether there is no program or nobody who answers it."""
    with pytest.raises(service_module.Failed, match=r"(?s)systemd does not answer.*app: no answer"):
        _check(service_module)
    monkeypatch.setenv("PATH", str(systemctl.folder / "nowhere"))
    with pytest.raises(service_module.Failed, match="no systemctl; a `service` needs systemd"):
        _check(service_module)
