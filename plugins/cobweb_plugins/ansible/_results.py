"""From Ansible's result of a task to one bounded line for people.

Used on both sides, on results that Ansible has censored already (`no_log`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobweb.model import results_problem

STATE_FACT, MESSAGE_FACT = "cob_state", "cob_message"
"""The facts by which a check says what it found, and in words what is not as it should be.

A task of a transition says by a result of the name `cob_message` what people must know of it."""

RESULTS_FACT, SECRET_FACT = "cob_results", "cob_secret_results"
"""The facts by which tasks hand something back, and the keys of it that are secret: none may be."""

FACTS = (STATE_FACT, MESSAGE_FACT, RESULTS_FACT, SECRET_FACT)
"""All facts by which tasks speak to Cobweb."""

SAY_FACTS = frozenset(f"{name}set_fact" for name in ("", "ansible.builtin.", "ansible.legacy."))
"""The action that sets them. It runs on the controller; what a module says comes from a host."""

STATE_LIMIT = 200
"""Characters that the name of a state may have."""

MARK_TASK = "look for marks of other sites on the host"
"""The task of ours that comes first in a job (`_host_marks`); what it found is what it wrote."""

END_TASK = "the end of the play"
"""The task of ours that comes last where jobs go together, and is no part of any report."""

TOO_MUCH = "what the host said takes more memory than a task may have"

SKIPPED_BY_CONDITION = frozenset(["skip_reason", "skipped_reason", "false_condition"])
"""What a result says of why its task was passed over, unless that is check mode."""

EVENTS = ("ok", "failed", "unreachable", "skipped")
"""The last words of the callbacks that end a task."""
TASKS_LIMIT = 200
"""Tasks that a report carries; of longer jobs the last ones."""

MESSAGE_LIMIT = 600
"""Characters of one message; what is longer loses its middle."""


def bounded(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return `text` on one line, stripped, of at most `limit` characters.

    What is too long loses what stands after its first third: causes stand at the end.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    first = (limit - 5) // 3
    return f"{line[:first]} ... {line[first + 5 - limit :]}"


def describe(result: Mapping[str, Any]) -> str:
    """Return what a task result says: its message, and what its command wrote to stderr."""
    if censored := result.get("censored"):
        return bounded(str(censored))
    result = _failing_item(result.get("results")) or result
    modules = result.get("failed_modules")  # of a gathering of facts
    inner = modules.values() if isinstance(modules, Mapping) else ()
    more = (it.get("msg") for it in inner if isinstance(it, Mapping))
    parts = [_text(it) for it in (result.get("msg"), result.get("reason"), *more)]
    stderr = _text(result.get("stderr")) or _text(result.get("module_stderr"))
    if stderr or not any(parts):
        parts.append(stderr or _text(result.get("stdout")))
    return bounded(_ended(": ".join(dict.fromkeys(part for part in parts if part)), result))


def _ended(said: str, result: Mapping[str, Any]) -> str:
    """Return what was said; where nothing follows the colon at its end, with what is known."""
    if not said.endswith(":"):
        return said
    # Ansible says "via ssh:" of the exit status 255 alone, and does not hand it on.
    status = 255 if said.endswith(" via ssh:") else result.get("rc")
    return said.rstrip(":") + ("" if status is None else f": exit status {status}, nothing said")


def _text(value: object) -> str:
    try:
        return "" if value is None else str(value).strip()
    except RecursionError:
        return f"a {type(value).__name__} that is too deep to be shown"


def _failing_item(items: object) -> Mapping[str, Any] | None:
    if not isinstance(items, Sequence) or isinstance(items, str):
        return None
    bad = (i for i in items if isinstance(i, Mapping) and (i.get("failed") or i.get("unreachable")))
    return next(bad, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    """One end of a task: `result` censored, `delegated` the other host that it ran on, if any.

    `facts` are those of `FACTS` in it, as they are; they count if the task `says` them: no module.
    """

    event: str
    name: str
    result: Mapping[str, Any]
    changed: bool
    ignored: bool
    delegated: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    says: bool = False


def facts_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `FACTS` that the result of a task has, also one of a loop; the last counts.

    A result may come from a host, so that anything may stand anywhere in it.
    """
    found: dict[str, Any] = {}
    for one in (result, *_items(result)):
        facts = one.get("ansible_facts")
        if isinstance(facts, Mapping):
            found |= {name: facts[name] for name in FACTS if name in facts}
    return found


def _items(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    items = result.get("results")
    if isinstance(items, Sequence) and not isinstance(items, str):
        yield from (item for item in items if isinstance(item, Mapping))


class Collector:
    """What a report says of the tasks of one job; `failure` is the last that was not forgiven.

    `unreachable` speaks of the job's own host: that a delegated host cannot be reached is a failure
    like others.
    """

    def __init__(self) -> None:
        self._tasks: list[dict[str, str]] = []
        self._said: list[str] = []
        self._changed: dict[str, None] = {}
        self._unseen: dict[str, None] = {}
        self.facts: dict[str, Any] = {}
        self._lie = ""
        self.failure = ""
        self.unreachable = False

    def add(self, end: TaskEnd) -> None:
        """Take the end of a task."""
        wrote = bounded(_text(end.result.get("stdout"))) if end.name == MARK_TASK else ""
        text = wrote or describe(end.result)
        if end.says and end.event == "ok":
            self.facts |= end.facts
        elif end.facts:
            name = min(end.facts)
            self._lie = f"{end.name}: a module of the host said `{name}`, which is for set_fact"
        status = "changed" if end.event == "ok" and end.changed else end.event
        self._tasks.append({"name": end.name, "status": status, "message": text})
        if status == "changed" and not _is_of_a_cache(end.result):
            self._changed[end.name] = None
        if _is_unseen(end):
            self._unseen[end.name] = None
        if end.event == "ok" and end.result.get(MESSAGE_FACT):
            self._said.append(_text(end.result[MESSAGE_FACT]))
        if end.ignored or end.event not in ("failed", "unreachable"):
            return
        where = f"{end.delegated} is unreachable: " if end.delegated else ""
        self.failure = bounded(f"{end.name}: {where if end.event == 'unreachable' else ''}{text}")
        self.unreachable = end.event == "unreachable" and not end.delegated

    def report(self, outcome: str, **fields: Any) -> dict[str, Any]:
        """Return the fields of a report."""
        return {"outcome": outcome, "tasks": self._tasks[-TASKS_LIMIT:], **fields}

    def end(  # noqa: PLR0913  # how it ended, of which kind it is, and what it goes by
        self,
        *,
        ok: bool,
        check: bool,
        asks: bool = False,
        facts: Mapping[str, Any] | None = None,
        finds: Sequence[str] = (),
        recorded: str | None = None,
    ) -> dict[str, Any]:
        """Return the fields of the report of a job that came to its end; `facts` are `FACTS`.

        Without them those that tasks said count. What tasks handed back is in it also where a later
        one failed; a job that `asks` may hand back more. A check in check mode `finds` one of three
        states: the first where nothing would change, but for an object that is `recorded` in the
        second, for its step has not ended well since; else the second, but for one that is recorded
        in the third. What would change is not there for the tasks after it, so that one of these
        may fail, and it is known all the same that something would.
        """
        facts = self.facts if facts is None else facts
        results, problem = handed_back(facts, asks=asks)
        if finds and not self.unreachable and (ok or self._changed):
            usual = recorded if recorded is not None and recorded in finds else finds[0]
            if self._changed:
                found = usual if usual == finds[2] else finds[1]
            else:
                found = finds[0] if usual == finds[2] else usual
            words = self._would_change() if self._changed else ""
            return self.report("ok", state=found, message=words, results=results)
        if not ok:
            outcome = "unreachable" if self.unreachable else "failed"
            message = self.failure or "Ansible gave no reason"
            if finds:
                unseen = f"; {self._not_looked_at()}" if self._unseen else ""
                message = bounded(f"in check mode: {message}{unseen}")
            return self.report(outcome, message=message, results=results)
        state = facts.get(STATE_FACT) if check else ""
        if problem := self._lie or problem or (state_error(state) if check else ""):
            return self.report("failed", message=problem, results=results)
        words = _text(facts.get(MESSAGE_FACT)) if check else "; ".join(self._said)
        return self.report("ok", state=state, message=bounded(words), results=results)

    def _would_change(self) -> str:
        """Say what check mode found, and which tasks it could not look at."""
        words = f"would change: {', '.join(self._changed)}"
        words += f"; then {self.failure}" if self.failure else ""
        return bounded(f"{words}; {self._not_looked_at()}" if self._unseen else words)

    def _not_looked_at(self) -> str:
        return f"not looked at: {', '.join(self._unseen)}"


def _is_of_a_cache(result: Mapping[str, Any]) -> bool:
    """Say whether a task has but read the lists of packages anew, which is no state of a host."""
    return bool(result.get("cache_updated")) and "diff" not in result and "stdout" not in result


def _is_unseen(end: TaskEnd) -> bool:
    """Say whether a task, or an item of its loop, was passed over since check mode cannot do it.

    ansible-runner's events do not say why a task was passed over: its result is empty.
    """
    parts = tuple(_items(end.result)) or (end.result,)
    skipped = (one for one in parts if end.event == "skipped" or one.get("skipped"))
    return any(one and not one.keys() & SKIPPED_BY_CONDITION for one in skipped)


def handed_back(facts: Mapping[str, Any], *, asks: bool) -> tuple[Mapping[str, Any], str]:
    """Return the results that may be kept, and what is wrong with the others, "" for nothing."""
    results, secret = facts.get(RESULTS_FACT), facts.get(SECRET_FACT) or ()
    if results is None:
        return {}, ""
    if not isinstance(results, Mapping):
        return {}, f"tasks set {RESULTS_FACT} to a {type(results).__name__}, results are a mapping"
    many = isinstance(secret, Sequence | set) and not isinstance(secret, str)
    names = set(map(str, secret)) if many else {str(secret)}
    kept = {key: value for key, value in results.items() if key not in names}
    if problem := results_problem(kept, is_answer=asks):
        return {}, problem
    refused = sorted(map(str, results.keys() - kept.keys()))
    return kept, f"the result {refused[0]} is secret, and no secret is kept" if refused else ""


def state_error(state: object) -> str:
    """Say what is wrong with the `cob_state` of a check, or nothing."""
    if state is None:
        return "the check set no fact cob_state"
    if not isinstance(state, str):
        return f"the check set cob_state to a {type(state).__name__}, a state is a string"
    if len(state) > STATE_LIMIT:
        return f"the check set cob_state to {len(state)} characters, a state has {STATE_LIMIT}"
    return ""
