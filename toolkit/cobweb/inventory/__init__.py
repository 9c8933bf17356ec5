"""From YAML files to an evaluated site: load, merge, validate, expand, explain."""

from __future__ import annotations
