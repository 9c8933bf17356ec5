"""Simulated machines against a small boot server: power, priming and what interrupts them."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest

from cobweb.errors import CobwebError, UsageError
from cobweb_plugins.metal.simulated import simulate, two_writers
from tests.plugins.metal.boot_server import ADDRESS, CUT, LIMIT_S, MAC, BootServer
from tests.support.pool_members import until
from tests.support.ports import free_ports

IMAGE_BYTES = 200_000


def image(*lines: str) -> bytes:
    """Return a disk whose system has these commands; what follows does not shrink in a gzip."""
    text = "\n".join(["#!simulated-system", *lines, ""]).encode() + b"\0"
    noise = b"".join(
        hashlib.sha256(bytes([one, two])).digest() for one in range(25) for two in range(250)
    )
    return (text + noise)[:IMAGE_BYTES]


class Machine:
    """The machine m01 of a folder."""

    def __init__(self, folder: Path, server: BootServer) -> None:
        self.folder = folder
        self.server = server
        self.disk = folder / "m01.disk"
        self.ledger = folder / "ledger.jsonl"

    def __call__(self, action: str) -> str:
        return simulate("m01", action, folder=self.folder, server=self.server.url, mac=MAC)

    def pid(self) -> int:
        return int((self.folder / "m01.lock").read_text())

    def pids(self) -> list[int]:
        """Return all processes that are this machine, also those that begin to be."""
        found = psutil.process_iter(["cmdline"])
        return [one.pid for one in found if f"{self.folder}" in (one.info["cmdline"] or [])]

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        lines = self.ledger.read_text().splitlines()
        return [each for each in map(json.loads, lines) if not kinds or each["event"] in kinds]

    def history(self) -> list[str]:
        return [each["event"] for each in self.events()]

    def until_off(self) -> None:
        until(lambda: self("status") == "off")

    def until_written(self, size: int = 1) -> None:
        until(lambda: self.disk.exists() and self.disk.stat().st_size >= size)

    def boot_trampoline(self) -> dict[str, Any]:
        """Switch on; return what the trampoline says in hello."""
        assert self("on") == "on"
        assert self.server.heard("boot") == MAC
        hello = self.server.heard("hello")
        assert isinstance(hello, dict)
        return hello

    def boot_image(self, content: bytes) -> None:
        """Prime the machine that is on its trampoline, and boot from its disk."""
        self.server.prime(content)
        for kind in ("priming", "image", "primed"):
            self.server.heard(kind)
        self.server.boot = "disk"
        self.server.order("boot")
        self.server.heard("boot")


@pytest.fixture
def server() -> Iterator[BootServer]:
    made = BootServer()
    yield made
    made.stop()


@pytest.fixture
def machine(tmp_path: Path, server: BootServer) -> Iterator[Machine]:
    made = Machine(tmp_path / "machines", server)
    yield made
    assert made("off") == "off"
    assert made.pids() == []


def get(port: int) -> str:
    """Return what the system of the machine serves, once it does."""
    text = ""

    def is_served() -> bool:
        nonlocal text
        connection = HTTPConnection(ADDRESS, port, timeout=LIMIT_S)
        try:
            connection.request("GET", "/")
            text = connection.getresponse().read().decode()
        except OSError:
            return False
        finally:
            connection.close()
        return True

    until(is_served)
    return text


@pytest.mark.parametrize("form", ["gzip", "raw"])
def test_a_machine_is_primed_and_serves_from_its_disk(
    machine: Machine, server: BootServer, form: str
) -> None:
    (port,) = free_ports(1)
    content = image("# a page", "", f"serve {port} this is {{name}}")
    hello = machine.boot_trampoline()
    assert hello["nics"] == [{"name": "eth0", "mac": MAC}]
    assert [disk["name"] for disk in hello["disks"]] == ["sda"]
    server.prime(content, form=form)
    assert server.heard("priming") == ""
    assert server.heard("image") == "bytes=0-"
    assert server.heard("primed") == hashlib.sha256(content).hexdigest()
    assert machine.disk.read_bytes() == content
    server.boot = "disk"
    server.order("boot")
    assert server.heard("boot") == MAC
    assert get(port) == "this is web1\n"
    assert machine("off") == "off"
    assert machine.pids() == []
    assert machine.history() == [
        *("power-on", "boot", "write-begin", "write-end", "boot", "system", "power-off")
    ]
    assert {each["machine"] for each in machine.events()} == {"m01"}
    assert len({each["pid"] for each in machine.events()}) == 1
    server.order("wait")
    assert machine("on") == "on"
    assert get(port) == "this is web1\n"
    assert two_writers(machine.ledger) == []
    assert server.token not in log(machine) + machine.ledger.read_text()


def test_a_smaller_image_makes_the_disk_smaller(machine: Machine, server: BootServer) -> None:
    machine.boot_trampoline()
    for content in (image("hang"), b"no system"):
        server.prime(content)
        assert [server.heard(kind) for kind in ("priming", "image", "primed")]
        assert machine.disk.read_bytes() == content


@pytest.mark.parametrize("wipe", ["discard", "zero"])
def test_a_disk_is_wiped_before_it_is_written(
    machine: Machine, server: BootServer, wipe: str
) -> None:
    machine.boot_trampoline()
    server.prime(IMAGE)
    assert [server.heard(kind) for kind in ("priming", "image", "primed")]
    assert machine.events("wipe") == []
    server.prime(IMAGE[:-1], form="raw", stored=IMAGE[:CUT], wipe=wipe)
    assert server.heard("priming") == f"wiping sda ({wipe})"
    server.heard("image")
    server.heard("failed")
    assert machine.disk.read_bytes() == IMAGE[:CUT] + bytes(IMAGE_BYTES - CUT)
    assert machine.history()[-3:] == ["write-begin", "wipe", "write-end"]
    (event,) = machine.events("wipe")
    assert (event["how"], event["bytes"], event["disk"]) == (wipe, IMAGE_BYTES, "m01.disk")
    assert two_writers(machine.ledger) == []


def test_hardware_stays_the_same_and_settings_change_it(
    machine: Machine, server: BootServer
) -> None:
    first = machine.boot_trampoline()
    machine("off")
    assert machine.boot_trampoline() == first
    machine("off")
    (machine.folder / "m01.json").write_text('{"cores": 96}')
    assert machine.boot_trampoline() == {**first, "cores": 96}
    server.order("off")
    machine.until_off()


def test_power_is_on_once_however_often_it_is_switched_on(machine: Machine) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(machine, ["on"] * 4)) == {"on"}
    pid = machine.pid()
    assert machine("on") == machine("status") == "on"
    assert machine.pids() == [machine.pid()] == [pid]
    assert machine("off") == machine("off") == machine("status") == "off"
    assert machine.history().count("power-on") == machine.history().count("power-off") == 1


@pytest.mark.parametrize("action", ["on", "off", "status"])
def test_a_switch_waits_for_another(machine: Machine, action: str) -> None:
    before = machine("status")
    with ThreadPoolExecutor(1) as threads:
        with (machine.folder / "m01.switch").open() as switch:
            fcntl.flock(switch, fcntl.LOCK_EX)
            waiting = threads.submit(machine, action)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.1)
            assert machine.pids() == []
        assert waiting.result() == ("on" if action == "on" else before)


def test_a_machine_whose_files_are_removed_ends(machine: Machine) -> None:
    machine.boot_trampoline()
    shutil.rmtree(machine.folder)
    until(lambda: machine.pids() == [])


def test_a_machine_inherits_nothing_but_its_lock(machine: Machine, server: BootServer) -> None:
    with (machine.folder.parent / "inherited").open("w") as file:
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003  # it takes no keyword
        machine.boot_trampoline()
        files = psutil.Process(machine.pid()).open_files()
    assert {Path(each.path).name for each in files} == {"m01.log", "m01.lock"}
    assert os.getsid(machine.pid()) == machine.pid() != os.getsid(0)
    server.order("off")
    machine.until_off()


def test_folder_is_for_its_owner_only(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine("status") == "off"
    assert machine.folder.stat().st_mode & 0o777 == 0o700
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(UsageError, match="belongs to another user"):
            machine("on")


def test_a_script_and_an_order_switch_off(machine: Machine, server: BootServer) -> None:
    machine.boot_trampoline()
    server.order("off")
    machine.until_off()
    server.boot = "off"
    assert machine("on") == "on"
    machine.until_off()
    assert machine.history() == ["power-on", "boot", "power-off"] * 2


def test_a_machine_without_boot_device_asks_again(machine: Machine, server: BootServer) -> None:
    server.boot = "disk"
    machine("on")
    server.heard("boot")
    server.boot = ""
    server.heard("boot")
    assert machine("status") == "on"


def test_a_system_resets_once_after_each_priming(machine: Machine, server: BootServer) -> None:
    (port,) = free_ports(1)
    machine.boot_trampoline()
    pid = machine.pid()
    machine.boot_image(image(f"serve {port} up", "reset-once", "hang"))
    server.heard("boot")
    assert get(port) == "up\n"
    assert machine.pid() == pid
    assert machine.history().count("system") == 2
    server.order("wait")
    server.boot = "trampoline"
    machine("off")
    machine.boot_trampoline()
    machine.boot_image(image("reset-once"))
    server.heard("boot")


def test_a_system_that_resets_asks_the_server_each_time(
    machine: Machine, server: BootServer
) -> None:
    machine.boot_trampoline()
    machine.boot_image(image("reset"))
    server.heard("boot")
    server.boot = "off"
    machine.until_off()
    assert {each["pid"] for each in machine.events("system")} == {machine.events()[0]["pid"]}


@pytest.mark.parametrize("line", ["explode", "serve no-port text", "serve 99999 text"])
def test_a_system_that_cannot_go_on_hangs(machine: Machine, line: str) -> None:
    machine.boot_trampoline()
    machine.boot_image(image(line))
    until(
        lambda: {"panic: " in text or "cannot serve" in text for text in [log(machine)]} == {True}
    )
    assert machine("status") == "on"


def log(machine: Machine) -> str:
    return (machine.folder / "m01.log").read_text()


@pytest.mark.parametrize("form", ["gzip", "raw"])
def test_a_broken_image_is_resumed(machine: Machine, server: BootServer, form: str) -> None:
    content = image("hang")
    machine.boot_trampoline()
    server.on_cut = lambda: None
    server.prime(content, form=form)
    server.heard("priming")
    assert server.heard("image") == "bytes=0-"
    assert server.heard("image") == f"bytes={CUT}-"
    server.heard("primed")
    assert machine.disk.read_bytes() == content


def test_the_server_may_go_and_come_back(machine: Machine, server: BootServer) -> None:
    machine.boot_trampoline()
    server.on_cut = server.stop
    server.prime(image("hang"))
    until(lambda: log(machine).count(f"stopped at byte {CUT}") > 1)
    server.restart()
    server.heard("priming")
    assert [server.heard("image"), server.heard("image")] == ["bytes=0-", f"bytes={CUT}-"]
    server.heard("primed")


def test_a_token_that_is_over_ends_writing_and_power(machine: Machine, server: BootServer) -> None:
    content = image("hang")
    machine.boot_trampoline()
    server.on_cut = partial(setattr, server, "token", "token-2")
    server.prime(content, form="raw")
    machine.until_off()
    assert machine.disk.read_bytes() == content[:CUT]
    assert machine.history() == ["power-on", "boot", "write-begin", "write-end", "power-off"]


IMAGE = image("hang")
PACKED = gzip.compress(IMAGE, mtime=0)
BAD_IMAGES = {
    "other digest": ("raw", IMAGE[:-1] + b"?", "the disk has sha256 .*, not "),
    "shorter": ("raw", IMAGE[:-1], f"has {IMAGE_BYTES - 1} bytes, not {IMAGE_BYTES}"),
    "longer": ("raw", IMAGE + b"?", f"longer than {IMAGE_BYTES} bytes"),
    "empty": ("raw", b"", "has 0 bytes"),
    "no gzip": ("gzip", IMAGE, "cannot be unpacked: .*incorrect header"),
    "gzip without end": ("gzip", PACKED[:-9], "its end is missing"),
    "gzip with another sum": ("gzip", PACKED[:-8] + b"12345678", "incorrect data check"),
    "gzip and more": ("gzip", PACKED + b"more", "cannot be unpacked"),
}


@pytest.mark.parametrize(("form", "stored", "cause"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_a_bad_image_is_told(
    machine: Machine, server: BootServer, form: str, stored: bytes, cause: str
) -> None:
    machine.boot_trampoline()
    server.prime(IMAGE, form=form, stored=stored)
    server.heard("priming")
    server.heard("image")
    with pytest.raises(CobwebError, match=cause):
        raise CobwebError(server.heard("failed"))
    assert machine.history()[-2:] == ["write-begin", "write-end"]
    server.prime(IMAGE)  # the next order is carried out
    assert [server.heard(kind) for kind in ("priming", "image", "primed")]


@pytest.mark.parametrize("end", ["99999999999999 gzip sda none", "1 gzip nvme0 zero"])
def test_a_disk_that_does_not_fit_is_not_touched(
    machine: Machine, server: BootServer, end: str
) -> None:
    machine.boot_trampoline()
    server.order(f"prime {'0' * 64} {end}")
    assert server.heard("failed").startswith("there is no disk ")
    assert not machine.disk.exists()


def test_several_members_of_gzip_are_one_image(machine: Machine, server: BootServer) -> None:
    machine.boot_trampoline()
    server.prime(IMAGE, stored=gzip.compress(IMAGE[:CUT]) + gzip.compress(IMAGE[CUT:]))
    assert [server.heard(kind) for kind in ("priming", "image", "primed")]
    assert machine.disk.read_bytes() == IMAGE


def test_off_in_the_middle_of_writing_ends_it(machine: Machine, server: BootServer) -> None:
    over = threading.Event()
    machine.boot_trampoline()
    server.on_cut = over.wait
    server.prime(IMAGE, form="raw")
    machine.until_written()
    assert machine("off") == "off"
    assert machine.pids() == []
    over.set()
    assert machine.history() == ["power-on", "boot", "write-begin", "power-off"]
    server.heard("priming")
    server.heard("image")
    machine.boot_trampoline()
    assert [server.heard(kind) for kind in ("priming", "image", "primed")]
    assert machine.disk.read_bytes() == IMAGE
    assert two_writers(machine.ledger) == []


def test_a_machine_that_was_killed_is_off_in_the_ledger(
    machine: Machine, server: BootServer
) -> None:
    over = threading.Event()
    machine.boot_trampoline()
    server.on_cut = over.wait
    server.prime(IMAGE, form="raw")
    machine.until_written()
    killed = machine.pid()
    os.kill(killed, signal.SIGKILL)
    machine.until_off()
    over.set()
    assert machine("on") == "on"
    assert [each["pid"] for each in machine.events("power-off")] == [killed]


def test_a_second_writer_is_told_and_stops(machine: Machine, server: BootServer) -> None:
    machine.boot_trampoline()
    with machine.disk.open("wb") as disk:
        fcntl.flock(disk, fcntl.LOCK_EX)
        server.prime(IMAGE)
        machine.until_off()
    assert machine.disk.read_bytes() == b""
    assert machine.history()[-2:] == ["two-writers", "power-off"]
    assert len(two_writers(machine.ledger)) == 1


DYING = """
import os, signal, subprocess, sys
from pathlib import Path
from cobweb_plugins.metal.simulated import simulate

def run(*arguments, check, **options):
    if sys.argv[1] != "before":
        started = subprocess.Popen(*arguments, **options)
    if sys.argv[1] == "after":
        started.wait()
    os.kill(os.getpid(), signal.SIGKILL)

subprocess.run = run
simulate("m01", "on", folder=Path(sys.argv[2]), server=sys.argv[3], mac=sys.argv[4])
"""


@pytest.mark.parametrize("then", ["on", "off"])
@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_switch_that_is_killed_leaves_a_machine_on_or_off(
    machine: Machine, server: BootServer, moment: str, then: str
) -> None:
    command = [sys.executable, "-c", DYING, moment, str(machine.folder), server.url, MAC]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert machine("status") == ("off" if moment == "before" else "on")
    assert machine(then) == then
    until(lambda: len(machine.pids()) == (then == "on"))
    assert machine("off") == "off"
    assert machine.pids() == []
    assert two_writers(machine.ledger) == []


BAD_ARGUMENTS = {
    "name": {"name": "../m01"},
    "empty name": {"name": ""},
    "action": {"action": "reset"},
    "https": {"server": "https://127.0.0.1:7480"},
    "no host": {"server": "http://"},
    "port": {"server": "http://127.0.0.1:99999"},
    "interface": {"interface": "none0"},
}


@pytest.mark.parametrize("changes", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_bad_arguments_are_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    good = {"name": "m01", "action": "on", "server": "http://127.0.0.1:7480", "mac": MAC}
    with pytest.raises(UsageError) as caught:
        simulate(folder=tmp_path / "machines", **{**good, **changes})
    assert caught.value.hint
    assert not (tmp_path / "machines").exists()


@pytest.mark.parametrize("settings", ["{", "[]"])
def test_a_machine_that_does_not_start_is_told(machine: Machine, settings: str) -> None:
    machine("status")
    (machine.folder / "m01.json").write_text(settings)
    with pytest.raises(CobwebError, match=r"its log says why: .*m01\.log"):
        machine("on")
    assert machine("status") == "off"
    assert "Error" in log(machine)


def event(kind: str, pid: int, disk: str = "m01.disk", machine: str = "m01") -> str:
    return json.dumps({"event": kind, "pid": pid, "disk": disk, "machine": machine}) + "\n"


LEDGERS = {
    "nothing": ("", 0),
    "one after another": (
        event("write-begin", 1) + event("write-end", 1) + event("write-begin", 2),
        0,
    ),
    "other disk": (event("write-begin", 1) + event("write-begin", 2, "m02.disk", "m02"), 0),
    "power off ends it": (
        event("write-begin", 1) + event("power-off", 1) + event("write-begin", 2),
        0,
    ),
    "torn": (event("write-begin", 1) + event("write-begin", 2)[:-5], 0),
    "overlap": (event("write-begin", 1) + event("write-begin", 2), 1),
    "other power off": (
        event("write-begin", 1) + event("power-off", 3) + event("write-begin", 2),
        1,
    ),
    "after power off": (event("write-begin", 1) + event("power-off", 1) + event("write-end", 1), 1),
    "lock was held": (event("two-writers", 1), 1),
    "no event": ("{}\n[]\nx\n", 3),
}


@pytest.mark.parametrize(("text", "problems"), LEDGERS.values(), ids=LEDGERS)
def test_the_ledger_tells_two_writers(tmp_path: Path, text: str, problems: int) -> None:
    ledger = tmp_path / "ledger.jsonl"
    assert two_writers(ledger) == []
    ledger.write_text(text)
    assert len(two_writers(ledger)) == problems
