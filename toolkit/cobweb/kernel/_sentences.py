"""What a run says in sentences: why an object is not where it should be, and how the run ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cobweb._text import some_of
from cobweb.engine import Blocked, WaitKind
from cobweb.kernel._result import GIVEN_UP, Wait
from cobweb.model import CobId, host_of

_SHOWN = 5
"""How many jobs at work are named as a run is halted."""

_NAMED = 20
"""How many objects of a kind are named where a run ends without its journal."""

_DURING = ", during"
"""Ends the name of a limit for which an object is held."""

_SENTENCES = {
    WaitKind.LOCK: "{cob} waits for {on} to be {state}{detail}",
    WaitKind.HOLDERS: "{cob} waits for {on} to give back its lock",
    WaitKind.LIMIT: "{cob} waits for room in a limit{detail}, taken by {on}",
    WaitKind.RUNNING: "{cob} is at work{detail}",
    WaitKind.FAILED: "{cob} failed in this run",
    WaitKind.UNREACHABLE: "{cob}: host {host} cannot be reached{detail}",
    WaitKind.NO_WAY: "{cob} has no way to {state}{detail}",
    WaitKind.REQUESTED: "{cob} is kept {state} for {on}",
    WaitKind.CHURN: "{cob} went to and fro too often, pushed by {on}{detail}",
    WaitKind.EXCLUDED: "{cob} is outside of what this run may move (--limit)",
    WaitKind.HALTED: "{cob} was not begun: the run was told to stop",
    WaitKind.UNPLANNED: "{cob} would go out, and the plan did not say so: it was left alone",
    WaitKind.UNSWITCHED: "{cob} stays as it is: before host {host} goes on, {on} must be removed",
}

_GIVEN_UP = "given up (`cobweb forget --host {host} --undo` takes it back)"
_ON_A_HOST_GIVEN_UP = "{cob}: host {host} is " + _GIVEN_UP


def chain_lines(wait: Wait, messages: Mapping[CobId, str] | None = None) -> list[str]:
    """Return one line per link, from the object that waits to the cause; a circle is named."""
    said = messages or {}
    lines = []
    for link in wait.chain:
        ends = link.kind in (WaitKind.FAILED, WaitKind.UNREACHABLE)
        message = said.get(link.cob, "") if ends else ""
        lines.append(f"{link_text(link)}: {message}" if message else link_text(link))
    if wait.is_circle:
        lines.append(f"... and so on: {wait.chain[-1].on} is where the circle closes")
    return lines


def link_text(link: Blocked) -> str:
    """Return one link as a sentence; what `plan` and `why` know better replaces its own."""
    if link.kind is WaitKind.HALTED and link.detail:
        return f"{link.cob} {link.detail}"
    if link.kind is WaitKind.FAILED and link.detail:
        return f"{link.cob} would fail: {link.detail}"
    if link.kind is WaitKind.EXCLUDED and link.detail:
        home = f"is wanted {link.state} and takes that room (--budget lends more)"
        return f"{link.cob} {home if link.is_home else 'stays as it is while removals go on'}"
    if link.kind is WaitKind.LIMIT and (link.on is None or link.detail.endswith(_DURING)):
        return _limit_text(link)
    host = host_of(link.cob)
    detail = f" ({link.detail})" if link.detail not in ("", host) else ""
    sentence = _ON_A_HOST_GIVEN_UP if link.detail == GIVEN_UP else _SENTENCES[link.kind]
    return sentence.format(cob=link.cob, on=link.on, state=link.state, host=host, detail=detail)


def given_up_text(host: str) -> str:
    """Say of a host that it is given up, and how to take it back."""
    return _GIVEN_UP.format(host=host)


def _limit_text(link: Blocked) -> str:
    """Say what a limit holds where it is, or what nobody in particular is in the way of."""
    if link.detail.endswith(_DURING):
        until = f"until {link.on or 'the last unit'} is home"
        return f"{link.cob} is held {link.state} by a limit ({link.detail}), {until}"
    if link.detail.endswith(", canary"):
        return f"{link.cob} waits for the pause of a limit ({link.detail})"
    detail = link.detail
    if link.together:
        name, number = detail.partition(" ")[0], len(link.together)
        detail += f": {', '.join(link.together)} at once; --budget {name}={number} lets them"
    return f"{link.cob} waits for more room than a limit has ({detail})"


def halted_text(running: Sequence[str]) -> str:
    """Say that nothing new is started, and what is at work."""
    if not running:
        return "nothing new is started"
    shown = ", ".join(running[:_SHOWN]) + (" ..." if len(running) > _SHOWN else "")
    how = "(interrupt again to stop what is at work)"
    return f"nothing new is started; {len(running)} still at work: {shown} {how}"


def left_lines(ended: Sequence[str], out: Sequence[str]) -> list[str]:
    """Say what a run leaves that could not write its end down, and how to go on."""
    told = ("in flight, and ended without being written down", ended)
    known = (told, ("out of service, or not known", out))
    lines = [f"{what}: {some_of(names, _NAMED)}" for what, names in known if names]
    how = "mend the state database, then `cobweb apply` checks what was in flight and goes on"
    return [*lines, how]
