"""How the goal is brought about: planned, compared with what was let go, applied within that."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobweb.plugin import Tone
from cobweb_plugins.controller._admissions import tell_waiting
from cobweb_plugins.controller._children import Planned, Said
from cobweb_plugins.controller._context import Context, EditedError
from cobweb_plugins.controller._desk import is_of
from cobweb_plugins.controller._memory import (
    DRIFT,
    GIT,
    LAST_AGAIN_S,
    OPEN,
    SECTION,
    Attempt,
    Fate,
    Goal,
    Held,
    Input,
    digest_of,
    id_of,
)
from cobweb_plugins.controller._policy import Admission, Policy

_LOCKED, _INTERRUPTED = 5, 130

_MOST_ONLY = 5000
"""How many objects are named in a call at most."""


class Delivery:
    """Brings about what is admitted, one run at a time."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def deliver(self) -> None:
        """Apply what is admitted, if it is not so already and may be now.

        EditedError where the round is to begin anew: its plan has become stale, or a part is done.
        """
        it = self._context
        if it.memory.pin and not it.source.uses_git:
            self._hold_pin()
            return
        goal, pin = it.readable, it.memory.pin
        if goal is None or (pin is not None and goal.files != pin.commit):
            return
        if self._may_try() and self._apply(goal):
            raise EditedError("what was planned has changed again and again")

    def end_attempt(self) -> None:
        """Find out how an attempt of a controller ended that does not live any more."""
        it = self._context
        attempt = it.memory.attempt
        if attempt is None:
            return
        run = it.desk.run_after(attempt.after, it.memory.tokens)
        if run is None or run.exit_code in (None, _INTERRUPTED):  # what is left is done now
            seen = it.memory.seen if run is None else it.desk.generation
            it.keep(replace(it.memory, attempt=None, seen=seen), "it has no end")
            return
        lines = (f"run {run.info.id} ended with {run.exit_code}",)
        self._ended(Said(code=run.exit_code, data={"run": run.info.id}, lines=lines))

    def _may_try(self) -> bool:
        """Say whether the goal was not tried in vain, or its time has come."""
        it = self._context
        goal, tried = it.memory.goal, it.memory.tried
        if tried is None or goal is None or tried.key != goal.key:
            return True
        if tried.again_s is not None and it.now_s < tried.again_s <= it.now_s + LAST_AGAIN_S:
            it.wakes.append(tried.again_s)
            return False
        return tried.state != "refused" or tried.basis != it.desk.mark()

    def _apply(self, goal: Goal) -> bool:
        """Apply the goal if it may be now; say whether it is to be planned anew at once."""
        it = self._context
        words = self._words(goal)
        if words is None:
            return False
        planned = it.plan(goal.files, goal.decisions, *words)
        goal = it.memory.goal or goal
        if planned.is_valid and planned.site != goal.site:
            raise EditedError("the site is another one by now")
        if self._is_refused(planned) or not self._is_open(goal):
            return False
        if not self._is_covered(goal, planned):
            return False
        folder, options = it.source.folder(goal.files), it.policy().apply_words()
        said = self._run(folder, "apply", str(planned.file), *options, goal=goal)
        return self._ended(said) or (bool(words) and said.code == 0)  # what of the rest

    def _is_held(self, planned: Planned) -> bool:
        """Say whether a generation that somebody has applied by hand is left as it is."""
        it = self._context
        memory, current = it.memory, it.desk.generation
        if current != memory.seen:
            held, goal, made = memory.held, memory.goal, it.desk.made(current)
            is_other = bool(planned.changed) and made and not self._was_admitted(made, planned)
            if is_other and goal and made and is_of(made.message, memory.tokens):
                # A run whose controller was killed came late: what it undid is to be done again.
                value = goal.files if it.source.uses_git else goal.site
                goal = replace(goal, pending={**goal.pending, GIT: value})
            elif is_other:
                held = Held(generation=current, since=it.now_s, newest=it.newest)
            kept = replace(memory, seen=current, held=held, goal=goal)
            it.keep(kept, "the current generation")
        if it.memory.held is None:
            return False
        if not planned.changed:
            it.keep(replace(it.memory, held=None), "it is as admitted again")
            return False
        said = f"generation {it.memory.held.generation} was applied by hand and is held"
        it.tell("goal", f"{said}, until the next commit or `cobweb unpin`", Tone.CAREFUL)
        return True

    def _was_admitted(self, made: Any, planned: Planned) -> bool:
        """Say whether a generation is what is admitted, by the same decisions or earlier ones."""
        goal, at = self._context.memory.goal, made.decisions
        if goal is None or any(at[name] > goal.decisions.get(name, 0) for name in at):
            return bool(made.digest == planned.site)
        earlier = self._context.plan(goal.files, {**goal.decisions, **at})
        return made.digest in (planned.site, earlier.site)

    def _words(self, goal: Goal) -> tuple[str, ...] | None:
        """Return the options by which a part is planned, () for all; None for nothing at all."""
        it = self._context
        policy, planned = it.policy(), it.plan(goal.files, goal.decisions)
        if not planned.is_valid:
            self._unplanned(planned)
            return None
        if goal.site != planned.site:
            if not it.source.uses_git:
                raise EditedError("the site is another one by now")
            evaluated = replace(it.memory, goal=replace(goal, site=planned.site))
            it.keep(evaluated, "the site as it is evaluated now")
        if self._is_held(planned):
            return None
        if not planned.is_pending:
            it.keep(it.memory.reached(None, it.now_s), "nothing is pending")
            return None
        goal = it.memory.goal or goal
        if goal.pending:
            return self._all_but_drift(goal, policy, planned)
        return () if policy.repairs_all else self._repairs(policy, planned)

    def _all_but_drift(self, goal: Goal, policy: Policy, planned: Planned) -> tuple[str, ...]:
        """Return the options that leave out what is not to be repaired; () where that cannot be."""
        left = {cob for cob in planned.drifted if not policy.repairs(cob)}
        moved = sorted((planned.changed | planned.unsettled) - left)
        if not left or not 0 < len(moved) <= _MOST_ONLY:
            return ()
        words = tuple(word for cob in moved for word in ("--only", cob))
        return words if self._context.plan(goal.files, goal.decisions, *words).is_valid else ()

    def _repairs(self, policy: Policy, planned: Planned) -> tuple[str, ...] | None:
        """Return the options by which what policy lets be repaired is planned; None if nothing."""
        chosen = sorted(filter(policy.repairs, planned.unsettled))
        if chosen:
            return tuple(word for cob in chosen for word in ("--only", cob))
        number = len({*planned.unsettled, *planned.changed})
        objects = f"{number} object{'s' if number != 1 else ''} not as admitted"
        self._pending(f"{objects}, and `serve.drift.repair` names none of them")
        return None

    def _is_refused(self, planned: Planned) -> bool:
        """Say whether the run would be refused, and remember it."""
        if not planned.is_valid:
            self._unplanned(planned)
        elif planned.refusals:
            self._refused("; ".join(planned.refusals), 1)
        elif not planned.converges and not planned.checks:
            self._refused("; ".join(planned.proofs) or "no order leads there", 4)
        else:
            return False
        return True

    def _is_open(self, goal: Goal) -> bool:
        it = self._context
        closed = it.policy().closed(list(goal.pending) or [DRIFT], it.now_s)
        if closed is None:
            return True
        it.wakes.append(closed.opens_s)
        self._pending(closed.text)
        return False

    def _is_covered(self, goal: Goal, planned: Planned) -> bool:
        """Say whether all that goes out was let go; remember what waits for a person if not."""
        it = self._context
        asked, reason, excess = ("", "", frozenset()) if goal.is_free else self._excess(planned)
        if not asked:
            return True
        drift = f"{goal.key[:8]}{digest_of(sorted(excess))}"
        value = goal.pending.get(asked, drift)
        known = it.memory.input(asked, value)
        is_repair = asked == DRIFT
        is_shown = known is not None and (is_repair or excess <= known.shown)
        if known is not None and known.state == Fate.APPROVED and is_shown:
            covering = replace(it.memory, goal=goal.covering({*known.shown, *excess}))
            admitted = replace(known, state=Fate.ADMITTED, more=())
            it.keep(covering.with_input(admitted), known.said or "approved")
            return True
        if known is not None and known.state == Fate.REJECTED:
            self._pending(f"{known.id} was rejected")
            return False
        if not is_repair and known is not None:
            reason = f"more would go out than was approved: {reason}"
        new = Input(
            id=f"{DRIFT}-{drift[8:16]}" if is_repair else id_of(asked, value),
            source=asked,
            input=value,
            what="repairs of what is not as admitted" if is_repair else it.source.what(goal.files),
            state=Fate.WAITING,
            reason=reason,
            since=known.since if known is not None and known.state in OPEN else it.now_s,
            outages=tuple(sorted(planned.outages)),
            removals=tuple(sorted(planned.removals)),
            more=() if is_repair else tuple(sorted(excess)),
        )
        tell_waiting(it, new)
        memory = it.memory.without_repairs(it.now_s, value) if is_repair else it.memory
        waits = memory.with_input(new).waiting(f"waits for `cobweb approve {new.id}`")
        it.keep(waits, reason)
        return False

    def _excess(self, planned: Planned) -> tuple[str, str, frozenset[str]]:
        """Return a source that a person is asked for, why, and what nobody has let go."""
        policy, goal = self._context.policy(), self._context.memory.goal
        covered = frozenset(goal.covered if goal else ())
        for source in sorted(goal.pending if goal else ()) or [DRIFT]:
            calm, why = policy.admission(source, goes_out=False)
            if calm is not Admission.AUTO:
                moved = planned.outages | planned.removals
                if source == DRIFT:
                    moved |= planned.changed | planned.unsettled
                if moved - covered:
                    return source, why, moved - covered
            elif planned.outages - covered:
                loud, why = policy.admission(source, goes_out=True)
                if loud is not Admission.AUTO:
                    return source, why, planned.outages - covered
        return "", "", frozenset()

    def _run(self, folder: Path, command: str, *words: str, goal: Goal) -> Said:
        """Carry out a run; it is remembered before it begins."""
        it, token = self._context, secrets.token_hex(4)
        attempt = Attempt(key=goal.key, token=token, after=it.desk.last_run)
        what = ", ".join(sorted(goal.pending)) or DRIFT
        it.keep(it.memory.with_attempt(attempt), f"{command} for {what}")
        it.tell("run", f"brings about what is admitted ({what})")
        message = f"serve {token}: {it.source.what(goal.files)}"
        if command == "apply":  # and not when the controller is another one by then
            words = (*words, "--while", f"{SECTION}={it.seen.revision}")
        return it.children.run(folder, command, *words, "--message", message)

    def _ended(self, said: Said) -> bool:
        """Remember how a run ended; say whether its plan was stale."""
        it = self._context
        it.untell("run")
        it.read()  # a person may have written meanwhile
        data = said.data if isinstance(said.data, Mapping) else {}
        kind = str((data.get("error") or {}).get("kind", ""))
        memory = replace(it.memory, attempt=None)
        if kind in ("refused", "stuck"):
            it.keep(memory, "it was refused")
            self._refused(said.text, said.code)
            return False
        if kind == "plan" or said.code == _LOCKED:
            it.is_busy = it.is_locked = said.code == _LOCKED
            it.keep(memory, "it did not begin")
            return kind == "plan"
        memory = replace(memory, seen=it.desk.generation)
        if said.code:
            it.keep(memory, "it ended")
            self._failed(said, data.get("run"))
        else:
            run = data.get("run")
            it.keep(memory.reached(run, it.now_s), "it is as admitted")
            it.tell("goal", f"done: run {run}", Tone.GOOD)
            it.untell("goal")
        return False

    def _hold_pin(self) -> None:
        """Bring a pinned generation about, where the files of a folder say another thing."""
        it = self._context
        pin, goal, tried = it.memory.pin, it.memory.goal, it.memory.tried
        if pin is None or goal is None:
            return
        files = f"generation {pin.generation}"
        pinned = replace(goal, files=files, site="", pending={GIT: pin.commit})
        is_so = it.desk.generation in (pin.generation, it.memory.seen)
        if is_so and tried and tried.key == pinned.key and tried.state == "reached":
            return
        it.keep(replace(it.memory, goal=pinned, held=None), pin.reason)
        if it.desk.generation == pin.generation:
            it.keep(it.memory.reached(None, it.now_s), "it is the current generation")
        elif self._may_try():
            folder, options = it.source.folder(it.newest), it.policy().apply_words()
            words = (str(pin.generation), "--yes", *options)
            self._ended(self._run(folder, "rollback", *words, goal=pinned))

    def _pending(self, reason: str) -> None:
        it = self._context
        it.tell("goal", f"not now: {reason}", Tone.CAREFUL)
        it.keep(it.memory.waiting(reason), reason)

    def _refused(self, reason: str, code: int) -> None:
        it = self._context
        it.tell("goal", f"refused: {reason}", Tone.BAD)
        now_s, basis = it.desk.clock(), it.desk.mark()
        it.keep(it.memory.after("refused", reason, now_s=now_s, code=code, basis=basis), reason)

    def _unplanned(self, planned: Planned) -> None:
        """Remember that what is admitted has no plan, or come back to it soon."""
        if planned.is_wrong:
            self._failed(Said(code=planned.code, data=None, lines=planned.lines))
        else:
            self._context.trouble(f"what is admitted cannot be planned: {planned.said}")

    def _failed(self, said: Said, run: str | None = None) -> None:
        it, now_s = self._context, self._context.desk.clock()
        code = max(said.code, 1)  # it may have died by a signal
        after = it.memory.after("failed", said.text, now_s=now_s, code=code, run=run)
        it.keep(after, said.text)
        if after.tried is not None and after.tried.again_s is not None:
            it.wakes.append(after.tried.again_s)
            again = f"again in {round(after.tried.again_s - now_s)} s"
            it.tell("goal", f"failed: {said.text}; {again}", Tone.BAD)
