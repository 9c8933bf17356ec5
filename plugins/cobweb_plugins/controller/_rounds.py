"""A round of a controller: look, decide, admit what policy lets, bring it about, look for drift.

Theory of operation. The goal is what is admitted: files and revisions of decisions. Each input that
is not in it is planned by itself on top of it, and policy says whether it is admitted, waits for a
person, or not now. Then the goal is planned and applied within that plan; what would go out then
and was let go by nobody asks once more. All that must not be lost is in the memory before anything
acts on it, and the run is a child process, so a controller may be killed between any two lines:
the next one reads the memory, finds the run by the lock of the site, and does the rest.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from cobweb.errors import ConflictError
from cobweb.plugin import Tone
from cobweb_plugins.controller._admissions import Admissions
from cobweb_plugins.controller._children import INVALID
from cobweb_plugins.controller._clone import CloneError
from cobweb_plugins.controller._context import Context, EditedError
from cobweb_plugins.controller._delivery import Delivery
from cobweb_plugins.controller._memory import Fate, Goal, Memory, Slices, digest_of
from cobweb_plugins.controller.deciders._turns import Deciders

_ATTEMPTS = 10
"""How often a round is begun anew where somebody else writes the memory at the same moment."""

_PENDING = 2


class Rounds:
    """The rounds of one controller."""

    def __init__(self, context: Context, deciders: Deciders) -> None:
        self._context = context
        self._deciders = deciders
        self._admissions = Admissions(context)
        self._delivery = Delivery(context)
        self._looked = ""

    def round(self) -> None:
        """Look, decide, admit, bring about, look for drift; nothing where nothing has changed."""
        for left in range(_ATTEMPTS, 0, -1):
            try:
                self._round()
            except (ConflictError, EditedError):
                self._looked = ""
                if left == 1:
                    raise
            else:
                return

    def _round(self) -> None:
        it = self._context
        it.read()
        it.now_s = it.desk.clock()
        self._look_for_files()
        had_turns = self._deciders.turn() or it.memory.goal is None
        line = it.desk.at_work()
        it.is_busy = bool(line)
        if line:
            it.tell("run", f"waits for the end of a run: {line}", Tone.CAREFUL)
            return
        it.untell("run")
        self._delivery.end_attempt()
        looked = self._look()
        if looked == self._looked and not any(wake <= it.now_s for wake in it.wakes):
            return
        it.wakes.clear()
        it.troubles = 0
        try:
            self._admissions.admit()
            if not had_turns and self._deciders.turn_late():  # of a folder with new files
                self._admissions.admit()
            self._delivery.deliver()
            if it.readable is not None and not it.is_busy:
                self._look_for_drift(it.readable)
        finally:
            it.forget_plans()
        self._looked = looked  # not what it is now: something may have come meanwhile

    def _look(self) -> str:
        """Return what is another text where anything is that a round goes by."""
        it = self._context
        return digest_of([it.newest, it.desk.revisions(), it.desk.mark(), it.seen.revision])

    def _look_for_files(self) -> None:
        it = self._context
        known = it.memory.newest
        try:
            it.newest = it.source.newest()
            it.untell("fetch")
        except CloneError as error:
            if not known or not it.source.has(known):
                raise
            it.newest = known
            it.tell("fetch", str(error), Tone.BAD)
        looked = replace(it.memory, newest=it.newest, uses_git=it.source.uses_git)
        it.keep(looked, "the newest files")

    def _look_for_drift(self, goal: Goal) -> None:
        """Check a slice of the hosts, so that all are checked in the time that policy says."""
        it = self._context
        every_s, hosts = it.policy().drift_every_s, it.desk.hosts()
        if every_s is None or not hosts:
            return
        if it.memory.slices is None or it.memory.slices.time > it.now_s:  # the clock was set back
            it.keep(replace(it.memory, slices=Slices(host="", time=it.now_s)), "drift")
        slices, share_s = it.memory.slices or Slices(host="", time=it.now_s), every_s / len(hosts)
        due = min(len(hosts), int((it.now_s - slices.time) / share_s))
        if due < 1:
            it.wakes.append(slices.time + share_s)
            return
        later = [host for host in hosts if host > slices.host]
        chosen = [*later, *hosts][:due]
        path = it.work / f"hosts-{secrets.token_hex(4)}"
        path.write_text("\n".join(chosen) + "\n", encoding="utf-8")
        try:
            folder = it.source.folder(goal.files)
            said = it.children.run(folder, "drift", "--limit", f"@{path}")
        finally:
            path.unlink(missing_ok=True)
        if said.code not in (0, _PENDING):
            it.tell("drift", f"the look for drift failed: {said.text}", Tone.BAD)
        it.read()
        time_s = it.now_s if due == len(hosts) else slices.time + due * share_s
        it.keep(replace(it.memory, slices=Slices(host=chosen[-1], time=time_s)), "drift")
        it.wakes.append(time_s + share_s)


def code_of(memory: Memory) -> int:
    """Return the exit code of a round: that of its run, 3 or 2 where an input waits, or 0."""
    states = {it.state for it in memory.open()}
    tried = memory.tried
    is_of_goal = tried is not None and memory.goal is not None and tried.key == memory.goal.key
    if tried and is_of_goal and tried.exit_code and tried.state in ("failed", "refused"):
        return tried.exit_code
    if Fate.INVALID in states:
        return INVALID
    return _PENDING if Fate.WAITING in states else 0
