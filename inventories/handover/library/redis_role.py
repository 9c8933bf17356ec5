# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the type `redis-role` of this site (types/redis.yml).

`take` makes the wished server the primary, or this one a replica of it; `give` hands the primary's
part of this server to a replica that has all data. Both use FAILOVER, which holds writers up for a
moment and lets both servers live; whoever follows somebody else is told of the new primary.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.cobweb_host import Answer, Failed, run

ANSWER_S = 5.0
FAILOVER_MS = 10_000
WAIT_S = 60.0
POLL_S = 0.1


def check(cob: dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    spec = cob["spec"]
    mine = _info(spec["server"])
    if mine is None:
        return {"state": "down"}
    return {"state": "up" if _is_as_wished(spec, mine) else "outdated"}


def take(cob: dict[str, Any]) -> Answer:
    """Let this server be what the site wishes; nothing is done where it is."""
    spec = cob["spec"]
    me, wished = spec["server"], spec["primary"]
    before = _info(me)
    if before is None:
        raise Failed(f"{me} does not answer")
    if me == wished:
        _become_primary(spec, before)
        _tell_others(spec, me)
    elif not _follows(before, wished):
        _say(me, "REPLICAOF", *_split(wished))
    _wait(f"{me} is not what it is to be", lambda: _is_as_wished(spec, _info(me) or {}))
    return {"changed": before != _info(me)}


def give(cob: dict[str, Any]) -> Answer:
    """Let another server be the primary, where this one is; it goes on as a replica.

    Where no other server is left there is nobody to give anything to, and this one stays what it
    is; where others are there and none has all data yet, it waits for one that has.
    """
    spec = cob["spec"]
    me, heir = spec["server"], ""
    _remember(spec)
    while _is_primary(me):
        _wait(f"no other server has the data of {me}", lambda: not _others(spec) or _heirs(spec))
        if not (heirs := _heirs(spec)):
            return {"changed": False, "msg": f"{me} is the last server of its group"}
        heir = max(heirs, key=lambda it: int(heirs[it]["slave_repl_offset"]))
        _hand_over(me, heir)
    if heir:
        _tell_others(spec, heir)
        _remember(spec)
    return {"changed": bool(heir)}


def _remember(spec: dict[str, Any]) -> None:
    """Write down whom this server follows, for `redis-join`, which asks that one as well."""
    info = _info(spec["server"]) or {}
    if info.get("role") == "slave":
        text = f"{info['master_host']} {info['master_port']}\n"
        Path(spec["home"], "former").write_text(text, encoding="utf-8")


def _others(spec: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return what the other members say that are there."""
    known = {it: _info(it) for it in spec["members"] if it != spec["server"]}
    return {it: info for it, info in known.items() if info is not None}


def _heirs(spec: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return of the others those that have all data of this server and hear of what is new."""
    return {it: info for it, info in _others(spec).items() if _follows(info, spec["server"])}


def _become_primary(spec: dict[str, Any], mine: dict[str, str]) -> None:
    """Be handed the primary's part by whoever has it; take it where nobody does.

    A member that is silent may have it, so then nothing is taken; one that has left the group and
    is silent has lost it.
    """
    me = spec["server"]
    if mine.get("role") == "master":
        return
    known = _others(spec)
    former = f"{mine.get('master_host')}:{mine.get('master_port')}"
    if former not in spec["members"]:
        known[former] = _info(former, silent_is_gone=True) or {}
    primaries = [it for it, info in known.items() if info.get("role") == "master"]
    if not primaries:
        _say(me, "REPLICAOF", "NO", "ONE")
        return
    (primary, *_) = primaries
    if not _follows(mine, primary):
        _say(me, "REPLICAOF", *_split(primary))
    _wait(f"{me} does not follow {primary}", lambda: _follows(_info(me) or {}, primary))
    _hand_over(primary, me)


def _hand_over(primary: str, heir: str) -> None:
    """Ask a primary to make a replica that has all data its successor; wait until that has ended.

    It has ended without a new primary where the replica went away meanwhile.
    """
    _say(primary, "FAILOVER", "TO", *_split(heir), "TIMEOUT", str(FAILOVER_MS))
    try:
        _wait(f"{primary} has not handed over to {heir}", lambda: _is_at_rest(primary))
    except Failed:
        _say(primary, "FAILOVER", "ABORT")
        raise


def _is_at_rest(place: str) -> bool:
    """Say whether a server neither hands over nor is being joined to its new primary."""
    info = _info(place) or {}
    if info.get("role") == "slave":
        return info["master_link_status"] == "up"
    return info.get("master_failover_state") == "no-failover"


def _is_primary(place: str) -> bool:
    return (_info(place) or {}).get("role") == "master"


def _tell_others(spec: dict[str, Any], primary: str) -> None:
    """Let the other members that are there follow the primary itself."""
    for member in spec["members"]:
        info = _info(member)
        if member != primary and info is not None and not _follows(info, primary):
            _say(member, "REPLICAOF", *_split(primary))
            _wait(f"{member} does not follow {primary}", lambda it=member: _is_linked(it, primary))


def _is_linked(member: str, primary: str) -> bool:
    info = _info(member)
    return info is None or _follows(info, primary)  # one that has gone need not follow


def _is_as_wished(spec: dict[str, Any], mine: dict[str, str]) -> bool:
    if spec["server"] == spec["primary"]:
        return mine.get("role") == "master"
    return _follows(mine, spec["primary"])


def _follows(info: dict[str, str], primary: str) -> bool:
    """Say whether a server is a replica of another, has its data and hears of what is new."""
    place = f"{info.get('master_host')}:{info.get('master_port')}"
    return info.get("role") == "slave" and place == primary and info["master_link_status"] == "up"


def _wait(problem: str, good: Any) -> None:
    end = time.monotonic() + WAIT_S
    while not good():
        if time.monotonic() > end:
            raise Failed(f"{problem} after {WAIT_S:g} s")
        time.sleep(POLL_S)


# --- the protocol of Redis


def _split(place: str) -> tuple[str, str]:
    address, _, port = place.rpartition(":")
    return address, port


def _info(place: str, *, silent_is_gone: bool = False) -> dict[str, str] | None:
    """Return what a server says of its replication; None where nobody listens.

    Failed where it is silent: nobody knows then what it is.
    """
    try:
        said = _ask(place, "INFO", "replication")
    except TimeoutError:
        if silent_is_gone:
            return None
        raise Failed(
            f"{place} does not answer in time and may be the primary;"
            " if its host is dead, take it out of the inventory"
        ) from None
    except OSError:
        return None
    lines = (line.partition(":") for line in said.splitlines())
    return {key: value for key, _, value in lines}


def _say(place: str, *words: str) -> None:
    try:
        _ask(place, *words)
    except OSError as error:
        raise Failed(f"{place} does not answer: {error}") from None


def _ask(place: str, *words: str) -> str:
    """Send one command and return its answer, a line or a text."""
    with socket.create_connection(_split(place), ANSWER_S) as link, link.makefile("rb") as answers:
        parts = [f"*{len(words)}", *(it for word in words for it in (f"${len(word)}", word)), ""]
        link.sendall("\r\n".join(parts).encode())
        line = answers.readline().decode().strip()
        if line.startswith("-"):
            raise Failed(f"{place} refuses {' '.join(words)}: {line[1:]}")
        return answers.read(int(line[1:])).decode() if line.startswith("$") else line


if __name__ == "__main__":
    run({"check": check, "take": take, "give": give})
