"""What an agent takes for an order, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import CobwebError
from cobweb_plugins.agents._agent import Agent, _site, alone
from cobweb_plugins.agents._keys import public_key
from cobweb_plugins.agents._part import COORDINATOR, canonical
from cobweb_plugins.agents._signature import signature
from cobweb_plugins.agents._wire import Wire


class Desk:
    """An agent that hears papers by hand, and the keys of two who order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seeds = {it: folder / f"{it}.seed" for it in (COORDINATOR, "other")}
        self.pinned = public_key(self.seeds[COORDINATOR])
        public_key(self.seeds["other"])
        self.said: list[str] = []
        self.anew()

    def anew(self) -> None:
        """Begin a new process of the agent."""
        wire = Wire(lambda _wake: None, "web1")  # type: ignore[arg-type,return-value]
        self.wire = wire
        self.agent = Agent("web1", self.folder / "agent", wire, self.pinned, self.said.append)

    def hear(
        self,
        epoch: int,
        number: int,
        *,
        by: str = COORDINATOR,
        sender: str = COORDINATOR,
        nonce: str | None = None,
    ) -> bool:
        """Say an order; return whether it is what the agent obeys now."""
        order = {"epoch": epoch, "number": number, "open": number == 1, "run": f"run {epoch}"}
        order["nonce"] = self.agent._nonce if nonce is None else nonce
        text = canonical(order)
        paper = {"order": text.decode(), "signature": signature(self.seeds[by], text)}
        self.wire.papers.append((sender, {"paper": "order", **paper}))
        self.agent._read()
        return self.agent._order == order


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_orders_of_the_pinned_key_are_obeyed_and_no_others(desk: Desk) -> None:
    assert not desk.hear(5, 1, by="other")
    assert not desk.hear(5, 1, sender="web2")
    assert desk.hear(5, 1)


def test_an_order_that_is_sent_again_by_others_opens_nothing(desk: Desk) -> None:
    """Whoever runs a server has all of them, signed; each is good once."""
    assert not desk.hear(5, 1, nonce="of another process")
    assert desk.agent._newest() == [0, 0]
    assert desk.hear(5, 2, nonce="")  # closing needs none


@pytest.mark.parametrize("anew", [False, True], ids=["same process", "new process"])
def test_an_order_that_is_older_than_the_last_one_is_refused(desk: Desk, *, anew: bool) -> None:
    assert desk.hear(5, 2)
    if anew:
        desk.anew()
    assert not desk.hear(5, 1)  # it was closed since
    assert not desk.hear(4, 1)
    assert desk.said == [
        "refused: an order of run 5 that is older than the last one",
        "refused: an order of run 4 that is older than the last one",
    ]
    assert desk.hear(5, 2)
    assert desk.hear(6, 1)


@pytest.mark.parametrize(
    "paper",
    [
        {"paper": "order"},
        {"paper": "order", "order": 1, "signature": "x"},
        {"paper": "order", "order": "{}", "signature": "é"},
        {"paper": "seen"},
        {"paper": "seen", "epoch": 1, "at": "x"},
        {"paper": "blob", "digest": "x", "data": "!"},
        {"paper": 7},
        {},
    ],
    ids=str,
)
def test_what_is_no_paper_is_left_alone(desk: Desk, paper: dict[str, Any]) -> None:
    desk.wire.papers.append((COORDINATOR, dict(paper)))
    desk.agent._read()
    assert desk.hear(5, 1)


def test_the_site_of_an_agent_has_its_hosts_by_the_local_connection() -> None:
    made = _site(
        {
            "name": "shop",
            "hosts": {"web1": {"ansible_host": "10.0.0.1", "colour": "{{ other }}"}},
            "groups": {"all": ["web1"], "web": ["web1"]},
        }
    )
    everything = made["inventory"]["all"]
    assert everything["hosts"]["web1"]["ansible_connection"] == "local"
    assert everything["hosts"]["web1"]["colour"] == "{{ other }}"
    assert everything["children"] == {"web": {"hosts": {"web1": None}}}
    assert json.loads(canonical(made)) == made


def test_two_agents_do_not_work_in_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    with (
        alone(folder),
        pytest.raises(CobwebError, match="another agent is at work here"),
        alone(folder),
    ):
        pass
    with alone(folder):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(CobwebError, match="an agent cannot work here"), alone(tmp_path / "file"):
        pass
