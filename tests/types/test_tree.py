"""The type `tree` on a host."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator
from tests.support.trees import Entries, packed

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

TEXT = "one\ntwo\nthree\nfour\nfive\n"
FIRST: Entries = {"a.ini": TEXT, "bin/run": ("#!/bin/sh\n", 0o755), "cur": "-> bin", "empty": None}
SECOND: Entries = {"a.ini": TEXT.replace("five", "5"), "bin/run": ("#!/bin/sh -e\n", 0o755)}


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, plain_host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    spec = {"path": "/srv/conformance", **_lent(live, FIRST)}
    live.check_type("tree", plain_host, spec, {**spec, **_lent(live, SECOND)})


def test_the_example_of_its_page_works(
    fabric: Fabric, plain_host: FabricHost, tmp_path: Path
) -> None:
    """Applied, again without a change, and removed."""
    files = {"files/app/app.ini": "workers = 4\n", "files/app/app.key": "", "files/app/spool/x": ""}
    run_page_example(fabric, plain_host, tmp_path, "tree", files)


MOUNT = """
mkdir -p /srv/small/busy /srv/small/disk
mount -t tmpfs -o size=200k,nr_inodes=40 small /srv/small
mkdir -p /srv/small/disk
mount -t tmpfs disk /srv/small/disk
echo before > /srv/small/a; echo before > /srv/small/bound; echo others > /srv/small/others
"""
LOOK = "cd /srv/small; find . -ls | awk '{print $3, $5, $6, $11}' | sort; cat a bound others"
FULL: dict[str, tuple[Entries, str]] = {
    "bytes": ({"a": "x" * 300_000}, "No space left on device: 300000 bytes are needed"),
    "inodes": ({f"{number}": "x" for number in range(60)}, "No space left on device"),
    "bound": ({"a": "1", "bound": "1", "c": "1"}, "/srv/small/bound: Device or resource busy"),
}


NO_ROOM: tuple[tuple[Entries, str], ...] = (
    ({"b": Random(1).randbytes(300_000)}, "No space left on device"),
    ({"a": "1"}, "git: fatal: sha1 file"),
)


def test_what_cannot_be_written_leaves_all_as_it_was(
    live: Live, fabric: Fabric, plain_host: FabricHost
) -> None:
    """A full disk by bytes and by files; a file that is a mount point, found half-way."""
    fabric.run(plain_host, "sh", "-ec", MOUNT)
    fabric.run(plain_host, "mount", "--bind", "/srv/small/others", "/srv/small/bound")
    before = fabric.run(plain_host, "sh", "-c", LOOK).stdout
    cob = live.cob("tree", plain_host, {})
    try:
        for entries, message in FULL.values():
            cob.spec = {"path": "/srv/small", **_lent(live, entries)}
            report = cob.move("down", "up")
            assert report.outcome is Outcome.FAILED
            assert message in report.message
            assert fabric.run(plain_host, "sh", "-c", LOOK).stdout == before
            assert cob.check() == "down"
        cob.spec = {**cob.spec, **_lent(live, {"a": "1", "disk/new/b": "1"})}
        cob.go("down", "up")
        cob.go("up", "down")
        assert fabric.run(plain_host, "sh", "-c", LOOK).stdout == before
    finally:
        umount = "umount /srv/small/bound /srv/small/disk /srv/small; rm -r /srv/small"
        fabric.run(plain_host, "sh", "-c", umount)


def test_a_full_state_folder_changes_nothing(
    live: Live, fabric: Fabric, plain_host: FabricHost
) -> None:
    """Whether the archive does not fit, or what is there before; later all goes well."""
    mount = "mkdir -p /srv/state && mount -t tmpfs -o size=200k state /srv/state"
    fabric.run(
        plain_host, "sh", "-ec", f"{mount}; mkdir /srv/t; head -c 300000 /dev/urandom >/srv/t/a"
    )
    before = fabric.run(plain_host, "sha256sum", "/srv/t/a").stdout
    cob = live.cob("tree", plain_host, {})
    try:
        for entries, message in NO_ROOM:
            cob.spec = {"path": "/srv/t", "state_dir": "/srv/state", **_lent(live, entries)}
            report = cob.move("down", "up")
            assert report.outcome is Outcome.FAILED
            assert message in report.message
            assert fabric.run(plain_host, "sha256sum", "/srv/t/a").stdout == before
            assert fabric.run(plain_host, "ls", "-A", "/srv/t").stdout == "a\n"
            assert cob.check() == "down"
        fabric.run(plain_host, "mount", "-o", "remount,size=2m", "/srv/state")
        cob.go("down", "up")
        cob.go("up", "down")
        assert fabric.run(plain_host, "sha256sum", "/srv/t/a").stdout == before
    finally:
        fabric.run(plain_host, "sh", "-c", "umount /srv/state; rm -r /srv/state /srv/t")


def test_a_conflict_holds_up_who_needs_it(
    fabric: Fabric, plain_host: FabricHost, tmp_path: Path
) -> None:
    """Its message is in the output, what needs the tree waits for it, and all else goes on."""
    operator = Operator(fabric, tmp_path)
    operator.write_inventory({"app": [plain_host]})
    _write_site(tmp_path, TEXT, text="one")
    assert operator.apply().code == 0
    edit = "sed -i s/three/drei/ /srv/app/a.ini; echo mine > /srv/app/others"
    fabric.run(plain_host, "sh", "-c", edit)
    _write_site(tmp_path, TEXT.replace("three", "trois"), text="two")
    failed = operator.apply()
    assert failed.code == 1, failed.out + failed.err
    said = failed.out + failed.err
    assert "conflict in /srv/app, nothing was changed: a.ini" in said
    name = plain_host.name
    assert f"{name}/tree" in operator.cobweb("why", f"{name}/app").out
    assert fabric.run(plain_host, "cat", "/srv/app/a.ini").stdout == TEXT.replace("three", "drei")
    assert fabric.run(plain_host, "cat", "/srv/apart").stdout == "two"
    assert fabric.run(plain_host, "cat", "/srv/state").stdout == "one"
    _write_site(tmp_path, TEXT.replace("three", "trois"), text="two", policy="site")
    assert operator.apply().code == 0
    assert fabric.run(plain_host, "cat", "/srv/app/a.ini").stdout == TEXT.replace("three", "trois")
    left = "/srv/app /srv/state /srv/apart /var/lib/cobweb/*/%2Fsrv%2Fapp*"
    fabric.run(plain_host, "sh", "-c", f"rm -r {left} /var/lib/cobweb/*/%2Fsrv%2Fstate")


def _write_site(folder: Path, content: str, *, text: str, policy: str = "fail") -> None:
    """Write a site: a tree, a file that needs it, and a file that does not."""
    (folder / "files").mkdir(exist_ok=True)
    (folder / "files" / "a.ini").write_text(content)
    (folder / "site.yml").write_text(f"""
cobweb: 1
name: trees
inventory: hosts.yml
cobs:
  tree:
    type: tree
    on: app
    spec: {{path: /srv/app, source: files, on_conflict: {policy}}}
  app:
    type: file
    on: app
    spec: {{path: /srv/state, content: {text}}}
    requires: [tree]
  apart:
    type: file
    on: app
    spec: {{path: /srv/apart, content: {text}}}
""")


def _lent(live: Live, entries: Entries) -> dict[str, Any]:
    """Put an archive where the executor finds it, as the runtime does; return what a spec says."""
    tree, archive = packed(entries)
    live.trees.mkdir(exist_ok=True)
    (live.trees / f"{tree['digest']}.tar.gz").write_bytes(archive)
    return {"tree": tree}
