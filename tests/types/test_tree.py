"""The type `tree` on a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.trees import Entries, packed

TEXT = "one\ntwo\nthree\nfour\nfive\n"
FIRST: Entries = {"a.ini": TEXT, "bin/run": ("#!/bin/sh\n", 0o755), "cur": "-> bin", "empty": None}
SECOND: Entries = {"a.ini": TEXT.replace("five", "5"), "bin/run": ("#!/bin/sh -e\n", 0o755)}


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


def _lent(live: Live, entries: Entries) -> dict[str, Any]:
    """Put an archive where the executor finds it, as the runtime does; return what a spec says."""
    tree, archive = packed(entries)
    live.trees.mkdir(exist_ok=True)
    (live.trees / f"{tree['digest']}.tar.gz").write_bytes(archive)
    return {"tree": tree}
