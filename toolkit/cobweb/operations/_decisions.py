"""What may be decided: by a section that takes decisions, and as its schema says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cobweb._text import did_you_mean
from cobweb.errors import Place, UsageError
from cobweb.plugin import Plugins

_MOST_KEY, _MOST_TEXT = 200, 2000
"""How many characters a key may have, and an author or a reason."""


def check_decisions(
    plugins: Plugins, section: str, writes: Mapping[str, Any], author: str, reason: str
) -> None:
    """Raise UsageError for what cannot be decided in a section, or by nobody and for no reason.

    What is only taken back may be of a section whose plugin is gone.
    """
    for what, text in (("author", author), ("reason", reason)):
        if not text.strip() or len(text) > _MOST_TEXT or "\0" in text:
            raise UsageError(f"a decision has a {what}", hint=f"1 to {_MOST_TEXT} characters")
        _refuse_no_json(f"the {what}", text)
    for key in writes:
        if not key.isprintable() or not 0 < len(key) <= _MOST_KEY:
            hint = f"1 to {_MOST_KEY} characters that can be printed"
            raise UsageError(f"{key!r} is no key of a decision", hint=hint)
    if bodies := {key: body for key, body in writes.items() if body is not None}:
        _check_bodies(plugins, section, bodies)


def _check_bodies(plugins: Plugins, section: str, bodies: Mapping[str, Any]) -> None:
    """Raise UsageError for bodies that the section, which has to be there, does not take."""
    from cobweb.site.reading._nodes import lift
    from cobweb.site.reading._schemas import SpecChecker

    takes = plugins.decision_schemas
    if section not in takes:
        hint = did_you_mean(section, takes, otherwise=f"known are {', '.join(sorted(takes))}")
        raise UsageError(f"there is no section `{section}` that takes decisions", hint=hint)
    checker = SpecChecker(takes[section], whole="the decision")
    for key, body in bodies.items():
        _refuse_no_json(f"`{key}` of `{section}`", body)
        for _, message, hint in checker.problems(body, lift(body, Place(file=""))):
            raise UsageError(f"`{section}` does not take this for `{key}`: {message}", hint=hint)


def _refuse_no_json(what: str, data: Any) -> None:
    try:
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} is no JSON: {error}", hint="take plain data") from error
