"""The kit for authors of service adapters: what pools count on, as checks for their own tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from cobweb.model import Action, Job, JobKind, Outcome, State, cob_id
from cobweb.plugin import Executor, Extension, RegisteredType
from cobweb.testing import NamedCheck
from cobweb_plugins.pools import _adapters as pools
from cobweb_plugins.pools.decision import Observed, Resource

_STATES = ("down", "draining", "up")
_WAY = ("down", "up", "draining", "up", "draining", "down")
_BROKEN: Any = ({}, {"state": None}, {"state": 7}, {"state": "well"}, {"members": {"n1": {}}})
_NEED = {"when": "down -> up", "cob": "other", "on": "elsewhere", "state": "down"}
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterCase:
    """What the kit needs to try a service adapter.

    `adapter` and `type` are what is registered (no type: its members have no objects), as is the
    `entry_type` of what a service keeps of its members; `settings` is `with` of a service on
    `host`. With an `executor` that is open `resource` joins it for real and leaves. Until its
    context ends `busy()` has a job at work on the member, `hold()` one that waits and that no
    further member would begin.
    """

    adapter: type[Extension]
    entry_type: type[RegisteredType] | None = None
    type: type[RegisteredType] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    host: str = "localhost"
    resource: str = "n1"
    executor: Executor | None = None
    busy: Callable[[], AbstractContextManager[object]] | None = None
    hold: Callable[[], AbstractContextManager[object]] | None = None


def adapter_checks(case: AdapterCase) -> list[NamedCheck]:
    """Return all checks that apply to the case."""
    on, tried = _Checks(case), case.type and case.executor
    checks: Mapping[Any, object] = {
        on.schema_and_members_are_sound: True,
        on.members_drain_before_they_go: case.type,
        on.a_broken_answer_is_none: on.adapter.observe,
        on.steps_may_be_done_twice: tried,
        on.no_job_is_left_behind: tried and case.busy,
        on.what_is_held_is_not_pending: tried and case.hold,
    }
    return [NamedCheck(name=it.__name__, claim=it.__doc__, run=it) for it in checks if checks[it]]


def check_adapter(case: AdapterCase) -> None:
    """Run all checks that apply; AssertionError at the first that fails."""
    for check in adapter_checks(case):
        check()


class _Checks:
    def __init__(self, case: AdapterCase) -> None:
        self.case: Any = case
        self.type: Any = case.type and case.type().cob_type()
        self.entry_type: Any = case.entry_type and case.entry_type().cob_type()
        self.adapter = pools.Adapters({case.adapter.name: case.adapter}, {})[case.adapter.name]
        self.service = pools.AdapterService(name="kit", host=case.host, settings=case.settings)
        self.question: Any = pools.question(self.service, self.adapter)

    def schema_and_members_are_sound(self) -> None:
        """All settings fit the schema, and objects are to be what their members are."""
        from jsonschema import Draft202012Validator as Validator

        assert self.adapter.holds, "it holds no type of resources"
        Validator.check_schema(self.adapter.schema)
        Validator(self.adapter.schema).validate(self.case.settings)
        wants = _STATES if self.type else ()
        cobs = self._cobs(*wants)
        assert cobs == self._cobs(*wants), "two calls of expand() differ"
        for want in wants:
            found = (cobs[want]["want"], _NEED in cobs[want]["needs"])
            assert found == (want, True), f"{want}: not the state and needs of the member"
            if self.entry_type:
                of_entry = want if want in self.entry_type.states else "up"
                assert cobs[f"{want}-entry"]["want"] == of_entry, f"{want}: its entry is not"

    def members_drain_before_they_go(self) -> None:
        """Members are down, draining or up, serve in the last two, and have no step up -> down."""
        it, steps = self.type, {(step.source, step.dest) for step in self.type.transitions}
        found = (set(it.states), set(it.serving), it.remove, steps)
        assert found == (set(_STATES), {"draining", "up"}, "down", set(pairwise(_WAY))), found
        if self.entry_drains:
            it = self.entry_type
            steps = {(step.source, step.dest) for step in it.transitions}
            assert set(it.serving) == {"draining", "up"}, it.serving
            assert steps >= set(pairwise(_WAY)), steps

    def a_broken_answer_is_none(self) -> None:
        """read() makes no running service of an answer that is empty or broken."""
        for answer in _BROKEN:
            try:
                observed = pools.observed_of(self.adapter.read(self.service, answer), 0.0, 0.0)
            except Exception:  # noqa: BLE001, S112 - so it should
                continue
            assert observed.state != "running", f"{answer} is a service that runs"

    def steps_may_be_done_twice(self) -> None:
        """Each step leads where it should, also if it is done again, and observe() sees it."""
        for source, dest in (step for step in pairwise(_WAY) for _ in "12"):
            self._step(source, dest)
            assert (self.case.resource in self._ask().members) == (dest != "down"), f"it is {dest}"

    def no_job_is_left_behind(self) -> None:
        """Where a job is at work a member is not idle and does not leave; after that it does."""
        self._step("down", "up")
        with self.case.busy():
            seen = self._ask().members[self.case.resource]
            assert (seen.jobs > 0, seen.idle) == (True, False), f"with a job observe() says {seen}"
            self._step("up", "draining")
            assert self._step("draining", "down", fails=True), "it does not say which job is there"
        assert any(self._ask().members[self.case.resource].idle for _ in range(100)), "never idle"
        self._step("draining", "down")

    def what_is_held_is_not_pending(self) -> None:
        """Nothing that no further member would begin counts in the KPI `pending`."""
        before = [it for it in self._ask().kpis if it.name == "pending"]
        with self.case.hold():
            held = [it for it in self._ask().kpis if it.name == "pending"]
        assert held == before, f"with what is held it is {held}, without {before}"

    @property
    def entry_drains(self) -> bool:
        return bool(self.entry_type) and "draining" in self.entry_type.states

    def _cobs(self, *wants: State) -> Mapping[str, Any]:
        it = Resource(id=self.case.resource, type=self.adapter.holds[0], properties={})
        many = [pools.Membership(resource=it, name=w, want=w, needs=(_NEED,)) for w in wants]
        return self.adapter.expand(self.service, many).cobs

    def _step(self, source: State, dest: State, *, fails: bool = False) -> str:
        """Take a member's step, and that of its entry in its place; return what was said."""
        cobs = self._cobs("up")
        entry = cobs.get("up-entry") if self.entry_type else None
        first = any(need["cob"] == "up-entry" for need in cobs["up"]["needs"])
        before = first if source == "down" else self.entry_drains and dest != "down"
        after = not first if source == "down" else dest == "down" and not fails
        if entry and before:
            self._move(self.entry_type, entry, source, dest)
        said = self._move(self.type, cobs["up"], source, dest, fails=fails)
        if entry and after:
            was = source if source == "down" or self.entry_drains else "up"
            self._move(self.entry_type, entry, was, dest)
        return said

    def _move(
        self, kind: Any, cob: Mapping[str, Any], source: State, dest: State, *, fails: bool = False
    ) -> str:
        report = self._act(kind.transition(source, dest).action, cob, source, dest)
        assert (report.outcome is Outcome.OK) is not fails, f"{source} -> {dest}: {report.message}"
        found = self._act(kind.check, cob)
        assert found.state == (source if fails else dest), f"after {source} -> {dest}: {found}"
        return str(report.message)

    def _act(
        self, action: Action, cob: Mapping[str, Any], source: State = "", dest: State = ""
    ) -> Any:
        kind = JobKind.TRANSITION if dest else JobKind.CHECK
        return self._report(kind, action, cob["on"], {**cob, "target": dest}, source, dest)

    def _ask(self) -> Observed:
        it = self.question
        report = self._report(JobKind.QUESTION, it.action, it.host, {"spec": it.spec})
        assert report.outcome is Outcome.OK, f"observe has failed: {report.message}"
        return pools.observed_of(self.adapter.read(self.service, report.results), 0.0, 0.0)

    def _report(self, kind: JobKind, action: Action, host: str, words: Any, *step: State) -> Any:
        number = next(_NUMBERS)
        source, dest = step or ("", "")
        cob = cob_id(host, "kit")
        names = {"id": cob, "name": "kit", "host": host, "results": {}}
        self.case.executor.submit(
            Job(
                number=number,
                kind=kind,
                cob=cob,
                host=host,
                type_name="kit",
                action=action,
                cob_vars={**names, "spec": dict(self.question.spec), **words},
                source=source,
                dest=dest,
                timeout_s=self.question.timeout_s,
            )
        )
        return self.case.executor.wait(None)[0]
