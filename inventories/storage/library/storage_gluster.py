# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the GlusterFS types of this site (types/gluster.yml).

What there is, is read from what glusterd keeps in /var/lib/glusterd: that is true also while the
daemon is down. Whether it works (bricks online, nothing to be healed) only the tool `gluster` says;
changes are made by it, and looked for afterwards, for it ends well where things are not yet done.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.cobweb_host import Answer, Failed, run

STORE = Path("/var/lib/glusterd")
VOLUME_ID = "trusted.glusterfs.volume-id"
BEFRIENDED = "3"
STARTED = "1"
TIMEOUT_S = 60
PAUSE_S = 0.5
LOOK_S = 5
CHECK_S = 3
HELP_EVERY = 6
HELP_AT = 2
PASSES = (
    "Another transaction",
    "Connection failed",
    "Locking failed",
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


# The pool.


def peer_check(_cob: dict[str, Any]) -> Answer:
    """Find whether this server is in the pool; `outdated` is anything between in and out."""
    states = {it.get("state") for it in _peers()}
    return {"state": "down" if not states else "up" if states == {BEFRIENDED} else "outdated"}


def peer_join(cob: dict[str, Any]) -> Answer:
    """Take the server into the pool; runs on a member."""
    server, ends = cob["spec"]["server"], _deadline(TIMEOUT_S)
    _gluster(ends, "peer", "probe", server)
    _until(ends, lambda: _peer_trouble(server, ends))
    return {"changed": True}


def peer_leave(cob: dict[str, Any]) -> Answer:
    """Take the server out of the pool; runs on a member."""
    server, ends = cob["spec"]["server"], _deadline(TIMEOUT_S)
    if _find_peer(server, ends) is not None:
        _gluster(ends, "peer", "detach", server)
    return {"changed": True}


def _peers() -> list[dict[str, str]]:
    return [_settings(file) for file in sorted((STORE / "peers").glob("*"))]


def _find_peer(server: str, ends: float) -> ET.Element | None:
    address = _address(server)
    for peer in _gluster(ends, "pool", "list").iter("peer"):
        if address in {_address(name.text or "") for name in peer.iter("hostname")}:
            return peer
    return None


def _peer_trouble(server: str, ends: float) -> str:
    peer = _find_peer(server, ends)
    if peer is None:
        return f"{server} is not in the pool"
    connected, state = peer.findtext("connected"), peer.findtext("state", BEFRIENDED)
    if connected == "1" and state == BEFRIENDED:
        return ""
    return f"{server} is {peer.findtext('stateStr') or 'in the pool'}, and not connected"


# Bricks.


def bricks_check(cob: dict[str, Any]) -> Answer:
    """Find whether this server's bricks are in the volume, or ready for it where there is none."""
    spec = cob["spec"]
    volume = _volume(spec["volume"])
    if volume is None:
        ready = [Path(path).is_dir() and not _owner(path) for path in spec["paths"]]
    else:
        ours = {path for server, path in volume.bricks if server == spec["server"]}
        if ours - set(spec["paths"]):
            return {"state": "outdated"}
        ready = [path in ours for path in spec["paths"]]
    return {"state": "up" if all(ready) else "outdated" if any(ready) else "down"}


def bricks_prepare(cob: dict[str, Any]) -> Answer:
    """Make the folders, empty; what another volume left is deleted only where the spec says so."""
    spec = cob["spec"]
    volume = _volume(spec["volume"])
    used = {path for server, path in volume.bricks if server == spec["server"]} if volume else set()
    for path in set(spec["paths"]) - used:
        if not Path(path).parent.is_mount():
            raise Failed(
                f"{Path(path).parent} is not mounted: a brick would fill the system's disk"
            )
        if _owner(path) and not spec.get("wipe"):
            raise Failed(
                f"{path} holds a brick of an earlier volume ({_owner(path)}); "
                "move it away, or say `wipe: true`"
            )
        if _owner(path):
            shutil.rmtree(path)
        Path(path).mkdir(exist_ok=True)
    return {"changed": True}


def bricks_join(cob: dict[str, Any]) -> Answer:
    """Add the server's bricks to the volume, where it exists; runs on a server that has some."""
    spec, ends = cob["spec"], _deadline(cob["spec"]["wait_s"])
    volume = _volume(spec["volume"])
    if volume is None:
        return {"changed": False}
    ours = [brick for brick in volume.bricks if brick[0] == spec["server"]]
    wanted = _in_order_of_sets(spec, volume)
    if sorted(ours) != sorted(wanted):
        if ours:
            raise Failed(
                f"{spec['volume']} has the bricks {_named(ours)}, not {_named(wanted)}: "
                "take the server out of the site first, all its bricks leave at once"
            )
        count = str(volume.replica + 1)
        # The tool takes the bricks of one server for those of one set, and wants to be forced.
        words = [spec["volume"], "replica", count, *map(_name, wanted), "force"]
        _gluster(ends, "volume", "add-brick", *words)
    _until_well(spec["volume"], ends, _heal)
    return {"changed": True}


def bricks_leave(cob: dict[str, Any]) -> Answer:
    """Take the server's bricks out of the volume, where it exists; runs on a server that has some.

    Each replica set has one of them, so the others keep all data.
    """
    spec, ends = cob["spec"], _deadline(cob["spec"]["wait_s"])
    volume = _volume(spec["volume"])
    ours = [_name(it) for it in volume.bricks if it[0] == spec["server"]] if volume else []
    if volume is None or not ours:
        return {"left": False}
    if volume.replica == 1:
        raise Failed(f"{spec['server']} has the only copy of the data of {spec['volume']}")
    count = str(volume.replica - 1)
    _gluster(ends, "volume", "remove-brick", spec["volume"], "replica", count, *ours, "force")
    return {"left": True}


def bricks_clear(cob: dict[str, Any]) -> Answer:
    """Delete the folders of bricks that have left; those of a deleted volume keep their data."""
    for path in cob["spec"]["paths"]:
        if not Path(path).is_dir():
            continue
        if cob.get("left"):
            shutil.rmtree(path)
        elif not any(Path(path).iterdir()) and not _owner(path):
            Path(path).rmdir()
    return {"changed": True}


def _in_order_of_sets(spec: dict[str, Any], volume: Volume) -> list[Brick]:
    """Return the bricks of a server in the order of the sets, which are known by their paths."""
    paths = [path for _, path in volume.bricks[:: volume.replica]]
    if sorted(paths) != sorted(spec["paths"]):
        raise Failed(f"{spec['volume']} has bricks at {paths}, {spec['server']} at {spec['paths']}")
    return [Brick(spec["server"], path) for path in paths]


def _owner(path: str) -> str:
    """Return the id of the volume that a folder is or was a brick of, or nothing."""
    try:
        return os.getxattr(path, VOLUME_ID).hex()
    except OSError:
        return ""


# The volume.


def volume_check(cob: dict[str, Any]) -> Answer:
    """Find whether the volume exists, is served, and has the options."""
    volume = _volume(cob["spec"]["volume"])
    if volume is None:
        return {"state": "absent"}
    if not volume.started:
        return {"state": "stopped"}
    return {"state": "outdated" if any(_options(cob, volume)) else "started"}


def volume_create(cob: dict[str, Any]) -> Answer:
    """Create the volume of the bricks that the spec names."""
    spec, ends = cob["spec"], _deadline(cob["spec"]["wait_s"])
    if _volume(spec["volume"]) is None:
        bricks = [Brick(it["server"], it["path"]) for it in spec["bricks"]]
        copies = len({brick.server for brick in bricks})
        replica = ["replica", str(copies)] if copies > 1 else []
        _gluster(ends, "volume", "create", spec["volume"], *replica, *map(_name, bricks))
    return {"changed": True}


def volume_start(cob: dict[str, Any]) -> Answer:
    """Set the options, and start the volume if it is not; all bricks are online afterwards."""
    name, ends = cob["spec"]["volume"], _deadline(cob["spec"]["wait_s"])
    volume = _volume(name)
    if volume is None:
        raise Failed(f"there is no volume {name}")
    to_set, to_reset = _options(cob, volume)
    if to_set:
        words = [word for option in sorted(to_set.items()) for word in option]
        _gluster(ends, "volume", "set", name, *words)
    for option in to_reset:
        _gluster(ends, "volume", "reset", name, option)
    if not volume.started:
        _gluster(ends, "volume", "start", name)
    _until(ends, lambda: "; ".join(_offline(name, ends)))
    return {"changed": True}


def volume_stop(cob: dict[str, Any]) -> Answer:
    """Stop serving the volume."""
    name = cob["spec"]["volume"]
    volume = _volume(name)
    if volume is not None and volume.started:
        _gluster(_deadline(cob["spec"]["wait_s"]), "volume", "stop", name)
    return {"changed": True}


def volume_delete(cob: dict[str, Any]) -> Answer:
    """Forget the volume; what its bricks hold stays on the disks."""
    name = cob["spec"]["volume"]
    if _volume(name) is not None:
        _gluster(_deadline(cob["spec"]["wait_s"]), "volume", "delete", name)
    return {"changed": True}


def _options(cob: dict[str, Any], volume: Volume) -> tuple[dict[str, str], list[str]]:
    """Return the options to set, and those that were set by an earlier spec and are no more."""
    wanted = {key: str(value) for key, value in cob["spec"]["options"].items()}
    earlier = (cob.get("applied") or {}).get("options") or {}
    to_set = {key: text for key, text in wanted.items() if volume.options.get(key) != text}
    return to_set, sorted(set(earlier) & set(volume.options) - set(wanted))


def _volume(name: str) -> Volume | None:
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


# Healing.


def heal_check(cob: dict[str, Any]) -> Answer:
    """Find whether the volume is whole; `busy` is a promise among objects and never found.

    Writes that are under way look like a backlog for a moment.
    """
    ends = _deadline(CHECK_S)
    try:
        _until(ends, lambda: _trouble(cob["spec"]["volume"], ends))
    except Failed:
        return {"state": "hurt"}
    return {"state": "healed"}


def heal_look(cob: dict[str, Any]) -> Answer:
    """Fail if the volume is not whole, and say in what; a moment's backlog is waited for."""
    _until_well(cob["spec"]["volume"], _deadline(min(cob["spec"]["wait_s"], LOOK_S)), _heal)
    return {"changed": False}


def heal_wait(cob: dict[str, Any]) -> Answer:
    """Wait until nothing is to be healed any more; bricks that have died are started."""
    _until_well(cob["spec"]["volume"], _deadline(cob["spec"]["wait_s"]), _repair)
    return {"changed": True}


def _until_well(name: str, ends: float, help_it: Callable[[str], str]) -> None:
    """Wait until the volume is whole, or gone, and help it now and then."""
    refused = ""
    for number in range(1_000_000):
        try:
            trouble = _trouble(name, ends)
        except Failed as failed:
            trouble = str(failed)
        if not trouble:
            return
        if time.monotonic() > ends:
            raise Failed(f"the volume {name} does not heal: {refused}{trouble}")
        if number % HELP_EVERY == HELP_AT:
            refused = help_it(name)
        time.sleep(PAUSE_S)


def _heal(name: str) -> str:
    """Have the volume look at once for what is to be healed; return nothing."""
    _tool("volume", "heal", name)
    return ""


def _repair(name: str) -> str:
    """Start bricks that are not online, too; return what the tool says if it cannot."""
    if _offline(name, _deadline(LOOK_S)):
        _, message = _tool("volume", "start", name, "force")
        if message:
            return f"{message}; "
    return _heal(name)


def _trouble(name: str, ends: float) -> str:
    """Say what keeps a volume from being whole, in the tool's words; nothing if it is."""
    volume = _volume(name)
    if volume is None or not volume.started:
        return ""
    try:
        if volume.replica == 1:
            return "; ".join(_offline(name, ends))
        return "; ".join(_heal_info(name, ends)) or _lost_clients(name, volume, ends)
    except Failed:
        after = _volume(name)
        if after is None or not after.started:  # it was stopped while the tool was asked
            return ""
        raise


def _heal_info(name: str, ends: float) -> list[str]:
    """Say what is wrong with each brick, first of those that do not answer."""
    answer = _gluster(ends, "volume", "heal", name, "info", "summary")
    found = sorted(map(_brick_trouble, answer.iter("brick")))
    return [text for _, text in found if text]


def _brick_trouble(brick: ET.Element) -> tuple[bool, str]:
    """Return whether a brick answers, and what is wrong with it."""
    name, status = brick.findtext("name"), brick.findtext("status") or ""
    total = brick.findtext("totalNumberOfEntries")
    if status != "Connected":
        # The tool puts the next element into the text.
        return False, f"{name}: {status.partition('totalNumberOfEntries')[0]}"
    if total == "0":
        return True, ""
    split = brick.findtext("numberOfEntriesInSplitBrain")
    text = f"{name}: {total} entries to heal" + (f", {split} in split-brain" * (split != "0"))
    return True, text


def _offline(name: str, ends: float) -> list[str]:
    """Name the bricks that are not online."""
    nodes = _gluster(ends, "volume", "status", name).iter("node")
    bricks = [it for it in nodes if (it.findtext("path") or "").startswith("/")]
    return [
        f"{it.findtext('hostname')}:{it.findtext('path')} is not online"
        for it in bricks
        if it.findtext("status") != "1"
    ]


def _lost_clients(name: str, volume: Volume, ends: float) -> str:
    """Name a client that lacks a brick: for it, a further one away may be one too many."""
    found: dict[Brick, Counter[str]] = {}
    for node in _gluster(ends, "volume", "status", name, "clients").iter("node"):
        here = found.setdefault(
            (node.findtext("hostname") or "", node.findtext("path") or ""), Counter()
        )
        for client in node.iter("client"):
            here[(client.findtext("hostname") or "").rpartition(":")[0]] += 1
    most: Counter[str] = Counter()
    for here in found.values():
        most |= here
    for brick in volume.bricks:
        lost = sorted(most - found.get(brick, Counter()))
        if lost:
            return f"{_name(brick)} is not connected to its client {lost[0]}"
    return ""


# The tool.


def _gluster(ends: float, *words: str) -> ET.Element:
    """Return the answer of the tool; a refusal that passes is waited for."""
    while True:
        answer, message = _tool(*words)
        if answer is not None and not message:
            return answer
        if time.monotonic() > ends or not any(it in message for it in PASSES):
            raise Failed(f"gluster {' '.join(words[:2])}: {message}")
        time.sleep(PAUSE_S)


def _tool(*words: str) -> tuple[ET.Element | None, str]:
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


def _until(ends: float, trouble: Callable[[], str]) -> None:
    while True:
        text = trouble()
        if not text:
            return
        if time.monotonic() > ends:
            raise Failed(text)
        time.sleep(PAUSE_S)


def _deadline(seconds: float) -> float:
    return time.monotonic() + seconds


def _settings(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines())
    return {key: text for key, _, text in lines}


def _address(server: str) -> str:
    try:
        return socket.gethostbyname(server)
    except OSError:
        return server


def _name(brick: Brick) -> str:
    return ":".join(brick)


def _named(bricks: list[Brick]) -> str:
    return ", ".join(map(_name, bricks))


if __name__ == "__main__":
    run(
        {
            "peer-check": peer_check,
            "peer-join": peer_join,
            "peer-leave": peer_leave,
            "bricks-check": bricks_check,
            "bricks-prepare": bricks_prepare,
            "bricks-join": bricks_join,
            "bricks-leave": bricks_leave,
            "bricks-clear": bricks_clear,
            "volume-check": volume_check,
            "volume-create": volume_create,
            "volume-start": volume_start,
            "volume-stop": volume_stop,
            "volume-delete": volume_delete,
            "heal-check": heal_check,
            "heal-look": heal_look,
            "heal-wait": heal_wait,
        }
    )
