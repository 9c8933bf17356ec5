"""Read the files of a site: YAML to values that know their place, findings, schemas."""

from __future__ import annotations
