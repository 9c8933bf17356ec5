# SPDX-License-Identifier: GPL-3.0-or-later
"""What glusterd keeps in /var/lib/glusterd, and what its tool says: for the site's own module."""

from __future__ import annotations

import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.cobweb_host import Failed

STORE = Path("/var/lib/glusterd")
STARTED = "1"
TIMEOUT_S = 60
PAUSE_S = 0.5
BEFORE_ANYTHING = ("Another transaction", "Connection failed", "Locking failed")
"""Words of the tool's refusals that end by themselves, before any server has been asked."""

PASSES = (
    *BEFORE_ANYTHING,
    "is not in 'Peer in Cluster' state",
    "not connected",
    "in progress",
    "Request timed out",
)
"""Words of the tool's refusals that end by themselves when daemons have found each other."""


class Brick(NamedTuple):
    """A folder of a server that is a brick."""

    server: str
    path: str


class Volume(NamedTuple):
    """A volume as glusterd has stored it; bricks are in the order of the replica sets."""

    ident: str
    started: bool
    replica: int
    bricks: list[Brick]
    options: dict[str, str]


def peers() -> list[dict[str, str]]:
    """Return what is stored of each peer of this server."""
    return [_settings(file) for file in sorted((STORE / "peers").glob("*"))]


def volume(name: str) -> Volume | None:
    """Return what is stored of a volume, if there is one."""
    folder = STORE / "vols" / name
    if not (folder / "info").exists():
        return None
    info = _settings(folder / "info")
    names = [info[f"brick-{number}"] for number in range(int(info["count"]))]
    bricks = [_settings(folder / "bricks" / it) for it in names]
    return Volume(
        ident=info["volume-id"],
        started=info["status"] == STARTED,
        replica=int(info.get("replica_count", "1")),
        bricks=[Brick(it["hostname"], it["path"]) for it in bricks],
        options={key: text for key, text in info.items() if "." in key},
    )


def known_idents() -> set[str]:
    """Return the ids of all volumes, as they stand on bricks."""
    infos = (STORE / "vols").glob("*/info")
    return {_settings(info)["volume-id"].replace("-", "") for info in infos}


def ask(ends: float, *words: str, passes: tuple[str, ...] = PASSES) -> ET.Element:
    """Return the answer of the tool; a refusal that passes is waited for."""
    while True:
        answer, message = tool(*words)
        if answer is not None and not message:
            return answer
        if time.monotonic() > ends or not any(it in message for it in passes):
            raise Failed(f"gluster {' '.join(words[:2])}: {message}")
        time.sleep(PAUSE_S)


def tool(*words: str) -> tuple[ET.Element | None, str]:
    """Run the tool once; return its answer and, if it refused, why."""
    command = ["gluster", "--mode=script", "--xml", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise Failed("this host has no gluster; install glusterfs-server") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"gluster {' '.join(words[:2])} did not answer within {TIMEOUT_S} s") from None
    try:
        answer = ET.fromstring(done.stdout)  # noqa: S314 - the tool's own answer
    except ET.ParseError:
        text = (done.stderr + done.stdout).strip().splitlines()
        return None, text[0] if text else f"exit status {done.returncode}"
    refused = answer.findtext("opRet", "0") != "0"
    return answer, (answer.findtext("opErrstr") or "refused, without a reason") if refused else ""


def until(ends: float, trouble: Callable[[], str]) -> None:
    """Wait until `trouble` has nothing to say."""
    while True:
        text = trouble()
        if not text:
            return
        if time.monotonic() > ends:
            raise Failed(text)
        time.sleep(PAUSE_S)


def deadline(seconds: float) -> float:
    """Return the time until which something may be waited for."""
    return time.monotonic() + seconds


def _settings(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines())
    return {key: text for key, _, text in lines}
