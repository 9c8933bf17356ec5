"""Hosts made of namespaces for the tests of the built-in types, with systemd and without.

All have the packages of the image `full` installed; `bare` is a host to install them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, live_on
from tests.support.needed import need_fabric

PLAIN_HOSTS = 1
SYSTEMD_HOSTS = 2


@pytest.fixture(scope="session")
def fabric_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return what makes a folder for a fabric; where there can be none, tests are skipped."""
    need_fabric()
    return lambda: tmp_path_factory.mktemp("fabric")


@pytest.fixture(scope="session")
def fabric(fabric_folder: Callable[[], Path]) -> Iterator[Fabric]:
    """Return the fabric that all tests share; a test leaves its hosts as it found them."""
    folder = fabric_folder()
    with Fabric(folder, plain=PLAIN_HOSTS, systemd=SYSTEMD_HOSTS, image="full") as made:
        yield made


@pytest.fixture(scope="module")
def bare(fabric_folder: Callable[[], Path]) -> Iterator[Fabric]:
    """Return a fabric of one host with systemd that has the packages only in its repository."""
    with Fabric(fabric_folder(), plain=0, systemd=1, image="deps") as made:
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
