"""Check evaluated specs against the JSON Schemas of their types, with messages of our own.

jsonschema knows no places, so its paths are followed through the nodes. A vaulted value fits every
schema: what it says is not known before it is used. Importing this module loads jsonschema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from jsonschema_specifications import (  # type: ignore[import-untyped]  # it has no types
    REGISTRY as SPECIFICATIONS,
)
from referencing.exceptions import Unresolvable

from cobweb.errors import Place
from cobweb.generation import INPUTS
from cobweb.model import Cob
from cobweb.site.reading._findings import did_you_mean, one_of
from cobweb.site.reading._nodes import Leaf, Map, Node, at, is_vault, key_place, told_apart
from cobweb.site.reading._regex import RegexError, regex_of

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}

Problem = tuple[Place, str, str]
"""Place, message, hint."""


def _guarded(check: Any, validator: Any, value: Any, instance: Any, schema: Any) -> Any:
    if is_vault(instance):
        return iter(())
    return check(validator, value, instance, schema)


def _text_pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    """Check a text; jsonschema's own check has no bound on its time."""
    if validator.is_type(instance, "string") and not regex_of(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, parts: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, part in parts.items():
        for key, value in instance.items():
            if regex_of(pattern).search(key):
                yield from validator.descend(value, part, path=key, schema_path=pattern)


def _additional(validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    extra = [key for key in instance if not _is_named(key, schema)]
    if validator.is_type(part, "object"):
        for key in extra:
            yield from validator.descend(instance[key], part, path=key)
    elif not part and extra:
        yield ValidationError(f"additional properties: {', '.join(map(repr, extra))}")


def _is_named(key: str, schema: Mapping[str, Any]) -> bool:
    patterns = schema.get("patternProperties", {})
    return key in schema.get("properties", {}) or any(regex_of(it).search(key) for it in patterns)


def _unevaluated(validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Check what no other keyword has; what others match by `re` has no bound on its time."""
    if _has_key(validator.schema, "patternProperties"):
        raise RegexError("patternProperties", "does not go with `unevaluatedProperties`")
    check = Draft202012Validator.VALIDATORS["unevaluatedProperties"]
    yield from check(validator, part, instance, schema)


def _has_key(schema: Any, key: str) -> bool:
    if isinstance(schema, Mapping):
        return key in schema or any(_has_key(part, key) for part in schema.values())
    return isinstance(schema, list) and any(_has_key(part, key) for part in schema)


_OWN = {
    "pattern": _text_pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated,
}
_CHECKS = {**Draft202012Validator.VALIDATORS, **_OWN}
_Validator: Any = extend(  # type: ignore[no-untyped-call]  # jsonschema has no types for it
    Draft202012Validator,
    {name: partial(_guarded, check) for name, check in _CHECKS.items()},
)


def schema_errors(schema: Mapping[str, Any], node: Map) -> Iterator[tuple[Place, str]]:
    """Yield what makes `schema` no JSON Schema, with the place in the node that it is from."""
    try:
        with catch_warnings():
            simplefilter("ignore", FutureWarning)  # of `re`, for a regular expression of the user
            Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield at(node, iter(error.absolute_path)).place, str(error.message)


MAX_KNOWN = 10_000
"""So many kinds of specs of one type are known to fit, and are not checked again."""

LONG_PATTERN = 80
"""Of a longer regular expression a hint says what it is for, where the schema does."""

_FREE_TEXT = {"type", "title", "description", "default", "examples", "deprecated", "$comment"}
"""Keywords of a property that say nothing about what a text says."""

_NAMES_ONLY = {
    *_FREE_TEXT,
    *("$schema", "properties", "minProperties", "maxProperties", "required", "dependentRequired"),
}
"""Keywords of a spec's schema that look at the names of properties, not at values."""

_CHOICES = ("allOf", "anyOf", "oneOf")


_UNUSABLE = (Unresolvable, RecursionError, RegexError)


class SpecChecker:
    """Checks specs of one type and fills in defaults.

    A spec that differs from one that fits in nothing but free texts (properties that may be any
    text) fits as well. `whole` is what messages call a spec.
    """

    def __init__(self, schema: Mapping[str, Any], *, whole: str = "`spec`") -> None:
        self._validator = _Validator(schema, registry=SPECIFICATIONS)  # never from the network
        self._whole = whole
        properties = schema.get("properties", {})
        self._free = _free_texts(schema)
        self._fitting: set[tuple[Any, ...]] = set()
        self._defaults = {
            name: part["default"]
            for name, part in properties.items()
            if isinstance(part, dict) and "default" in part
        }

    def complete(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the spec with the defaults of missing top-level properties."""
        if all(name in spec for name in self._defaults):
            return spec
        return {**self._defaults, **spec}

    def problems(self, spec: Mapping[str, Any], node: Node) -> Iterator[Problem]:
        """Yield what does not fit, placed where the values were written in `node`."""
        outline = self._outline(spec)
        if outline in self._fitting:
            return
        try:
            if self._validator.is_valid(spec):
                if outline is not None and len(self._fitting) < MAX_KNOWN:
                    self._fitting.add(outline)
                return
            for error in self._validator.iter_errors(spec):
                yield from _problems(_deepest(error), node, self._whole)
        except _UNUSABLE as error:
            reason = "it refers to itself" if isinstance(error, RecursionError) else str(error)
            message = f"the type's schema cannot be used: {reason}"
            part = "expression" if isinstance(error, RegexError) else "`$ref`"
            yield node.place, message, f"mend the {part} in `spec` of the type"
        except OverflowError as error:  # of `multipleOf`
            yield node.place, f"a number of {self._whole} is too large: {error}", ""

    def _outline(self, spec: Any) -> tuple[Any, ...] | None:
        """Return what decides whether a spec fits; None if that is much, or it is no mapping."""
        if not isinstance(spec, Mapping):
            return None
        found: list[Any] = []
        for name, value in spec.items():
            is_free = type(value) is str and name in self._free
            decisive = (str,) if is_free else told_apart(value)
            if decisive is None:
                return None
            found.append((name, decisive))
        return tuple(found)


_NOWHERE = Leaf(value=None, place=Place(file=""))


def unfit_specs(cobs: Iterable[Cob]) -> Iterator[str]:
    """Yield what in specs, but for variables, does not fit their types; one problem per object."""
    checkers: dict[int, SpecChecker] = {}
    for cob in cobs:
        if cob.type.spec_schema is None:
            continue
        checker = checkers.setdefault(id(cob.type), SpecChecker(cob.type.spec_schema))
        is_named = INPUTS in cob.type.spec_schema.get("properties", {})
        spec = {key: it for key, it in cob.spec.items() if key != INPUTS or is_named}
        problem = next(checker.problems(spec, _NOWHERE), None)
        if problem is not None:
            yield f"{cob.id}: {problem[1]}"


def _free_texts(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the properties that may be any text, whatever the others are."""
    if any(key not in _NAMES_ONLY and not _looks_at_names(key, schema[key]) for key in schema):
        return frozenset()
    properties = schema.get("properties", {})
    return frozenset(name for name, part in properties.items() if _is_free_text(part))


def _looks_at_names(key: str, part: Any) -> bool:
    if key == "additionalProperties" or key.startswith("x-"):
        return True
    return key in _CHOICES and all(
        isinstance(branch, dict) and set(branch) <= {"required"} for branch in part
    )


def _is_free_text(part: Any) -> bool:
    if not isinstance(part, dict) or part.get("type") not in ("string", ["string"]):
        return False
    return all(key in _FREE_TEXT or key.startswith("x-") for key in part)


def _deepest(error: ValidationError) -> ValidationError:
    """Follow `anyOf` and `oneOf` into the one branch that nearly fits."""
    while error.context and not _alternatives(error):
        error = max(error.context, key=lambda each: (len(each.absolute_path), -_rank(each)))
    return error


def _alternatives(error: ValidationError) -> list[str]:
    """Return the keys of an `anyOf` whose branches only ask for one key each, else nothing."""
    parts = error.context or ()
    if any(
        part.validator != "required" or part.absolute_path != error.absolute_path for part in parts
    ):
        return []
    return [key for part in parts for key in _values(part.validator_value)]


def _rank(error: ValidationError) -> int:
    return {"type": 2, "required": 1}.get(str(error.validator), 0)


def _problems(error: ValidationError, node: Node, whole: str) -> Iterator[Problem]:
    found = at(node, iter(error.absolute_path))
    name = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        within = f"`spec.{name}`" if whole == "`spec`" else f"`{name}`"
        yield from _unknown(error, found, within if name else whole)
        return
    make = _WORDS.get(str(error.validator), _unfit)
    yield found.place, *make(error, f"`{name}`" if name else whole)


def _unknown(error: ValidationError, node: Node, where: str) -> Iterator[Problem]:
    schema = error.schema if isinstance(error.schema, dict) else {}
    known = list(schema.get("properties", {}))
    for key in error.instance if isinstance(error.instance, dict) else ():
        if not _is_named(key, schema):
            place = key_place(node, key) if isinstance(node, Map) else node.place
            hint = did_you_mean(key, known, otherwise=f"known are {one_of(known)}")
            yield place, f"unknown key `{key}` in {where}", hint


def _unfit(error: ValidationError, name: str) -> tuple[str, str]:
    return f"{name} does not fit: {error.message}", ""


def _type(error: ValidationError, name: str) -> tuple[str, str]:
    wanted = error.validator_value
    kinds: list[str] = [wanted] if isinstance(wanted, str) else list(_values(wanted))
    is_now = _kind(error.instance)
    hint = ""
    if "string" in kinds and isinstance(error.instance, int | float):
        hint = "put quotes round it"
    elif isinstance(error.instance, str) and {"integer", "number", "boolean"} & set(kinds):
        hint = f"`{error.instance}` is text in YAML 1.2" if error.instance else ""
    return f"{name} must be {' or '.join(_TYPES.get(k, k) for k in kinds)}, not {is_now}", hint


def _values(value: Any) -> list[Any]:
    return list(value)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    names = (
        (dict, "object"),
        (list, "array"),
        (str, "string"),
        (int, "integer"),
        (float, "number"),
    )
    return _TYPES[next((name for kind, name in names if isinstance(value, kind)), "null")]


def _required(error: ValidationError, name: str) -> tuple[str, str]:
    present = error.instance if isinstance(error.instance, dict) else {}
    missing = [f"`{key}`" for key in _values(error.validator_value) if key not in present]
    return f"{name} lacks {', '.join(missing)}", "the type requires it"


def _enum(error: ValidationError, name: str) -> tuple[str, str]:
    options = [str(option) for option in _values(error.validator_value)]
    hint = did_you_mean(str(error.instance), options, otherwise=f"possible are {one_of(options)}")
    return f"{name} cannot be `{error.instance}`", hint


def _any_of(error: ValidationError, name: str) -> tuple[str, str]:
    if keys := _alternatives(error):
        return f"{name} lacks {one_of(keys)}", "the type requires one of them"
    if given := _too_many(error):
        return f"{name} has {given}", "keep one of them"
    return _unfit(error, name)


def _too_many(error: ValidationError) -> str:
    """Name the keys of a `oneOf` that asks for one key each, if more than one is there."""
    if error.validator != "oneOf" or not isinstance(error.instance, dict):
        return ""
    parts = [part for part in _values(error.validator_value) if isinstance(part, dict)]
    asked = [key for part in parts for key in part.get("required", ())]
    given = [f"`{key}`" for key in asked if key in error.instance]
    return " and ".join(given) if len(given) > 1 else ""


def _bound(words: str, error: ValidationError, name: str) -> tuple[str, str]:
    return f"{name} must {words} {error.validator_value}, not {error.instance}", ""


def _pattern(error: ValidationError, name: str) -> tuple[str, str]:
    shown = str(error.instance).replace("\n", "\\n")
    pattern = str(error.validator_value)
    hint = f"it must match `{pattern}`"
    said = error.schema.get("description") if isinstance(error.schema, dict) else None
    if said and len(pattern) > LONG_PATTERN:
        hint = f"it is: {str(said).rstrip('.')}"
    return f"{name} cannot be `{shown}`", hint


def _unique(error: ValidationError, name: str) -> tuple[str, str]:
    given = _values(error.instance)
    twice = next(each for at, each in enumerate(given) if each in given[:at])
    return f"{name} has `{twice}` twice", "keep one of them"


def _length(words: str, error: ValidationError, name: str) -> tuple[str, str]:
    return f"{name} must have {words} {error.validator_value} of length", ""


_WORDS: Mapping[str, Callable[[ValidationError, str], tuple[str, str]]] = {
    "type": _type,
    "anyOf": _any_of,
    "oneOf": _any_of,
    "required": _required,
    "enum": _enum,
    "pattern": _pattern,
    "uniqueItems": _unique,
    "minimum": partial(_bound, "be at least"),
    "maximum": partial(_bound, "be at most"),
    "exclusiveMinimum": partial(_bound, "be above"),
    "exclusiveMaximum": partial(_bound, "be below"),
    "multipleOf": partial(_bound, "be a multiple of"),
    "const": partial(_bound, "be"),
    "minLength": partial(_length, "at least"),
    "maxLength": partial(_length, "at most"),
    "minItems": partial(_length, "at least"),
    "maxItems": partial(_length, "at most"),
}
