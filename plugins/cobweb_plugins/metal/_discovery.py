"""Commands for new machines: they are found on the network, taken into the site, looked at.

What a machine says of itself is anybody's word: the file that is written of it has no templates.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb.errors import CobwebError, SiteError, UsageError
from cobweb.plugin import Column, SiteAccess, Tone, seconds_of, site_access
from cobweb_plugins.metal._commands import _disks, _hardware, _site, _time, _view

if TYPE_CHECKING:
    from cobweb_plugins.metal._client import Client, View

_FOLDER = "machines"
"""Where modules of the site are written, one for each machine."""

_PATIENCE_S = 60.0
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PLAIN_KEY = re.compile(r"[a-z]+[0-9][a-z0-9-]*")
"""Names that YAML takes for text without quotes; there are more."""

_UNSURE = re.compile(r"[^\w .,:;()/+&@#'-]", re.ASCII)
"""What no text of a machine needs: a template begins with braces."""

_TEXTS = ("firmware", "vendor", "product")

_COLUMNS = (
    Column(title="MAC"),
    Column(title="HARDWARE", flexible=True),
    Column(title="VENDOR/PRODUCT", flexible=True),
    Column(title="SEEN"),
)

_PARTS = (
    Column(title="PART"),
    Column(title="NOW", flexible=True),
    Column(title="BEFORE", flexible=True),
)


def _examples(*lines: str) -> str:
    return "\b\nExamples:" + "".join(f"\n  cobweb metal {it}" for it in lines)


@click.command("discover", epilog=_examples("discover --for 30m", "discover", "discover --for 0"))
@click.option("--for", "window", metavar="TIME", help="Look for them so long from now on; 0: stop.")
@click.pass_context
def discover_command(context: click.Context, *, window: str | None) -> None:
    """List the machines that were found, and look for more.

    While they are looked for, a machine that nobody knows and that boots from
    the network gets a trampoline that tells what it is, and boots once more.
    """
    access = site_access(context)
    try:
        window_s = None if window is None else seconds_of(window, zero=True)
    except ValueError as error:
        raise UsageError(f"--for: `{window}` {error}") from error
    _, client = _site(access)
    said = client.discovery() if window_s is None else client.discover(window_s)
    if access.data({"format": 1, "until": said["until"], "found": said["found"]}):
        return
    access.table(_COLUMNS, [_row(it) for it in said["found"]])
    if not said["found"]:
        access.line("No machine was found.")
    if said["until"]:
        access.line(f"Machines are looked for until {_time(said['until'])} UTC: switch them on.")
    else:
        access.line("No machines are looked for: `cobweb metal discover --for 30m` begins.")
    if said["found"]:
        access.line("To take one into the site: `cobweb metal adopt MAC --name NAME`")


@click.command("adopt", epilog=_examples("adopt 52:54:00:00:00:41 --name m41"))
@click.argument("mac")
@click.option("--name", required=True, metavar="NAME", help="What it is called: its host.")
@click.pass_context
def adopt_command(context: click.Context, *, mac: str, name: str) -> None:
    """Take a machine that was found into the site.

    This writes the module machines/NAME.yml, which is yours to edit, and
    changes no other file. The machine itself is not touched.
    """
    from cobweb_plugins.metal._section import NAME

    access = site_access(context)
    section, client = _site(access)
    found = _found(client, mac)
    _refuse_taken(access, section, name, found["mac"])
    file = f"{_FOLDER}/{name}.yml"
    _create(access.dir / file, _module(name, found))
    is_read = name in (access.sections()[NAME].get("machines") or {})
    if not access.data({"format": 1, "machine": name, "file": file, "imported": is_read}):
        access.line(f"{file} was written: set `power` in it, and what it is to run.")
        if not is_read:
            text = f"{access.file} does not import it yet: write `imports: [{_FOLDER}/*.yml]` there"
            access.line(text, Tone.CAREFUL)
    client.forget(found["mac"])


@click.command("scan", epilog=_examples("scan m01", "scan m01 -o json"))
@click.argument("machine")
@click.pass_context
def scan_command(context: click.Context, *, machine: str) -> None:
    """Boot a machine onto its trampoline and show what hardware it has.

    It has to be off, or on its trampoline, and is so again in the end. BEFORE
    says what was something else when the boot server last knew.
    """
    access = site_access(context)
    section, client = _site(access, _PATIENCE_S)
    before = _view(client, section, machine)
    if before["phase"] == "new":
        hint = "`cobweb apply` makes it known where that has something to do with it"
        raise UsageError(f"the boot server has had nothing to do with {machine} yet", hint=hint)
    power = (section.get("machines") or {}).get(machine, {}).get("power")
    view = client.power(machine, "scan", power)
    try:
        _show(access, before, _awaited(access, client, view))
        if before["phase"] == "off":
            view = client.power(machine, "off", power)
            _awaited(access, client, view)
    except KeyboardInterrupt:
        current = client.machine(machine)
        if before["phase"] == "off" and current and current["key"] == view["key"]:
            client.power(machine, "off", power)
            access.summary(f"{machine} is switched off again, see `cobweb metal show {machine}`")
        raise


COMMANDS = (discover_command, adopt_command, scan_command)


# What was found, and the file that is written of it.


def _row(found: Mapping[str, Any]) -> tuple[str, ...]:
    hardware = found["hardware"]
    made = " ".join(it for it in (hardware["vendor"], hardware["product"]) if it)
    return found["mac"], _hardware(hardware), made, _time(found["time"])


def _found(client: Client, text: str) -> Mapping[str, Any]:
    """Return a machine that was found; UsageError where there is none with this MAC."""
    from cobweb_plugins.metal._section import mac_of

    try:
        mac = mac_of(text)
    except ValueError as error:
        raise UsageError(f"`{text}` {error}", hint="as in `52:54:00:00:00:41`") from error
    found: dict[str, Mapping[str, Any]] = {it["mac"]: it for it in client.discovery()["found"]}
    if mac not in found:
        hint = f"found were {', '.join(sorted(found)) or 'none'}"
        raise UsageError(f"no machine with the MAC {mac} was found", hint=hint)
    return found[mac]


def _refuse_taken(access: SiteAccess, section: Mapping[str, Any], name: str, mac: str) -> None:
    """Raise UsageError where the site cannot have a machine of this name with this MAC."""
    from cobweb_plugins.metal._section import mac_of

    if not _LABEL.fullmatch(name):
        hint = "a name has small letters, digits and `-`, as in `m41`"
        raise UsageError(f"`{name}` is no name of a machine", hint=hint)
    machines = section.get("machines") or {}
    hosts = {*machines}
    with suppress(SiteError):  # what is wrong elsewhere in the site keeps nobody from adopting
        hosts.update(access.graph().hosts())
    if name in hosts:
        raise UsageError(f"the site has a host `{name}` already", hint="take another name")
    for other, said in machines.items():
        with suppress(ValueError):
            if mac_of(said["mac"]) == mac:
                hint = "there is nothing to adopt: `cobweb apply` makes it known"
                raise UsageError(f"the machine `{other}` of the site has the MAC {mac}", hint=hint)


def _module(name: str, found: Mapping[str, Any]) -> str:
    """Return the text of the module that has a machine."""
    from cobweb_plugins.metal._section import NAME

    hardware = found["hardware"]
    values = {
        **{key: hardware[key] for key in ("cores", "memory_mb")},
        **{key: hardware[key] for key in _TEXTS if hardware[key]},
        **({"disks": ", ".join(_disks(hardware))} if hardware["disks"] else {}),
    }
    lines = [
        f"# Found by `cobweb metal discover` at {_time(found['time'])} UTC. Set `power`;",
        "# with `template`, `name` and `address` it runs something, without them it is off.",
        f"{NAME}:",
        "  machines:",
        f"    {name if _PLAIN_KEY.fullmatch(name) else json.dumps(name)}:",
        f"      mac: {json.dumps(found['mac'])}",
        "      power:",
        "        kind: manual",
        "      properties:",
        *(f"        {key}: {_scalar(it)}" for key, it in values.items()),
    ]
    return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    return json.dumps(value if isinstance(value, int) else _UNSURE.sub("?", str(value)))


def _create(path: Path, text: str) -> None:
    """Write a file that is not there yet, as a whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        try:
            os.link(draft, path)  # unlike a rename it replaces nothing
        finally:
            draft.unlink()
    except OSError as error:
        hint = "no file is ever replaced; move it away if it is there, or take another name"
        raise CobwebError(f"{path} cannot be written: {error.strerror}", hint=hint) from error


# A scan.


def _awaited(access: SiteAccess, client: Client, ordered: View) -> View:
    """Return a machine at the end of its order; say meanwhile what people are to do."""
    from cobweb_plugins.metal._client import LONG_POLL_S

    view, asked = ordered, ""
    while not view["over"] and view["key"] == ordered["key"]:
        if view["asks"] not in ("", asked):
            asked = view["asks"]
            access.summary(asked, Tone.CAREFUL)
        view = client.machine(view["id"], wait_s=LONG_POLL_S) or {**view, "key": ""}
    if view["key"] != ordered["key"]:
        raise CobwebError(f"{view['id']} has got another order meanwhile, and is left to that")
    if view["failure"]:
        raise CobwebError(f"{view['id']}: {view['failure']}", hint="look at its console")
    return view


def _show(access: SiteAccess, before: View, view: View) -> None:
    """Write what a machine has, and what it had where that was something else."""
    data = {"format": 1, "machine": view["id"], "hardware": view["hardware"]}
    if access.data({**data, "before": before["hardware"]}):
        return
    now, past = (_parts(it["hardware"] or {}) for it in (view, before))
    past = past or now
    rows = [
        (it, now.get(it, "none"), "" if past.get(it) == now.get(it) else past.get(it, "none"))
        for it in {**now, **past}
    ]
    access.table(_PARTS, rows)


def _parts(hardware: Mapping[str, Any]) -> dict[str, str]:
    """Return what hardware has, by what that is called."""
    found = {key: str(hardware.get(key, "")) for key in ("cores", "memory_mb", *_TEXTS)}
    for disk, text in zip(hardware.get("disks", ()), _disks(hardware), strict=True):
        name, size = text.split(" ", 1)
        found[f"disk {name}"] = f"{size}, serial {disk['serial']}" if disk["serial"] else size
    found |= {f"card {it['name']}": it["mac"] for it in hardware.get("nics", ())}
    return {key: it for key, it in found.items() if it}
