"""The section `serve`: what the controller may do by itself, when, and what a person approves.

Pure: time is an argument, seconds since 1970. Zones are those of the machine's time zone database.

A window begins and ends at wall times of a zone. A wall time stands for the first moment at which
the clocks there show it or a later one: the end of a gap that has swallowed it, and the first one
of two where clocks are set back. So windows keep their order, and one that a gap has swallowed
whole is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo

from cobweb.errors import ModelError
from cobweb.plugin import seconds_of

NAME = "serve"
FILES = "git"
"""The source of what files say, also without Git."""
DRIFT = "drift"
"""The source of repairs."""

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HORIZON_DAYS = 60
"""A window opens each week, but for a week in which a gap of the clocks swallows it."""

_PLAN_OPTIONS = ("max_removals", "refresh", "budget")
_APPLY_OPTIONS = (
    "parallel",
    "timeout",
    "max_removals",
    "max_failures",
    "max_unreachable",
    "on_failure",
    "trust",
    "refresh",
    "executor",
    "store_timeout",
    "budget",
)
_MINUTES_PER_DAY = 24 * 60

Problem = tuple[tuple[str | int, ...], str, str]


class Admission(StrEnum):
    """Whether an input may be brought about: by itself, once a person approves it, or never."""

    AUTO = "auto"
    APPROVE = "approve"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """No window of `source` is open before `opens_s`; `text` says so."""

    source: str
    opens_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An admission by source, and that of all other sources."""

    otherwise: Admission
    by_source: Mapping[str, Admission] = field(default_factory=dict)

    def of(self, source: str) -> Admission:
        """Return the admission of a source."""
        return self.by_source.get(source, self.otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Hours that begin on some days of the week; without `sources` it is for all of them.

    `from_m` and `to_m` are minutes since midnight; with `to_m` before `from_m` it ends on the next
    day. `zone` is the name that people know, `clock` what it stands for.
    """

    days: frozenset[str]
    from_m: int
    to_m: int
    zone: str
    clock: tzinfo
    sources: frozenset[str]

    def concerns(self, source: str) -> bool:
        """Say whether the window is one of a source."""
        return not self.sources or source in self.sources

    def is_open(self, now_s: float) -> bool:
        """Say whether a moment is within the window."""
        return any(start <= now_s < end for start, end in self._spans(now_s, 0))

    def opens(self, now_s: float) -> float:
        """Return the first moment after this one at which the window begins."""
        for start, end in self._spans(now_s, HORIZON_DAYS):
            if now_s < start < end:
                return start
        raise AssertionError(f"{self} does not open in {HORIZON_DAYS} days after {now_s}")

    def _spans(self, now_s: float, days: int) -> Iterator[tuple[float, float]]:
        """Yield when the window begins and ends, from the day before to some days later.

        The day before is for windows over midnight. Tomorrow counts as well: it has begun already
        where clocks are set back over midnight.
        """
        today = datetime.fromtimestamp(now_s, self.clock).date()
        for number in range(-1, days + 2):
            day = today + timedelta(days=number)
            if DAYS[day.weekday()] in self.days:
                to_m = self.to_m + (_MINUTES_PER_DAY if self.to_m < self.from_m else 0)
                yield self._moment(day, self.from_m), self._moment(day, to_m)

    def _moment(self, day: date, minutes: int) -> float:
        """Return the first moment whose wall time is so many minutes after midnight, or later."""
        wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
        first, second = (wall.replace(tzinfo=self.clock, fold=fold).timestamp() for fold in (0, 1))
        if first <= second:  # the first one of two, or the only one
            return first
        # In a gap Python counts on by the offset from before it, or back by the one from after it:
        # the gap ends between these two, where the offset changes.
        before, after = int(second), int(first)
        offset = self._offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self._offset(middle) == offset:
                before = middle
            else:
                after = middle
        return float(after)

    def _offset(self, moment: int) -> timedelta | None:
        return datetime.fromtimestamp(moment, self.clock).utcoffset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the section says; `repair` are patterns of ids, `*` for all of them.

    `options` are those of all runs, by their names in the section.
    """

    apply: Rule
    outages: Rule
    windows: Sequence[Window]
    drift_every_s: float | None
    repair: Sequence[str]
    options: Mapping[str, Any]

    @staticmethod
    def of(section: Mapping[str, Any] | None) -> Policy:
        """Return what a section says that fits its schema; ModelError with all that is wrong."""
        said = section or {}
        _refuse(_problems(said))
        drift = said.get("drift", {})
        every, repair = drift.get("every"), drift.get("repair", "none")
        return Policy(
            apply=_rule(said.get("apply", {}), Admission.AUTO),
            outages=_rule(said.get("outages", {}), Admission.APPROVE),
            windows=tuple(_window(it) for it in said.get("windows", ())),
            drift_every_s=None if every is None else seconds_of(str(every)),
            repair={"none": (), "all": ("*",)}[repair] if isinstance(repair, str) else (*repair,),
            options=dict(said.get("run", {})),
        )

    def admission(self, source: str, *, goes_out: bool) -> tuple[Admission, str]:
        """Return whether an input of a source may be brought about, and which rule says so."""
        name, found = "apply", self.apply.of(source)
        if goes_out and _strictness(self.outages.of(source)) > _strictness(found):
            name, found = "outages", self.outages.of(source)
        return found, f"`{NAME}.{name}` is {found} for {source}"

    def closed(self, sources: Iterable[str], now_s: float) -> Closed | None:
        """Return which of some sources may last; None if all of them may now.

        A source that no window is for may always.
        """
        closed = [found for it in sorted(set(sources)) if (found := self._closed(it, now_s))]
        return max(closed, key=lambda it: it.opens_s, default=None)

    @property
    def repairs_all(self) -> bool:
        """Say whether all objects are repaired."""
        return tuple(self.repair) == ("*",)

    @property
    def repairs_none(self) -> bool:
        """Say whether no object is repaired."""
        return not self.repair

    def repairs(self, cob: str) -> bool:
        """Say whether an object, by its id, is repaired where it has drifted."""
        return any(fnmatchcase(cob, pattern) for pattern in self.repair)

    def plan_words(self) -> list[str]:
        """Return the options of all runs that `cobweb plan` takes, as words of a command line."""
        return self._words(_PLAN_OPTIONS)

    def apply_words(self) -> list[str]:
        """Return the options of all runs as words of the command line of `cobweb apply`."""
        return self._words(_APPLY_OPTIONS)

    def _words(self, names: Iterable[str]) -> list[str]:
        # As one word each, a value that begins with `-` is no option.
        return [
            f"--{name.replace('_', '-')}={value}"
            for name in names
            if name in self.options
            for value in _values(self.options[name])
        ]

    def _closed(self, source: str, now_s: float) -> Closed | None:
        windows = [it for it in self.windows if it.concerns(source)]
        if not windows or any(it.is_open(now_s) for it in windows):
            return None
        opens_s, number = min((it.opens(now_s), number) for number, it in enumerate(windows))
        window = windows[number]
        opens = datetime.fromtimestamp(opens_s, window.clock)
        # Not `%a`, which speaks the language of the environment.
        day = DAYS[opens.weekday()].capitalize()
        text = f"outside of `{NAME}.windows` until {day} {opens:%Y-%m-%d %H:%M} {window.zone}"
        return Closed(source=source, opens_s=opens_s, text=text)


def check_policy(sections: Mapping[str, Any]) -> None:
    """Raise ModelError with all that is wrong in the section, for a site of these sections."""
    said = sections[NAME]
    _refuse([*_problems(said), *_source_problems(said, {FILES, DRIFT, *sections} - {NAME})])


def _refuse(problems: Iterable[Problem]) -> None:
    if found := [((NAME, *keys), message, hint) for keys, message, hint in problems]:
        raise ModelError(found)


def _strictness(admission: Admission) -> int:
    return list(Admission).index(admission)


def _values(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        return [f"{name}={number}" for name, number in value.items()]
    return [str(value)]


def _rule(said: str | Mapping[str, str], otherwise: Admission) -> Rule:
    if isinstance(said, str):
        return Rule(otherwise=Admission(said))
    return Rule(
        otherwise=otherwise, by_source={source: Admission(it) for source, it in said.items()}
    )


def _window(said: Mapping[str, Any]) -> Window:
    zone = said.get("zone", "UTC")
    from_m, to_m = _minutes(said)
    return Window(
        days=frozenset(said.get("days", DAYS)),
        from_m=from_m,
        to_m=to_m,
        zone=zone,
        clock=_clock(zone),
        sources=frozenset(said.get("sources", ())),
    )


def _minutes(said: Mapping[str, Any]) -> tuple[int, int]:
    """Return when a window begins and ends, in minutes since midnight."""
    found = (said.get(*it).split(":") for it in (("from", "00:00"), ("to", "24:00")))
    from_m, to_m = (int(hours) * 60 + int(minutes) for hours, minutes in found)
    return from_m, to_m


def _clock(zone: str) -> tzinfo:
    """Return what a name of a zone stands for; KeyError, OSError or ValueError for none."""
    return UTC if zone == "UTC" else ZoneInfo(zone)  # UTC is there without a database of zones


def _problems(said: Mapping[str, Any]) -> Iterator[Problem]:
    for number, window in enumerate(said.get("windows", ())):
        yield from _window_problems(("windows", number), window)
    drift, run = said.get("drift", {}), said.get("run", {})
    yield from _duration_problems(("drift", "every"), drift.get("every"))
    repair = drift.get("repair", ())
    for number, pattern in enumerate(() if isinstance(repair, str) else repair):
        if "/" not in pattern:
            message = f"`{pattern}` is no pattern of ids, which are `host/name`"
            yield ("drift", "repair", number), message, "as in `web*/app`"
    for key in ("timeout", "store_timeout"):
        yield from _duration_problems(("run", key), run.get(key))
    yield from _duration_problems(("run", "trust"), run.get("trust"), zero=True)


def _window_problems(keys: tuple[str | int, ...], said: Mapping[str, Any]) -> Iterator[Problem]:
    zone = said.get("zone", "UTC")
    try:
        _clock(zone)
    except (KeyError, OSError, ValueError):  # not found; a folder; a name with `..` or NUL
        yield (*keys, "zone"), f"there is no time zone `{zone}`", "as in `Europe/Berlin`"
    from_m, to_m = _minutes(said)
    if from_m == to_m:
        yield keys, "the window is empty", "without `from` and `to` it is whole days"


def _source_problems(said: Mapping[str, Any], known: Iterable[str]) -> Iterator[Problem]:
    hint = f"there are {', '.join(sorted(known))}"
    for key in ("apply", "outages"):
        rule = said.get(key, {})
        for source in () if isinstance(rule, str) else rule:
            if source not in known:
                yield (key, source), f"there is no source `{source}`", hint
    for number, window in enumerate(said.get("windows", ())):
        for index, source in enumerate(window.get("sources", ())):
            if source not in known:
                yield ("windows", number, "sources", index), f"there is no source `{source}`", hint


def _duration_problems(
    keys: tuple[str | int, ...], value: Any, *, zero: bool = False
) -> Iterator[Problem]:
    if value is not None:
        try:
            seconds_of(str(value), zero=zero)
        except ValueError as error:
            yield keys, f"`{value}` {error}", "as in `60s`"
