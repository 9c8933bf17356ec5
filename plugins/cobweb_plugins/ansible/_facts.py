"""The facts of a run: gathered once per host, by whichever lane comes first, and shared by all.

A lane writes what it gathered on a host into a file of the run's private folder, where the others
read it. A job that asks for facts sees those of its own host and of all hosts that have any by
then; one that asks for none sees none, whoever has gathered some before. What else a job finds out
is its own: which lane serves a host is chance, so nothing of it stays.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ALL = "all"
KEPT = "discovered_interpreter_"
"""How the names of facts begin that a lane keeps for its next job on a host: they never differ."""
GATHERED = "_ansible_facts_gathered"
"""The fact by which Ansible says that these are those of a gathering."""


def subsets_of(facts: bool | Sequence[str]) -> list[str]:  # noqa: FBT001  # as actions have it
    """Return the subsets that an action asks for, none where it asks for no facts."""
    return ([ALL] if facts else []) if isinstance(facts, bool) else [*facts]


class RunFacts:
    """Stands where Ansible has a cache of facts: `get`, `set`, `delete` and `keys` by host."""

    def __init__(self) -> None:
        self._folder = Path()
        self._found: dict[str, dict[str, Any]] = {}
        self._read: dict[Path, tuple[tuple[int, int], Mapping[str, Any]]] = {}
        self._host = ""
        self._host_vars: Mapping[str, Any] = {}
        self._subsets: Sequence[str] | None = None
        self._lock = -1

    def begin(
        self, host: str, host_vars: Mapping[str, Any], subsets: Sequence[str], folder: Path
    ) -> bool:
        """Get ready for a job that asks for these facts; say whether it has to gather them.

        Then nobody else gathers on this host before it has done so, or ended. The run's facts are
        in `folder`.
        """
        self._folder = folder
        self._host, self._host_vars, self._subsets = host, host_vars, subsets
        if self._own() is not None:
            return False
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = os.open(self._path(host, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if self._own() is None:
            return True
        self._unlock()
        return False

    def end(self) -> None:
        """Forget what the job found out."""
        self._unlock()
        self._subsets = None
        self._found = {
            host: {name: it for name, it in facts.items() if name.startswith(KEPT)}
            for host, facts in self._found.items()
        }

    def get(self, host: str) -> dict[str, Any]:
        """Return the facts of a host; KeyError where there are none."""
        gathered = None
        if self._subsets is not None:
            gathered = self._own() if host == self._host else self._of(self._path("host", host))
        if gathered is None and host not in self._found:
            raise KeyError(host)
        return {**(gathered or {}), **self._found.get(host, {})}

    def set(self, host: str, facts: Mapping[str, Any]) -> None:
        """Take the facts of a host; those that were gathered for all are written for all."""
        self._found[host] = dict(facts)
        if self._lock >= 0 and host == self._host and GATHERED in facts:
            self._share(facts)
            self._unlock()

    def delete(self, host: str) -> None:
        """Forget what the job found out of a host; KeyError where that is nothing."""
        del self._found[host]

    def keys(self) -> list[str]:
        """Return the hosts of which the job found out something."""
        return list(self._found)

    def _share(self, facts: Mapping[str, Any]) -> None:
        """Write what was gathered, for those who ask for it, and as what is known of the host."""
        part, link = self._path("part", self._host), self._path("link", self._host)
        for left in (part, link):  # by a lane that was killed
            left.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(facts, file)
        os.link(part, link)
        link.replace(self._path("host", self._host))
        part.replace(self._path("asked", *self._asked(self._subsets or ())))

    def _asked(self, subsets: Sequence[str]) -> tuple[Any, ...]:
        """Return what tells gatherings apart: the machine, and what was asked for, not less."""
        return self._host, self._host_vars, sorted({*subsets})

    def _path(self, kind: str, *parts: Any) -> Path:
        """Return a file; the name of a host may be as long as that of a file."""
        text = json.dumps([kind, *parts], sort_keys=True)
        return self._folder / hashlib.sha256(text.encode()).hexdigest()

    def _own(self) -> Mapping[str, Any] | None:
        """Return what is asked for, if it was gathered, or all of it was."""
        for subsets in ([ALL], self._subsets or ()):
            found = self._of(self._path("asked", *self._asked(subsets)))
            if found is not None:
                return found
        return None

    def _of(self, path: Path) -> Mapping[str, Any] | None:
        """Return the facts in a file; each state of it is read once."""
        with suppress(FileNotFoundError):
            status = path.stat()
            version = (status.st_ino, status.st_mtime_ns)
            if path not in self._read or self._read[path][0] != version:
                self._read[path] = (version, json.loads(path.read_text(encoding="utf-8")))
            return self._read[path][1]
        return None

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
