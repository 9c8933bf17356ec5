"""A real run whose SQLite database is on a full or read-only disk: nothing false is kept."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.conftest import COBWEB, Ran, Workshop
from tests.system.test_interrupts import CHECK, UP, Gates
from tests.system.test_outage import SITE_OF_THREE, read_until

pytestmark = [
    pytest.mark.full("runs on full disks, a minute; the gate has the refusal of one"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system"),
]

MOUNT = 'mount -t tmpfs -o size=12m small "$1" && echo mounted && read end'


@dataclass(frozen=True)
class SmallDisk:
    """The folder of the state database on a small disk, in a mount namespace of its own."""

    workshop: Workshop
    keeper: subprocess.Popen[str]

    @property
    def inside(self) -> tuple[str, ...]:
        return ("nsenter", "--mount", f"--target={self.keeper.pid}")

    @property
    def folder(self) -> Path:
        """The folder as it is seen from outside of the namespace."""
        return Path(f"/proc/{self.keeper.pid}/root{self.workshop.site}/.cobweb")

    def fill(self) -> None:
        """Leave no room at all."""
        with (self.folder / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(b"x" * 4096):
                pass

    def remount(self, how: str) -> None:
        mounted = self.workshop.site / ".cobweb"
        subprocess.run([*self.inside, "mount", "-o", f"remount,{how}", mounted], check=True)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.inside, *COBWEB, "-C", str(self.workshop.site), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **self.workshop.env},
        )
        self.workshop.started.append(process)
        return process

    def run(self, *arguments: str) -> Ran:
        process = self.start(*arguments)
        out, err = process.communicate()
        return Ran(process.returncode, out, err)

    def states(self) -> dict[str, str]:
        cobs = json.loads(self.run("status", "-o", "json").out)["cobs"]
        return {cob["id"]: cob["state"] for cob in cobs}


@pytest.fixture
def gates(workshop: Workshop, tmp_path: Path) -> Gates:
    made = Gates(tmp_path / "gates")
    (workshop.site / "site.yml").write_text(SITE_OF_THREE.replace("DIR", str(made.folder)))
    (workshop.site / "check.yml").write_text(CHECK)
    (workshop.site / "up.yml").write_text(UP)
    return made


@pytest.fixture
def disk(workshop: Workshop, gates: Gates) -> Iterator[SmallDisk]:
    del gates  # its site is first
    folder = workshop.site / ".cobweb"
    folder.mkdir()
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", MOUNT, "sh", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "mounted\n"
        yield SmallDisk(workshop, keeper)
        workshop.close()
        keeper.communicate("\n")


def begin(disk: SmallDisk, gates: Gates, *timeout: str) -> subprocess.Popen[str]:
    """Begin a run, and fill the disk while two transitions are at work."""
    run = disk.start("apply", "--yes", *timeout)
    gates.await_begun("first")
    gates.await_begun("second")
    while disk.states()["two/third"] != "down":  # its check may be the last one
        pass
    disk.fill()
    gates.open("first")
    return run


def test_the_end_of_a_run_on_a_full_disk_is_stored_in_the_room_that_was_kept(
    disk: SmallDisk, gates: Gates
) -> None:
    run = begin(disk, gates, "--store-timeout", "1s")
    said = read_until(run, "still at work")
    assert "cannot be written: the disk is full" in said
    assert "nothing new is started; 1 still at work: two/second: down -> up" in said
    gates.open("second")
    _, err = run.communicate()
    assert run.returncode == 1, err
    assert "stopped: the state database" in err
    assert "two/third was not begun" in err
    assert disk.states() == {"one/first": "up", "two/second": "up", "two/third": "down"}
    assert "not locked" in disk.run("lock", "show").out
    (told,) = json.loads(disk.run("runs", "-o", "json").out)["runs"]
    assert (told["result"], told["exit_code"]) == ("failed", 1)
    (disk.folder / "filler").unlink()
    assert disk.run("apply", "--yes").code == 0
    assert set(disk.states().values()) == {"up"}


def test_who_makes_room_in_time_lets_the_run_go_on(disk: SmallDisk, gates: Gates) -> None:
    run = begin(disk, gates)
    read_until(run, "waiting 60 s for it")
    (disk.folder / "filler").unlink()
    gates.open("second")
    _, err = run.communicate()
    assert run.returncode == 0, err
    assert set(disk.states().values()) == {"up"}
    assert (disk.folder / "state.db-reserve").exists()


@pytest.mark.gate("a full disk, told before anything is begun")
def test_a_run_does_not_begin_where_its_end_has_no_room(disk: SmallDisk, gates: Gates) -> None:
    disk.remount("size=3m")
    ran = disk.run("apply", "--yes")
    assert ran.code == 1
    database = disk.workshop.site / ".cobweb" / "state.db"
    assert f"the state database {database} cannot be written: No space left on device" in ran.err
    assert "make room and run again" in ran.err
    assert not list(gates.folder.glob("*.up"))
    assert not (disk.folder / "state.db-reserve").exists()


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "known"])
def test_a_read_only_file_system_is_told_before_anything_is_begun(
    disk: SmallDisk, *, is_new: bool
) -> None:
    if not is_new:
        name = disk.run("lock", "hold", "--for", "1m").out.strip()
        disk.run("lock", "break", name, "--yes")
    disk.remount("ro")
    ran = disk.run("apply", "--yes")
    assert ran.code == 1
    database = disk.workshop.site / ".cobweb" / "state.db"
    assert f"the state database {database} cannot be" in ran.err
    assert "Read-only file system" in ran.err
    assert "mount it for writing" in ran.err or is_new
    assert "Traceback" not in ran.err
    disk.remount("rw")
    assert disk.run("runs", "-o", "json").out.count('"id"') == 0
