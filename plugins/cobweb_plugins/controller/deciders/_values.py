"""Deciders: policy as a pure function from what is seen to what is decided.

A decider looks (`observe`, which may ask hosts) and decides (`decide`, which does nothing else). So
what it decided can be recorded and decided again, and a turn that was cut off anywhere is simply
taken again. All that passes between these two and out of them is plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol

from cobweb.model import Action, CobId, Decision
from cobweb.plugin import Answer, Extension, Question

DECIDER_LIMIT_S = 30.0
"""How long one turn, `observe` and `decide`, may take where the decider has no `limit_s`."""

MOST_WRITES, MOST_NOTE, MOST_BYTES = 1_000, 2_000, 1 << 20
"""How many writes an `Outcome` may have, how many characters a note, how many bytes of JSON all
writes, all notes, and the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectState:
    """The state that the journal believes, and since when, in seconds since the epoch."""

    state: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeciderView:
    """What a decider knows without looking.

    `data` is its section in the admitted site, `decisions` are those of its section as they are
    now, by key, `states` those of all objects that the journal knows. `unsettled` is what the last
    run that has ended left so; `is_busy` says that a run is at work.
    """

    data: Any
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    states: Mapping[CobId, ObjectState] = field(default_factory=dict)
    unsettled: Sequence[Mapping[str, Any]] = ()
    is_busy: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return the view as plain JSON data, to be recorded; `of` reads it."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> DeciderView:
        """Return the view that `as_data` made this of."""
        return cls(
            data=data["data"],
            decisions={key: Decision(**it) for key, it in data["decisions"].items()},
            states={CobId(cob): ObjectState(**it) for cob, it in data["states"].items()},
            unsettled=tuple(data["unsettled"]),
            is_busy=data["is_busy"],
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was decided.

    `writes` are decisions by key; None takes one back. The next `decide` gets `memory`. `notes` say
    why something was done or was not: by HOST/COB, by HOST, or by the key of a decision.
    """

    writes: Mapping[str, Any] = field(default_factory=dict)
    memory: Any = None
    notes: Mapping[str, str] = field(default_factory=dict)


class ObserveContext(Protocol):
    """What `observe` looks with; `site` is the open `cobweb.api.Site` of the admitted files."""

    view: DeciderView
    site: Any

    def ask(
        self,
        hosts: Collection[str],
        action: Action,
        timeout_s: float | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> dict[str, Answer]:
        """Ask several hosts the same and return their answers, one of each, by host.

        What a host does not do, or cannot be asked, is an answer too: `failed`, `unreachable`.
        """

    def ask_all(self, questions: Mapping[Any, Question]) -> dict[Any, Answer]:
        """Ask several questions at once and return the answer to each."""


class Decider(Extension, Protocol):
    """Decides for the section of its `name`, at the `point` "decider", where the site has it.

    A class; one instance is made, without arguments. A turn is due `every_s` seconds (above 0)
    after the last and may take `limit_s`, if the class has that, else DECIDER_LIMIT_S. A decider
    that raises or takes longer is told, and its next turns come later and later.
    """

    every_s: ClassVar[float]

    def observe(self, context: ObserveContext) -> Any:
        """Return what is seen, as plain JSON data; only this may ask hosts, files or the clock."""

    def decide(self, view: DeciderView, observations: Any, memory: Any, now_s: float) -> Outcome:
        """Return what follows: the same from the same arguments, which stay as they are.

        `memory` is that of the last outcome, None at first. `now_s` is in seconds since the epoch
        and never goes back. It is called again where somebody else decided meanwhile.
        """


def parts_of(outcome: object) -> dict[str, Any] | None:
    """Return the parts of an outcome, also of another class that has them; None if it has not."""
    names = ("writes", "memory", "notes")
    found = {name: getattr(outcome, name) for name in names if hasattr(outcome, name)}
    return found if len(found) == len(names) else None


def outcome_problems(outcome: object) -> list[str]:
    """Return what keeps something from being an outcome that can be kept; [] if nothing does."""
    parts = parts_of(outcome)
    if parts is None:
        return [f"it is no Outcome but {type(outcome).__name__}"]
    found = [f"{name}: {problem}" for name, it in parts.items() if (problem := _problem(name, it))]
    if not found and len(parts["writes"]) > MOST_WRITES:
        found.append(f"writes: {len(parts['writes'])} are more than {MOST_WRITES}")
    long = [] if found else [key for key, it in parts["notes"].items() if len(str(it)) > MOST_NOTE]
    found += [f"notes: that of {key!r} has more than {MOST_NOTE} characters" for key in long[:1]]
    return found


def _problem(name: str, data: Any) -> str:
    """Say why a part does not come back from JSON as it was, or is too much; "" if all is well."""
    try:
        text = json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
        if json.loads(text) != data:
            return "no plain JSON: it comes back as something else (a tuple, a key that is no text)"
    except (TypeError, ValueError, RecursionError) as error:
        return f"no plain JSON: {error}"
    if name != "memory" and not isinstance(data, dict):
        return f"no mapping but {type(data).__name__}"
    if name == "notes" and not all(isinstance(it, str) for it in data.values()):
        return "one is no text"
    return f"{len(text)} bytes of JSON are more than {MOST_BYTES}" if len(text) > MOST_BYTES else ""


def decider_problem(decider: Any) -> str:
    """Return what keeps a class from being a decider, "" if nothing does."""
    for name, otherwise in (("every_s", None), ("limit_s", DECIDER_LIMIT_S)):
        value: Any = getattr(decider, name, otherwise)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and 0 < value < float("inf")):
            return f"its `{name}` is no number of seconds above 0"
    lacks = [name for name in ("observe", "decide") if not callable(getattr(decider, name, None))]
    return f"it has no method `{lacks[0]}`" if lacks else ""
