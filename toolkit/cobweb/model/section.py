"""What a section stands for: hosts, objects and types that nobody wrote by hand, and decisions.

A decision is desired state that is in no file of the site: what a section has under a key, written
by a person or by a program that decides. Only its section sees it, and makes of it what it stands
for. The decisions of a section have one revision, which each write makes greater: who writes says
which one he has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.errors import Place
from cobweb.model.cob import CobType


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What `section` has under `key` from the `revision` of the section on that brought it.

    `body` is plain JSON data; None says that there is nothing any more. `author` and `reason` are
    for people, `time` is in seconds since the epoch.
    """

    section: str
    key: str
    body: Any
    revision: int
    author: str
    reason: str
    time: float

    def __str__(self) -> str:
        fate = " taken back" if self.body is None else ""
        what = f"decision {self.section}/{self.key}{fate}, revision {self.revision}"
        return f"{what}, by {self.author}: {' '.join(self.reason.split())}"

    @property
    def place(self) -> Place:
        """Where a value stands that follows from it: messages name this as they name a file."""
        return Place(file=str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What a section has at a revision, by key: without those that are gone; 0 before the first."""

    revision: int = 0
    by_key: Mapping[str, Decision] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decided:
    """A value in an `Expansion` that follows from a decision, which is its place then."""

    value: Any
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Plain data, as it would stand in YAML, and values that YAML has no words for.

    `inventory` is an Ansible inventory with groups of its own; a host without variables in it may
    be one that the site has. `cobs` and `limits` are definitions as under these keys, `types` what
    objects are of besides the types that the site has, by name. `shared` is what a type of a plugin
    shares among the site's objects of it, by the type's name. `functions` are names that templates
    can call: the function gets the name of the host that the template is rendered for, then the
    template's arguments; CobwebError where it has no answer. `releases` are objects that decisions
    let go, as `HOST/COB`, or `HOST/*` for all of a host: that these go was said, so they do not
    count where too many removals are refused.
    """

    inventory: Mapping[str, Any] = field(default_factory=dict)
    cobs: Mapping[str, Mapping[str, Any] | Decided] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, Any] | Decided] = field(default_factory=dict)
    types: Mapping[str, CobType] = field(default_factory=dict)
    shared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    releases: Collection[str] = ()

    def __post_init__(self) -> None:
        """Refuse a text where many are meant: each of its letters would be taken for one."""
        if isinstance(self.releases, str) or not all("/" in it for it in self.releases):
            raise ValueError(f"releases are several HOST/COB or HOST/*, not {self.releases!r}")
