# SPDX-License-Identifier: GPL-3.0-or-later
"""Vaulted values in a lane: made of their marks, and found again in what tasks say.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. Private parts that it leans on: Ansible's notices of values that a template
uses.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible._internal._datatag._tags import VaultedValue
from ansible._internal._templating._access import NotifiableAccessContextBase
from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString, VaultHelper

from cobweb_plugins.ansible._hidden import Hidden
from cobweb_plugins.ansible.strategy.cobweb_unvaulted import is_template

__all__ = ["VaultUse", "Vaulted", "revive"]

_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_OF_OTHERS = frozenset({"groups", "hostvars", "vars"})


def revive(value: Any) -> Any:
    """Turn vault marks into values that Ansible decrypts on use; all other text stays text."""
    match value:
        case {"__ansible_vault": str(ciphertext)} if len(value) == 1:
            return EncryptedString(ciphertext=ciphertext)
        case dict():
            return {key: revive(item) for key, item in value.items()}
        case list():
            return [revive(item) for item in value]
        case _:
            return value


class Vaulted:
    """Decrypts vaulted values, each once in the life of a lane."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def hidden(self, *values: Any) -> Hidden:
        """Return what hides all that is vaulted in some data."""
        return Hidden(
            text for value in values for it in _encrypted(value) for text in self._texts(it)
        )

    def _texts(self, value: EncryptedString) -> list[str]:
        """Return what is hidden of a value: of a template, what stands around expressions."""
        text = self._text(value)
        if text is None:
            return []
        return _EXPRESSION.split(text) if is_template(value._ciphertext) else [text]

    def _text(self, value: EncryptedString) -> str | None:
        """Return the text; None where it cannot be decrypted, and so was not used either."""
        key = value._ciphertext
        if key not in self._known:
            self._known[key] = None
            with contextlib.suppress(AnsibleError, ValueError):
                self._known[key] = str(value)
        return self._known[key]


class VaultUse(NotifiableAccessContextBase):  # type: ignore[misc]  # ansible-core has no types
    """Notes whether a template uses a vaulted value, whatever it makes of it, while it is open."""

    _type_interest = frozenset({EncryptedString, VaultedValue})

    def __init__(self) -> None:
        self._was_used = False

    def _notify(self, o: Any) -> Any:
        self._was_used = True
        return o

    def shows(self, made: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
        """Say whether what came out may show a vaulted value; `variables` are those of the task."""
        if not made:
            return False
        vaulted = (VaultHelper.get_ciphertext(it, with_tags=False) for it in made.values())
        if self._was_used or any(vaulted):
            return True
        own = {name: value for name, value in variables.items() if name not in _OF_OTHERS}
        return bool(Vaulted().hidden(own).data(made) != made)


def _encrypted(value: Any) -> Iterator[EncryptedString]:
    match value:
        case EncryptedString():
            yield value
        case Mapping():
            for item in value.values():
                yield from _encrypted(item)
        case list() | tuple():
            for item in value:
                yield from _encrypted(item)
        case _:
            pass
