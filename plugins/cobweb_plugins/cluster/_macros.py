"""Coopr's macros: what a configuration says of hosts that nobody knows before the cluster is.

    %host.service.S%  %host.service.S[i]%   names of the hosts that have the service S
    %ip.service.S%    %ip.T.service.S[i]%   their addresses, of the kind T
    %num.service.S%                         how many these are
    %host.self%  %ip.self%  %ip.T.self%     those of the node itself
    %instance.self.service.S%               which of the nodes with S it is, from 1
    %cluster.owner%                         who the cluster belongs to
    %join(X,'d')%  %map(X,'f$')%            another delimiter than a comma; each put into a text

`$$` in a format is a dollar sign, `%%` anywhere a percent sign. A macro about what the cluster
has not stays as it is written, and so does all else between percent signs. Indexes `[i]` count from
0, in the order of node numbers. Addresses are results of the nodes' creation: late values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobweb.errors import CobwebError, ModelError
from cobweb.model import late_result

ADDRESS = "address"
"""The kind of address that is meant where none is named: the key of a node's result."""

_NAME = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_KIND = r"[A-Za-z0-9_-]+"
_BASIC = re.compile(
    rf"(?P<of>host|num|ip(?:\.(?P<kind>(?!(?:service|self)\b){_KIND}))?)\.service\.(?P<service>{_NAME})"
    r"(?:\[(?P<index>[0-9]{1,9})\])?"
    rf"|(?P<own>host|instance|ip(?:\.(?P<own_kind>(?!(?:service|self)\b){_KIND}))?)\.self"
    rf"(?:\.service\.(?P<own_service>{_NAME}))?"
    r"|(?P<owner>cluster\.owner)"
)
_CALL = re.compile(r"(join|map)\((.*),\s*(\"[^\"]*\"|'[^']*')\s*\)", re.DOTALL)
_MACRO = re.compile(
    r"%%|%((?:host|ip|num|instance|cluster)\.(?:[^%\s]|%%)*|(?:join|map)\((?:[^%]|%%)*)%(?!%)"
)
_DOLLAR = re.compile(r"\$\$|\$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What macros can know of a cluster: its hosts by node number, the nodes of each service."""

    name: str
    owner: str = ""
    nodes: Mapping[int, str] = field(default_factory=dict)
    services: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def hosts_with(self, service: str) -> list[str]:
        """Return the hosts that have a service, in the order of their nodes' numbers."""
        return [self.nodes[number] for number in sorted(self.services.get(service, ()))]

    def error(self, message: str, hint: str) -> ModelError:
        """Return the error that a macro of this cluster has no answer."""
        return ModelError([(("clusters", self.name), f"`{self.name}`: {message}", hint)])


def escaped(text: str) -> str:
    """Return a text that expands to `text`, whatever is in it."""
    return text.replace("%", "%%")


def expand_macros(value: Any, view: ClusterView, node: int | None = None) -> Any:
    """Return plain data with the macros in its texts expanded, for a node or (None) for all.

    Keys are left as they are. ModelError for a macro that is malformed or asks for a node too many.
    """
    if isinstance(value, str):
        return _MACRO.sub(lambda found: _expanded(found, view, node), value)
    if isinstance(value, Mapping):
        return {key: expand_macros(item, view, node) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [expand_macros(item, view, node) for item in value]
    return value


def functions(
    homes: Mapping[str, tuple[ClusterView, int | None]],
) -> dict[str, Callable[..., Any]]:
    """Return the macros as functions of a host and their arguments, for templates.

    `homes` are the cluster of each host, and its node's number there (None: the cluster's own
    host). Those about a service give lists. CobwebError where there is no answer.
    """
    return {
        name: _of_home(name, function, homes)
        for name, function in (
            ("host_service", _host_service),
            ("ip_service", _ip_service),
            ("num_service", _num_service),
            ("host_self", _host_self),
            ("ip_self", _ip_self),
            ("instance_self", _instance_self),
            ("cluster_owner", _cluster_owner),
        )
    }


# Macros in texts.


def _expanded(found: re.Match[str], view: ClusterView, node: int | None) -> str:
    if found[0] == "%%":
        return "%"
    values = _values(found[1].replace("%%", "%"), found[0], view, node)
    return found[0] if values is None else ",".join(values)


def _values(text: str, whole: str, view: ClusterView, node: int | None) -> list[str] | None:
    """Return what an expression stands for; None where the cluster has nothing of the kind."""
    call = _CALL.fullmatch(text)
    if call is not None:
        name, inner, literal = call[1], call[2], call[3][1:-1]
        values = None if inner.startswith("join(") else _values(inner, whole, view, node)
        if inner.startswith("join(") or (name == "map" and inner.startswith("map(")):
            raise _malformed(whole, view)
        if values is None:
            return None
        return [literal.join(values)] if name == "join" else [_put(it, literal) for it in values]
    basic = _BASIC.fullmatch(text)
    if basic is None:
        raise _malformed(whole, view)
    if basic["owner"]:
        return [view.owner]
    return _of_self(basic, whole, view, node) if basic["own"] else _of_service(basic, whole, view)


def _put(value: str, form: str) -> str:
    return _DOLLAR.sub(lambda found: "$" if found[0] == "$$" else value, form)


def _malformed(whole: str, view: ClusterView) -> ModelError:
    hint = "see docs/macros.md; a percent sign is written `%%`"
    return view.error(f"`{whole}` is no macro", hint)


def _of_service(basic: re.Match[str], whole: str, view: ClusterView) -> list[str] | None:
    hosts, index = view.hosts_with(basic["service"]), basic["index"]
    if not hosts:
        return None
    if basic["of"] == "num":
        if index is not None:
            raise _malformed(whole, view)
        return [str(len(hosts))]
    if index is not None:
        if int(index) >= len(hosts):
            message = f"`{whole}` asks for a node that is not there"
            hint = f"{len(hosts)} have `{basic['service']}`, and the first has the index 0"
            raise view.error(message, hint)
        hosts = [hosts[int(index)]]
    if basic["of"] == "host":
        return hosts
    return [late_result(host, basic["kind"] or ADDRESS) for host in hosts]


def _of_self(
    basic: re.Match[str], whole: str, view: ClusterView, node: int | None
) -> list[str] | None:
    service = basic["own_service"]
    if service is None and basic["own"] == "instance":
        raise _malformed(whole, view)
    if node is None or (service is not None and node not in view.services.get(service, ())):
        return None
    if basic["own"] == "instance":
        return [str(sorted(view.services[service]).index(node) + 1)]
    host = view.nodes[node]
    return [host if basic["own"] == "host" else late_result(host, basic["own_kind"] or ADDRESS)]


# The same as functions.

_Home = tuple[ClusterView, int | None]


def _of_home(
    name: str, function: Callable[..., Any], homes: Mapping[str, _Home]
) -> Callable[..., Any]:
    def call(host: str, *arguments: Any, **options: Any) -> Any:
        home = homes.get(host)
        if home is None:
            message = f"{name}() is for hosts of clusters, and {host} is none"
            raise CobwebError(message, hint="see docs/macros.md")
        return function(home, *arguments, **options)

    return call


def _host_service(home: _Home, service: str) -> list[str]:
    return home[0].hosts_with(service)


def _ip_service(home: _Home, service: str, kind: str = ADDRESS) -> list[str]:
    return [late_result(host, kind) for host in home[0].hosts_with(service)]


def _num_service(home: _Home, service: str) -> int:
    return len(home[0].hosts_with(service))


def _host_self(home: _Home) -> str:
    view, number = home
    return view.name if number is None else view.nodes[number]


def _ip_self(home: _Home, kind: str = ADDRESS) -> str:
    view, number = home
    if number is None:
        raise CobwebError(f"the cluster {view.name} itself has no address", hint="ask a node")
    return late_result(view.nodes[number], kind)


def _instance_self(home: _Home, service: str) -> int:
    view, number = home
    numbers = sorted(view.services.get(service, ()))
    if number not in numbers:
        message = f"{_host_self(home)} is no instance of {service}"
        raise CobwebError(message, hint="ask only on hosts that have it")
    return numbers.index(number) + 1


def _cluster_owner(home: _Home) -> str:
    return home[0].owner
