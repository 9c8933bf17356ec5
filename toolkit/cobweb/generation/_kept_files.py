"""What a generation keeps besides its objects: the files of their types and the hosts' variables.

An object that is gone from the site is removed by the tasks of its generation, on a host that may
be gone from the inventory as well. So a generation names the files that its types work with, and
has of each host what these and the connection ask for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cobweb.generation._content import VAULT_MARK
from cobweb.model import Host

_CONNECTION = ("ansible_", "cobweb_")
"""How the names of the variables begin that say how a host is reached, and how it is managed."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OTHER_ROLES = frozenset({"include_role", "import_role"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The files that types work with: SHA-256 by name, which is as actions write it.

    `names` are all words in them; None where they may ask for any variable.
    """

    digests: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] | None = frozenset()

    def has(self, written: str) -> bool:
        """Say whether a task file, or any file of a role, is among them."""
        folder = f"{written}/"
        return written in self.digests or any(name.startswith(folder) for name in self.digests)


def kept_files(contents: Mapping[str, bytes]) -> KeptFiles:
    """Return what a generation says of the files with these contents, by name.

    Tasks that take in a role may use any variable: what that asks for is not known here.
    """
    digests = {name: hashlib.sha256(contents[name]).hexdigest() for name in sorted(contents)}
    words = words_of(content.decode("latin-1") for content in contents.values())
    return KeptFiles(digests=digests, names=None if words & _OTHER_ROLES else words)


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """Return all words in texts that may be names of variables."""
    return frozenset(word for text in texts for word in _IDENTIFIER.findall(text))


class HostVariables:
    """Chooses the variables that are kept: how a host is reached, what is asked for, all they need.

    `asked` are names, None for all. What a text names that is a template is needed by it.
    """

    def __init__(self, asked: frozenset[str] | None) -> None:
        self._asked = asked
        self._names = cache(_named)

    def of(self, host: Host) -> Mapping[str, Any]:
        """Return the variables of a host that are kept, in the order of the host's."""
        asked, known = self._asked, host.variables
        if asked is None:
            return known
        chosen = {name for name in known if name.startswith(_CONNECTION) or name in asked}
        rest = list(chosen)
        while rest:
            for text in _texts(known[rest.pop()]):
                found = (self._names(text) & known.keys()) - chosen
                chosen |= found
                rest += found
        return {name: value for name, value in known.items() if name in chosen}


def lent_variables(old: Host, now: Host, asked: frozenset[str] | None) -> dict[str, Any]:
    """Return variables that a host has lost and that nothing of its site now can ask for.

    They can be given back for work of `old` without changing what any other does. `asked` are the
    names that work of now may ask for, None for all: then there are no such variables.
    """
    if asked is None:
        return {}
    needed = {name for text in _texts(now.variables) for name in _named(text)}
    taken = {*now.variables, *asked, *needed}
    return {
        name: value
        for name, value in old.variables.items()
        if name not in taken and not name.startswith(_CONNECTION)
    }


def _named(text: str) -> frozenset[str]:
    """Return the identifiers in a text that is a template."""
    return words_of([text]) if "{{" in text or "{%" in text else frozenset()


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value that are not vaulted."""
    if isinstance(value, Mapping):
        value = [item for key, item in value.items() if key != VAULT_MARK]
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
