"""Vaulted values are found again by their digests."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from cobweb.generation import redact, reveal, secrets_of
from tests.generation.test_stored import values


@given(values)
def test_what_was_redacted_is_revealed_by_its_own_secrets(value: Any) -> None:
    revealed, missing = reveal(redact(value), secrets_of(value))
    assert repr(revealed) == repr(redact_floats(value))
    assert not missing


@given(values)
def test_without_secrets_all_stays_redacted_and_each_place_is_named(value: Any) -> None:
    revealed, missing = reveal(redact(value), {})
    assert revealed == redact(value)
    assert bool(missing) == bool(secrets_of(value))


def test_a_place_is_a_dotted_path() -> None:
    old, new = {"__ansible_vault": "61"}, {"__ansible_vault": "62\n  63"}
    value = {"b": [1, {"key": old}], "a": new, "c": (new,)}
    again = {"__ansible_vault": "62 63"}
    revealed, missing = reveal(redact(value), secrets_of([again]))
    assert missing == ("b.1.key",)
    assert revealed["a"] == again
    assert revealed["c"] == [again]


def test_a_secret_at_the_same_place_is_taken_instead() -> None:
    old, new = {"__ansible_vault": "61"}, {"__ansible_vault": "62"}
    value = redact({"a": [old, {"b": old}, old], "c": old, "d": old, "e": old})
    instead = {"a": [new, {"b": new}], "c": {"d": new}, "d": "plain", "f": new}
    revealed, missing = reveal(value, {}, instead)
    assert revealed["a"][:2] == [new, {"b": new}]
    assert missing == ("a.2", "c", "d", "e")
    assert reveal(value, secrets_of(old), instead)[0]["a"][0] == old
    assert reveal(redact([old, old]), {}, [new, new, new])[0] == [new, new]
    assert reveal(redact([old]), {}, "text")[1] == ("0",)


def test_a_secret_that_is_the_whole_value_has_no_path() -> None:
    assert reveal(redact({"__ansible_vault": "61"}), {})[1] == ("",)


def redact_floats(value: Any) -> Any:
    """Return what redaction makes of everything but secrets."""
    if isinstance(value, dict):
        if set(value) == {"__ansible_vault"}:
            return value
        return {key: redact_floats(item) for key, item in value.items()}
    return [redact_floats(item) for item in value] if isinstance(value, list) else redact(value)
