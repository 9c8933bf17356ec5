"""The type `service` on a host with systemd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator
from tests.support.tasks import OneCob

UNITS = "/etc/systemd/system"
RUNS = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


class Units:
    """The units of tests on one host; all are gone in the end."""

    def __init__(self, fabric: Fabric, host: FabricHost, live: Live) -> None:
        self.fabric = fabric
        self.host = host
        self.live = live
        self._made: list[str] = []

    def sh(self, script: str) -> str:
        """Run a script on the host and return what it prints."""
        return self.fabric.run(self.host, "sh", "-ec", script).stdout

    def make(self, name: str, text: str = RUNS) -> None:
        """Write a unit."""
        self._made.append(name)
        self.fabric.root(self.host).joinpath(UNITS[1:], name).write_text(text)
        self.sh("systemctl daemon-reload")

    def show(self, name: str, *properties: str) -> list[str]:
        """Return what systemd says of a unit."""
        asked = [f"--property={each}" for each in properties]
        said = self.fabric.run(self.host, "systemctl", "show", name, *asked).stdout
        found = dict(line.split("=", 1) for line in said.splitlines())
        return [found.get(each, "") for each in properties]

    def cob(self, **spec: Any) -> OneCob:
        """Return a service."""
        return self.live.cob("service", self.host, spec)

    def close(self) -> None:
        """Remove the units."""
        for name in self._made:
            self.sh(f"systemctl unmask {name}; systemctl disable -q --now {name} || true")
            self.sh(f"rm -rf {UNITS}/{name} {UNITS}/{name}.d; systemctl daemon-reload")
            self.sh(f"systemctl reset-failed -q {name} || true")


@pytest.fixture
def units(fabric: Fabric, live: Live, systemd_host: FabricHost) -> Iterator[Units]:
    """Return what makes units on a host that has none of them in the end."""
    made = Units(fabric, systemd_host, live)
    before = made.sh(f"find {UNITS}")
    yield made
    made.close()
    made.sh("systemctl reset-failed -q || true")
    assert made.sh(f"find {UNITS}") == before


FILE = {"unit": "ours", "unit_file": RUNS}
DROPIN = {"dropins": {"limits": "[Service]\nLimitNOFILE=2000\n"}}
CASES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a unit": ({"unit": "made"}, {"unit": "made", "enabled": False}),
    "its file": (FILE, {**FILE, "unit_file": RUNS.replace("infinity", "9999")}),
    "drop-ins": ({"unit": "made", **DROPIN}, {"unit": "made", "dropins": {"x": "[Unit]\n"}}),
    "an instance": ({"unit": "many@1"}, {"unit": "many@2"}),
    "masked": ({"unit": "gone", "masked": True}, {"unit": "gone2", "masked": True}),
    "kept from running": ({"unit": "made", "running": False}, {"unit": "made"}),
}


@pytest.mark.parametrize("name", CASES)
def test_it_passes_the_conformance_kit(units: Units, name: str) -> None:
    """Check, every transition, a changed spec, and back."""
    units.make("made.service")
    units.make("many@.service", RUNS)
    spec, changed = CASES[name]
    units.live.check_type("service", units.host, spec, changed)


def test_the_example_of_its_page_works(fabric: Fabric, units: Units, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, units.host, tmp_path, "service")
