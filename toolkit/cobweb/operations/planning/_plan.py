"""A plan as a value: what would change, in which order, who waits for whom, what is down how long.

A plan is made for one evaluated site on one base (what the journal believed); `apply` refuses it
when either has changed. Its JSON form has the schema schemas/plan.schema.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import chain, islice, zip_longest
from typing import Any

from cobweb._foreign_json import json_of
from cobweb._json import indented
from cobweb.errors import PlanError
from cobweb.generation import (
    FileDifference,
    changed_trees,
    digest,
    digest_of_pieces,
    listed,
    quoted,
    read_archive,
    spec_diff,
    tree_difference,
)
from cobweb.kernel._result import chain_data, stuck_waits
from cobweb.model import Cob, CobId, Decision, fill_in, host_of
from cobweb.operations.context._context import ExecutionContext
from cobweb.operations.context._known_states import KnownStates, Refresh
from cobweb.operations.drift._drift_check import Left, why_doubtful
from cobweb.operations.planning._prediction import Forecast
from cobweb.operations.planning._refusals import Refusal
from cobweb.plugin import PlannedStep, Stages
from cobweb.store import CobRecord

PLAN_FORMAT = 4
DEFAULT_PLANNER = "event"

MAX_PLAN_BYTES = 2**30
"""A longer plan file is not read: that of a hundred thousand objects has a tenth of it."""

_COUNTED = {"add": "added", "change": "changed", "remove": "removed"}
"""What counts say, and the kind of change that it is."""

_CONTENT_DIGITS = 8
"""How many digits of a content's digest a plan has: enough to notice another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One object that is added, changed, removed or only renamed; `lines` is the diff of its spec.

    `files` are those that differ in its file tree. `content` is the beginning of the digest of what
    it is to be, "" for what is removed or renamed. `was` is the name that a known object loses; of
    an added one the name that nothing is known under.
    """

    cob: CobId
    kind: str
    lines: tuple[str, ...] = ()
    files: tuple[FileDifference, ...] = ()
    content: str = ""
    was: CobId | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the change as plain JSON data."""
        files = {"files": file_data(self.files)} if self.files else {}
        was = {"was": self.was} if self.was else {}
        return {"cob": self.cob, "kind": self.kind, "diff": list(self.lines), **files, **was}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """One object that is checked or moved though the site has not changed it, and why.

    `kind` is `doubt`, `drift`, `unreachable`, `renew` or `state`, `why` the same as the end of a
    sentence. `lines` and `files` are what differs from what was applied last, as in `Change`.
    """

    cob: CobId
    kind: str
    why: str
    lines: tuple[str, ...] = ()
    files: tuple[FileDifference, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        files = {"files": file_data(self.files)} if self.files else {}
        diff = list(self.lines)
        return {"cob": self.cob, "kind": self.kind, "why": self.why, "diff": diff, **files}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Forecast):
    """What `apply` would do now: a forecast, with what it is for and of whom it speaks.

    `site` is the digest of the evaluated site, `base` that of the journal's beliefs, `run` the last
    run that the journal knew of and `generation` its current generation. `checks` are
    objects whose state would be found first; the steps after that are predicted. `uncertain` are
    those of them whose state the journal has lost: what they need is only known after the check.
    `unsettled` are all that is not where it should be, or may not be, but for the changes.
    `planner` is who made the stages. `budgets` are other bounds than the site's, by name, `only`
    the objects that it is for (none: all), `renew` those that are taken for changed, `given_up`
    hosts that are left alone. With `refusals` it is not begun. `decisions` are the revisions of
    sections that the site was evaluated with, `decided` what these have that the current generation
    was not made from, `released` the objects that go out or away because they were decided to.
    """

    site: str
    base: str
    generation: int
    run: str
    changes: tuple[Change, ...]
    checks: tuple[CobId, ...]
    stages: Stages
    proofs: tuple[str, ...] = ()
    limit: str | None = None
    refresh: Refresh = Refresh.CHANGED
    uncertain: tuple[CobId, ...] = ()
    unsettled: tuple[Unsettled, ...] = ()
    planner: str = DEFAULT_PLANNER
    budgets: Mapping[str, int] = field(default_factory=dict)
    only: tuple[CobId, ...] = ()
    renew: tuple[CobId, ...] = ()
    given_up: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    decisions: Mapping[str, int] = field(default_factory=dict)
    decided: tuple[Decision, ...] = ()
    released: tuple[CobId, ...] = ()

    @property
    def converges(self) -> bool:
        """Say whether all gets where it should, as far as order is concerned (P9)."""
        return not stuck_waits(self.waits)

    @property
    def makespan(self) -> dict[str, float]:
        """The seconds to the end of the last step: by event, and with the stages as barriers.

        With barriers each stage begins when the one before is over, and a host does one step of a
        stage after the other; so many seconds at least, for what limits pause is not in it.
        """
        barriers = sum(map(_stage_seconds, self.stages.stages))
        return {"event": self.seconds, "stages": max(self.seconds, barriers)}

    @property
    def steps(self) -> tuple[PlannedStep, ...]:
        """All predicted steps, in the order of their stages."""
        return tuple(step for stage in self.stages.stages for step in stage)

    @property
    def counts(self) -> dict[str, int]:
        """How many objects are added, changed and removed; one of another type now is changed."""
        kinds = Counter(change.kind for change in self.changes)
        return {word: kinds[kind] for word, kind in _COUNTED.items()}

    @property
    def is_empty(self) -> bool:
        """Say whether nothing is pending: no step, no change, no lost state, nothing that waits.

        A check alone is no change: it finds out and changes nothing.
        """
        return not (self.steps or self.changes or self.waits or self.uncertain)

    def as_data(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        return {
            "format": PLAN_FORMAT,
            "site": self.site,
            "base": self.base,
            "generation": self.generation,
            "run": self.run,
            "limit": self.limit,
            "refresh": str(self.refresh),
            "planner": self.planner,
            "budgets": dict(sorted(self.budgets.items())),
            "only": list(self.only),
            "renew": list(self.renew),
            "counts": self.counts,
            "changes": [change.as_data() for change in self.changes],
            "contents": "".join(change.content for change in self.changes),
            "switches": [list(group) for group in self.switches],
            "checks": list(self.checks),
            "uncertain": list(self.uncertain),
            "unsettled": [it.as_data() for it in self.unsettled],
            "stages": [[_step(step) for step in stage] for stage in self.stages.stages],
            "critical_path": [_step(step) for step in self.stages.critical_path],
            "downtime": dict(sorted(self.down_s.items())),
            "restarts": list(self.restarts),
            "limits": [
                {
                    "limit": it.limit,
                    "max": it.bound,
                    "units": list(it.units),
                    "canary": list(it.canary),
                    "pause": it.pause_s,
                }
                for it in self.limits
            ],
            "old_content": [{"cob": cob, "on": on} for cob, on in self.old_content],
            "converges": self.converges,
            "proofs": list(self.proofs),
            "seconds": self.seconds,
            "makespan": self.makespan,
            "waits": [
                {"cob": wait.cob, "state": wait.state, "chain": chain_data(wait.chain)}
                for wait in self.waits
            ],
            "given_up": list(self.given_up),
            "refusals": [refusal.as_data() for refusal in self.refusals],
            "decisions": dict(sorted(self.decisions.items())),
            "decided": list(map(asdict, self.decided)),
            "released": list(self.released),
        }


class TreeComparison:
    """Says which files differ between two trees; of two that are asked for often, once.

    `find` returns an archive by its digest, None where it is gone: then nothing is said.
    """

    def __init__(self, find: Callable[[str], bytes | None]) -> None:
        self._find = find
        self._difference = cache(self._compare)

    def files(self, trees: tuple[str, str] | None) -> tuple[FileDifference, ...]:
        """Return the files that differ; `trees` are digests, the old one first."""
        return () if trees is None else self._difference(*trees)

    def _compare(self, *digests: str) -> tuple[FileDifference, ...]:
        old, new = map(self._find, digests)
        if old is None or new is None:
            return ()
        return tree_difference(read_archive(old), read_archive(new))


def file_data(files: Iterable[FileDifference]) -> list[dict[str, Any]]:
    """Return differences of files as plain data."""
    return [
        {
            "file": it.name,
            "kind": str(it.kind),
            "notes": list(it.notes),
            "added": it.text.added if it.text else 0,
            "removed": it.text.removed if it.text else 0,
            "diff": list(it.text.lines) if it.text else [],
        }
        for it in files
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """What `apply` needs to know of a saved plan.

    `states` says where objects were when the plan was made, or why that was not known: `NEW`,
    `CHANGED` or `IN_DOUBT`. Objects of the site that do not stand there were where they are wanted.
    `contents` begin the digests of those to be added or changed; `removed` are those to be removed.
    `goes_out` are those that leave serving or are restarted. `budgets`, `only`, `renew` and
    `decisions` as in `Plan`.
    """

    site: str
    base: str
    generation: int
    run: str
    limit: str | None
    refresh: Refresh
    states: Mapping[CobId, str]
    contents: Mapping[CobId, str]
    removed: frozenset[CobId]
    goes_out: frozenset[CobId] = frozenset()
    budgets: Mapping[str, int] = field(default_factory=dict)
    only: frozenset[CobId] = frozenset()
    renew: frozenset[CobId] = frozenset()
    decisions: Mapping[str, int] = field(default_factory=dict)


NEW, CHANGED, IN_DOUBT = "new", "to be changed", "in doubt"
"""Why a plan does not say in which state an object was."""

_AS_WRITTEN = ("site", "base", "generation", "run", "limit", "budgets", "decisions")

_BROUGHT = {"added": NEW, "changed": CHANGED}
"""The kinds of changes that bring a content."""


def _stage_seconds(stage: Sequence[PlannedStep]) -> float:
    """Return the seconds of a stage: the longest first, second, ... step of a host, together."""
    lengths: dict[str, list[float]] = {}
    for step in stage:
        lengths.setdefault(host_of(step.cob), []).append(step.end_s - step.start_s)
    return sum(map(max, zip_longest(*lengths.values(), fillvalue=0.0)))


def _step(step: PlannedStep) -> dict[str, Any]:
    return {
        "cob": step.cob,
        "from": step.source,
        "to": step.dest,
        "start": step.start_s,
        "end": step.end_s,
        "waits_for": list(step.waits_for),
    }


def base_digest(records: Mapping[CobId, CobRecord]) -> str:
    """Return a digest of what the journal believes: states and contents.

    It is that of the JSON object with `[state, content, in transition]` by id.
    """
    members = listed(_belief(cob, records[cob]) for cob in sorted(records))
    return digest_of_pieces(chain("{", members, "}"))


def _belief(cob: CobId, record: CobRecord) -> str:
    moving = "false" if record.in_transition is None else "true"
    return f"{quoted(cob)}:[{quoted(record.state)},{quoted(record.content)},{moving}]"


def read_plan(text: str | bytes, name: str) -> PlanFile:
    """Read a saved plan; PlanError where it is none, damaged, or of another version."""
    hint = "make a new one with `cobweb plan --out`"
    try:
        data = json_of(text, name, max_bytes=MAX_PLAN_BYTES)
        seal = data.pop("seal")
        if data["format"] != PLAN_FORMAT:
            which = f"format {data['format']!r} is not {PLAN_FORMAT}"
            message = f"{name}: the plan was made by another version of Cobweb: {which}"
            raise PlanError(message, hint=hint)
        if seal != digest(data):
            raise PlanError(f"{name}: the plan was edited or damaged", hint=hint)
        return _plan_file(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanError(f"{name}: this is no plan", hint=hint) from error


def _plan_file(data: Mapping[str, Any]) -> PlanFile:
    kinds = {change["cob"]: change["kind"] for change in data["changes"]}
    brought = {cob: _BROUGHT[kind] for cob, kind in kinds.items() if kind in _BROUGHT}
    digits = iter(data["contents"])
    states: dict[CobId, str] = {wait["cob"]: wait["state"] for wait in data["waits"]}
    for stage in reversed(data["stages"]):
        states |= {step["cob"]: step["from"] for step in stage}
    states |= dict.fromkeys(data["checks"], IN_DOUBT) | brought
    return PlanFile(
        **{name: data[name] for name in _AS_WRITTEN},
        refresh=Refresh(data["refresh"]),
        states=states,
        contents={cob: "".join(islice(digits, _CONTENT_DIGITS)) for cob in brought},
        removed=frozenset(cob for cob, kind in kinds.items() if kind == "removed"),
        goes_out=frozenset([*data["downtime"], *data["restarts"]]),
        only=frozenset(data["only"]),
        renew=frozenset(data["renew"]),
    )


def plan_text(plan: Plan) -> str:
    """Return the text of a plan file; a seal over its content lets `apply` notice an edit."""
    data = plan.as_data()
    return "".join(indented({**data, "seal": digest(data)}, indent=1, ascii_only=True)) + "\n"


def changes_of(
    context: ExecutionContext,
    movable: AbstractSet[CobId],
    names: Mapping[CobId, CobId],
    trees: TreeComparison,
) -> tuple[Change, ...]:
    """Return what differs, of what may be moved or is removed, from what the journal knows, by id.

    `names` are new names by old ones. `trees` finds the files that differ in file trees.
    """
    before, retyped = context.before, context.retyped
    leaving = (cob for cob in context.removal.gone if host_of(cob) not in context.given_up)
    was = {new: old for old, new in names.items()}
    short = {cob: before.contents[cob][:_CONTENT_DIGITS] for cob in before.added | before.changed}
    found = [Change(cob=cob, kind="added", content=short[cob]) for cob in before.added]
    for cob in before.changed:
        lines, files = _differences(before, context.records[cob], trees)
        if cob in retyped:
            then, now = retyped[cob]
            lines = (f"-type: {then}", f"+type: {now}", *lines)
        change = Change(cob=cob, kind="changed", lines=lines, files=files, content=short[cob])
        found.append(replace(change, was=was.get(cob)))
    only = was.keys() - before.changed
    found += [Change(cob=cob, kind="renamed", was=was[cob]) for cob in only]
    found = [change for change in found if change.cob in movable]
    found += [Change(cob=cob, kind="removed") for cob in leaving if cob not in retyped]
    return tuple(sorted(found, key=lambda change: change.cob))


def unsettled_of(
    context: ExecutionContext,
    movable: AbstractSet[CobId],
    drifted: Mapping[CobId, Left],
    trees: TreeComparison,
) -> Iterator[Unsettled]:
    """Yield which of the movable objects are not as they should be, or may not be, by id.

    Those that the site adds or changes are left out. `drifted` says how they were left.
    """
    before, cobs = context.before, context.desired.graph.cobs
    for cob in sorted(cobs.keys() & movable & (context.records.keys() - before.changed)):
        record = context.records[cob]
        kind, why = _unsettled(before, record, cobs[cob], drifted.get(cob))
        if not kind and cob in context.renew:
            kind, why = "renew", "to be renewed"
        if kind:
            lines, files = _differences(before, record, trees) if record.applied else ((), ())
            yield Unsettled(cob=cob, kind=kind, why=why, lines=lines, files=files)


def _unsettled(
    before: KnownStates, record: CobRecord, it: Cob, drifted: Left | None
) -> tuple[str, str]:
    """Return in a word and in a sentence why an object is looked at, or two empty texts."""
    if it.id in before.uncertain:
        return "doubt", f"in doubt: {why_doubtful(record)}"
    if it.id in before.away:
        return "state", "its machine is not there"
    if not record.reachable:
        return "unreachable", "its host could not be reached the last time"
    if drifted is not None:
        said = f"; {drifted.message}" if drifted.message else ""
        return "drift", f"drifted: was {drifted.was}, is {record.state}{said}"
    return ("", "") if record.state == it.preferred else ("state", f"is {record.state}")


def _differences(
    before: KnownStates, record: CobRecord, trees: TreeComparison
) -> tuple[tuple[str, ...], tuple[FileDifference, ...]]:
    """Return the lines and the files that differ between what was applied and what is wanted.

    That is the spec as it would be applied now, as far as it is known.
    """
    applied = record.applied or {}
    spec: Mapping[str, Any] = fill_in(before.specs[record.cob], before.results)[0]
    return spec_diff(applied, spec), trees.files(changed_trees(applied, spec))
