"""COB types of the site: from YAML to `CobType` (design, section 4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobweb.errors import Place
from cobweb.model import (
    OUTDATED,
    UNKNOWN,
    Action,
    CobType,
    Nothing,
    Role,
    State,
    Tasks,
    Transition,
    decides_what_runs_here,
)
from cobweb.plugin import ActionUse
from cobweb.site.objects._confirm import shell_texts
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import did_you_mean, one_of
from cobweb.site.reading._nodes import Map, Node, Seq, holds_vault, key_place, kind, plain
from cobweb.site.reading._settings import as_map, flag, known_keys, number, required, text, texts

_KEYS = (
    *("states", "preferred", "remove", "spec", "check", "transitions", "revert", "prepare"),
    *("groups", "serving", "connection", "inputs", "facts", "together", "on_demand"),
    "description",
)
_WORK_KEYS = ("tasks", "role", "vars", "facts", "together", "timeout", "attempts")
_ACTION_KEYS = (*_WORK_KEYS, "mode")
_STEP_KEYS = (*_WORK_KEYS, "interrupts")
_STATE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_STATE_HINT = "a letter, then letters, digits, `_` and `-`"
_VARIABLE = re.compile(r"ansible_[a-z0-9_]+")
_ARROW = re.compile(r"\s*(\S+)\s*->\s*(\S+)\s*")


class Types:
    """Reads the types of a site; `uses` are the task files and roles that they name."""

    def __init__(self, files: Files, foreign: Mapping[str, CobType]) -> None:
        self._files = files
        self._findings = files.findings
        self._foreign = foreign
        self.uses: list[ActionUse] = []
        self.broken: set[str] = set()

    def read(self, node: Node | None) -> dict[str, CobType]:
        """Return all types by name, those of plugins first; broken ones are left out."""
        found = dict(self._foreign)
        section = as_map(node, "`types`", self._findings)
        for name, value in section.items.items() if section else ():
            place = key_place(section, name) if section else value.place
            if name in self._foreign:
                hint = "choose another name"
                self._findings.add(place, f"a plugin has a type `{name}` already", hint)
                continue
            before = len(self._findings)
            made = self._type(name, value, place)
            if made and len(self._findings) == before:
                self._judge_serving(value, made)
            if made and len(self._findings) == before:
                found[name] = made
            else:
                self.broken.add(name)
        return found

    def _type(self, name: str, node: Node, place: Place) -> CobType | None:
        what = f"type `{name}`"
        hint = f"it needs {one_of(_KEYS[:3])}, ..."
        body = as_map(node, what, self._findings, empty=(place, hint))
        if body is None:
            return None
        known_keys(body, _KEYS, what, self._findings)
        missing = [k for k in ("states", "check") if not required(body, k, what, self._findings)]
        states = self._states(body, what)
        preferred = self._state(body, "preferred", states, what)
        remove = self._state(body, "remove", states, what)
        self._type_body = body
        self._finds = (preferred or "", OUTDATED, remove or "")
        self._look_at_mode(body.items.get("check"), states)
        check = self._check(name, body)
        transitions = self._transitions(name, body, states)
        groups = self._groups(body, states)
        serving = self._serving(body, states, what)
        revert, prepare = shell_texts(body, what, self._findings)
        if missing or not states or preferred is None or remove is None or check is None:
            return None
        return CobType(
            name=name,
            states=states,
            preferred=preferred,
            remove=remove,
            check=check[0],
            check_timeout_s=check[1],
            transitions=transitions,
            spec_schema=self._schema(body, what),
            revert=revert,
            prepare=prepare,
            groups=groups,
            serving=serving,
            connection=self._connection(body, what),
            inputs=self._inputs(body, what),
            on_demand=flag(body, "on_demand", what, self._findings, default=False),
            place=place,
        )

    def _states(self, body: Map, what: str) -> tuple[State, ...]:
        found: dict[str, None] = {}
        for state, place in texts(body, "states", what, self._findings):
            if state == UNKNOWN:
                hint = "every COB has it; leave it out"
                self._findings.add(place, f"`{UNKNOWN}` is no state of a type", hint)
            elif not _STATE.fullmatch(state):
                self._findings.add(place, f"`{state}` is no name for a state", _STATE_HINT)
            elif state in found:
                self._findings.add(place, f"state `{state}` is written twice", "leave one out")
            else:
                found[state] = None
        if not found and "states" in body.items:
            self._findings.add(body.items["states"].place, f"{what} has no states")
        return tuple(found)

    def _groups(self, body: Map, states: tuple[State, ...]) -> dict[str, tuple[State, ...]]:
        section = as_map(body.items.get("groups"), "`groups`", self._findings)
        found: dict[str, tuple[State, ...]] = {}
        for name in section.items if section else ():
            assert section is not None
            place = key_place(section, name)
            if name in (*states, UNKNOWN):
                message = f"`{name}` is a state, and cannot be a group of states, too"
                self._findings.add(place, message, "choose another name")
            elif not _STATE.fullmatch(name):
                self._findings.add(place, f"`{name}` is no name for a group of states", _STATE_HINT)
            else:
                written = texts(section, name, "`groups`", self._findings)
                found[name] = self._some_states(section, name, f"group `{name}`", written, states)
        return found

    def _serving(self, body: Map, states: tuple[State, ...], what: str) -> tuple[State, ...]:
        if "serving" not in body.items:
            return ()
        written = texts(body, "serving", what, self._findings)
        return self._some_states(body, "serving", "`serving`", written, states)

    def _connection(self, body: Map, what: str) -> tuple[str, ...]:
        """Return the variables of the connection that results may say; findings for the rest."""
        written = texts(body, "connection", what, self._findings)
        for name, place in written:
            if decides_what_runs_here(name):
                message = f"no host may say `{name}`: it can run programs on the controller"
                self._findings.add(place, message, "write it in the inventory")
            elif not _VARIABLE.fullmatch(name):
                hint = "they begin with `ansible_`"
                self._findings.add(place, f"`{name}` is no variable of a connection", hint)
        return tuple(dict.fromkeys(name for name, _ in written))

    def _inputs(self, body: Map, what: str) -> tuple[str, ...] | None:
        """Return globs of variables; None where the type says nothing of them."""
        found = tuple(name for name, _ in texts(body, "inputs", what, self._findings))
        return found if "inputs" in body.items else None

    def _some_states(
        self,
        body: Map,
        key: str,
        what: str,
        written: tuple[tuple[str, Place], ...],
        states: tuple[State, ...],
    ) -> tuple[State, ...]:
        """Return those of the states that are written under `key`; findings for the rest."""
        found: dict[State, None] = {}
        for state, place in written:
            if state in found:
                message = f"state `{state}` is written twice in {what}"
                self._findings.add(place, message, "leave one out")
            elif states and self._known(state, states, place):
                found[state] = None
        if not written and kind(body.items[key]) in ("nothing", "a list"):
            message = f"{what} has no states"
            self._findings.add(key_place(body, key), message, "name states of the type")
        return tuple(found)

    def _judge_serving(self, body: Node, made: CobType) -> None:
        """Find what `serving` and `interrupts` of a type cannot mean."""
        assert isinstance(body, Map)
        if made.serving and made.remove in made.serving and made.remove != made.preferred:
            message = f"`serving` names `{made.remove}`, in which an object is about to be removed"
            hint = "leave it out: what is in its `remove` state works for nobody"
            self._findings.add(body.items["serving"].place, message, hint)
        if made.serving and made.preferred not in made.serving:
            message = f"`serving` lacks `{made.preferred}`, the preferred state"
            self._findings.add(body.items["serving"].place, message, f"add `{made.preferred}`")
        steps = body.items.get("transitions")
        for step in made.transitions:
            out = next((it for it in (step.source, step.dest) if not made.serves(it)), None)
            if not step.interrupts or out is None:
                continue
            assert isinstance(steps, Map)
            ends = (step.source, step.dest)
            place = next(key_place(steps, it) for it in steps.items if arrow(it) == ends)
            message = f"`{step}` cannot interrupt: in `{out}` the object does not serve"
            hint = f"leave `interrupts` out, or name `{out}` in `serving`"
            self._findings.add(place, message, hint)

    def _state(self, body: Map, key: str, states: tuple[State, ...], what: str) -> State | None:
        required(body, key, what, self._findings, hint=f"one of {one_of(states)}")
        value = text(body, key, what, self._findings)
        if value is None or not states:
            return None
        return self._known(value, states, body.items[key].place)

    def _known(self, state: State, states: tuple[State, ...], place: Place) -> State | None:
        if state in states:
            return state
        hint = did_you_mean(state, states, otherwise=f"its states are {one_of(states)}")
        if state == UNKNOWN:
            hint = "`unknown` is left by `check` alone"
        self._findings.add(place, f"the type has no state `{state}`", hint)
        return None

    def _check(self, name: str, body: Map) -> tuple[Action, float | None, int] | None:
        node = body.items.get("check")
        if node is None:
            return None
        read = self._action(name, "check", node)
        if read and isinstance(read[0], Nothing):
            message = f"`check` of type `{name}` has neither `tasks` nor `role`"
            self._findings.add(node.place, message, "only tasks can find the true state")
            return None
        return read

    def _look_at_mode(self, node: Node | None, states: tuple[State, ...]) -> None:
        """Find what is wrong with a check that says how it is run."""
        if not isinstance(node, Map) or text(node, "mode", "`check`", self._findings) is None:
            return
        if text(node, "mode", "`check`", self._findings) != "check":
            message = "`mode` of `check` can be `check` alone: Ansible's check mode"
            self._findings.add(node.items["mode"].place, message, "leave it out, or write `check`")
        elif states and OUTDATED not in states:
            message = f"a check in check mode finds `{OUTDATED}`, which the type lacks"
            hint = f"name it in `states`, with `{OUTDATED} -> {self._finds[0]}`"
            self._findings.add(node.items["mode"].place, message, hint)

    def _transitions(
        self, name: str, body: Map, states: tuple[State, ...]
    ) -> tuple[Transition, ...]:
        section = as_map(body.items.get("transitions"), "`transitions`", self._findings)
        found: dict[tuple[State, State], Transition] = {}
        for key, node in section.items.items() if section else ():
            place = key_place(section, key) if section else node.place
            made = self._transition(name, key, node, states, place)
            if made is None:
                continue
            pair = (made.source, made.dest)
            if pair in found:
                self._findings.add(place, f"transition `{made}` is written twice", "leave one out")
            found.setdefault(pair, made)
        return tuple(found.values())

    def _transition(
        self, name: str, key: str, node: Node, states: tuple[State, ...], place: Place
    ) -> Transition | None:
        pair = arrow(key)
        if pair is None:
            self._findings.add(place, f"`{key}` is no transition", "write `down -> up`")
            return None
        if pair[0] == pair[1]:
            self._findings.add(place, f"`{key}` goes nowhere", "leave it out")
            return None
        known = [self._known(state, states, place) for state in pair] if states else []
        read = self._action(name, key, node, keys=_STEP_KEYS)
        if read is None or not states or None in known:
            return None
        action, timeout, attempts = read
        return Transition(
            source=pair[0],
            dest=pair[1],
            action=action,
            timeout_s=timeout,
            attempts=attempts,
            interrupts=isinstance(node, Map)
            and flag(
                node, "interrupts", f"`{key}` of type `{name}`", self._findings, default=False
            ),
        )

    def _action(
        self, name: str, what: str, node: Node, *, keys: tuple[str, ...] = _ACTION_KEYS
    ) -> tuple[Action, float | None, int] | None:
        """Return action, timeout and attempts; None with a finding if they cannot be read."""
        label = f"`{what}` of type `{name}`"
        body = as_map(node, label, self._findings)
        if body is None:
            return (Nothing(), None, 1) if kind(node) == "nothing" else None
        known_keys(body, keys, label, self._findings)
        timeout = number(body, "timeout", label, self._findings)
        attempts = self._attempts(body, label)
        if "tasks" in body.items and "role" in body.items:
            message = f"{label} has both `tasks` and `role`"
            self._findings.add(key_place(body, "role"), message, "keep one")
            return None
        if "vars" in body.items and "role" not in body.items:
            place, message = key_place(body, "vars"), f"{label} has `vars` and no `role`"
            self._findings.add(place, message, "tasks know `cob`, and the variables of the host")
        action = self._work(body, label)
        if action is None:
            return None
        if not isinstance(action, Nothing):
            key = "tasks" if "tasks" in body.items else "role"
            place = body.items[key].place
            self._refuse_outside(action, label, place)
            self.uses.append(ActionUse(type_name=name, what=what, action=action, place=place))
        return action, timeout, attempts

    def _refuse_outside(self, action: Action, label: str, place: Place) -> None:
        """Find a task file or a role that is not for the site to use."""
        if isinstance(action, Tasks):
            what, path = "task file", Path(action.path)
        else:
            assert isinstance(action, Role)
            what, path = "role", self._files.site_dir / "roles" / action.name
        refusal = self._files.refusal(path)
        if refusal:
            message = f"{label}: {what} `{self._files.name(path)}` {refusal[0]}"
            self._findings.add(place, message, refusal[1])

    def _attempts(self, body: Map, label: str) -> int:
        value = number(body, "attempts", label, self._findings)
        if value is not None and value != int(value):
            place = body.items["attempts"].place
            self._findings.add(place, f"`attempts` of {label} must be a whole number")
        return int(value) if value and value >= 1 else 1

    def _work(self, body: Map, label: str) -> Action | None:
        if "tasks" in body.items:
            path = text(body, "tasks", label, self._findings)
            place = body.items["tasks"].place
            said = self._said(body, facts=False)
            return Tasks(path=str(self._task_file(path, place)), **said) if path else None
        if "role" in body.items:
            role = text(body, "role", label, self._findings)
            more, said = self._vars(body, label), self._said(body, facts=True)
            return Role(name=self._role(role), vars=more, **said) if role else None
        return Nothing()

    def _said(self, body: Map, *, facts: bool) -> dict[str, Any]:
        """Return how an action is carried out; where it says nothing its type does."""
        said = body if "facts" in body.items else self._type_body
        asked: bool | tuple[str, ...]
        if isinstance(said.items.get("facts"), Seq):
            asked = tuple(name for name, _ in texts(said, "facts", "an action", self._findings))
        else:
            asked = flag(said, "facts", "an action", self._findings, default=facts)
        where = body if "together" in body.items else self._type_body
        together = flag(where, "together", "an action", self._findings, default=False)
        finds = self._finds if "mode" in body.items else ()
        return {"facts": asked, "together": together, "finds": finds}

    def _vars(self, body: Map, label: str) -> Mapping[str, object]:
        """Return the variables of a role; they are kept as they are, so no secret may be there."""
        section = as_map(body.items.get("vars"), f"`vars` of {label}", self._findings)
        found: Mapping[str, object] = plain(section) if section else {}
        if section and holds_vault(found):
            hint = "put it into the spec, or into the variables of the host"
            self._findings.add(section.place, f"`vars` of {label} has a vaulted value", hint)
        return found

    def _task_file(self, name: str, place: Place) -> Path:
        site = self._files.site_dir
        folders = (self._files.folder(place), site / "playbooks", site / "tasks")
        candidates = [self._files.resolve(folder / name) for folder in folders]
        return next((path for path in candidates if self._files.is_file(path)), candidates[0])

    def _role(self, name: str) -> str:
        own = self._files.site_dir / "roles" / name
        return str(self._files.resolve(own)) if self._files.is_dir(own) else name

    def _schema(self, body: Map, what: str) -> Mapping[str, object] | None:
        node = body.items.get("spec")
        if node is None:
            return None
        schema = as_map(node, f"`spec` of {what}", self._findings)
        if schema is None:
            return None
        value: Mapping[str, object] = plain(schema)
        from cobweb.site.reading._schemas import schema_errors

        for place, message in schema_errors(value, schema):
            hint = "see json-schema.org, draft 2020-12"
            self._findings.add(place, f"`spec` of {what} is no JSON Schema: {message}", hint)
            return None
        return value


def arrow(key: str) -> tuple[State, State] | None:
    """Return the two states of `a -> b`, None if it is not written so."""
    match = _ARROW.fullmatch(key)
    return (match[1], match[2]) if match else None
