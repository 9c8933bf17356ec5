"""The type `file` on a host."""

from __future__ import annotations

from pathlib import Path

from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example


def test_it_passes_the_conformance_kit(live: Live, plain_host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    spec = {"path": "/srv/conformance.txt", "content": "one\n"}
    live.check_type("file", plain_host, spec, {**spec, "content": "two\n"})


def test_the_example_of_its_page_works(
    fabric: Fabric, plain_host: FabricHost, tmp_path: Path
) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, plain_host, tmp_path, "file")
