"""What a class must have to be of its kind; problems are sentences that name the class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from cobweb import model
from cobweb.plugin import protocols
from cobweb.plugin._hooks import Kind


class Face(NamedTuple):
    """What a class can be of its kind: one that has any of `methods` is a `protocol`.

    It goes to `table`, as what the border calls `word`; its class attribute `schema` is a JSON
    Schema, "" where it needs none.
    """

    table: str
    word: str
    protocol: type
    methods: tuple[str, ...] = ()
    schema: str = ""


FACES: Mapping[Kind, tuple[Face, ...]] = {
    Kind.TYPES: (Face("types", "type", protocols.RegisteredType),),
    Kind.EXECUTORS: (Face("executors", "executor", protocols.Executor),),
    Kind.SOLVERS: (Face("solvers", "solver", protocols.Solver),),
    Kind.TRANSPORTS: (Face("transports", "transport", protocols.Transport),),
    Kind.OBSERVERS: (Face("observers", "observer", protocols.Observer),),
    Kind.SECTIONS: (Face("sections", "section", protocols.Section, schema="schema"),),
    Kind.EXTENSIONS: (Face("extensions", "extension", protocols.Extension),),
    Kind.ADAPTERS: (
        Face("adapters", "adapter", protocols.Adapter, ("hosts", "reads")),
        Face("generators", "adapter", protocols.Generator, ("generate",), "schema"),
        Face("providers", "provider", protocols.NodeProvider, ("create",), "fields"),
    ),
    Kind.PLANNERS: (
        Face("planners", "planner", protocols.Planner, ("stages", "priorities")),
        Face("task_planners", "planner", protocols.TaskPlanner, ("schedule",)),
    ),
}

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_GROUP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)


def item_problems(kind: Kind, item: object) -> tuple[str, ...]:
    """Return what keeps `item` from being registered as `kind`; () if nothing does."""
    if kind is Kind.COMMANDS:
        return tuple(_command_problems(item))
    if not inspect.isclass(item):
        return (f"{kind.hook} returned {item!r}, which is no class",)
    return tuple(_class_problems(kind, item))


def faces_of(kind: Kind, item: type) -> tuple[Face, ...]:
    """Return all that a class is; the first of its kind where it looks like none."""
    faces = FACES[kind]
    found = (it for it in faces if any(hasattr(item, method) for method in it.methods))
    return tuple(found) or faces[:1]


def method_problems(protocol: type, cls: type) -> Iterator[str]:
    """Yield the methods of `protocol` that `cls` lacks or that take other arguments."""
    for method, wanted in vars(protocol).items():
        if method.startswith("_") or not inspect.isfunction(wanted):
            continue
        found = getattr(cls, method, None)
        if not callable(found):
            yield f"{cls.__name__} lacks the method {method}{_shape(wanted)}"
        elif not _takes(found, wanted):
            yield f"{cls.__name__}.{method} must take {_shape(wanted)}"


def cob_type_problems(cob_type: object, instance: object) -> tuple[str, ...]:
    """Return what is wrong with the result of `instance.cob_type()`; () if nothing is."""
    name = getattr(instance, "name", "")
    if not isinstance(cob_type, model.CobType):
        return (f"cob_type() of {name} returned {type(cob_type).__name__}, not a CobType",)
    problems = [
        *_state_problems(cob_type),
        *_group_problems(cob_type),
        *_serving_problems(cob_type),
        *_connection_problems(cob_type),
        *_matrix_problems(cob_type),
    ]
    if cob_type.name != name:
        problems.append(f"cob_type() of {name} returned a type named {cob_type.name!r}")
    for action in cob_type.actions():
        problems += _action_problems(action, name, instance)
    return tuple(dict.fromkeys(f"type {name}: {problem}" for problem in problems))


def schema_problems(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why a mapping is no JSON Schema (draft 2020-12); () if it is one."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return (f"at {error.json_path}: {error.message}",)
    return ()


def _class_problems(kind: Kind, cls: type) -> Iterator[str]:
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name:
        yield f"{cls.__name__} lacks a name (a class attribute `name`, a string)"
    for face in faces_of(kind, cls):
        yield from method_problems(face.protocol, cls)
        if face.schema and not isinstance(getattr(cls, face.schema, None), Mapping):
            what = "its fields" if face.schema == "fields" else "a schema"
            yield f"{cls.__name__} lacks {what} (a class attribute `{face.schema}`, a JSON Schema)"
    if kind is Kind.SECTIONS and name in RESERVED_SECTIONS:
        yield f"the section {name} is Cobweb's own"
    words = (str(name), str(getattr(cls, "point", "")))
    if kind is Kind.EXTENSIONS and not all(map(_WORD.fullmatch, words)):
        yield f"{cls.__name__} lacks a point and a name that are words"
    if not isinstance(getattr(cls, "decision_schema", {}), Mapping):
        yield f"the decision_schema of {cls.__name__} is no mapping"
    known = frozenset(get_args(model.Action)) - {model.Missing}
    actions = getattr(cls, "actions", None)
    if kind is Kind.EXECUTORS and not (isinstance(actions, frozenset) and actions <= known):
        names = ", ".join(sorted(action.__name__ for action in known))
        yield f"{cls.__name__} lacks its actions (a class attribute, a frozenset of {names})"


_OWN_KEYS = "cobweb name description present imports inventory state types cobs limits drift"
RESERVED_SECTIONS = frozenset(_OWN_KEYS.split())
"""The top-level keys of a site.yml that are Cobweb's own."""


def _command_problems(item: object) -> Iterator[str]:
    if inspect.isclass(item) or not callable(getattr(item, "make_context", None)):
        yield f"{Kind.COMMANDS.hook} returned {item!r}, which is no click command"
    elif not isinstance(getattr(item, "name", None), str):
        yield f"{item!r} lacks a name"


def _takes(found: Any, wanted: Any) -> bool:
    """Say whether `found` can be called the way that `wanted` is declared."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return True
    parameters = inspect.signature(wanted).parameters.values()
    positional = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    keywords = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
    try:
        signature.bind(*positional, **keywords)
    except TypeError:
        return False
    return True


def _shape(wanted: Any) -> str:
    parameters = list(inspect.signature(wanted).parameters.values())[1:]
    bare = [p.replace(default=p.empty, annotation=p.empty) for p in parameters]
    return str(inspect.Signature(bare))


def _state_problems(cob_type: model.CobType) -> Iterator[str]:
    states = cob_type.states
    if not states:
        yield "it has no states"
    if len(set(states)) != len(states):
        yield "a state is named twice"
    for word in (model.UNKNOWN, model.ANY, ""):
        if word in states:
            yield f"{word!r} cannot be a state of a type"
    for role, state in (("preferred", cob_type.preferred), ("remove", cob_type.remove)):
        if state not in states:
            yield f"its {role} state {state!r} is not one of its states"
    if cob_type.prepare and not cob_type.revert:
        yield "it has `prepare` without `revert`"


def _group_problems(cob_type: model.CobType) -> Iterator[str]:
    for name, states in cob_type.groups.items():
        if name in (*cob_type.states, model.UNKNOWN):
            yield f"its group {name!r} is called like a state"
        elif not _GROUP_NAME.fullmatch(name):
            yield f"{name!r} cannot be a group of states: a letter, then letters, digits, _ and -"
        if not states:
            yield f"its group {name!r} has no states"
        yield from _list_problems(f"its group {name!r}", states, cob_type.states)


def _list_problems(what: str, listed: Sequence[str], states: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with what lists some of a type's states."""
    if len(set(listed)) != len(listed):
        yield f"{what} names a state twice"
    for state in listed:
        if state not in states:
            yield f"{what} names {state!r}, which is not one of its states"


def _connection_problems(cob_type: model.CobType) -> Iterator[str]:
    runs_here = isinstance(cob_type.check, model.PythonAction)
    for name in cob_type.connection:
        if not re.fullmatch(r"ansible_[a-z0-9_]+", name):
            yield f"its `connection` names {name!r}, which is no variable of a connection"
        elif model.decides_what_runs_here(name) and not runs_here:
            yield f"its `connection` names {name!r}, which can run programs here"


def _serving_problems(cob_type: model.CobType) -> Iterator[str]:
    serving = cob_type.serving
    yield from _list_problems("its `serving`", serving, cob_type.states)
    if cob_type.remove in serving and cob_type.remove != cob_type.preferred:
        yield f"its `serving` names {cob_type.remove!r}, in which it is about to be removed"
    if serving and cob_type.preferred not in serving:
        yield f"its `serving` lacks {cob_type.preferred!r}, the state that it prefers"
    for step in cob_type.transitions:
        if step.interrupts and not (cob_type.serves(step.source) and cob_type.serves(step.dest)):
            yield f"the transition {step} interrupts what does not serve before and after it"


def _matrix_problems(cob_type: model.CobType) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for step in cob_type.transitions:
        if not {step.source, step.dest} <= set(cob_type.states):
            yield f"the transition {step} is between states that it does not have"
        if step.source == step.dest:
            yield f"the transition {step} leads nowhere"
        if (step.source, step.dest) in seen:
            yield f"the transition {step} is there twice"
        if step.attempts < 1:
            yield f"the transition {step} has {step.attempts} attempts"
        seen.add((step.source, step.dest))


def _action_problems(action: model.Action, name: str, instance: object) -> Iterator[str]:
    if not isinstance(action, model.PythonAction):
        return
    if action.type_name != name:
        yield f"its action {action.method} belongs to the type {action.type_name!r}"
    elif not callable(getattr(instance, action.method, None)):
        yield f"its class lacks the method {action.method}(context)"
