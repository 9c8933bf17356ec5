"""What is written of virtual clusters, in `vclusters` of the section or in a command's options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Network
from typing import Any, ClassVar, Protocol

from cobweb.plugin import seconds_of
from cobweb_plugins.metal._network import Network, Problem
from cobweb_plugins.metal.vclusters._grants import Lease, Part, Request

POINT = "machine_filter"
"""The extension point whose class `where` reads the filters of machines."""

_LAST_MOMENT = 253402300799.0
NOTICE, GRACE, IMMUNITY = "1h", "10m", "10m"


class Filters(Protocol):
    """What a class at the point has; one instance is made without arguments."""

    point: ClassVar[str]
    name: ClassVar[str]

    def accepts(self, text: str, properties: Mapping[str, Any]) -> bool:
        """Say whether a machine with these properties fits; ValueError for a wrong filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What requests are looked at in: the section's templates and network, who reads filters."""

    templates: Mapping[str, Any]
    network: Network
    filters: Filters | None


def request_of(name: str, said: Mapping[str, Any], created: float) -> Request:
    """Return what is written as a request; ValueError for a time that is none.

    A node of which no `min` is said is there for good: what is added later may be taken.
    """
    parts = tuple(
        Part(
            template=it.get("template", said.get("template", "")),
            count=it["count"],
            min=it.get("min", it["count"]),
            max=it.get("max"),
            where=it.get("where", ""),
        )
        for it in said["nodes"]
    )
    words = {key: said[key] for key in ("group", "subnet", "domain", "priority") if key in said}
    lease = said.get("lease")
    return Request(
        name=name, parts=parts, created=created, lease=lease and lease_of(lease), **words
    )


def lease_of(said: Mapping[str, Any]) -> Lease:
    """Return a lease as it is written; ValueError for a time that is none."""
    notice, grace = said.get("notice", NOTICE), said.get("grace", GRACE)
    return Lease(
        until=moment_of(said["until"]),
        notice_s=span_of(notice),
        grace_s=span_of(grace),
    )


def span_of(said: str | int) -> float:
    """Return how many seconds a duration is, which may be none; ValueError where it is wrong."""
    return 0.0 if str(said) in ("0", "0s", "0m", "0h", "0d") else seconds_of(str(said))


def moment_of(text: str) -> float:
    """Return a time as `2026-12-01T08:00Z` in seconds since the epoch, without a zone in UTC."""
    try:
        found = datetime.fromisoformat(text)
        seconds = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError("is no time as in `2026-12-01T08:00Z`") from error
    if not 0 <= seconds <= _LAST_MOMENT:
        raise ValueError("is not between the years 1970 and 9999")
    return seconds


def moment_text(seconds: float) -> str:
    """Return a time as it can be written, in UTC."""
    return datetime.fromtimestamp(round(seconds), tz=UTC).isoformat().replace("+00:00", "Z")


def written_problems(said: Mapping[str, Any], place: Place) -> Iterator[Problem]:
    """Yield what is wrong in one of `vclusters`, whose name is not said."""
    yield from _time_problems(said.get("lease"))
    try:
        request = request_of("", {**said, "lease": None}, 0.0)
    except ValueError:  # told above
        return
    for number, part in enumerate(request.parts):
        for key, message, hint in _part_problems(part, place):
            yield ("nodes", number, key), message, hint
    yield from _network_problems(request, place.network)


def _time_problems(lease: Mapping[str, Any] | None) -> Iterator[Problem]:
    for key, it in (lease or {}).items():
        try:
            (moment_of if key == "until" else span_of)(it)
        except ValueError as error:
            yield ("lease", key), f"`{it}` {error}", ""


def _part_problems(part: Part, place: Place) -> Iterator[tuple[str, str, str]]:
    if part.template not in place.templates:
        known = f"known are {', '.join(sorted(place.templates)) or 'none'}"
        lack = f"there is no template `{part.template}`" if part.template else "give it `template`"
        yield "template", lack, known
    most = part.count if part.max is None else part.max
    if not part.min <= part.count <= most:
        bounds = f"min {part.min}" + ("" if part.max is None else f", max {part.max}")
        yield "count", f"{part.count} nodes are not within {bounds}", ""
    if part.where and place.filters is None:
        yield "where", "nothing reads filters here", "the plugin `pools` does"
    elif part.where and place.filters:
        try:
            place.filters.accepts(part.where, {})
        except ValueError as error:
            yield "where", f"the filter `{part.where}` {error}", "as in `cores >= 4`"


def _network_problems(request: Request, network: Network) -> Iterator[Problem]:
    if request.domain and not network.interface:
        yield ("domain",), "no DNS server would know it", "give `network` an `interface`"
    if request.subnet:
        try:
            subnet = IPv4Network(request.subnet)
        except ValueError as error:
            yield ("subnet",), f"`{request.subnet}` is no network: {error}", "as in `10.72.1.0/24`"
            return
        if not subnet.subnet_of(network.own.network):
            message = f"`{subnet}` is not within {network.own.network}, the boot server's network"
            yield ("subnet",), message, "make that larger, as in `address: 10.72.0.1/16`"
