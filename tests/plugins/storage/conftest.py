"""A small model for the tests of the adapter `storage`."""

from __future__ import annotations

from typing import Any

import pytest


def a_model() -> dict[str, Any]:
    """Return a model with two pairs, a client and a database."""
    disks = ["/dev/vdb", "/dev/vdc"]
    return {
        "cluster": "stork",
        "connection": {"ansible_user": "root"},
        "network": {"prefix": 24, "virtual_ip": "10.0.0.99"},
        "servers": {
            "st1": {"address": "10.0.0.1", "pair": "a", "disks": list(disks)},
            "st2": {"address": "10.0.0.2", "pair": "a", "disks": list(disks)},
            "st3": {"address": "10.0.0.3", "pair": "b"},
        },
        "clients": {"cl1": {"address": "10.0.0.11"}},
        "postgres": {"primary": "st1", "standbys": ["st2"]},
    }


@pytest.fixture
def model() -> dict[str, Any]:
    """Return a model that a test may change."""
    return a_model()
