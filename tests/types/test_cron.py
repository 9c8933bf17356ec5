"""The type `cron` on a host; it is made of YAML alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cobweb.errors import CobwebError
from cobweb.model import Outcome
from cobweb.plugin import data_dir, load_plugins
from cobweb.site import load_site
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

FILE = "/etc/cron.d/cobweb-it"
SPEC = {"schedule": "*/5 1,2 * jan-mar mon", "job": "date +%F >> /tmp/dates"}


@pytest.fixture
def host(fabric: Fabric, systemd_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host that has the same jobs in the end."""
    before = fabric.run(systemd_host, "ls", "-A", "/etc/cron.d").stdout
    yield systemd_host
    after = fabric.run(systemd_host, "ls", "-A", "/etc/cron.d").stdout
    fabric.run(systemd_host, "sh", "-c", "rm -f /etc/cron.d/cobweb-* /run/ran")
    assert after == before


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    changed = {**SPEC, "environment": {"WHERE": "the 'host' itself", "N": 3}}
    live.check_type("cron", host, SPEC, changed)


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "cron")


def test_the_file_is_what_cron_reads(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """Only root reads it, cron takes its name, and an edit is found."""
    spec = {**SPEC, "user": "www-data", "environment": {"WHERE": 'the "host"', "N": 3}}
    cob = live.cob("cron", host, spec)
    cob.go("down", "up")
    assert fabric.run(host, "tail", "-n", "+2", FILE).stdout == (
        'WHERE=\'the "host"\'\nN="3"\n*/5 1,2 * jan-mar mon www-data date +\\%F >> /tmp/dates\n'
    )
    assert fabric.run(host, "stat", "-c", "%a %U", FILE).stdout == "600 root\n"
    fabric.run(host, "sh", "-c", f"echo '# by hand' >> {FILE}")
    assert cob.check() == "outdated"
    cob.go("outdated", "down")
    other = live.cob("cron", host, SPEC, name="with.dots")
    other.go("down", "up")
    named = fabric.run(host, "ls", "/etc/cron.d").stdout.split()
    assert [name for name in named if name.startswith("cobweb-with_dots-")]
    assert not [name for name in named if "." in name]
    other.go("up", "down")


def test_cron_runs_it_as_it_is_written(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """With its environment, by a real cron; a `%` means itself."""
    spec = {
        "schedule": "@reboot",
        "user": "www-data",
        "job": 'printf "%s by %s" "$WHERE" "$(id -un)" > /run/ran',
        "environment": {"WHERE": "the 'host' itself"},
    }
    cob = live.cob("cron", host, spec)
    cob.go("down", "up")
    fabric.run(host, "install", "-o", "www-data", "/dev/null", "/run/ran")
    run = "rm -f /run/crond.reboot; cron -f & pid=$!; until [ -s /run/ran ]; do :; done"
    fabric.run(host, "timeout", "100", "sh", "-c", f"{run}; kill $pid")
    assert fabric.run(host, "cat", "/run/ran").stdout == "the 'host' itself by www-data"
    fabric.run(host, "rm", "/run/ran")
    cob.go("up", "down")


def test_a_user_who_is_not_there_is_an_error(live: Live, host: FabricHost) -> None:
    """Cron would skip the job in silence."""
    cob = live.cob("cron", host, {**SPEC, "user": "nobody-here"})
    report = cob.move("down", "up")
    assert report.outcome is Outcome.FAILED
    assert "nobody-here" in report.message
    assert "no such user" in report.message
    assert cob.check() == "down"


@pytest.mark.parametrize(
    "schedule", ["* * * *", "@often", "a * * * *", "* * * * * *", "*\n* * * *", "30 2 * * * root"]
)
def test_a_schedule_of_another_form_is_found_before(tmp_path: Path, schedule: str) -> None:
    """Cron would skip the job in silence."""
    site = "cobweb: 1\nname: x\ninventory: {all: {hosts: {app01: }}}\n"
    spec = {"schedule": schedule, "job": "true"}
    cob = f"cobs: {{it: {{type: cron, on: app01, spec: {json.dumps(spec)}}}}}\n"
    (tmp_path / "site.yml").write_text(site + cob)
    with pytest.raises(CobwebError):
        load_site(tmp_path, types=load_plugins().types).graph()


@pytest.mark.parametrize("name", ["cron", "sysctl"])
def test_it_is_made_of_yaml_alone(name: str) -> None:
    """A folder to copy: task files of Ansible's own modules, and no Python of its own."""
    folder = Path(str(data_dir("playbooks"))) / name
    assert {path.suffix for path in folder.iterdir()} <= {".yml", ".j2"}
    assert not list(folder.parent.glob(f"*/cobweb_{name}*"))
    tasks = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.yml"))
    assert "cobweb_" + name not in tasks
    assert isinstance(yaml.safe_load((folder / "type.yml").read_text())["spec"], dict)
