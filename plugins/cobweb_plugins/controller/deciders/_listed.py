"""What people see of deciders: which there are, their notes, and their records decided again."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError, UsageError
from cobweb.model import CobId, host_of
from cobweb.plugin import Column, JsonError, SiteAccess, Tone, json_of, plain, shortened
from cobweb_plugins.controller._desk import Desk
from cobweb_plugins.controller._memory import Memory
from cobweb_plugins.controller._views import input_line, status_data, tell_controller
from cobweb_plugins.controller.deciders._turns import KEY, POINT, Turn, rest_of
from cobweb_plugins.controller.deciders._values import DeciderView, decider_problem

_COLUMNS = tuple(Column(title=it) for it in ("DECIDER", "STATE", "DECIDED", "NEXT TURN"))
_SHOWN = 20
_MOST_VALUES = 300
"""At how many values of an object it is looked whether they were decided."""
_SHOWN_VALUE = 100


def list_deciders(access: SiteAccess) -> None:
    """Write which deciders there are, how their last turn went, and what they have noted."""
    names = sorted(access.plugins.extensions_at(POINT))
    with access.site() as site:
        memory = Desk(site=site, me="").read().memory
        status = status_data(memory, site)
        found = [_data(access, site, memory, name) for name in names]
    rests = rest_of(memory) or None
    if access.data({"format": 1, "rests": rests, "deciders": found}):
        return
    access.table(_COLUMNS, [_row(it) for it in found])
    for it in found:
        notes = [f"{subject}: {note}" for subject, note in it["notes"].items()]
        said = [it["error"]] if it["error"] else notes
        _tell(access, it["name"], said if it["state"] != "unused" else [])
        if left := memory.left_out(it["name"]):
            _tell(access, it["name"], [input_line(left)])
    if not found:
        access.summary("no plugin has a decider")
    elif rests:
        access.summary(f"deciders rest: {rests}", Tone.CAREFUL)
    tell_controller(access, memory, status)


def _tell(access: SiteAccess, name: str, texts: Sequence[str]) -> None:
    width = shutil.get_terminal_size().columns
    for text in texts[:_SHOWN]:
        for line in textwrap.wrap(plain(f"{name}: {text}"), width, subsequent_indent="  "):
            access.line(line)
    if len(texts) > _SHOWN:
        access.summary(f"and {len(texts) - _SHOWN} more: see -o json")


def reasons_of(access: SiteAccess, cob: str) -> list[str]:
    """Return what has been decided of an object, why, and what of it waits to be admitted."""
    names = sorted(access.plugins.extensions_at(POINT))
    with access.site() as site:
        memory = Desk(site=site, me="").read().memory
        if memory.goal is None:
            return []
        turns = {name: _turn(site, name) for name in names}
        origins = sorted(it for it in _origins(site.evaluated, cob) if it.startswith("decision "))
    keys = [it.removeprefix("decision ").split(", revision ")[0].split("/", 1) for it in origins]
    of = {(section, key) for section, key in keys}
    others = [it for it in origins if not any(f", by {name}: " in it for name in names)]
    notes = [
        f"the decider {name} at {_clock(turn.decided_s)} on {subject}: {note}"
        for name, turn in turns.items()
        for subject, note in sorted(turn.notes.items())
        if subject in (cob, host_of(CobId(cob))) or (name, subject) in of
    ]
    left = [memory.left_out(section) for section in {section for section, _ in of}]
    shown = [it for it in memory.open() if cob in it.shown]
    waits = {it.id: input_line(it) for it in (*shown, *left) if it is not None}
    return [*others, *notes, *waits.values()]


def _origins(site: Any, cob: str) -> set[str]:
    """Return where an object and the values in it stand, which may be decisions."""
    found, refs = set[str](), [cob]
    for ref in islice(refs, _MOST_VALUES):  # which grows meanwhile
        with suppress(UsageError):  # it may be gone from the site, or a key have a dot
            explained = site.explain(ref)
            if explained.place is not None:
                found.add(explained.place.file)
            if isinstance(explained.value, Mapping):
                refs += [f"{ref}.{key}" for key in explained.value]
    return found


def replay_record(access: SiteAccess, path: Path) -> int:
    """Decide again what was recorded; return 1 if anything is decided otherwise, else 0."""
    made: dict[str, Any] = {}
    known, differences, number = access.plugins.extensions_at(POINT), [], 0
    for line, given, end in _recorded(path):
        name = given["decider"]
        if name not in known:
            hint = f"there are {', '.join(sorted(known)) or 'none'}"
            raise UsageError(f"{path}:{line}: there is no decider `{name}`", hint=hint)
        decider = made.setdefault(name, known[name]())
        now = _again(decider, given)
        number += 1
        if now != end:
            differences.append({"line": line, "decider": name, "recorded": end, "now": now})
    if not number:
        hint = "`cobweb serve --record FILE` writes one"
        raise UsageError(f"{path} has no turn of a decider that came to its end", hint=hint)
    if not access.data({"format": 1, "decided": number, "differences": differences}):
        for it in differences:
            _tell(
                access,
                f"{path}:{it['line']}: {it['decider']}",
                list(_changes(it["recorded"], it["now"])),
            )
        of = f"{len(differences)} of {number}" if differences else f"{number}"
        what = "otherwise than recorded" if differences else "as recorded"
        access.summary(f"decided again: {of} {what}", Tone.BAD if differences else Tone.GOOD)
    return int(bool(differences))


def _again(decider: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a turn ends now; what was raised counts without its place."""
    try:
        view = DeciderView.of(given["view"])
        out = decider.decide(view, given["observations"], given["memory"], given["now_s"])
        found = {"writes": dict(out.writes), "memory": out.memory, "notes": dict(out.notes)}
        return {"outcome": json.loads(json.dumps(found, allow_nan=False))}
    except Exception as error:  # noqa: BLE001 - the border to foreign code
        return {"error": f"{type(error).__name__}: {error}"}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is decided otherwise: each value with what it was and what it is now."""
    if "error" in after:
        yield after["error"]
        return
    for part, old in before["outcome"].items():
        new = after["outcome"][part]
        both = {"": (old, new)}
        if part != "memory":
            both = {key: (old.get(key), new.get(key)) for key in (*old, *new)}
        pairs = {key: it for key, it in both.items() if it[0] != it[1]}
        for key, pair in pairs.items():
            texts = [shortened(json.dumps(it), _SHOWN_VALUE) for it in pair]
            yield f"{part}{key and f' {key}'}: {' -> '.join(texts)}"


def _recorded(path: Path) -> Iterator[tuple[int, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the line, what was given and what came of it, of all turns that came to an end.

    UsageError for a file that is no record.
    """
    begun: dict[str, tuple[int, Mapping[str, Any]]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for line, text in enumerate(file, 1):
                if not text.endswith("\n"):
                    return  # it was cut off, or is being written
                words = json_of(text, f"{path}:{line}")
                if "view" in words:
                    begun[words["turn"]] = line, words
                elif (found := begun.pop(words["turn"], None)) and "outcome" in words:
                    yield *found, {"outcome": words["outcome"]}
    except (JsonError, KeyError, TypeError) as error:
        hint = "`cobweb serve --record FILE` writes one"
        raise UsageError(f"{path} is no record of deciders: {error}", hint=hint) from error
    except (OSError, UnicodeError) as error:
        raise CobwebError(f"{path} cannot be read: {error}") from error


def _data(access: SiteAccess, site: Any, memory: Memory, name: str) -> dict[str, Any]:
    decider, turn = access.plugins.extensions_at(POINT)[name], _turn(site, name)
    left = memory.left_out(name)
    problem, is_there = decider_problem(decider), name in access.sections()
    return {
        "name": name,
        "state": _state(turn, problem, is_there=is_there),
        "every_s": getattr(decider, "every_s", None),
        "decided": turn.decided_s,
        "due": (is_there and turn.due_s) or None,
        "failures": turn.failures,
        "error": problem or turn.error or None,
        "notes": dict(turn.notes),
        "left_out": left and {"id": left.id, "state": left.state, "reason": left.reason},
    }


def _state(turn: Turn, problem: str, *, is_there: bool) -> str:
    """Return in a word how a decider is."""
    if problem:
        return "broken"
    if not is_there:
        return "unused"
    return "failed" if turn.failures else "new" if turn.decided_s is None else "well"


def _turn(site: Any, name: str) -> Turn:
    found = site.memory(name).by_key
    return Turn.of(found[KEY].body if KEY in found else None)


def _row(data: Mapping[str, Any]) -> Sequence[str]:
    state = f"{data['state']} {data['failures']}x" if data["failures"] else data["state"]
    return data["name"], state, _clock(data["decided"]), _clock(data["due"])


def _clock(time_s: float | None) -> str:
    return f"{datetime.fromtimestamp(time_s, tz=UTC):%Y-%m-%d %H:%M:%S}" if time_s else ""
