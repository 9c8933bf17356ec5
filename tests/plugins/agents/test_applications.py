"""An application on hosts with agents: runs, invitations and words all go over these."""

from __future__ import annotations

import json

import pytest

from tests.support.agents import Owned

HOSTS = ("db", "web1", "web2")


@pytest.mark.gate("an application of two phases over agents, twice: the main path")
def test_an_application_runs_over_agents(site: Owned) -> None:
    """Each phase is started once on each node in each instance; its objects are the agents'.

    On one of them the first phase fails, and is started again.
    """
    told = site.folder / "data" / "told"
    count = f"echo $COBWEB_PHASE of {{{{ hosts }}}} >> {told}.$COBWEB_HOST"
    helps = "[ $COBWEB_HOST != db ] || [ $COBWEB_START = 2 ] && " + count
    ring = {
        "on": ",".join(HOSTS),
        "state_dir": str(site.folder / "data" / "state"),
        "phases": {
            "first": {"run": helps},
            "last": {"run": count, "after": ["first"], "barrier": {"wait": "5m"}},
        },
        "recover": {"do": "restart"},
    }
    conf = site.file("db", "conf", "one")
    site.base.write({"conf": conf}, agents=HOSTS, applications={"r": ring})
    site.start(*HOSTS)
    refused = site.base.call("app", "run", "r", "--yes")
    assert refused.returncode == 64, "other changes are pending: they come first"
    assert site.applied().moved() == {"db/conf"}
    lines = [f"{phase} of {','.join(HOSTS)}" for phase in ("first", "last")]
    for number in (1, 2):
        ran = site.base.call("app", "run", "r", "--yes", "-o", "json")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["ended"] == "done"
        assert "db is started again in first, 1 of 3: ended with exit status 1" in ran.stderr
        for host in HOSTS:
            assert site.read(f"told.{host}") == "\n".join([*(lines * number), ""])
