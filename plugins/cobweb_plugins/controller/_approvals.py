"""What people say to a controller: approve, reject, pin, unpin; and what it says to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from cobweb.errors import ConflictError, UsageError
from cobweb.plugin import SiteAccess, Tone, shortened
from cobweb_plugins.controller._desk import Desk
from cobweb_plugins.controller._memory import GIT, OPEN, Fate, Input, Memory, Pin
from cobweb_plugins.controller._serve import me
from cobweb_plugins.controller._views import status_data, tell_status

if TYPE_CHECKING:
    from cobweb.api import Site

_ATTEMPTS = 10
"""How often the memory is changed where a controller changes it at the same moment."""

_MOST_REASON = 2000

_SHOWN = 60


def list_approvals(access: SiteAccess) -> None:
    """Write what waits, what is admitted, and how far that is."""
    with access.site() as site:
        memory = Desk(site=site, me=me()).read().memory
        data = status_data(memory, site)
    if not access.data(data):
        tell_status(access, memory, data)


def pin_generation(access: SiteAccess, generation: int | None, reason: str) -> None:
    """Have a generation held, None: the current one."""

    def pinned(memory: Memory, site: Site) -> Memory:
        return replace(memory, pin=_pin(memory, site, generation, _reason(reason)), held=None)

    made = _change(access, pinned, reason)
    if made.pin is not None:
        access.summary(f"generation {made.pin.generation} is pinned", Tone.CAREFUL)


def unpin_generation(access: SiteAccess) -> None:
    """Have nothing pinned or held any more; UsageError where nothing is."""

    def freed(memory: Memory, site: Site) -> Memory:
        if memory.pin is None and memory.held is None:
            raise UsageError("nothing is pinned, and nothing is held")
        goal = memory.goal
        if goal is not None and memory.held is not None:
            value = goal.files if memory.uses_git else goal.site
            goal = replace(goal, pending={**goal.pending, GIT: value})
        seen = site.history().current_generation_id()
        return replace(memory, goal=goal, pin=None, held=None, seen=seen, tried=None)

    _change(access, freed, "unpin")
    access.summary("nothing is pinned or held any more: the next round goes on")


def judge(access: SiteAccess, name: str, reason: str, fate: Fate) -> None:
    """Approve or reject the input that is called so; UsageError where none waits."""
    said = _reason(reason) if reason else ""

    def judged(memory: Memory, _site: Site) -> Memory:
        found = _found(memory, name)
        by, at = me(), time.time()
        why = f"{fate} by {by}{f': {said}' if said else ''}"
        new = replace(found, state=fate, by=by, said=said, at=at, reason=why, more=())
        return memory.with_input(new)

    memory = _change(access, judged, said or str(fate))
    found = next(it for it in memory.inputs if it.state == fate and it.id.startswith(name))
    access.summary(f"{fate}: {shortened(f'{found.id}, {found.what}', _SHOWN)}", Tone.GOOD)


def _found(memory: Memory, name: str) -> Input:
    """Return the input that waits and is called so; UsageError where there is no such."""
    named = [it for it in memory.inputs if it.id.startswith(name)]
    exact = [it for it in named if it.id == name] or named
    waiting = [it for it in exact if it.state == Fate.WAITING]
    if len(waiting) == 1:
        return waiting[0]
    hint = "see `cobweb approvals`"
    if waiting:
        raise UsageError(f"{name} may be {', '.join(it.id for it in waiting)}", hint=hint)
    if not exact:
        raise UsageError(f"there is no input {name}", hint=hint)
    it = exact[0]
    why = f": {it.reason}" if it.state in OPEN and it.reason else ""
    raise UsageError(f"{it.id} does not wait for approval: it is {it.state}{why}", hint=hint)


def _reason(text: str) -> str:
    if not text.strip() or len(text) > _MOST_REASON or not text.replace("\n", " ").isprintable():
        raise UsageError("a reason is text", hint=f"1 to {_MOST_REASON} characters")
    return text


def _pin(memory: Memory, site: Site, generation: int | None, reason: str) -> Pin:
    """Return the pin of a generation; UsageError where it cannot be held."""
    known = {it.id: it for it in site.history().generations()}
    if not known:
        raise UsageError("there is no generation yet", hint="`cobweb apply` makes the first")
    chosen = known.get(generation or max(known))
    if chosen is None:
        raise UsageError(f"there is no generation {generation}", hint="see `cobweb generations`")
    if memory.uses_git and (not chosen.commit or "+" in chosen.commit):
        hint = "`cobweb generations` names the commits; a + says that files differed from it"
        raise UsageError(f"generation {chosen.id} is of no commit", hint=hint)
    return Pin(generation=chosen.id, commit=chosen.commit, by=me(), reason=reason, time=time.time())


def _change(access: SiteAccess, change: Callable[[Memory, Site], Memory], reason: str) -> Memory:
    """Change the memory by what it is just now, write data if asked for, and return it."""
    with access.site() as site:
        desk = Desk(site=site, me=me())
        for left in range(_ATTEMPTS, 0, -1):
            seen = desk.read()
            try:
                made = desk.write(seen, change(seen.memory, site), reason)
            except ConflictError:
                if left == 1:
                    raise
            else:
                access.data(status_data(made.memory, site))
                return made.memory
    raise AssertionError("the last attempt returns or raises")
