"""Who takes part in an application, and the files that members get before anything begins."""

from __future__ import annotations

import hashlib
import json
import socket
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support.counted_application import CountedApplication

CheckSchema = Callable[[str, Any], None]


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[CountedApplication]:
    """Give an application that is not written yet."""
    ring = CountedApplication(tmp_path)
    yield ring
    ring.end()


@pytest.fixture
def closed() -> Iterator[Mapping[str, Any]]:
    """Give the variables of a host at whose port nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": bound.getsockname()[1],
        }


def write_archive(ring: CountedApplication) -> str:
    """Write an archive of one file into the site, and return its SHA-256."""
    (ring.base / "word").write_text("a word\n", encoding="utf-8")
    path = ring.folder / "ring.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(ring.base / "word", "word")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(ring: CountedApplication, sha256: str) -> list[Mapping[str, str]]:
    """Return what the section says of an archive."""
    return [{"archive": "ring.tar.gz", "sha256": sha256, "dest": f"{ring.base}/unpacked"}]


@pytest.mark.gate("it runs an application to its end")
def test_an_archive_is_unpacked_before_anything_begins(ring: CountedApplication, run: Run) -> None:
    reads = f"cat {ring.base}/unpacked/word"
    sha256 = write_archive(ring)
    ring.write({"one": {"run": ring.command("one", reads)}}, ["n1"], files=files(ring, sha256))
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == 0, ran.err
    assert run("-C", ring.folder, "app", "logs", "ring").out == "n1: a word\n"


@pytest.mark.parametrize("wrong", ["sha256", "none"])
def test_an_archive_that_is_not_what_it_should_be_has_nothing_decided(
    ring: CountedApplication, run: Run, wrong: str
) -> None:
    write_archive(ring)
    if wrong == "none":
        (ring.folder / "ring.tar.gz").unlink()
    ring.write({"one": {"run": ring.command("one")}}, files=files(ring, "0" * 64))
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == 64, ran.err
    assert "ring.tar.gz" in ran.err
    assert not (ring.base / "unpacked").exists()
    assert not ring.state_dir.exists()
    assert run("-C", ring.folder, "app", "status", "ring").out.startswith("ring was never started")


def test_with_too_few_members_nothing_is_started(
    ring: CountedApplication, run: Run, closed: Mapping[str, Any]
) -> None:
    ring.write({"one": {"run": ring.command("one")}}, {"n1": {}, "gone": closed})
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == 1
    assert "gone has not joined: " in ran.err
    assert "Connection refused" in ran.err
    told = "1 of 2 nodes have joined, of 2 that must; nothing was started"
    assert ran.err.splitlines()[-1] == told
    assert ring.starts() == {}
    assert run("-C", ring.folder, "app", "status", "ring").out.startswith("ring was never started")


@pytest.mark.full("it runs an application to its end")
def test_with_enough_members_the_missing_are_named(
    ring: CountedApplication, run: Run, closed: Mapping[str, Any], check_schema: CheckSchema
) -> None:
    ring.write(
        {
            "one": {"run": ring.command("one")},
            "two": {"after": ["one"], "barrier": {}, "run": ring.command("two")},
        },
        {"n1": {}, "gone": closed},
        members={"at_least": 1},
    )
    ran = run("-C", ring.folder, "app", "run", "ring", "--yes")
    assert ran.code == 0, ran.err
    assert ran.err.splitlines()[-1] == "ring has ended on 1 of 1 node; not joined: gone"
    assert ring.starts() == {("n1", "one"): 1, ("n1", "two"): 1}
    data = json.loads(run("-C", ring.folder, "app", "status", "ring", "-o", "json").out)
    check_schema("application", data)
    assert list(data["missing"]) == ["gone"]
    why = run("-C", ring.folder, "app", "why", "ring", "gone")
    assert why.code == 0
    assert "gone has not joined: " in why.out
