# SPDX-License-Identifier: GPL-3.0-or-later
"""Vaulted values in a lane: made of their marks, and found again in what tasks say.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString

from cobweb_plugins.ansible._hidden import Hidden

__all__ = ["Vaulted", "revive"]


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
        texts = (self._text(it) for value in values for it in _encrypted(value))
        return Hidden(text for text in texts if text is not None)

    def _text(self, value: EncryptedString) -> str | None:
        """Return the text; None where it cannot be decrypted, and so was not used either."""
        key = value._ciphertext
        if key not in self._known:
            self._known[key] = None
            with contextlib.suppress(AnsibleError, ValueError):
                self._known[key] = str(value)
        return self._known[key]


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
