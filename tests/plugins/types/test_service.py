"""How the module of `service` reads what systemd says; tests/types has real systemd."""

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
echo "$@" >> "{folder}/calls"
[ "$1" = show ] || exit 0
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
        (self.folder / f"{unit}.service").write_text("\n".join(lines))

    def told(self) -> list[str]:
        """Return what systemd was told to do so far."""
        calls = (self.folder / "calls").read_text().splitlines()
        return [call for call in calls if not call.startswith("show ")]

    def cob(self, applied: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        """Return the variable `cob` of the unit `app`."""
        state = {"state_dir": str(self.folder / "state")}
        before = None if applied is None else {**applied, **state}
        given = {"unit": "app", "settle": 0, **spec, **state}
        return {"id": "h1/thing", "spec": given, "applied": before}

    def check(self, module: ModuleType, applied: dict[str, Any] | None = None, **spec: Any) -> str:
        """Return the state."""
        return str(module.check(self.cob(applied, **spec))["state"])


@pytest.fixture
def systemctl(system: Path, monkeypatch: pytest.MonkeyPatch) -> Systemctl:
    """Put the fake before the real one."""
    monkeypatch.setenv("PATH", f"{system}:/usr/bin:/bin")
    return Systemctl(system)


@pytest.mark.parametrize(
    ("properties", "state"),
    [
        ({}, "up"),
        ({"ActiveState": "reloading"}, "up"),
        ({"UnitFileState": "static"}, "up"),
        ({"UnitFileState": "enabled-runtime"}, "up"),
        ({"UnitFileState": "disabled"}, "outdated"),
        ({"NeedDaemonReload": "yes"}, "outdated"),
        ({"ActiveState": "activating"}, "broken"),
        ({"ActiveState": "deactivating"}, "broken"),
        ({"ActiveState": "inactive"}, "broken"),
        ({"ActiveState": "failed"}, "broken"),
        ({"ActiveState": "inactive", "UnitFileState": "disabled"}, "down"),
        ({"ActiveState": "failed", "UnitFileState": "static"}, "down"),
        ({"ActiveState": "inactive", "UnitFileState": "enabled-runtime"}, "down"),
        ({"ActiveState": "inactive", "UnitFileState": "masked", "LoadState": "masked"}, "down"),
        ({"LoadState": "masked"}, "outdated"),
        ({"ActiveState": "inactive", "LoadState": "not-found", "UnitFileState": ""}, "down"),
    ],
)
def test_the_state_follows_from_the_unit(
    service_module: ModuleType, systemctl: Systemctl, properties: dict[str, str], state: str
) -> None:
    """Each answer of systemd means one state."""
    systemctl.says("app", **properties)
    assert systemctl.check(service_module) == state


def test_a_unit_may_be_wanted_disabled(service_module: ModuleType, systemctl: Systemctl) -> None:
    """`enabled: false` makes an enabled unit outdated."""
    systemctl.says("app")
    assert systemctl.check(service_module, enabled=False) == "outdated"
    systemctl.says("app", UnitFileState="disabled")
    assert systemctl.check(service_module, enabled=False) == "up"
    systemctl.says("app", UnitFileState="enabled-runtime")
    assert systemctl.check(service_module, enabled=False) == "up"


def test_the_unit_of_an_earlier_spec_is_outdated(
    service_module: ModuleType, systemctl: Systemctl
) -> None:
    """As long as it runs; one that does not is broken until nothing of it is left."""
    systemctl.says("app")
    systemctl.says("old")
    assert systemctl.check(service_module, applied={"unit": "old"}) == "outdated"
    systemctl.says("old", ActiveState="deactivating")
    assert systemctl.check(service_module, applied={"unit": "old"}) == "broken"
    systemctl.says("old", ActiveState="inactive")
    assert systemctl.check(service_module, applied={"unit": "old"}) == "up"


SICK = {"health": {"command": "false", "interval": 0}}


def test_what_was_up_and_is_at_rest_is_broken(
    service_module: ModuleType, systemctl: Systemctl
) -> None:
    """Also a unit without a switch for the boot; with nothing remembered of it, it is down."""
    systemctl.says("app", UnitFileState="static")
    service_module.up(systemctl.cob())
    assert systemctl.check(service_module) == "up"
    for spec in ({}, {"watch": ["/etc/app"]}, {"running": False}):
        systemctl.says("app", UnitFileState="static", ActiveState="inactive")
        assert systemctl.check(service_module, **spec) == "broken"
    service_module.down(systemctl.cob())
    assert systemctl.check(service_module) == "down"


def test_health_is_that_of_the_content_that_runs(
    service_module: ModuleType, systemctl: Systemctl
) -> None:
    """A new content may be well by something else: until it is there, the earlier word counts."""
    systemctl.says("app")
    assert systemctl.check(service_module, **SICK) == "broken"
    well = {"health": {"command": ["test", "-e", str(systemctl.folder)]}}
    service_module.up(systemctl.cob(**well))
    assert systemctl.check(service_module, **well) == "up"
    assert systemctl.check(service_module, **SICK) == "outdated"
    assert systemctl.check(service_module, running=False) == "outdated"
    systemctl.says("app", NeedDaemonReload="yes")
    gone = {"health": {"command": ["test", "-e", str(systemctl.folder / "gone")], "interval": 0}}
    assert systemctl.check(service_module, **well) == "outdated"
    (systemctl.folder / "gone").touch()
    service_module.up(systemctl.cob(**gone))
    (systemctl.folder / "gone").unlink()
    for spec in (gone, SICK, {"running": False}):
        assert systemctl.check(service_module, **spec) == "broken"


def test_only_known_units_are_stopped(service_module: ModuleType, systemctl: Systemctl) -> None:
    """A unit without a file is stopped only while it still runs."""
    systemctl.says("app", LoadState="not-found", ActiveState="inactive", UnitFileState="")
    systemctl.says("old", ActiveState="inactive")
    service_module.down(systemctl.cob({"unit": "old"}))
    assert systemctl.told() == ["--quiet disable -- old.service"]


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("app", "app.service"),
        ("app.socket", "app.socket"),
        ("app@1", "app@1.service"),
        ("app@1.2", "app@1.2.service"),
        ("service", "service.service"),
    ],
)
def test_a_unit_has_its_kind(service_module: ModuleType, unit: str, name: str) -> None:
    """It is a service where nothing else is said."""
    assert service_module.full_name(unit) == name


def test_without_systemd_the_check_says_so(
    service_module: ModuleType, systemctl: Systemctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether there is no program or nobody who answers it."""
    with pytest.raises(
        service_module.Failed, match=r"(?s)systemd does not answer.*app\.service: no answer"
    ):
        systemctl.check(service_module)
    monkeypatch.setenv("PATH", str(systemctl.folder / "nowhere"))
    with pytest.raises(service_module.Failed, match="no systemctl; a `service` needs systemd"):
        systemctl.check(service_module)
