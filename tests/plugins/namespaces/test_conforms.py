"""The provider `namespaces` passes the conformance kit, on real machines."""

from __future__ import annotations

import pytest

from cobweb.plugin import NodeRequest
from cobweb.testing import ProviderCase, provider_checks
from cobweb_plugins.namespaces._provider import Namespaces
from tests.support.machines import Corner

NOTHING = NodeRequest(node="", owner="", cluster="", number=1)
NAMES = [
    check.name
    for check in provider_checks(ProviderCase(make=Namespaces, request=NOTHING, neighbour=NOTHING))
]

pytestmark = [
    pytest.mark.full(
        "the conformance kit with real machines; the gate has a cluster that comes about"
    ),
    pytest.mark.netns,
]


@pytest.mark.parametrize("name", NAMES)
def test_it_conforms(corner: Corner, name: str) -> None:
    case = ProviderCase(
        make=Namespaces, request=corner.request("web1-1"), neighbour=corner.request("web1-2")
    )
    (check,) = [it for it in provider_checks(case) if it.name == name]
    check()
