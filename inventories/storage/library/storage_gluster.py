# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the GlusterFS types of this site (types/gluster.yml).

What there is, is read from what glusterd keeps in /var/lib/glusterd: that is true also while the
daemon is down. Whether it works (bricks online, nothing to be healed) only the tool `gluster` says;
changes are made by it, and looked for afterwards, for it ends well where things are not yet done.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils import storage_glusterd as glusterd
from ansible.module_utils.cobweb_host import Answer, Failed, run

VOLUME_ID = "trusted.glusterfs.volume-id"
INSIDE = ".glusterfs"
BEFRIENDED = "3"
LOOK_S = 15
CHECK_S = 10
HELP_EVERY = 6
HELP_AT = 2


# The pool.


def peer_check(_cob: dict[str, Any]) -> Answer:
    """Find whether this server is in the pool; `outdated` is anything between in and out."""
    states = {it.get("state") for it in glusterd.peers()}
    return {"state": "down" if not states else "up" if states == {BEFRIENDED} else "outdated"}


def peer_join(cob: dict[str, Any]) -> Answer:
    """Take the server into the pool; runs on a member."""
    server, ends = cob["spec"]["server"], glusterd.deadline(glusterd.TIMEOUT_S)
    glusterd.ask(ends, "peer", "probe", server)
    glusterd.until(ends, lambda: _peer_trouble(server, ends))
    return {"changed": True}


def peer_leave(cob: dict[str, Any]) -> Answer:
    """Take the server out of the pool; runs on a member."""
    server, ends = cob["spec"]["server"], glusterd.deadline(glusterd.TIMEOUT_S)
    if _find_peer(server, ends) is not None:
        glusterd.ask(ends, "peer", "detach", server)
    return {"changed": True}


def _find_peer(server: str, ends: float) -> ET.Element | None:
    address = _address(server)
    for peer in glusterd.ask(ends, "pool", "list").iter("peer"):
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
    volume = glusterd.volume(spec["volume"])
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
    volume = glusterd.volume(spec["volume"])
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
    spec, ends = cob["spec"], glusterd.deadline(cob["spec"]["wait_s"])
    volume = glusterd.volume(spec["volume"])
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
        glusterd.ask(ends, "volume", "add-brick", *words)
    _until_well(spec["volume"], ends, _heal)
    return {"changed": True}


def bricks_leave(cob: dict[str, Any]) -> Answer:
    """Take the server's bricks out of the volume, where it exists; runs on a server that has some.

    Each replica set has one of them, so the others keep all data.
    """
    spec, ends = cob["spec"], glusterd.deadline(cob["spec"]["wait_s"])
    volume = glusterd.volume(spec["volume"])
    ours = [_name(it) for it in volume.bricks if it[0] == spec["server"]] if volume else []
    if volume is None or not ours:
        return {"left": False}
    if volume.replica == 1:
        raise Failed(f"{spec['server']} has the only copy of the data of {spec['volume']}")
    count = str(volume.replica - 1)
    glusterd.ask(ends, "volume", "remove-brick", spec["volume"], "replica", count, *ours, "force")
    return {"left": True}


def bricks_clear(cob: dict[str, Any]) -> Answer:
    """Delete the folders of bricks that have left; those of a deleted volume keep their data."""
    for path in cob["spec"]["paths"]:
        if not Path(path).is_dir():
            continue
        if cob.get("left") or (_is_blank(Path(path)) and not _owner(path)):
            shutil.rmtree(path)
    return {"changed": True}


def _in_order_of_sets(spec: dict[str, Any], volume: glusterd.Volume) -> list[glusterd.Brick]:
    """Return the bricks of a server in the order of the sets, which are known by their paths."""
    paths = [path for _, path in volume.bricks[:: volume.replica]]
    if sorted(paths) != sorted(spec["paths"]):
        raise Failed(f"{spec['volume']} has bricks at {paths}, {spec['server']} at {spec['paths']}")
    return [glusterd.Brick(spec["server"], path) for path in paths]


def _owner(path: str) -> str:
    """Return the id of the volume that a folder is or was a brick of, or nothing.

    An attempt to create a volume that was refused or cut off leaves an id on folders, too. Such a
    folder has no owner: there is nothing in it, and glusterd knows no volume of this id.
    """
    try:
        ident = os.getxattr(path, VOLUME_ID).hex()
    except OSError:
        return ""
    return "" if ident not in glusterd.known_idents() and _is_blank(Path(path)) else ident


def _is_blank(folder: Path) -> bool:
    """Say whether a brick was never served: then not even its own records were begun."""
    return not any(it.name != INSIDE or any(it.iterdir()) for it in folder.iterdir())


# The volume.


def volume_check(cob: dict[str, Any]) -> Answer:
    """Find whether the volume exists, is served, and has the options."""
    volume = glusterd.volume(cob["spec"]["volume"])
    if volume is None:
        return {"state": "absent"}
    if not volume.started:
        return {"state": "stopped"}
    return {"state": "outdated" if any(_options(cob, volume)) else "started"}


def volume_prepare(cob: dict[str, Any]) -> Answer:
    """Get a server ready for the volume to be created: `server` is the one that this runs on.

    It waits until all others are in the pool as this server sees it, for each of them is asked.
    What an earlier attempt left on its bricks goes.
    """
    spec, ends = cob["spec"], glusterd.deadline(cob["spec"]["wait_s"])
    if glusterd.volume(spec["volume"]) is not None:
        return {"changed": False}
    others = sorted({it["server"] for it in spec["bricks"]} - {cob["server"]})
    glusterd.until(
        ends, lambda: "; ".join(filter(None, (_peer_trouble(it, ends) for it in others)))
    )
    for brick in spec["bricks"]:
        if brick["server"] == cob["server"] and not _owner(brick["path"]):
            with contextlib.suppress(OSError):
                os.removexattr(brick["path"], VOLUME_ID)
    return {"changed": True}


def volume_create(cob: dict[str, Any]) -> Answer:
    """Create the volume of the bricks that the spec names.

    A refusal by another server comes when the bricks here have the new volume's id already, and
    would be refused themselves the next time: so it is not asked for again before they are ready.
    """
    spec, ends = cob["spec"], glusterd.deadline(cob["spec"]["wait_s"])
    if glusterd.volume(spec["volume"]) is None:
        bricks = [glusterd.Brick(it["server"], it["path"]) for it in spec["bricks"]]
        copies = len({brick.server for brick in bricks})
        replica = ["replica", str(copies)] if copies > 1 else []
        words = [spec["volume"], *replica, *map(_name, bricks)]
        glusterd.ask(ends, "volume", "create", *words, passes=glusterd.BEFORE_ANYTHING)
    return {"changed": True}


def volume_start(cob: dict[str, Any]) -> Answer:
    """Set the options, and start the volume if it is not; all bricks are online afterwards."""
    name, ends = cob["spec"]["volume"], glusterd.deadline(cob["spec"]["wait_s"])
    volume = glusterd.volume(name)
    if volume is None:
        raise Failed(f"there is no volume {name}")
    to_set, to_reset = _options(cob, volume)
    if to_set:
        words = [word for option in sorted(to_set.items()) for word in option]
        glusterd.ask(ends, "volume", "set", name, *words)
    for option in to_reset:
        glusterd.ask(ends, "volume", "reset", name, option)
    if not volume.started:
        glusterd.ask(ends, "volume", "start", name)
    glusterd.until(ends, lambda: "; ".join(_offline(name, ends)))
    return {"changed": True}


def volume_stop(cob: dict[str, Any]) -> Answer:
    """Stop serving the volume."""
    name = cob["spec"]["volume"]
    volume = glusterd.volume(name)
    if volume is not None and volume.started:
        glusterd.ask(glusterd.deadline(cob["spec"]["wait_s"]), "volume", "stop", name)
    return {"changed": True}


def volume_delete(cob: dict[str, Any]) -> Answer:
    """Forget the volume; what its bricks hold stays on the disks."""
    name = cob["spec"]["volume"]
    if glusterd.volume(name) is not None:
        glusterd.ask(glusterd.deadline(cob["spec"]["wait_s"]), "volume", "delete", name)
    return {"changed": True}


def _options(cob: dict[str, Any], volume: glusterd.Volume) -> tuple[dict[str, str], list[str]]:
    """Return the options to set, and those that were set by an earlier spec and are no more."""
    wanted = {key: str(value) for key, value in cob["spec"]["options"].items()}
    earlier = (cob.get("applied") or {}).get("options") or {}
    to_set = {key: text for key, text in wanted.items() if volume.options.get(key) != text}
    return to_set, sorted(set(earlier) & set(volume.options) - set(wanted))


# Healing.


def heal_check(cob: dict[str, Any]) -> Answer:
    """Find whether the volume is whole; `busy` is a promise among objects and never found.

    Writes that are under way look like a backlog for a moment.
    """
    ends = glusterd.deadline(CHECK_S)
    try:
        glusterd.until(ends, lambda: _trouble(cob["spec"]["volume"], ends))
    except Failed:
        return {"state": "hurt"}
    return {"state": "healed"}


def heal_look(cob: dict[str, Any]) -> Answer:
    """Fail if the volume is not whole, and say in what; a moment's backlog is waited for."""
    _until_well(cob["spec"]["volume"], glusterd.deadline(min(cob["spec"]["wait_s"], LOOK_S)), _heal)
    return {"changed": False}


def heal_wait(cob: dict[str, Any]) -> Answer:
    """Wait until nothing is to be healed any more; bricks that have died are started."""
    _until_well(cob["spec"]["volume"], glusterd.deadline(cob["spec"]["wait_s"]), _repair)
    return {"changed": True}


def _until_well(name: str, ends: float, help_it: Callable[[str], str]) -> None:
    """Wait until the volume is whole, or gone, and help it now and then, at least once."""
    refused = ""
    for number in range(1_000_000):
        try:
            trouble = _trouble(name, ends)
        except Failed as failed:
            trouble = str(failed)
        if not trouble:
            return
        if time.monotonic() > ends and number > HELP_AT:
            raise Failed(f"the volume {name} does not heal: {refused}{trouble}")
        if number % HELP_EVERY == HELP_AT:
            refused = help_it(name)
        time.sleep(glusterd.PAUSE_S)


def _heal(name: str) -> str:
    """Have the volume look at once for what is to be healed; return nothing."""
    glusterd.tool("volume", "heal", name)
    return ""


def _repair(name: str) -> str:
    """Start bricks that are not online, too; return what the tool says if it cannot."""
    if _offline(name, glusterd.deadline(LOOK_S)):
        _, message = glusterd.tool("volume", "start", name, "force")
        if message:
            return f"{message}; "
    return _heal(name)


def _trouble(name: str, ends: float) -> str:
    """Say what keeps a volume from being whole, in the tool's words; nothing if it is."""
    volume = glusterd.volume(name)
    if volume is None or not volume.started:
        return ""
    try:
        if volume.replica == 1:
            return "; ".join(_offline(name, ends))
        return "; ".join(_heal_info(name, ends)) or _lost_clients(name, volume, ends)
    except Failed:
        after = glusterd.volume(name)
        if after is None or not after.started:  # it was stopped while the tool was asked
            return ""
        raise


def _heal_info(name: str, ends: float) -> list[str]:
    """Say what is wrong with each brick, first of those that do not answer."""
    answer = glusterd.ask(ends, "volume", "heal", name, "info", "summary")
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
    nodes = glusterd.ask(ends, "volume", "status", name).iter("node")
    bricks = [it for it in nodes if (it.findtext("path") or "").startswith("/")]
    return [
        f"{it.findtext('hostname')}:{it.findtext('path')} is not online"
        for it in bricks
        if it.findtext("status") != "1"
    ]


def _lost_clients(name: str, volume: glusterd.Volume, ends: float) -> str:
    """Name a client that lacks a brick: for it, a further one away may be one too many."""
    found: dict[glusterd.Brick, Counter[str]] = {}
    for node in glusterd.ask(ends, "volume", "status", name, "clients").iter("node"):
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


def _address(server: str) -> str:
    try:
        return socket.gethostbyname(server)
    except OSError:
        return server


def _name(brick: glusterd.Brick) -> str:
    return ":".join(brick)


def _named(bricks: list[glusterd.Brick]) -> str:
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
            "volume-prepare": volume_prepare,
            "volume-create": volume_create,
            "volume-start": volume_start,
            "volume-stop": volume_stop,
            "volume-delete": volume_delete,
            "heal-check": heal_check,
            "heal-look": heal_look,
            "heal-wait": heal_wait,
        }
    )
