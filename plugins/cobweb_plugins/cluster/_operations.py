"""Operations on a cluster as changes of what the site says of it (Coopr paper, Overview)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cobweb.errors import UsageError
from cobweb_plugins.cluster._catalog import Lease

Said = Mapping[str, Any]
"""A cluster as the site writes it."""


def scaled(said: Said, nodes: int) -> dict[str, Any]:
    """Return the cluster with another number of nodes."""
    return {**said, "nodes": nodes}


def with_services(said: Said, has: Iterable[str], more: Iterable[str]) -> dict[str, Any]:
    """Return the cluster with more services than it `has`; UsageError if it has one already."""
    known = list(has)
    for name in more:
        if name in known:
            raise UsageError(f"the cluster has the service {name} already")
        known.append(name)
    return {**said, "services": known}


def without_services(said: Said, has: Iterable[str], less: Iterable[str]) -> dict[str, Any]:
    """Return the cluster without some services that it `has`; UsageError if it has one not."""
    known, gone = list(has), list(less)
    for name in gone:
        if name not in known:
            hint = f"it has {', '.join(known)}"
            raise UsageError(f"the cluster has no service {name}", hint=hint)
    return {**said, "services": [name for name in known if name not in gone]}


def configured(
    said: Said, to_set: Mapping[str, Any], to_unset: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the cluster with other configuration; keys are paths with dots (`mysql.port`)."""
    config = copy.deepcopy(dict(said.get("config") or {}))
    for path, value in to_set.items():
        *way, last = path.split(".")
        here: Any = config
        for key in way:
            here = here.setdefault(key, {})
            if not isinstance(here, dict):
                raise UsageError(f"{path}: {key} is no mapping in the cluster's configuration")
        here[last] = value
    for path in to_unset:
        *way, last = path.split(".")
        here = config
        for key in way:
            here = here.get(key) if isinstance(here, dict) else None
        if not isinstance(here, dict) or last not in here:
            hint = "what the template says can be set to another value only"
            raise UsageError(f"{path} is not set in the cluster's configuration", hint=hint)
        del here[last]
    rest = {key: value for key, value in said.items() if key != "config"}
    return {**rest, "config": config} if config else rest


def switched(said: Said, state: str) -> dict[str, Any]:
    """Return the cluster started or stopped."""
    rest = {key: value for key, value in said.items() if key != "state"}
    return rest if state == "started" else {**rest, "state": state}


def restarted(said: Said) -> dict[str, Any]:
    """Return the cluster whose services are all to be started again."""
    return {**said, "restarts": said.get("restarts", 0) + 1}


def upgraded(said: Said, versions: Mapping[str, str], has: Iterable[str]) -> dict[str, Any]:
    """Return the cluster with other versions of services that it `has`."""
    known = list(has)
    for name in versions:
        if name not in known:
            hint = f"it has {', '.join(known)}"
            raise UsageError(f"the cluster has no service {name}", hint=hint)
    return {**said, "versions": {**(said.get("versions") or {}), **versions}}


def leased(said: Said, lease: Lease, now: datetime) -> dict[str, Any]:
    """Return a new cluster with the lease that its template gives it; none for ever."""
    if not lease.initial_s:
        return dict(said)
    ends = now + timedelta(seconds=lease.initial_s)
    return {**said, "lease": {"created": _written(now), "expires": _written(ends)}}


def extended(said: Said, lease: Lease, by_s: float | None, now: datetime) -> dict[str, Any]:
    """Return the cluster with its lease prolonged by `by_s`, or else by the template's step.

    UsageError where it has none, or is asked for more than the template allows: `step` at once,
    `max` since it was made.
    """
    has = said.get("lease") or {}
    if not has.get("expires"):
        raise UsageError("the cluster has no lease that could end")
    by_s = lease.step_s if by_s is None else by_s
    if not by_s:
        raise UsageError("the template names no step", hint="say by how much: --by 7d")
    if lease.step_s and by_s > lease.step_s:
        raise UsageError(
            "the template allows a shorter extension at once",
            hint=f"at most {_duration(lease.step_s)}",
        )
    ends = max(_read(has["expires"]), now) + timedelta(seconds=by_s)
    created = _read(has.get("created") or _written(now))
    if lease.max_s and ends > created + timedelta(seconds=lease.max_s):
        last = _written(created + timedelta(seconds=lease.max_s))
        raise UsageError("the cluster would live longer than its template allows", hint=last)
    return {**said, "lease": {**has, "expires": _written(ends)}}


def expired(clusters: Mapping[str, Said], now: datetime) -> list[str]:
    """Return the clusters whose lease has ended, sorted."""
    ends = {name: (said.get("lease") or {}).get("expires") for name, said in clusters.items()}
    return sorted(name for name, end in ends.items() if end and _read(end) <= now)


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _written(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds")


def _duration(seconds: float) -> str:
    """Return a duration as the catalog writes it."""
    for sign, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:g}{sign}"
    return f"{seconds:g}s"
