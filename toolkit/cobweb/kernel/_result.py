"""How a run ended: counts, the exit code, and for each object that is not there the reason why."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from cobweb.engine import Blocked, Engine, WaitKind
from cobweb.errors import CobwebError
from cobweb.model import CobId, State, host_of


class Ending(StrEnum):
    """The result of a run, as told by `run.end`; `exit_code` is that of section 7."""

    OK = "ok"
    FAILED = "failed"
    STUCK = "stuck"
    INTERRUPTED = "interrupted"
    DRIFT = "drift"

    @property
    def exit_code(self) -> int:
        """The process exit code that tells this ending."""
        return {"ok": 0, "failed": 1, "drift": 2, "stuck": 4, "interrupted": 130}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why one object is not in its preferred state: a chain that ends in the cause (P5)."""

    cob: CobId
    state: State
    chain: tuple[Blocked, ...]

    @property
    def is_circle(self) -> bool:
        """Say whether the chain comes back to one of its own links."""
        links = [link.cob for link in self.chain]
        return bool(links) and self.chain[-1].on in links


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run did; `messages` holds what failed jobs said, by object.

    `in_flight` are the jobs that were stopped in the middle, `stopped` says why nothing new was
    started from some moment on ("" where nobody but the user said so). So many objects were
    `renamed`, or `forgotten` (gone from the site); so many are `out`, of those that have served.
    """

    run: str
    ending: Ending
    counts: Mapping[str, int]
    waits: tuple[Wait, ...] = ()
    messages: Mapping[CobId, str] = field(default_factory=dict)
    seconds: float = 0.0
    in_flight: tuple[str, ...] = ()
    stopped: str = ""
    notices: tuple[str, ...] = ()
    renamed: int = 0
    forgotten: int = 0
    out: int = 0

    @property
    def exit_code(self) -> int:
        """The process exit code."""
        return self.ending.exit_code

    @property
    def has_unplanned(self) -> bool:
        """Whether something was left alone since it would go out and no plan had named it."""
        return any(link.kind is WaitKind.UNPLANNED for wait in self.waits for link in wait.chain)


def _kind(wait: Wait) -> WaitKind | None:
    return wait.chain[0].kind if wait.chain else None


def waits_of(engine: Engine) -> tuple[Wait, ...]:
    """Return why the objects of an engine that has come to rest are not as they should be.

    Objects that this run may not move are left out.
    """
    cobs = engine.unsettled()
    waits = (Wait(cob=it, state=engine.state(it), chain=engine.chain(it)) for it in cobs)
    return tuple(wait for wait in waits if _kind(wait) is not WaitKind.EXCLUDED)


def with_cut(waits: Iterable[Wait], cut: Mapping[CobId, str]) -> tuple[Wait, ...]:
    """Return waits in which transitions that were `cut`, by object, are not called failed."""

    def told(link: Blocked) -> Blocked:
        if link.cob not in cut or link.kind is not WaitKind.FAILED:
            return link
        detail = f"was stopped in {cut[link.cob]}; the next apply checks it"
        return replace(link, kind=WaitKind.HALTED, detail=detail)

    return tuple(replace(wait, chain=tuple(map(told, wait.chain))) for wait in waits)


GIVEN_UP = "given up"
"""The detail of a link whose host nobody has tried to reach."""


def with_given_up(chain: Iterable[Blocked], hosts: Container[str]) -> tuple[Blocked, ...]:
    """Return a chain in which `hosts`, which are given up, are not called out of reach."""
    return tuple(
        replace(link, detail=GIVEN_UP)
        if link.kind is WaitKind.UNREACHABLE and host_of(link.cob) in hosts
        else link
        for link in chain
    )


_TOLD = (WaitKind.FAILED, WaitKind.UNREACHABLE, WaitKind.EXCLUDED, WaitKind.UNPLANNED)
"""What is no matter of order: what waits for that alone is told, not refused (P9)."""


class StuckError(CobwebError):
    """A run was not begun, since it is known that these objects would not get where they should."""

    exit_code = 4

    def __init__(self, waits: Iterable[Wait]) -> None:
        self.waits = tuple(waits)
        count = len(self.waits)
        what = f"{self.waits[0].cob} would wait" if count == 1 else f"{count} objects would wait"
        super().__init__(
            f"{what} for what no order gives; nothing was begun",
            hint="`cobweb plan` shows why; --allow-stuck carries out the parts that come to an end",
        )


def stuck_waits(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """Return the waits that are known to lead nowhere, whatever answers and whatever is mended."""
    return tuple(wait for wait in waits if wait.chain and not _is_told(wait))


def _is_told(wait: Wait) -> bool:
    """Say whether an object waits for what is no matter of order."""
    removal = any(it.kind is WaitKind.NO_WAY and it.state == "removal" for it in wait.chain)
    links = [link for link in wait.chain if not link.is_home]
    # the verdict of a canary is no matter of order by itself
    canary = any(it.kind is WaitKind.LIMIT and it.detail.endswith(", canary") for it in links)
    waits_for_verdict = canary and not wait.is_circle
    return removal or waits_for_verdict or any(link.kind in _TOLD for link in links)


def ending_of(waits: Sequence[Wait], *, interrupted: bool, stopped: str) -> Ending:
    """Return how a run ended after which these objects are not as they should be.

    It has failed where something else than order is to blame, of one or of all that waits, or that
    it was `stopped` before its end.
    """
    if interrupted:
        return Ending.INTERRUPTED
    if not waits:
        return Ending.OK
    is_told = any(_kind(wait) in _TOLD for wait in waits) or all(map(_is_told, waits))
    return Ending.FAILED if stopped or is_told else Ending.STUCK


def wait_data(result: RunResult) -> list[dict[str, Any]]:
    """Return why objects are not in their preferred state as plain JSON data."""
    return data_of(result.waits, result.messages)


def data_of(waits: Iterable[Wait], said: Mapping[CobId, str]) -> list[dict[str, Any]]:
    """Return waits as plain JSON data, with what failed jobs said."""
    return [
        {
            "cob": wait.cob,
            "state": wait.state,
            "message": said.get(wait.cob, ""),
            "chain": chain_data(wait.chain, said),
        }
        for wait in waits
    ]


def wait_of(data: Mapping[str, Any]) -> Wait:
    """Return what `wait_data` has of one object."""
    chain = tuple(map(link_of, data["chain"]))
    return Wait(cob=CobId(data["cob"]), state=data["state"], chain=chain)


def link_of(data: Mapping[str, Any]) -> Blocked:
    """Return a link of a chain of reasons from plain JSON data."""
    kept = {name: data[name] for name in ("on", "state", "detail")}
    together, kind = tuple(data.get("together", ())), WaitKind(data["kind"])
    return Blocked(cob=CobId(data["cob"]), kind=kind, together=together, **kept)


def chain_data(
    chain: Iterable[Blocked], messages: Mapping[CobId, str] | None = None
) -> list[dict[str, Any]]:
    """Return a chain of reasons as plain JSON data, with what failed jobs said."""
    said = messages or {}
    return [
        {
            "cob": link.cob,
            "kind": str(link.kind),
            "on": link.on,
            "state": link.state,
            "detail": link.detail,
            "together": list(link.together),
            "message": said.get(link.cob, ""),
        }
        for link in chain
    ]
