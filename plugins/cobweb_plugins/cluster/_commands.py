"""`cobweb cluster`: operations on clusters, each an edit of the site and an apply of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypeVar

import click
import yaml

from cobweb.errors import UsageError
from cobweb.model import host_of, name_of
from cobweb.plugin import seconds_of, site_access
from cobweb_plugins.cluster import _operations as operations
from cobweb_plugins.cluster._apply import apply_options, apply_site, edit_site
from cobweb_plugins.cluster._desk import Desk
from cobweb_plugins.cluster._edit import SiteEdit
from cobweb_plugins.cluster._groups import cluster
from cobweb_plugins.cluster._look import MOST_NODES, list_command, solve_command, status_command
from cobweb_plugins.cluster._plan_command import plan_command
from cobweb_plugins.cluster._section import NODE
from cobweb_plugins.cluster._values import value_of

_F = TypeVar("_F", bound=Callable[..., Any])


def _now() -> datetime:
    return datetime.now(UTC)


_EXAMPLES: Mapping[str, str] = {
    "create": "web1 --template lamp --nodes 3",
    "delete": "web1",
    "scale": "web1 6",
    "add-service": "web1 cache",
    "remove-service": "web1 cache",
    "configure": "web1 --set mysql.port=3307",
    "start": "web1",
    "stop": "web1",
    "restart": "web1",
    "upgrade": "web1 site=2",
    "sync": "",
    "extend": "web1 --by 7d",
    "expire": "--yes",
}


def _operation(function: _F) -> Any:
    """Make a command of a function that returns what clusters become."""

    @wraps(function)
    def command(tenant: str | None, **options: Any) -> int:
        given = {key: options.pop(key) for key in list(options) if key.startswith("apply_")}
        given["apply_message"] = given["apply_message"] or _told(name, options)
        access = site_access(click.get_current_context())
        with SiteEdit(access.dir, access.summary) as edit:
            desk = Desk(access, tenant)
            changes: Mapping[str, Any] = function(desk, **options)
            if not changes:
                access.summary("there is nothing to do")
                return 0
            forget = _services_of(desk, options["name"]) if options.get("force") else ()
            deletes = edit_site(desk, edit, changes, given)
        return apply_site(access, deletes, given, forget=forget)

    name = function.__name__.strip("_").replace("_", "-")
    epilog = f"\b\nExamples:\n  cobweb cluster {name} {_EXAMPLES[name]}".rstrip()
    return cluster.command(name, epilog=epilog)(tenant_option(apply_options(command)))


def _told(name: str, options: Mapping[str, Any]) -> str:
    """Return what an operation is, for the generation that it makes."""
    words = [options.get(key) for key in ("name", "names", "nodes", "services", "versions")]
    flat = [it for word in words for it in (word if isinstance(word, tuple) else [word])]
    return " ".join(["cluster", name, *(str(it) for it in flat if it is not None)])


def tenant_option(function: Any) -> Any:
    """Add `--tenant`."""
    return click.option(
        "--tenant",
        envvar="COBWEB_TENANT",
        metavar="NAME",
        help="Act for this tenant: clusters of others cannot be touched.",
    )(function)


_name = click.argument("name")
_services = click.argument("services", nargs=-1, required=True)


@_operation
@_name
@click.option("--template", required=True, help="The template of the catalog.")
@click.option("--nodes", required=True, type=click.IntRange(1, MOST_NODES), help="How many nodes.")
@click.option("--services", metavar="A,B", help="Its services; default: those of the template.")
@click.option("--provider", help="Where nodes come from.")
@click.option("--hardwaretype", help="The hardware type of all nodes.")
@click.option("--imagetype", help="The image type of all nodes.")
@click.option("--solver", help="Who lays it out; default cpsat.")
@click.option("--owner", help="Who it belongs to.")
@click.option("--set", "to_set", metavar="KEY=VALUE", multiple=True, help="Configuration.")
def _create(desk: Desk, name: str, to_set: tuple[str, ...], **asked: Any) -> Mapping[str, Any]:
    """Create a cluster of a template; one that is as asked for already is applied."""
    said = {key: value for key, value in asked.items() if value is not None}
    if "services" in said:
        said["services"] = _list(said["services"])
    if desk.tenant is not None:
        said["tenant"] = desk.tenant
    said = operations.configured(said, _pairs(to_set, plain=False))
    there = (desk.sections.get("clusters") or {}).get(name)
    if there is not None:
        if {key: value for key, value in there.items() if key != "lease"} == said:
            return {name: there}  # asked for before, and perhaps not carried out
        hint = (
            f"`cobweb apply` carries out what the site says; `cobweb cluster scale {name}` and the"
        )
        raise UsageError(f"there is a cluster {name} already", hint=f"{hint} like change it")
    template = desk.catalog.templates.get(said["template"])
    if template is not None:
        said = operations.leased(said, template.lease, _now())
    return {name: said}


@_operation
@_name
@click.option("--force", is_flag=True, help="Do not wait for services on nodes that are lost.")
def _delete(desk: Desk, name: str, **_force: bool) -> Mapping[str, Any]:
    """Delete a cluster and all its machines."""
    desk.said(name)
    return {name: None}


@_operation
@_name
@click.argument("nodes", type=click.IntRange(1, MOST_NODES))
def _scale(desk: Desk, name: str, nodes: int) -> Mapping[str, Any]:
    """Give a cluster another number of nodes."""
    return {name: operations.scaled(desk.said(name), nodes)}


@_operation
@_name
@_services
def _add_service(desk: Desk, name: str, services: tuple[str, ...]) -> Mapping[str, Any]:
    """Add services to a cluster."""
    said = desk.said(name)
    return {name: operations.with_services(said, desk.services(name, said), services)}


@_operation
@_name
@_services
def _remove_service(desk: Desk, name: str, services: tuple[str, ...]) -> Mapping[str, Any]:
    """Take services off a cluster."""
    said = desk.said(name)
    return {name: operations.without_services(said, desk.services(name, said), services)}


@_operation
@_name
@click.option("--set", "to_set", metavar="KEY=VALUE", multiple=True, help="As in mysql.port=3307.")
@click.option("--unset", "to_unset", metavar="KEY", multiple=True, help="As the template says.")
def _configure(
    desk: Desk, name: str, to_set: tuple[str, ...], to_unset: tuple[str, ...]
) -> Mapping[str, Any]:
    """Change the configuration; services that use it are stopped, configured and started.

    Without an option, what was changed in the site's files is carried out.
    """
    pairs = _pairs(to_set, plain=False)
    return {name: operations.configured(desk.said(name), pairs, to_unset)}


@_operation
@_name
def _start(desk: Desk, name: str) -> Mapping[str, Any]:
    """Start the services of a cluster."""
    return {name: operations.switched(desk.said(name), "started")}


@_operation
@_name
def _stop(desk: Desk, name: str) -> Mapping[str, Any]:
    """Stop the services of a cluster; its nodes stay."""
    return {name: operations.switched(desk.said(name), "stopped")}


@_operation
@_name
def _restart(desk: Desk, name: str) -> Mapping[str, Any]:
    """Stop, configure and start all services of a cluster."""
    return {name: operations.restarted(desk.said(name))}


@_operation
@_name
@click.argument("versions", metavar="[SERVICE=VERSION]...", nargs=-1)
def _upgrade(desk: Desk, name: str, versions: tuple[str, ...]) -> Mapping[str, Any]:
    """Bring services to other versions; without any, to those that the catalog has by now."""
    said = desk.said(name)
    pairs = _pairs(versions, plain=True)
    if pairs:
        return {name: operations.upgraded(said, pairs, desk.services(name, said))}
    return {name: {key: value for key, value in said.items() if key != "versions"}}


@_operation
@click.argument("names", metavar="[NAME]...", nargs=-1)
def _sync(desk: Desk, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Lay clusters out anew where their template or request has changed, and apply."""
    return {name: desk.said(name) for name in names or desk.clusters}


@_operation
@_name
@click.option("--by", metavar="DURATION", help="As in 7d; default: the step of the template.")
def _extend(desk: Desk, name: str, by: str | None) -> Mapping[str, Any]:
    """Prolong the lease of a cluster, as far as its template allows."""
    said = desk.said(name)
    try:
        by_s = None if by is None else seconds_of(by)
    except ValueError as error:
        raise UsageError(f"--by {by} {error}") from error
    lease = desk.resolved(name, said).template.lease
    return {name: operations.extended(said, lease, by_s, _now())}


@_operation
def _expire(desk: Desk) -> Mapping[str, Any]:
    """Delete the clusters whose lease has ended; for a timer or a job of CI."""
    return dict.fromkeys(operations.expired(desk.clusters, _now()))


for _command in (list_command, status_command, solve_command, plan_command):
    cluster.add_command(tenant_option(_command))


def _list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(words: tuple[str, ...], *, plain: bool) -> dict[str, Any]:
    """Return KEY=VALUE words; values are read as YAML unless they are `plain` text."""
    found: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise UsageError(f"{word} is not of the form KEY=VALUE")
        try:
            found[key] = value if plain else value_of(value)
        except yaml.YAMLError as error:
            raise UsageError(f"the value of {key} is no YAML: {error}") from error
    return found


def _services_of(desk: Desk, name: str) -> tuple[str, ...]:
    """Return the ids of what is on the nodes of a cluster, besides the machines."""
    found = desk.objects_of([name])
    return tuple(sorted(it for it in found if name_of(it) != NODE and host_of(it) != name))
