"""The decider of pools: it asks all services, and decides who gets which resource.

What `look` returns is plain JSON: facts of the adapters, answers, the objects of resources, and how
the last run has ended. So a turn can be recorded and decided again, also without the site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.model import CobId, cob_id
from cobweb_plugins.pools._adapters import POINT, Adapters
from cobweb_plugins.pools._answers import answer_data, answer_of, asked
from cobweb_plugins.pools._answers import now_s as clock
from cobweb_plugins.pools._holdings import Book
from cobweb_plugins.pools._round import (
    Failures,
    Ground,
    books_of,
    notes_of,
    strangers_of,
    with_stopped,
)
from cobweb_plugins.pools._section import (
    POLICY_POINT,
    Layout,
    adapter_files,
    layout_of,
    settings_of,
)

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Policy

_LOOKED_AT = 20
"""In how many of the last runs one is looked for that has ended."""

_NO_CHANGE = frozenset({"drift", "keep"})
"""Commands whose runs carry nothing out."""

_MOST_WRITES, _MOST_NOTE = 1_000, 2_000
"""How many decisions a turn may write, and how many characters a note may have.

What is more is written in the next turns.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a turn has decided, as the controller takes it: bodies by key, memory, notes."""

    writes: Mapping[str, Any]
    memory: Any
    notes: Mapping[str, str]


def look(context: Any) -> dict[str, Any]:
    """Return what is seen of pools, as plain JSON data."""
    site, section = context.site, context.view.data
    folder = Path(site.evaluated.dir)
    files = adapter_files(section, folder, lambda name: _text(folder / name))
    adapters = Adapters(site.plugins.extensions_at(POINT), files)
    layout = layout_of(section, adapters)
    layout.pools = with_stopped(layout.pools, context.view.decisions)
    books = books_of(layout.pools, context.view.decisions)
    registered = [name for name, it in layout.pools.services.items() if it.registered]
    policy = site.plugins.extensions_at(POLICY_POINT)[layout.pools.policy]
    return {
        "adapters": {
            it.adapter: {"holds": sorted(it.holds), "direct": it.direct}
            for it in layout.pools.services.values()
        },
        "policy": f"{policy.__module__}:{policy.__qualname__}",
        "answers": {
            name: answer_data(it) for name, it in asked(layout, registered, context.ask_all).items()
        },
        "objects": {id_: objects_of(layout, id_, book) for id_, book in books.items()},
        "strangers": strangers_of(layout.pools, site.evaluated.hosts),
        "now": clock(),
        "run": last_run(site),
    }


def decided(view: Any, seen: Mapping[str, Any], memory: Any, now_s: float) -> Turn:
    """Return what follows from what is known and seen; the same from the same.

    A `now_s` never goes back, and answers are as old as they were when they were seen: a clock that
    was ahead for a moment must not make them too old.
    """
    now_s = min(now_s, seen.get("now", now_s))
    from cobweb_plugins.pools.decision import AdapterFacts, decide, pools_of

    facts = {
        name: AdapterFacts(holds=frozenset(it["holds"]), direct=it["direct"])
        for name, it in seen["adapters"].items()
    }
    pools = with_stopped(pools_of(view.data, facts), view.decisions)
    ground = Ground(
        pools=pools,
        books=books_of(pools, view.decisions),
        objects=seen["objects"],
        states={cob: (it.state, it.since) for cob, it in view.states.items()},
        failures=Failures.of(seen["run"]["begun"], seen["run"]["unsettled"]),
        settings={name: settings_of(it) for name, it in view.data["services"].items()},
        strangers=seen.get("strangers", ()),  # which records of earlier versions have not
    )
    answers = {name: answer_of(it) for name, it in seen["answers"].items()}
    observed = {name: it.observed for name, it in answers.items() if it.observed}
    policy = _policy_at(seen["policy"], pools.policy)
    outcome = decide(ground.view(now_s), observed, memory or {}, now_s, policy)
    notes = notes_of(outcome)
    notes |= dict.fromkeys(ground.strangers, "it is no host of the inventory")
    for name, it in answers.items():
        if it.why:  # the cause, beside what follows from it
            notes[name] = f"{notes[name]}: {it.why}" if name in notes else it.why
    bodies = ground.bodies(outcome.writes, now_s)
    for id_, body in bodies.items():
        if id_ not in notes:
            notes[id_] = f"has left {', '.join(ground.books[id_].was)}"
        body.setdefault("reason", notes[id_])
    return Turn(
        writes=dict(list(bodies.items())[:_MOST_WRITES]),
        memory=outcome.memory,
        notes={subject: note[:_MOST_NOTE] for subject, note in notes.items()},
    )


def objects_of(layout: Layout, id_: str, book: Book) -> dict[str, list[CobId]]:
    """Return the objects of a resource in the services that have it or that it has left.

    They are by service, its own object first.
    """
    services = [*([book.holding.service] if book.holding else []), *book.was]
    resource, known = layout.pools.resources[id_], layout.pools.services
    return {
        name: [
            cob_id(host, cob)
            for cob, host in layout.object_hosts(
                layout.service(name, book.settings.get(name)), resource
            ).items()
        ]
        if not known[name].direct
        else []
        for name in services
        if name in known
    }


def _policy_at(path: str, name: str) -> Policy:
    """Return the policy that a class is; PluginError where it cannot be made, or weighs wrongly."""
    from cobweb_plugins.pools._commands import GuardedPolicy

    module, _, qualified = path.partition(":")
    found: Any = import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return GuardedPolicy(name, found)


def last_run(site: Any) -> dict[str, Any]:
    """Return when the last run began that has ended, and what it has left undone."""
    ended = (
        it
        for it in site.history().runs(_LOOKED_AT)
        if it.ended is not None and it.info.command.split()[0] not in _NO_CHANGE
    )
    last = next(ended, None)
    if last is None:
        return {"begun": 0.0, "unsettled": []}
    waits = [
        {"cob": it["cob"], "message": it["message"], "chain": it["chain"][:1]}
        for it in last.waits
        if "/pool-" in it["cob"]
    ]
    return {"begun": last.info.started, "unsettled": waits}


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
