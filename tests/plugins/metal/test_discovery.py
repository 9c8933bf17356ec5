"""New machines by hand: they are found, taken into the site, and looked at."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, Run
from tests.plugins.metal.fake import FakeServer, view

Call = Callable[..., Any]

NEW = "52:54:00:00:00:41"
SITE = """\
cobweb: 1
name: four
imports: {imports}
inventory: {{all: {{hosts: {{n1: {{ansible_connection: local}}}}}}}}
cobs: {{f: {{type: file, on: n1, spec: {{path: /tmp/f, content: x}}}}}}
metal:
  folder: {folder}
  network: {{address: 127.0.0.1/8, port: {port}}}
  machines: {{m01: {{mac: "52:54:00:00:00:01", power: {{kind: manual}}}}}}
"""
HARDWARE = {
    "cores": 16,
    "memory_mb": 65536,
    "firmware": "UEFI 2.7",
    "vendor": "Example Inc.",
    "product": "Server R640 (rev. B)",
    "disks": [
        {"name": "nvme0n1", "bytes": 1_600_321_314_816, "serial": "S1"},
        {"name": "sda", "bytes": 480_103_981_056, "serial": ""},
    ],
    "nics": [{"name": "eth0", "mac": NEW}],
}
FIRST = """\
metal: {machines: {m02: {mac: "52:54:00:00:00:02", power: {kind: manual}}}}
"""
FOUND = {"mac": NEW, "time": 1790000000, "hardware": HARDWARE}


@pytest.fixture
def site(fake: FakeServer, tmp_path: Path) -> Path:
    """Return a site that has a machine and imports another."""
    folder = tmp_path / "site"
    (folder / "machines").mkdir(parents=True)
    (folder / "machines" / "m02.yml").write_text(FIRST, encoding="utf-8")
    write_site(folder, fake, "[machines/*.yml]")
    return folder


def write_site(folder: Path, fake: FakeServer, imports: str) -> None:
    """Write a site with these imports, whose boot server is the fake."""
    port = fake.url.rpartition(":")[2]
    text = SITE.format(folder=fake.folder, port=port, imports=imports)
    (folder / "site.yml").write_text(text, encoding="utf-8")


@pytest.fixture
def ask(run: Run, site: Path) -> Callable[..., Ran]:
    """Return what runs `cobweb metal` on the site."""
    return lambda *words: run("metal", words[0], "-C", site, *words[1:])


def is_sound(ran: Ran) -> bool:
    """Say whether a command has ended well, and what it said fits a terminal."""
    return ran.code == 0 and all(len(it) <= 80 for it in ran.out.splitlines())


def names(site: Path) -> list[str]:
    """Return the modules of machines."""
    return sorted(it.name for it in (site / "machines").iterdir())


# Found.


OPENED = {
    "not": ((), [], "No machines are looked for: `cobweb metal discover --for 30m` begins."),
    "for a while": (
        ("--for", "30m"),
        [{"seconds": 1800}],
        "Machines are looked for until 2026-09-21 14:43 UTC: switch them on.",
    ),
    "no longer": (
        ("--for", "0"),
        [{"seconds": 0}],
        "No machines are looked for: `cobweb metal discover --for 30m` begins.",
    ),
}


@pytest.mark.parametrize(("words", "asked", "line"), OPENED.values(), ids=OPENED)
def test_machines_are_looked_for_only_when_that_is_asked_for(
    fake: FakeServer, ask: Call, words: tuple[str, ...], asked: list[Any], line: str
) -> None:
    ran = ask("discover", *words)
    assert is_sound(ran), ran
    assert fake.of("PUT") == asked
    assert ran.out == f"No machine was found.\n{line}\n"


def test_what_was_found_is_a_table(fake: FakeServer, ask: Call) -> None:
    fake.found[NEW] = FOUND
    ran = ask("discover")
    assert is_sound(ran), ran
    assert ran.out == (
        "MAC                HARDWARE              VENDOR/PRODUCT         SEEN\n"
        "52:54:00:00:00:41  16 cores, 65536 MB,   Example Inc. Server    2026-09-21 14:13\n"
        "                   nvme0n1 1600.3 GB,    R640 (rev. B)\n"
        "                   sda 480.1 GB, UEFI\n"
        "                   2.7\n"
        "No machines are looked for: `cobweb metal discover --for 30m` begins.\n"
        "To take one into the site: `cobweb metal adopt MAC --name NAME`\n"
    )


@pytest.mark.parametrize("text", ["", "-1", "30x", "half an hour", "1e3", "400d", "nan"])
def test_what_is_no_time_opens_nothing(fake: FakeServer, ask: Call, text: str) -> None:
    ran = ask("discover", f"--for={text}")
    assert ran.code == 64
    assert f"--for: `{text}` is" in ran.err
    assert fake.asked == []


def test_a_boot_server_without_a_network_is_told(fake: FakeServer, ask: Call) -> None:
    fake.refused["PUT", "discovery"] = 409
    ran = ask("discover", "--for", "30m")
    assert ran.code == 1
    assert "PUT of discovery is refused" in ran.err


# Adopted.


def test_an_adopted_machine_is_one_of_the_site(
    fake: FakeServer, ask: Call, site: Path, run: Run
) -> None:
    fake.found[NEW] = FOUND
    ran = ask("adopt", "52-54-00-00-00-41", "--name", "m41")
    assert is_sound(ran), ran
    assert ran.out == ("machines/m41.yml was written: set `power` in it, and what it is to run.\n")
    assert (site / "machines" / "m41.yml").read_text(encoding="utf-8") == (
        "# Found by `cobweb metal discover` at 2026-09-21 14:13 UTC. Set `power`;\n"
        "# with `template`, `name` and `address` it runs something, without them it is off.\n"
        "metal:\n"
        "  machines:\n"
        "    m41:\n"
        '      mac: "52:54:00:00:00:41"\n'
        "      power:\n"
        "        kind: manual\n"
        "      properties:\n"
        "        cores: 16\n"
        "        memory_mb: 65536\n"
        '        firmware: "UEFI 2.7"\n'
        '        vendor: "Example Inc."\n'
        '        product: "Server R640 (rev. B)"\n'
        '        disks: "nvme0n1 1600.3 GB, sda 480.1 GB"\n'
    )
    assert names(site) == ["m02.yml", "m41.yml"]
    assert fake.found == {}
    assert run("explain", "m41/machine", "-C", site).code == 0


def test_a_site_that_does_not_import_it_is_told(fake: FakeServer, ask: Call, site: Path) -> None:
    write_site(site, fake, "[]")
    shutil.rmtree(site / "machines")
    fake.found[NEW] = FOUND
    ran = ask("adopt", NEW, "--name", "m41")
    assert is_sound(ran), ran
    assert "site.yml does not import it yet: write `imports: [machines/*.yml]` there" in ran.out


@pytest.mark.parametrize("name", ["true", "null", "1e3", "0o17", "0x1f", "007", "no", "e1", "a-b"])
def test_names_that_yaml_takes_for_something_else(
    fake: FakeServer, ask: Call, run: Run, site: Path, name: str
) -> None:
    fake.found[NEW] = FOUND
    ran = ask("adopt", NEW, "--name", name, "-o", "json")
    assert json.loads(ran.out)["imported"], ran
    assert run("validate", "-C", site).code == 0


HOSTILE = {
    "template": "{{ lookup('pipe', 'id') }}",
    "block": "{% include '/etc/passwd' %}",
    "comment": "{# x #}",
    "quote": 'a"\n  evil: 1\n#',
    "tag": "!vault x",
    "anchor": "*all",
    "number": "1e3",
    "word": "null",
    "percent": "%YAML 9",
    "backslash": "\\x41 $(id) `id`",
    "foreign": "Ä\u202e\u2028",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_a_machine_says_of_itself_is_text_and_no_template(
    fake: FakeServer, ask: Call, run: Run, site: Path, text: str
) -> None:
    fake.found[NEW] = {**FOUND, "hardware": {**HARDWARE, "vendor": text, "firmware": ""}}
    assert ask("adopt", NEW, "--name", "m41").code == 0
    written = (site / "machines" / "m41.yml").read_text(encoding="ascii")
    assert [it for it in "{}%\\$`" if it in written.partition("metal:")[2]] == []
    assert run("validate", "-C", site).code == 0


REFUSED: dict[str, tuple[tuple[str, str], str]] = {
    "no MAC": (("m41", "m41"), "`m41` is no MAC"),
    "a MAC of many": (("ff:ff:ff:ff:ff:ff", "m41"), "no single network card"),
    "not found": (("52:54:00:00:00:42", "m41"), f"was found (found were {NEW})"),
    "a machine of the site": ((NEW, "m01"), "has a host `m01` already"),
    "a host of the site": ((NEW, "n1"), "has a host `n1` already"),
    "the boot server": ((NEW, "boot-server"), "has a host `boot-server` already"),
    "a path": ((NEW, "../m41"), "is no name of a machine"),
    "capitals": ((NEW, "M41"), "is no name of a machine"),
    "empty": ((NEW, ""), "is no name of a machine"),
    "two lines": ((NEW, "m41\n"), "is no name of a machine"),
    "long": ((NEW, "m" * 64), "is no name of a machine"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_adopted_leaves_all_as_it_is(
    fake: FakeServer, ask: Call, site: Path, words: tuple[str, str], message: str
) -> None:
    fake.found[NEW] = FOUND
    ran = ask("adopt", words[0], "--name", words[1])
    assert ran.code == 64
    assert message in " ".join(ran.err.split())
    assert names(site) == ["m02.yml"]
    assert sorted(it.name for it in site.iterdir()) == ["machines", "site.yml"]
    assert fake.found == {NEW: FOUND}


def test_a_mac_of_the_site_is_not_adopted_again(fake: FakeServer, ask: Call, site: Path) -> None:
    mac = "52:54:00:00:00:01"
    fake.found[mac] = {**FOUND, "mac": mac}
    ran = ask("adopt", mac, "--name", "m41")
    assert ran.code == 64
    assert f"the machine `m01` of the site has the MAC {mac}" in ran.err
    assert names(site) == ["m02.yml"]


def test_no_file_is_replaced(fake: FakeServer, ask: Call, site: Path) -> None:
    fake.found[NEW] = FOUND
    write_site(site, fake, "[]")
    path = site / "machines" / "m41.yml"
    path.write_text("mine", encoding="utf-8")
    ran = ask("adopt", NEW, "--name", "m41")
    assert ran.code == 1
    assert "cannot be written: File exists" in ran.err
    assert names(site) == ["m02.yml", "m41.yml"]
    assert path.read_text(encoding="utf-8") == "mine"
    assert fake.found == {NEW: FOUND}


def test_a_boot_server_that_goes_after_the_file_is_written_is_told(
    fake: FakeServer, ask: Call, site: Path
) -> None:
    fake.found[NEW] = FOUND
    fake.refused["DELETE", "discovery"] = 500
    ran = ask("adopt", NEW, "--name", "m41")
    assert ran.code == 1
    assert "machines/m41.yml was written" in ran.out
    assert "DELETE of discovery is refused" in ran.err
    assert (site / "machines" / "m41.yml").exists()


# Looked at.

LESS = {**HARDWARE, "memory_mb": 32768, "disks": HARDWARE["disks"][:1]}  # type: ignore[index]
OFF = {"phase": "off", "over": True, "goal": "off"}
SCANNED = {"phase": "trampoline", "over": True, "hardware": HARDWARE}


def actions(fake: FakeServer) -> list[str]:
    """Return what was done with power."""
    return [it["action"] for it in fake.of("POST")]


def test_a_scan_shows_what_is_there_and_what_was(fake: FakeServer, ask: Call) -> None:
    fake.views["m01"] = view(**OFF, hardware=LESS)
    asks = "switch m01 on; it has to boot from the network"
    fake.polls = [{"phase": "starting", "asks": asks}, {**SCANNED, "asks": ""}, OFF]
    ran = ask("scan", "m01")
    assert is_sound(ran), ran
    lines = [" ".join(it.split()) for it in ran.out.splitlines()]
    assert lines == [
        "PART NOW BEFORE",
        "cores 16",
        "memory_mb 65536 32768",
        "firmware UEFI 2.7",
        "vendor Example Inc.",
        "product Server R640 (rev. B)",
        "disk nvme0n1 1600.3 GB, serial S1",
        "disk sda 480.1 GB none",
        f"card eth0 {NEW}",
    ]
    assert ran.err == f"{asks}\n"
    assert actions(fake) == ["scan", "off"]


def test_a_scan_of_a_machine_on_its_trampoline_leaves_it_there(
    fake: FakeServer, ask: Call, check_schema: Call
) -> None:
    fake.views["m01"] = view(**SCANNED)
    fake.polls = [SCANNED]
    ran = ask("scan", "m01", "-o", "json")
    assert ran.code == 0, ran
    assert actions(fake) == ["scan"]
    check_schema("metal-discovery", json.loads(ran.out))


def test_data_is_of_the_schema(fake: FakeServer, ask: Call, check_schema: Call) -> None:
    fake.found[NEW] = FOUND
    fake.views["m01"] = view(**OFF)
    fake.polls = [SCANNED, OFF]
    for words in (("discover",), ("adopt", NEW, "--name", "m41"), ("scan", "m01")):
        ran = ask(*words, "-o", "json")
        assert ran.code == 0, ran
        check_schema("metal-discovery", json.loads(ran.out))


def test_what_is_active_is_not_scanned(fake: FakeServer, ask: Call) -> None:
    fake.views["m01"] = view()
    fake.refused["POST", "machines"] = 409
    ran = ask("scan", "m01")
    assert ran.code == 1
    assert "POST of machines is refused" in ran.err
    assert actions(fake) == ["scan"]


def test_what_the_boot_server_does_not_know_is_not_scanned(fake: FakeServer, ask: Call) -> None:
    ran = ask("scan", "m01")
    assert ran.code == 64
    assert "`cobweb apply` makes it known" in " ".join(ran.err.split())
    assert fake.of("POST") == []


ENDS = {
    "failed": ({**OFF, "failure": "it was not on the trampoline within 600 s"}, "m01: it was not"),
    "other order": ({"key": "four/9/1", "phase": "booting"}, "has got another order meanwhile"),
}


@pytest.mark.parametrize(("poll", "message"), ENDS.values(), ids=ENDS)
def test_a_scan_that_ends_otherwise_orders_nothing_more(
    fake: FakeServer, ask: Call, poll: dict[str, Any], message: str
) -> None:
    fake.views["m01"] = view(**OFF)
    fake.polls = [poll]
    ran = ask("scan", "m01")
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    assert actions(fake) == ["scan"]


def test_a_scan_that_is_interrupted_switches_off_again(fake: FakeServer, ask: Call) -> None:
    fake.views["m01"] = view(**OFF)
    fake.on_poll = lambda: os.kill(os.getpid(), signal.SIGINT)
    ran = ask("scan", "m01")
    assert ran.code == 130
    assert "m01 is switched off again" in ran.err
    assert actions(fake) == ["scan", "off"]
