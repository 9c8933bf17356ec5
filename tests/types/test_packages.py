"""The type `package` on real dpkg and apt, with packages that are made here."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator
from tests.support.tasks import OneCob

pytestmark = [
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.netns,
]

REPOSITORY = {"name": "tiny", "source": "deb [trusted=yes] file:/srv/tiny ./"}

# A package is made of a name, a version, further fields, and files by path; DEBIAN/* are dpkg's.
UNIT = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
START = (
    "#!/bin/sh\nset -e\ndeb-systemd-helper enable tiny-daemon.service\n"
    "systemctl daemon-reload\ndeb-systemd-invoke start tiny-daemon.service\n"
)
STOP = "#!/bin/sh\nset -e\n[ $1 = remove ] && deb-systemd-invoke stop tiny-daemon.service || :\n"
SLOW = (
    "#!/bin/sh\nset -e\n[ -e /run/tiny-fast ] && exit 0\ntouch /run/tiny-slow\n"
    "while sleep 0.1; do [ ! -e /run/tiny-fast ] || exit 0; done\n"
)
PACKAGES: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    *(
        (
            "tiny-tool",
            version,
            "",
            {
                "usr/bin/tiny-tool": version,
                "etc/tiny.conf": "as packed",
                "DEBIAN/conffiles": "/etc/tiny.conf",
            },
        )
        for version in ("1.0", "1.1", "2.0")
    ),
    ("tiny-library", "1.0", "", {"usr/share/tiny/library": "x"}),
    ("tiny-program", "1.0", "Depends: tiny-library", {"usr/share/tiny/program": "x"}),
    ("tiny-rival", "1.0", "Conflicts: tiny-library", {"usr/share/tiny/rival": "x"}),
    (
        "tiny-daemon",
        "1.0",
        "",
        {
            "lib/systemd/system/tiny-daemon.service": UNIT,
            "DEBIAN/postinst": START,
            "DEBIAN/prerm": STOP,
        },
    ),
    ("tiny-slow", "1.0", "", {"usr/share/tiny/slow": "x", "DEBIAN/postinst": SLOW}),
    (
        "tiny-failing",
        "1.0",
        "",
        {"usr/share/tiny/failing": "x", "DEBIAN/postinst": "#!/bin/sh\n[ -e /run/tiny-fast ]\n"},
    ),
    ("tiny-big", "1.0", "", {"opt/tiny/big": "x" * 3_000_000}),
)


@dataclass(frozen=True, slots=True)
class System:
    """A host with systemd, and a repository of tiny packages on it."""

    fabric: Fabric
    host: FabricHost
    live: Live

    def cob(self, *names: str, **spec: Any) -> OneCob:
        """Return an object for packages of the repository, named like the first of them."""
        spec = {"names": list(names), "repository": REPOSITORY, **spec}
        return self.live.cob("package", self.host, spec, name=names[0])

    def say(self, script: str) -> str:
        """Run a shell script and return what it printed, its errors too."""
        done = self.fabric.run(self.host, "bash", "-c", script, check=False)
        return (done.stdout + done.stderr).strip()

    def version(self, package: str) -> str:
        """Return the state and version of a package as dpkg knows it."""
        query = "${db:Status-Want} ${db:Status-Status} ${Version}"
        said = self.say(f"dpkg-query -W -f='{query}' {package}")
        return "absent" if "no packages found" in said else said

    def remains(self) -> str:
        """Return what there is on the host of this file's packages and of Cobweb's memory."""
        places = "/var/lib/cobweb/package* /etc/apt/sources.list.d /usr/sbin/policy-rc.d"
        query = "${db:Status-Want} ${db:Status-Status} ${Package}\\n"
        dpkg = f"dpkg-query -W -f '{query}' 'tiny-*' | grep -v ' not-installed '"
        return self.say(f"(find {places} -type f -not -name .lock; {dpkg}) 2>/dev/null")


@pytest.fixture(scope="module")
def repository(fabric: Fabric, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the packages; return the folder with them and their index."""
    del fabric  # where there are no hosts, there may be no dpkg-deb
    folder = tmp_path_factory.mktemp("tiny")
    index = ""
    for name, version, fields, files in PACKAGES:
        tree = folder / "tree" / f"{name}_{version}"
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody\n"
        control += f"Description: made by a test\n{fields}".strip() + "\n"
        for path, text in {**files, "DEBIAN/control": control}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text if text.endswith("\n") else f"{text}\n")
            (tree / path).chmod(0o755 if "inst" in path or "prerm" in path else 0o644)
        file = folder / f"{name}_{version}.deb"
        argv = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(file)]
        subprocess.run(argv, check=True, capture_output=True)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        size = file.stat().st_size
        index += f"{control}Filename: ./{file.name}\nSize: {size}\nSHA256: {digest}\n\n"
    (folder / "Packages").write_text(index)
    return folder


@pytest.fixture
def system(fabric: Fabric, live: Live, repository: Path) -> Iterator[System]:
    """Return the host with the repository; nothing of either is left afterwards."""
    made = System(fabric, fabric.systemd[0], live)
    place = fabric.root(made.host) / "srv/tiny"
    place.mkdir()
    for file in repository.glob("*.*"):
        (place / file.name).write_bytes(file.read_bytes())
    (place / "Packages").write_bytes((repository / "Packages").read_bytes())
    yield made
    made.say(
        "touch /run/tiny-fast; left=$(dpkg-query -W -f '${Package} ' 'tiny-*');"
        'if [ "$left" ]; then dpkg --force-hold --purge $left; fi; rm -rf /run/tiny-* /srv/tiny'
        " /var/lib/cobweb/package* /etc/apt/sources.list.d/tiny.list /usr/sbin/policy-rc.d"
    )


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(system: System) -> None:
    """Check, every transition, another version, and back."""
    spec = {"name": "tiny-tool", "version": "1.*", "repository": REPOSITORY, "purge": True}
    system.live.check_type("package", system.host, spec, {**spec, "version": "2.0"})
    assert system.remains() == ""


def test_what_was_there_before_stays_in_its_version_and_on_its_hold(system: System) -> None:
    """Also its hold is as before; what is said about it names it."""
    system.say("dpkg -i /srv/tiny/tiny-tool_1.0.deb; apt-mark hold tiny-tool")
    cob = system.cob("tiny-tool", version="2.0", hold=False)
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert system.version("tiny-tool") == "install installed 2.0"
    cob.go("up", "down")
    assert system.version("tiny-tool") == "hold installed 1.0"


def test_what_came_along_goes_and_what_others_need_stays(system: System) -> None:
    """A dependency that was pulled in goes with its last user; nothing of others is removed."""
    first = system.cob("tiny-program")
    first.go("down", "up")
    assert system.version("tiny-library") == "install installed 1.0"
    library = system.cob("tiny-library")
    assert library.check() == "outdated", "its object has not added the repository"
    library.go("outdated", "up")
    library.go("up", "down")
    assert system.version("tiny-library") == "install installed 1.0", "it was there before"
    first.go("up", "down")
    assert system.remains() == "/var/lib/cobweb/package/tiny-library.json"


def test_a_hold_and_a_version_are_the_objects_own(system: System) -> None:
    """The newest that fits, an older one in spite of the hold; the configuration stays."""
    cob = system.cob("tiny-tool", version="1.*", hold=True)
    assert cob.check() == "down"
    cob.go("down", "up")
    assert system.version("tiny-tool") == "hold installed 1.1"
    cob.applied, cob.spec = cob.spec, {**cob.spec, "version": "1.0"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert system.version("tiny-tool") == "hold installed 1.0"
    assert system.say("tail -n 1 /usr/bin/tiny-tool") == "1.0"
    system.say("apt-mark unhold tiny-tool")
    assert cob.check() == "outdated"
    cob.go("outdated", "down")
    assert system.version("tiny-tool") == "deinstall config-files 1.0"
    assert system.say("cat /etc/tiny.conf") == "as packed"


def test_services_start_where_that_is_asked_for_and_end_with_their_package(system: System) -> None:
    """The test of other names sees that they do not start by themselves."""
    cob = system.cob("tiny-daemon", start=True)
    cob.go("down", "up")
    assert system.say("systemctl is-active tiny-daemon") == "active"
    cob.go("up", "down")
    assert system.say("systemctl is-active tiny-daemon") == "inactive"
    assert system.remains() == ""


def test_other_names_replace_the_earlier_ones(system: System) -> None:
    """In one transition; a repository that nobody names any more goes too."""
    cob = system.cob("tiny-program", "tiny-daemon")
    cob.go("down", "up")
    assert system.say("systemctl is-active tiny-daemon") == "inactive"
    assert "policy-rc.d" not in system.remains()
    cob.applied, cob.spec = cob.spec, {"name": "tiny-daemon"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert system.version("tiny-program") == system.version("tiny-library") == "absent"
    assert system.say("ls /etc/apt/sources.list.d") == ""


def test_a_repository_goes_with_its_last_user_and_others_are_not_touched(system: System) -> None:
    """Its key comes and goes with it; a file of somebody else is no repository of ours."""
    with_key = {**REPOSITORY, "key": "-----BEGIN PGP PUBLIC KEY BLOCK-----"}
    first, second = (
        system.cob(name, repository=with_key) for name in ("tiny-tool", "tiny-library")
    )
    first.go("down", "up")
    second.go("down", "up")
    first.go("up", "down")
    files = "ls /etc/apt/sources.list.d /etc/apt/keyrings"
    assert "tiny.asc" in system.say(files)
    second.go("up", "down")
    assert "tiny" not in system.say(files)
    system.say("echo '# mine' > /etc/apt/sources.list.d/tiny.list")
    assert "tiny.list is there already" in first.move("down", "up").message
    assert system.say("cat /etc/apt/sources.list.d/tiny.list") == "# mine"


BAD: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "no such package": (["tiny-nothing"], {}, "E: Unable to locate package tiny-nothing"),
    "no such version": (
        ["tiny-tool"],
        {"version": "9.*"},
        "there is no version 9.* of tiny-tool; known are 2.0, 1.1, 1.0",
    ),
    "repository unreachable": (
        ["tiny-tool"],
        {"repository": {"name": "gone", "source": "deb [trusted=yes] file:/srv/gone ./"}},
        "/srv/gone",
    ),
    "would remove others": (["tiny-rival"], {}, "tiny-rival would remove tiny-library"),
    "held by somebody": (["tiny-tool"], {"version": "2.0"}, "tiny-tool is on hold on this host"),
}


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.replace(" ", "-"))
def test_what_cannot_be_installed_changes_nothing_and_says_why(system: System, case: str) -> None:
    """The tool's own words come first, and the host is as it was."""
    system.say("dpkg -i /srv/tiny/tiny-{tool,library}_1.0.deb; apt-mark hold tiny-tool")
    before = system.remains(), system.version("tiny-tool")
    names, spec, words = BAD[case]
    cob = system.cob(*names, **spec)
    state = cob.check()
    report = cob.move(state, "up")
    assert report.outcome == "failed"
    assert words in report.message.splitlines()[0]
    system.say("rm -f /var/lib/cobweb/package/tiny-*.json")
    assert (system.remains(), system.version("tiny-tool")) == before


def test_a_failing_script_of_a_package_is_told_and_taken_away(system: System) -> None:
    """Half configured is broken, and fails again as long as the script does."""
    cob = system.cob("tiny-failing")
    report = cob.move("down", "up")
    words = "end the transaction: dpkg: error processing package tiny-failing (--configure)"
    assert report.message.startswith(words)
    assert cob.check() == "broken"
    assert cob.move("broken", "up").message.startswith(words)
    cob.go("broken", "down")
    assert system.remains() == ""


def test_a_full_disk_is_told_and_repaired_when_there_is_space(system: System) -> None:
    """What dpkg has begun is not taken for installed."""
    system.say("mkdir -p /opt/tiny && mount -t tmpfs -o size=1m tmpfs /opt/tiny")
    try:
        cob = system.cob("tiny-big")
        report = cob.move("down", "up")
        assert "No space left on device" in report.message
        assert cob.check() != "up"
    finally:
        system.say("umount /opt/tiny")
    cob.go(cob.check(), "up")
    cob.go("up", "down")


def test_a_loss_of_power_in_a_transaction_is_repaired(system: System) -> None:
    """The package is half configured, and nothing of the transaction stays in the way."""
    cob = system.cob("tiny-slow")
    with ThreadPoolExecutor(1) as other:
        moving = other.submit(cob.move, "down", "up")
        system.say("until [ -e /run/tiny-slow ]; do sleep 0.05; done")
        system.fabric.kill(system.host)
        assert moving.result().outcome != "ok"
    system.fabric.start(system.host)
    assert system.version("tiny-slow") == "install half-configured 1.0"
    assert "policy-rc.d" in system.remains()
    assert cob.check() == "broken"
    system.say("touch /run/tiny-fast")
    cob.go("broken", "up")
    assert "policy-rc.d" not in system.remains()
    cob.go("up", "down")
    assert system.remains() == ""


LOCK = """\
import fcntl, sys
file = open("/var/lib/dpkg/lock-frontend", "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_others_who_work_on_packages_are_waited_for_and_named(system: System) -> None:
    """With a limit; when they are done within it, the transition goes on."""
    argv = system.fabric.inside_host(system.host, "/usr/bin/python3", "-c", LOCK)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "held\n"
        impatient = system.cob("tiny-tool", lock_timeout=0.5, purge=True)
        message = impatient.move("down", "up").message
        assert re.search(r"python3 \(process \d+\) still works on the packages", message)
        assert system.remains() == ""
        patient = system.cob("tiny-tool", purge=True)
        with ThreadPoolExecutor(1) as other:
            moving = other.submit(patient.move, "down", "up")
            held.communicate("")
            assert moving.result().outcome == "ok"
    system.say("apt-get -q -y remove tiny-tool")
    assert patient.check() == "broken", "its configuration is still there"
    patient.go("broken", "down")
    assert system.remains() == ""


def test_objects_of_one_host_wait_for_their_turn(system: System, tmp_path: Path) -> None:
    """Without a need between them their transitions begin at once; each finds the host its own."""
    operator = Operator(system.fabric, tmp_path)
    operator.write_inventory({"app": [system.host]})
    names = ("tiny-tool", "tiny-library", "tiny-daemon")
    cobs = {
        name: {"type": "package", "on": "app", "spec": {"name": name, "repository": REPOSITORY}}
        for name in names
    }
    site = {"cobweb": 1, "name": "example", "inventory": "hosts.yml", "cobs": cobs}
    (tmp_path / "site.yml").write_text(json.dumps(site), encoding="utf-8")
    run = operator.apply()
    assert run.code == 0, run.out + run.err
    assert {system.version(name) for name in names} == {"install installed 1.0"} | {
        "install installed 2.0"
    }
    assert system.say("systemctl is-active tiny-daemon") == "inactive"
    assert "policy-rc.d" not in system.remains()
    assert "turn" not in system.remains()


def test_no_service_starts_while_somebody_who_forbids_it_is_at_work(
    system: System, tmp_path: Path
) -> None:
    """Who waits for longer than `lock_timeout` ends neither policy nor turn of others at work."""
    (tool := system.cob("tiny-tool", purge=True)).go("down", "up")
    operator = Operator(system.fabric, tmp_path)
    operator.write_inventory({"app": [system.host]})
    slow = {"type": "package", "on": "app", "spec": {"name": "tiny-slow", "repository": REPOSITORY}}
    site = {"cobweb": 1, "name": "example", "inventory": "hosts.yml", "cobs": {"slow": slow}}
    (tmp_path / "site.yml").write_text(json.dumps(site), encoding="utf-8")
    daemon = system.cob("tiny-daemon", lock_timeout=0.5)
    with ThreadPoolExecutor(2) as others:
        running = others.submit(operator.apply)
        begun = "timeout 100 sh -c 'until [ -e /run/tiny-slow ]; do sleep 0.1; done'"
        assert system.say(begun) == ""
        assert tool.check() == "up", "what others do is not its business"
        moving = others.submit(daemon.move, "down", "up")
        system.say("sleep 2")
        assert not moving.done()
        assert system.say("/usr/sbin/policy-rc.d; echo $?") == "101"
        system.say("touch /run/tiny-fast")
        assert running.result().code == 0, running.result().err
        assert moving.result().outcome == "ok", moving.result().message
    assert system.say("systemctl is-active tiny-daemon") == "inactive"
    assert daemon.check() == "up"
    assert "policy-rc.d" not in system.remains()
    assert "denied" not in system.remains()


def test_the_example_of_its_page_works(bare: Fabric, tmp_path: Path) -> None:
    """Applied to a host without the packages, again without a change, and removed."""
    run_page_example(bare, bare.systemd[0], tmp_path, "package")


def test_dependents_wait_for_a_package_that_is_not_there(system: System, tmp_path: Path) -> None:
    """They say for what, the report has apt's words, and the rest goes on."""
    operator = Operator(system.fabric, tmp_path)
    operator.write_inventory({"app": [system.host]})
    site = tmp_path / "site.yml"
    site.write_text(
        """\
cobweb: 1
name: example
inventory: hosts.yml
cobs:
  tool: {type: package, on: app, spec: {name: tiny-nothing}}
  unit: {type: service, on: app, spec: {unit: cron}, requires: [tool]}
  other: {type: file, on: app, spec: {path: /srv/other, content: "x"}}
"""
    )
    run = operator.apply()
    assert run.code == 1
    assert "Unable to locate package tiny-nothing" in run.out + run.err
    assert "tool" in operator.cobweb("why", f"{system.host.name}/unit").out
    assert run.transitions() == [(f"{system.host.name}/other", "up")]
    site.write_text("cobweb: 1\nname: example\ninventory: hosts.yml\ncobs: {}\n")
    assert operator.apply().code == 0
