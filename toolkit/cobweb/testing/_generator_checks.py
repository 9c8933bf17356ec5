"""Conformance checks for adapters that make a site's files from a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from cobweb.errors import ModelError
from cobweb.plugin import Generator, Kind
from cobweb.plugin._contracts import schema_problems
from cobweb.testing._checks import Kit, expect, plain, refusal, satisfies


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorCase:
    """What the kit needs to try an adapter that makes files.

    `model` is one that it takes; `impossible` fits the schema and says what cannot be.
    """

    make: Callable[[], Generator]
    model: Mapping[str, Any]
    impossible: Mapping[str, Any] | None = None


def model_schema_is_valid(case: GeneratorCase) -> None:
    """The schema is a JSON Schema (draft 2020-12) of an object."""
    schema = case.make().schema
    problems = schema_problems(schema)
    expect(not problems, f"the model's schema is no JSON Schema {''.join(problems)}")
    expect(schema.get("type") == "object", "the model's schema does not say `type: object`")


def model_is_accepted(case: GeneratorCase) -> None:
    """The schema accepts the models of the case."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(case.make().schema)
    for model in (case.model, case.impossible):
        if model is not None:
            errors = [error.message for error in validator.iter_errors(model)]
            expect(not errors, f"a model is refused: {'; '.join(errors)}")


def makes_the_same_twice(case: GeneratorCase) -> None:
    """The same model gives the same files, key by key in the same order."""
    first, second = (json.dumps(case.make().generate(case.model), default=repr) for _ in "12")
    expect(first == second, "two calls of generate() differ")


def leaves_the_model_alone(case: GeneratorCase) -> None:
    """The model is not changed."""
    model = deepcopy(dict(case.model))
    case.make().generate(model)
    expect(model == case.model, "generate() has changed the model")


def makes_plain_data(case: GeneratorCase) -> None:
    """There is a file, and what is in files is mappings, lists, texts, numbers, true and false."""
    made = case.make().generate(case.model)
    expect(made, "generate() made no file")
    for name, data in made.items():
        expect(name.endswith(".yml") and "/" not in name, f"{name!r} is no plain `x.yml`")
        expect(plain(name, data) == data, f"{name} changes on its way through JSON")


def impossible_model_is_an_error(case: GeneratorCase, impossible: Mapping[str, Any]) -> None:
    """A model that cannot be raises ModelError with paths that exist in it, and messages."""
    error = refusal(ModelError, lambda: case.make().generate(impossible))
    for path, message, _ in error.problems:
        expect(message, "a problem says nothing")
        expect(_leads_somewhere(impossible, path), f"{path} is not in the model")


_KIT = Kit(
    always=[
        satisfies(Kind.ADAPTERS),
        model_schema_is_valid,
        model_is_accepted,
        makes_the_same_twice,
        leaves_the_model_alone,
        makes_plain_data,
    ],
    given={"impossible": [impossible_model_is_an_error]},
)
generator_checks, check_generator = _KIT.checks, _KIT.check


def _leads_somewhere(model: Any, path: tuple[str | int, ...]) -> bool:
    for step in path:
        try:
            model = model[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True
