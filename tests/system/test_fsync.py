"""As the kernel sees it: the journal is flushed to the disk before anything is told of a batch."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.needed import lack
from tests.system.conftest import COBWEB

pytestmark = [pytest.mark.full("strace over a whole run")]

SITE = """
cobweb: 1
name: flushed
inventory: {all: {hosts: {h1: {}, h2: {}, h3: {}}}}
types:
  part:
    states: [outdated, down, up]
    preferred: up
    remove: down
    spec: {}
    check: {tasks: check.yml}
    transitions:
      down -> up: {tasks: do.yml}
      up -> down: {tasks: do.yml}
      outdated -> up: {tasks: do.yml}
      outdated -> down: {tasks: do.yml}
cobs:
  a: {type: part, on: all}
  b: {type: part, on: all, after: [a@all]}
"""
CALL = re.compile(r"^\d+ +(?P<name>\w+)\(\d+<(?P<path>[^>]*)>")


@pytest.mark.timeout(120)
def test_every_batch_is_flushed_before_it_is_told(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        lack("needs strace: apt-get install strace")
    (tmp_path / "site.yml").write_text(SITE, encoding="utf-8")
    for name in ("check.yml", "do.yml"):
        (tmp_path / name).write_text("[]\n", encoding="utf-8")
    told, calls = tmp_path / "events.jsonl", tmp_path / "calls"
    trace = ["strace", "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o", str(calls)]
    apply = [*COBWEB, "-C", str(tmp_path), "apply", "--yes", "--executor", "simulate"]
    subprocess.run([*trace, *apply, "--events", str(told)], check=True, capture_output=True)
    written = flushed = tells = 0
    for line in calls.read_text(encoding="utf-8", errors="replace").splitlines():
        call = CALL.match(line)
        if call is None:
            continue
        name, path = call["name"], call["path"]
        if path.endswith("state.db-wal") and name == "pwrite64":
            written += 1
        elif path.endswith("state.db-wal"):
            flushed += 1
            written = 0
        elif path == str(told):
            assert written == 0, "told before the journal was flushed"
            assert flushed > 0, "told twice for one flush"
            flushed, tells = 0, tells + 1
    assert tells > 3
    assert len(told.read_text(encoding="utf-8").splitlines()) > tells
