"""Hosts made of namespaces for the tests of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.gates import set_gate
from tests.support.needed import need_fabric
from tests.support.operator import Operator

PLAIN_HOSTS = 6
SYSTEMD_HOSTS = 2

SITES = Path(__file__).with_name("sites")

OperatorMaker = Callable[[str], Operator]
FabricMaker = Callable[..., AbstractContextManager[Fabric]]


@pytest.fixture(scope="session")
def fabric_maker(tmp_path_factory: pytest.TempPathFactory) -> FabricMaker:
    """Return what makes a fabric of so many plain hosts and so many with systemd, and the like.

    Where the machine cannot have one, the tests are skipped; in CI they fail.
    """
    need_fabric()

    def make(plain: int, systemd: int, **more: Any) -> AbstractContextManager[Fabric]:
        return Fabric(tmp_path_factory.mktemp("fabric"), plain=plain, systemd=systemd, **more)

    return make


@pytest.fixture(scope="session")
def fabric(fabric_maker: FabricMaker) -> Iterator[Fabric]:
    """Return the fabric that all tests share; a test leaves its hosts up and reachable."""
    with fabric_maker(PLAIN_HOSTS, SYSTEMD_HOSTS) as made:
        yield made


@pytest.fixture(scope="session")
def operator_maker(fabric: Fabric, tmp_path_factory: pytest.TempPathFactory) -> OperatorMaker:
    """Return what copies one of the sites beside this file and puts an operator to work on it."""

    def make(name: str) -> Operator:
        folder = tmp_path_factory.mktemp("site") / name
        shutil.copytree(SITES / name, folder)
        return Operator(fabric, folder)

    return make


@pytest.fixture
def gate(fabric: Fabric) -> FabricHost:
    """Return the host whose gate waits for the test."""
    host = fabric.plain[0]
    set_gate(fabric, host)
    return host
