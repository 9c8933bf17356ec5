"""Render Jinja2 in a sandbox, with named limits on steps, time and sizes."""

from __future__ import annotations
