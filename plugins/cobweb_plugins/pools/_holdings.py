"""What is decided of resources and services: bodies of decisions, and holdings.

The key of a decision is a resource; under `services/NAME` it is a service. What a resource has left
(`was`) stays in its decision, so that the objects of its former services are kept `down`: that is
what others wait for before it joins them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Holding

SERVICES = "services/"
"""What the key of a decision on a service begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What is decided of one resource: `holding` None says that it is nobody's.

    `was` are the services that it has left; one that is `lost` was given up with its host.
    `settings` have `on` and `with` of these services as they were when it joined them: it leaves by
    the same ones, whatever the site says by then.
    """

    holding: Holding | None
    was: tuple[str, ...] = ()
    lost: bool = False
    reason: str = ""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def book_of(body: Mapping[str, Any]) -> Book:
    """Return what the body of a decision on a resource says."""
    from cobweb_plugins.pools.decision import Holding, Order, Phase

    order = body.get("order")
    reason = body.get("reason", "")
    holding = body["service"] and Holding(
        service=body["service"],
        phase=Phase(body["phase"]),
        to=body.get("to"),
        order=order and Order(slo=order["slo"], weight=order["weight"], at_s=order["at"]),
        since_s=body["since"],
        held_until_s=body.get("held_until"),
        reason=reason,
    )
    was = tuple(body.get("was", ()))
    return Book(
        holding=holding or None,
        was=was,
        lost=body.get("lost", False),
        reason=reason,
        settings=body.get("settings", {}),
    )


def body_of(  # what differs from move to move, each by its name
    service: str | None,
    phase: str,
    *,
    since_s: float,
    was: Sequence[str] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return the body of a decision on a resource; of `more` what is None or empty is left out."""
    left = [it for it in dict.fromkeys(was) if it != service]
    settings = more.get("settings") or {}
    more["settings"] = {name: settings[name] for name in (service, *left) if name in settings}
    said = {key: value for key, value in {**more, "was": left}.items() if value}
    return {"service": service, "phase": phase, "since": since_s, **said}
