"""Built-in plugin: owners on many hosts that speak to each other over NATS (the paper's cobd)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from cobweb.errors import CobwebError
from cobweb.plugin import (
    Extension,
    RegisteredType,
    Section,
    Transport,
    data_dir,
    hookimpl,
    on_site,
    site_access,
    type_file,
)

if TYPE_CHECKING:
    from cobweb.model import Expansion
    from cobweb.plugin import ExpandContext, Link

__all__ = ["cobweb_interface"]

cobweb_interface = 1

NAME = "agents"
"""The section's name."""


@contextmanager
def _extra() -> Iterator[None]:
    """Raise CobwebError where what is imported lacks a package."""
    try:
        yield
    except ModuleNotFoundError as error:
        message, hint = f"there is no package {error.name}", "install Cobweb's extra `agents`"
        raise CobwebError(message, hint=hint) from error


class Nats:
    """The transport `nats`: each owner has a key, with which it speaks under its own name alone."""

    name: ClassVar[str] = "nats"

    def connect(self, address: str, owner: str, wake: Callable[[], None]) -> Link:
        """Return the end of an owner at `nats://HOST:PORT,HOST:PORT/ROOM?keys=FOLDER`."""
        with _extra():
            from cobweb_plugins.agents._link import connect

        return connect(address, owner, wake)


class AgentKind:
    """Commands over agents; at the point `command_channel`, which the plugin applications has."""

    point: ClassVar[str] = "command_channel"
    name: ClassVar[str] = "agents"
    rank: ClassVar[int] = 10
    width: ClassVar[int] = 10_000

    @asynccontextmanager
    async def open(self, site: Any) -> AsyncIterator[Any]:
        """Return the channel to the agents of a `cobweb.api.Site`, None where it has none."""
        if NAME not in site.evaluated.sections:
            yield None
            return
        with _extra():
            from cobweb_plugins.agents._command_channel import channel
        async with channel(site) as made:
            yield made


def _schema(name: str) -> Mapping[str, Any]:
    path = data_dir("schemas") / "sections" / f"{name}.schema.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


class AgentsSection:
    """Which hosts own their objects, and the servers over which owners speak."""

    name: ClassVar[str] = NAME
    schema: ClassVar[Mapping[str, Any]] = _schema("agents")
    decision_schema: ClassVar[Mapping[str, Any]] = _schema("agents.decision")

    @staticmethod
    def company(site: Any, desired: Any, orders: Any) -> Any:
        """Return the agents that an apply has to do with, None for none."""
        if NAME not in site.evaluated.sections:
            return None
        with _extra():
            from cobweb_plugins.agents._company import company_of

        return company_of(site, desired, orders)

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return the servers."""
        from cobweb_plugins.agents._section import expand_agents

        return expand_agents(sections, context)


@click.group("agents", epilog="\b\nExamples:\n  cobweb agents up\n  cobweb agents up --yes -o json")
def agents() -> None:
    """Owners on many hosts, and the servers over which they speak."""


@agents.command("up", epilog="\b\nExamples:\n  cobweb agents up\n  cobweb agents up --yes -o json")
@click.option("-y", "--yes", is_flag=True, help="Ask no question.")
@click.option("--wait", metavar="DURATION", help="Wait so long for a site that is locked.")
@click.pass_context
def _up_command(context: click.Context, *, yes: bool, wait: str | None) -> int:
    """Give each owner a key, and start the NATS servers of the site.

    Keys that are there stay. The public ones are decided, the secret ones are
    in .cobweb/agents beside site.yml. Then the hosts of the servers are
    applied, with all that is pending there. The same command again goes on,
    and lets in owners that came since.
    """
    with _extra():
        from cobweb_plugins.agents._up import up

    return up(site_access(context), yes=yes, wait=wait)


@click.group("agent", epilog="\b\nExamples:\n  cobweb agent run --name web1 --address ADDRESS")
def agent() -> None:
    """Be the agent of one host."""


@agent.command("run", epilog="\b\nExamples:\n  cobweb agent run --name web1 --address ADDRESS")
@click.option("--name", required=True, help="The host that it owns, as the site calls it.")
@click.option("--address", required=True, help="Where it meets the others: `cobweb agents up`.")
@click.option(
    "--folder",
    default="/var/lib/cobweb/agent",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps its journal.",
)
def _run_command(*, name: str, address: str, folder: Path) -> None:
    """Own the objects of one host: do what `cobweb apply` orders.

    It needs no checkout of the site and no root of its own, but what its
    tasks need. In ADDRESS `keys=` is a folder with NAME.seed, ca.pem and
    coordinator.pub, as `cobweb agents up` has made them.
    SIGTERM ends it when what is at work has ended.
    """
    with _extra():
        from cobweb_plugins.agents._agent import run

    run(name, address, folder)


@hookimpl
def cobweb_register_commands() -> Sequence[click.Command]:
    """Register `agents` and `agent`."""
    return [on_site(agents), agent]


@hookimpl
def cobweb_register_extensions() -> Sequence[type[Extension]]:
    """Register the command channel `agents`."""
    return [AgentKind]


@hookimpl
def cobweb_register_sections() -> Sequence[type[Section]]:
    """Register `agents`."""
    return [AgentsSection]


@hookimpl
def cobweb_register_types() -> Sequence[type[RegisteredType]]:
    """Register `nats-files`."""
    return [type_file(Path(str(data_dir("playbooks"))) / "agents" / "nats-files" / "type.yml")]


@hookimpl
def cobweb_register_transports() -> Sequence[type[Transport]]:
    """Register `nats`."""
    return [Nats]
