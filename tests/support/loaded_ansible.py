"""Ansible in the process of a test, to be asked what it makes of the same files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["loaded_ansible"]


@contextmanager
def loaded_ansible() -> Iterator[None]:
    """Have Ansible's plugins loaded, and its warnings of how that is done left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ansible.plugins.loader import init_plugin_loader

        init_plugin_loader([])
        yield
