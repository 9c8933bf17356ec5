"""A host of the site and its Ansible-style variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host; `groups` are all that it is in, directly or by descent, sorted, without `all`.

    `variables` are merged by Ansible's precedence (group_vars, host_vars) and not templated;
    vaulted values stay mappings of the form `{"__ansible_vault": "..."}`. `source` is the file (or
    folder) of the inventory that names it first, relative to the site's folder.
    """

    name: str
    groups: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    source: str = field(default="", compare=False)
