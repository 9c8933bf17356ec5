"""Hosts made of namespaces for the tests of the built-in types, with systemd and without."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.fabric import Fabric, FabricHost, what_is_missing
from tests.support.live import Live, live_on

PLAIN_HOSTS = 1
SYSTEMD_HOSTS = 1


@pytest.fixture(scope="session")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    """Return the fabric that all tests share; a test leaves its hosts as it found them."""
    missing = what_is_missing()
    if missing is not None and os.environ.get("CI"):
        pytest.fail(missing)
    if missing is not None:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("fabric")
    with Fabric(folder, plain=PLAIN_HOSTS, systemd=SYSTEMD_HOSTS) as made:
        yield made


@pytest.fixture(scope="session")
def live(fabric: Fabric, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Return what carries out jobs on the hosts."""
    with live_on(fabric, tmp_path_factory.mktemp("live")) as opened:
        yield opened


@pytest.fixture(scope="session")
def systemd_host(fabric: Fabric) -> FabricHost:
    """Return the host with systemd."""
    return fabric.systemd[0]


@pytest.fixture(scope="session")
def plain_host(fabric: Fabric) -> FabricHost:
    """Return the host without systemd."""
    return fabric.plain[0]
