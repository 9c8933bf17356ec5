"""Hosts, groups and their variables, as Ansible understands them."""

from __future__ import annotations
