"""Which inputs become part of the goal: each by itself on top of it, as policy says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cobweb.errors import CobwebError
from cobweb.plugin import Tone
from cobweb_plugins.controller._children import Planned
from cobweb_plugins.controller._context import Context, Section
from cobweb_plugins.controller._desk import all_of
from cobweb_plugins.controller._memory import DRIFT, GIT, Fate, Goal, Input, id_of
from cobweb_plugins.controller._policy import Admission, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An input that may be admitted, with what the goal would be then.

    `value` is a commit, a revision, or the digest of the site that a folder's files say.
    """

    source: str
    value: str
    files: str
    decisions: Mapping[str, int]
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a candidate, why, and what it would do by itself."""

    fate: Fate
    reason: str
    planned: Planned
    known: Input | None = None


class Admissions:
    """Admits inputs, and remembers of others why they wait."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def admit(self) -> None:
        """Admit what policy lets, until nothing more can be."""
        it = self._context
        if it.memory.pin and it.memory.goal and not it.source.uses_git:
            return
        while any(map(self._consider, self._candidates())):
            pass
        self._follow_pin()
        current = {(one.source, one.input) for one in it.memory.open() if self._is_current(one)}
        it.keep(it.memory.lapsed(current, it.now_s), "what was replaced")

    def _is_current(self, one: Input) -> bool:
        it = self._context
        goal = it.memory.goal
        if goal is not None and goal.pending.get(one.source) == one.input:
            return True
        if it.memory.pin and (one.source, one.input) == (GIT, it.newest):
            return True
        if one.source == DRIFT:
            return goal is not None and not goal.pending and one.input.startswith(goal.key[:8])
        return (one.source, one.input) in {(it.source, it.value) for it in self._candidates()}

    def _follow_pin(self) -> None:
        """Admit the commit of a generation that a person has pinned."""
        it = self._context
        goal, pin = it.memory.goal, it.memory.pin
        if pin is None or goal is None or not it.source.uses_git or goal.files == pin.commit:
            return
        if not it.source.has(pin.commit):
            said = f"generation {pin.generation} is pinned, but the repository has no commit"
            it.trouble(f"{said} {pin.commit[:8]}")
            return
        pending = {**goal.pending, GIT: pin.commit}
        goal = replace(goal, files=pin.commit, site="", pending=pending, is_free=True)
        it.keep(replace(it.memory, goal=goal, held=None), pin.reason)

    def _candidates(self) -> Iterator[Candidate]:
        """Yield the inputs that are not admitted, decisions first."""
        it = self._context
        goal, revisions = it.memory.goal, it.desk.revisions()
        if readable := it.readable:
            for name, revision in sorted(revisions.items()):
                if revision > (known := readable.decisions.get(name, 0)):
                    yield Candidate(
                        source=name,
                        value=str(revision),
                        files=readable.files,
                        decisions={**all_of(readable.decisions, revisions), name: revision},
                        what=it.desk.decided(name, known),
                    )
        if goal is None or (self._is_newer(goal) and not it.memory.pin):
            decisions = revisions if goal is None else all_of(goal.decisions, revisions)
            value = it.newest if it.source.uses_git else it.plan(it.newest, decisions).site
            yield Candidate(
                source=GIT,
                value=value or it.newest,
                files=it.newest,
                decisions=decisions,
                what=it.source.what(it.newest),
            )

    def _is_newer(self, goal: Goal) -> bool:
        """Say whether the newest files are others, or are evaluated to another site by now."""
        it = self._context
        if it.source.uses_git or goal.files != it.newest:
            return goal.files != it.newest
        planned = it.plan(goal.files, goal.decisions)
        return planned.is_valid and planned.site != goal.site

    def _consider(self, candidate: Candidate) -> bool:
        """Admit an input if it may be; else remember why not. Say whether it was admitted."""
        it = self._context
        known = it.memory.input(candidate.source, candidate.value)
        planned = it.plan(candidate.files, candidate.decisions)
        is_away = not planned.is_valid and not planned.is_wrong
        if is_away:
            it.trouble(f"{candidate.what}: cannot be planned: {planned.said}")
        if is_away or (known is not None and known.state == Fate.REJECTED):
            return False
        try:
            section = self._section(candidate, planned)
        except CobwebError as error:
            reason = str(error)
            invalid = Verdict(fate=Fate.INVALID, reason=reason, planned=planned, known=known)
            return self._wait(candidate, invalid)
        goal = it.memory.goal
        moves = "" if goal is None else _moves(goal, section)
        if goal is not None and goal.site == planned.site and not moves:
            return self._take(candidate, section, planned, known)
        policy = it.policy() if goal else section.policy
        verdict = self._verdict(candidate, policy, moves, known)
        if verdict.fate is not Fate.ADMITTED:
            return self._wait(candidate, verdict)
        it.tell(f"in {candidate.source}", f"admitted: {candidate.what}")
        return self._take(candidate, section, planned, known)

    def _section(self, candidate: Candidate, planned: Planned) -> Section:
        """Return what a site says that could be planned; CobwebError where that is wrong."""
        if not planned.is_valid:
            raise CobwebError(planned.said)
        goal = self._context.memory.goal
        if goal is not None and candidate.source != GIT:
            return Section(serve=goal.serve, database=goal.database)
        return self._context.section(candidate.files)

    def _verdict(
        self, candidate: Candidate, policy: Policy, moves: str, known: Input | None
    ) -> Verdict:
        """Return what policy says of an input that `moves` what only a person may."""
        it = self._context
        goal = it.readable
        planned = it.plan(candidate.files, candidate.decisions)
        base = it.plan(goal.files, goal.decisions) if goal else Planned(code=0)
        outages, removals = planned.outages - base.outages, planned.removals - base.removals
        planned = replace(planned, outages=outages, removals=removals)
        waits = Verdict(fate=Fate.WAITING, reason="", planned=planned, known=known)
        admission, reason = policy.admission(candidate.source, goes_out=bool(outages))
        if admission is Admission.NEVER and not moves:
            return replace(waits, fate=Fate.NEVER, reason=reason)
        is_approved = known is not None and known.state == Fate.APPROVED
        if known is not None and is_approved and (outages | removals) - known.shown:
            return replace(waits, reason="more would go out than was approved")
        if (moves or admission is Admission.APPROVE) and not is_approved:
            reason = known.reason if known and known.more else moves or reason
            return replace(waits, reason=reason)
        closed = policy.closed([candidate.source], it.now_s)
        if closed is None or (is_approved and moves):  # which may be what mends the windows
            return replace(waits, fate=Fate.ADMITTED)
        it.wakes.append(closed.opens_s)
        fate = Fate.APPROVED if is_approved else Fate.WINDOW
        return replace(waits, fate=fate, reason=closed.text)

    def _take(
        self, candidate: Candidate, section: Section, planned: Planned, known: Input | None
    ) -> bool:
        """Make the goal one with this input."""
        it = self._context
        memory, old = it.memory, it.memory.goal
        goal = Goal(
            files=candidate.files,
            site=planned.site,
            decisions=candidate.decisions,
            serve=section.serve,
            database=section.database,
            pending=old.pending if old else {},
            covered=old.covered if old else (),
            is_free=old is not None and old.is_free,
        )
        if old is None or old.site != planned.site or candidate.source in old.pending:
            goal = replace(goal, pending={**goal.pending, candidate.source: candidate.value})
        if known is not None:
            reason = "by policy"
            if known.state == Fate.APPROVED:
                goal, reason = goal.covering(known.shown), known.reason
            admitted = replace(known, state=Fate.ADMITTED, reason=reason, more=(), findings=())
            memory = memory.with_input(admitted)
        is_commit = old is None or candidate.source == GIT  # what was applied by hand ends with it
        held = None if is_commit else memory.held
        seen = it.desk.generation if is_commit else memory.seen
        it.keep(replace(memory, goal=goal, held=held, seen=seen), candidate.what)
        return True

    def _wait(self, candidate: Candidate, verdict: Verdict) -> bool:
        """Remember why an input is not admitted; say that it was not."""
        it, known, planned = self._context, verdict.known, verdict.planned
        new = known or Input(
            id=id_of(candidate.source, candidate.value),
            source=candidate.source,
            input=candidate.value,
            what=candidate.what,
            state=verdict.fate,
            reason="",
            since=it.now_s,
        )
        shown = planned.outages | planned.removals
        if verdict.fate is not Fate.WAITING:
            new = replace(new, more=())
        elif known is not None and known.state == Fate.APPROVED:
            new = replace(new, more=tuple(sorted(shown - known.shown)))
        if verdict.fate is not Fate.APPROVED:  # which is for what was shown
            outages, removals = sorted(planned.outages), sorted(planned.removals)
            new = replace(new, outages=tuple(outages), removals=tuple(removals))
        findings = planned.lines if verdict.fate is Fate.INVALID else ()
        new = replace(new, state=verdict.fate, reason=verdict.reason, findings=findings)
        tell_waiting(it, new)
        it.keep(it.memory.with_input(new), verdict.reason)
        return False


def tell_waiting(context: Context, it: Input) -> None:
    """Tell people of an input that waits."""
    tone = Tone.BAD if it.state == Fate.INVALID else Tone.CAREFUL
    said = f"waits: {it.reason}"
    if it.state == Fate.INVALID:
        said = f"cannot be evaluated: {it.reason}"
    elif it.state == Fate.WAITING:
        said = f"waits for `cobweb approve {it.id}`: {it.reason}"
    context.tell(f"in {it.source}", f"{it.what}: {said}", tone)


def _moves(goal: Goal, section: Section) -> str:
    """Return what is changed that only a person may change, as a reason; "" if nothing is."""
    if section.database != goal.database:
        return "`state:` is changed"
    return "`serve:` is changed" if section.serve != goal.serve else ""
