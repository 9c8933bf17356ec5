"""What a section of a site stands for: hosts, objects and types that nobody wrote by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.model.cob import CobType


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Plain data, as it would stand in YAML, and values that YAML has no words for.

    `inventory` is an Ansible inventory, `cobs` and `limits` are definitions as under these keys,
    `types` what objects are of besides the types that the site has, by name. `shared` is what a
    type of a plugin shares among the site's objects of it, by the type's name. `functions` are
    names that templates can call: the function gets the name of the host that the template is
    rendered for, then the template's arguments; CobwebError where it has no answer.
    """

    inventory: Mapping[str, Any] = field(default_factory=dict)
    cobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    types: Mapping[str, CobType] = field(default_factory=dict)
    shared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
