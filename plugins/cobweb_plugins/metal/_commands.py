"""The group `cobweb metal`: machines as the boot server sees them, and power by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cobweb.errors import CobwebError, UsageError
from cobweb.plugin import Cell, Column, SiteAccess, Tone, site_access

if TYPE_CHECKING:
    from cobweb_plugins.metal._client import Client, View
    from cobweb_plugins.metal._section import BootServer

_F = TypeVar("_F", bound=Callable[..., Any])

_PACKAGES = ("starlette", "uvicorn")
"""What the boot server is made with, and nothing else of Cobweb."""

_SHORT = 12
"""How many digits of a SHA-256 people are shown."""

_COLUMNS = (
    Column(title="MACHINE"),
    Column(title="PHASE"),
    Column(title="SYSTEM", flexible=True),
    Column(title="SINCE"),
    Column(title="NOTE", flexible=True),
)

_QUESTIONS = {
    "off": "Switch {} off? Its system is not asked.",
    "reset": "Switch {} off and on again? Its system is not asked.",
}


@click.group(
    "metal",
    epilog="\b\nExamples:\n  cobweb metal list\n  cobweb metal show m01\n"
    "  cobweb metal power m01 reset",
)
def metal() -> None:
    """Machines that boot from the network: see them, switch them."""


def _command(name: str, *examples: str) -> Callable[[_F], Any]:
    lines = "".join(f"\n  cobweb metal {it}" for it in examples)
    return metal.command(name, epilog=f"\b\nExamples:{lines}")


def _folder(text: str) -> Callable[[_F], _F]:
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option("--folder", required=True, metavar="DIR", type=kind, help=text)


@_command("list", "list", "list -o json")
@click.pass_context
def list_command(context: click.Context) -> None:
    """List the machines: what each does, and what a person is asked to do."""
    access = site_access(context)
    section, client = _site(access)
    known = {it["id"]: it for it in client.machines()}
    names = sorted({*known, *(section.get("machines") or {})})
    views = [known.get(name) or _unknown(name, section) for name in names]
    if not access.data({"format": 1, "machines": views}):
        _tell(access, views)


@_command("show", "show m01", "show m01 -o json")
@click.argument("machine")
@click.pass_context
def show_command(context: click.Context, *, machine: str) -> None:
    """Show all that the boot server knows of a machine."""
    access = site_access(context)
    section, client = _site(access)
    view = _view(client, section, machine)
    if access.data({"format": 1, "machines": [view]}):
        return
    for line in _lines(view):
        access.line(line)
    if view["asks"]:
        access.line(view["asks"], Tone.CAREFUL)
    if view["failure"]:
        access.line(f"failed: {view['failure']}", Tone.BAD)


@_command("power", "power m01 reset", "power m01 off --yes", "power m01 done")
@click.argument("machine")
@click.argument("action", type=click.Choice(("off", "reset", "done")))
@click.option("-y", "--yes", is_flag=True, help="Ask no question.")
@click.pass_context
def power_command(context: click.Context, *, machine: str, action: str, yes: bool) -> None:
    """Switch a machine by hand, or say that it is done.

    `off` and `reset` end what the machine does, whatever that is. `done` says
    that a person has done what the boot server asks for.
    """
    access = site_access(context)
    section, client = _site(access)
    _view(client, section, machine)
    if action in _QUESTIONS and not yes:
        access.refuse_unasked()
        click.confirm(_QUESTIONS[action].format(machine), abort=True, err=True)
    said = (section.get("machines") or {}).get(machine, {})
    view = client.power(machine, action, said.get("power"))
    if not access.data({"format": 1, "machines": [view]}):
        _tell(access, [view])


@_command(
    "boot-server",
    "boot-server --folder /var/lib/cobweb/metal --listen 10.72.0.1:7480",
)
@_folder("What it keeps: its book, the images, the key.")
@click.option("--listen", required=True, metavar="ADDRESS:PORT", help="Where it is found.")
@click.option("--dhcp", is_flag=True, help="Tell the DHCP server of the folder of machines.")
@click.option("--domain", default="", metavar="DOMAIN", help="That of the machines' names.")
def boot_server_command(*, folder: Path, listen: str, dhcp: bool, domain: str) -> None:
    """Be the boot server, until SIGTERM.

    A site with a section `metal` starts it as its object `boot-server`. It
    needs no site itself.
    """
    from importlib.util import find_spec

    for package in _PACKAGES:
        if find_spec(package) is None:
            message = f"the boot server needs the Python package {package}"
            raise CobwebError(message, hint="install Cobweb with its extra `metal`")
    from cobweb_plugins.metal.server import serve

    serve(folder.absolute(), listen, domain if dhcp else None)


@_command(
    "dhcp-server",
    "dhcp-server --folder /var/lib/cobweb/metal --url http://10.72.0.1:7480"
    " \\\n    --interface br0 --address 10.72.0.1/24 --range 10.72.0.192-10.72.0.254",
)
@_folder("That of the boot server.")
@click.option("--url", required=True, metavar="URL", help="The boot server.")
@click.option("--interface", required=True, metavar="NAME", help="Where machines are.")
@click.option("--address", required=True, metavar="A/N", help="Its own, and the network.")
@click.option("--range", "lent", required=True, metavar="A-B", help="What machines boot with.")
@click.option("--domain", metavar="DOMAIN", help="That of the machines' names.")
@click.option("--router", metavar="A", help="The way out of the network; none.")
@click.option("--dns", multiple=True, metavar="A", help="Who knows other names; nobody.")
def dhcp_server_command(*, folder: Path, url: str, lent: str, **said: Any) -> None:
    """Be the DHCP and DNS server of machines, by dnsmasq, until SIGTERM.

    A site whose section `metal` names an interface starts it as its object
    `dhcp-server`. It does not start where another DHCP server answers.
    """
    from cobweb_plugins.metal._dnsmasq import become_dnsmasq
    from cobweb_plugins.metal._network import network_of

    given = {key: it for key, it in said.items() if it}
    network, problems = network_of({**given, "range": lent.split("-", 1)})
    if network is None or problems:
        raise UsageError("; ".join(it[1] for it in problems))
    become_dnsmasq(network, folder.absolute(), url)


@_command("simulate", "simulate m01 on --folder sim --server URL --mac 52:54:00:00:00:01")
@click.argument("name")
@click.argument("action", type=click.Choice(("on", "off", "status")))
@_folder("Where its disk and its log are.")
@click.option("--server", required=True, metavar="URL", help="The boot server.")
@click.option("--mac", required=True, metavar="MAC", help="The machine's own.")
@click.option("--interface", default="", metavar="NAME", help="Where it asks DHCP. Needs root.")
def simulate_command(*, name: str, action: str, **machine: Any) -> None:
    """Switch a simulated machine: a power command for trying things out.

    The machine is a few processes on this host, and a file is its disk. No
    site and no root is needed. With an interface, for which it is called in a
    network namespace of the machine's own, it boots as real firmware does.
    """
    from cobweb_plugins.metal.simulated import simulate

    click.echo(simulate(name, action, **machine))


@_command(
    "build-trampoline",
    "build-trampoline",
    "build-trampoline --out trampoline --kernel linux-image-cloud-amd64",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it is put; by default where the site's boot server looks for it.",
)
@click.option(
    "--kernel",
    metavar="PACKAGE",
    help="The Debian package of its kernel; by default `linux-image-amd64`.",
)
@click.pass_context
def build_trampoline_command(
    context: click.Context, *, out: Path | None, kernel: str | None
) -> None:
    """Build what machines boot from the network to be primed.

    It is made of Debian packages, which apt downloads. The same packages make
    the same trampoline, which its digest tells.
    """
    from cobweb_plugins.metal.server._network import TRAMPOLINE
    from cobweb_plugins.metal.trampoline import DEFAULT_KERNEL, build

    access = site_access(context)
    folder = out or Path(_server(access)[1].folder) / TRAMPOLINE
    built = build(folder.absolute(), kernel or DEFAULT_KERNEL)
    found = {"digest": built.digest, "files": built.files, "packages": built.packages}
    if access.data({"format": 1, "folder": str(folder), **found}):
        return
    for package in built.packages:
        access.line(f"{package['name']} {package['version']}")
    megabytes = sum(built.files.values()) / 1e6
    access.line(f"trampoline {built.digest[:_SHORT]}, {megabytes:.1f} MB, in {folder}")


# What a site says, and what its boot server knows.


def _site(access: SiteAccess, patience_s: float = 0.0) -> tuple[Mapping[str, Any], Client]:
    """Return the section, and the client of its boot server."""
    from cobweb_plugins.metal._client import Client

    section, server = _server(access)
    return section, Client(server.url, server.folder, patience_s=patience_s)


def _server(access: SiteAccess) -> tuple[Mapping[str, Any], BootServer]:
    """Return the section, and where its boot server is."""
    from cobweb_plugins.metal._section import NAME, server_of

    section = access.sections().get(NAME)
    if section is None:
        raise UsageError(f"the site has no section `{NAME}`", hint="see docs/metal.md")
    return section, server_of(section, access.dir)


def _view(client: Client, section: Mapping[str, Any], name: str) -> View:
    """Return what the server knows of a machine of the site, or of its own."""
    machines = section.get("machines") or {}
    view = client.machine(name)
    if view is None and name not in machines:
        hint = f"there are {', '.join(sorted(machines)) or 'none'}"
        raise UsageError(f"there is no machine `{name}`", hint=hint)
    return view or _unknown(name, section)


def _unknown(name: str, section: Mapping[str, Any]) -> View:
    """Return the view of a machine that the server has never had to do with."""
    from cobweb_plugins.metal._section import mac_of

    return {
        **dict.fromkeys(("failure", "asks", "name", "address", "domain"), ""),
        **dict.fromkeys(("vcluster", "site", "key"), ""),
        **dict.fromkeys(("goal", "image", "ready", "disk", "hardware", "word")),
        "id": name,
        "host_keys": [],
        "phase": "new",
        "since": 0,
        "over": True,
        "mac": mac_of(section["machines"][name]["mac"]),
        "power": "unknown",
    }


# How it is told.


def _tell(access: SiteAccess, views: Sequence[View]) -> None:
    """Write the table, and below it what people are to do: it may have a command to copy."""
    access.table(_COLUMNS, [_row(it) for it in views])
    if not views:
        access.line("There are no machines.")
    for view in views:
        if view["asks"]:
            access.line(view["asks"], Tone.CAREFUL)


def _row(view: View) -> Sequence[str | Cell]:
    system = " ".join(it for it in (view["name"], view["address"]) if it)
    return (
        view["id"],
        view["phase"] if view["over"] else f"{view['phase']} > {view['goal']}",
        system,
        _time(view["since"]),
        _note(view),
    )


def _note(view: View) -> Cell:
    if view["asks"]:
        return Cell(text="waits for a person", tone=Tone.CAREFUL)
    if view["failure"]:
        return Cell(text=view["failure"], tone=Tone.BAD)
    return Cell(text=view["word"]["text"] if view["word"] else "")


def _lines(view: View) -> Sequence[str]:
    """Return what is known, a line each; what is not known has none."""
    disk, hardware, word = (view[it] or {} for it in ("disk", "hardware", "word"))
    image = (view["image"] or {}).get("sha256", "")
    found = {
        "machine": view["id"],
        "mac": view["mac"],
        "phase": f"{view['phase']} since {_time(view['since'])}" if view["since"] else "new",
        "goal": "" if view["over"] else view["goal"],
        "power": "" if view["power"] == "unknown" else view["power"],
        "system": " ".join(it for it in (view["name"], view["address"]) if it),
        "image": image[:_SHORT],
        "disk": str(disk.get("sha256") or "")[:_SHORT],
        "hardware": _hardware(hardware) if hardware else "",
        "last word": f"{word['text']} ({_time(word['time'])})" if word else "",
    }
    return [f"{key + ':':11}{it}" for key, it in found.items() if it]


def _hardware(found: Mapping[str, Any]) -> str:
    parts = (f"{found.get('cores')} cores", f"{found.get('memory_mb')} MB", *_disks(found))
    return ", ".join((*parts, str(found.get("firmware", ""))))


def _disks(found: Mapping[str, Any]) -> list[str]:
    return [f"{it['name']} {it['bytes'] / 1e9:.1f} GB" for it in found.get("disks", ())]


def _time(seconds: float) -> str:
    if not seconds:
        return ""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")
