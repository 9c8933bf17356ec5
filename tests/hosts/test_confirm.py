"""Changes that cut off their own host, under a dead-man switch, over SSH."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full(
        "hosts that cut themselves off, in real time; tests/kernel has them simulated"
    ),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

LINK = {"change": "ip link set eth0 down", "way_back": "ip link set eth0 up"}
SSHD = {
    "change": "echo DenyUsers root >> /etc/fabric/sshd_config; kill -HUP 1",
    "way_back": 'cp -a "$COBWEB_KEPT/sshd_config" /etc/fabric/; kill -HUP 1',
}
HARMLESS = {"change": "true", "way_back": "true"}
GATE = {
    "change": "echo begun > /run/begun; read line < /run/gate",
    "way_back": "true",
}
LEFT = (
    *("/var/lib/changed", "/var/lib/log", "/var/lib/marked", "/var/lib/cobweb"),
    *("/run/begun", "/run/gate"),
)


@contextmanager
def changed_site(
    fabric: Fabric, operator: Operator, changes: Mapping[FabricHost, Mapping[str, str]]
) -> Iterator[Operator]:
    """Give the site `confirm` hosts with changes, and all others without one."""
    write_changes(fabric, operator, changes)
    yield operator
    for host in fabric.hosts:
        fabric.run(host, "rm", "-rf", *LEFT)
    assert fabric.visitors() == []


def write_changes(
    fabric: Fabric, operator: Operator, changes: Mapping[FabricHost, Mapping[str, str]]
) -> None:
    """Say in the inventory what each host changes."""
    others = [host for host in fabric.hosts if host not in changes]
    groups = {"changed": list(changes), "others": others}
    operator.write_inventory(groups, {host.name: it for host, it in changes.items()})


def has(fabric: Fabric, host: FabricHost, path: str) -> bool:
    """Say whether a path exists on a host."""
    return fabric.run(host, "test", "-e", path, check=False).returncode == 0


def log(fabric: Fabric, host: FabricHost) -> str:
    """Return a line for each time that a host has gone back."""
    return fabric.run(host, "sh", "-c", "cat /var/lib/log 2> /dev/null || :").stdout


def watchers(fabric: Fabric, host: FabricHost) -> list[str]:
    """Return the processes of a host that watch over a change."""
    found = fabric.run(host, "pgrep", "-f", "confirm/.*/watcher.py", check=False)
    return found.stdout.split()


def await_watchers(fabric: Fabric, host: FabricHost) -> None:
    """Wait until nobody watches over a change on a host any more."""
    for pid in watchers(fabric, host):
        fabric.run(host, "tail", f"--pid={pid}", "-f", "/dev/null", timeout_s=60)


def ends(run: Run) -> dict[str, Mapping[str, str]]:
    """Return how the changes have ended, by host."""
    return {
        event["cob"].partition("/")[0]: event
        for event in run.events
        if event["type"] == "transition.end" and event["cob"].endswith("/net")
    }


def test_a_host_that_is_cut_off_goes_back_and_a_good_change_stays(
    fabric: Fabric, operator_maker: OperatorMaker
) -> None:
    """The link of one is down, sshd of the second takes nobody new, the third is well."""
    link, sshd, good, *others = fabric.plain
    changes = {link: LINK, sshd: SSHD, good: HARMLESS}
    with changed_site(fabric, operator_maker("confirm"), changes) as operator:
        run = operator.apply()
        assert run.code == 1, run.err
        found = ends(run)
        assert {name: end["result"] for name, end in found.items()} == {
            link.name: "failed",
            sshd.name: "failed",
            good.name: "ok",
        }
        assert "gone back by itself" in found[link.name]["message"]
        assert found[sshd.name]["message"] == (
            "the host could not be reached by a new connection within 15 s;"
            " it has gone back by itself"
        )
        assert "a new connection within 15 s" in " ".join(run.err.split())
        for host in (link, sshd):
            assert not has(fabric, host, "/var/lib/changed")
            assert not has(fabric, host, "/var/lib/marked")
            assert log(fabric, host) == "net\n"
        assert has(fabric, good, "/var/lib/changed")
        assert all(has(fabric, host, "/var/lib/marked") for host in (good, *others))
        assert log(fabric, good) == ""
        assert [watchers(fabric, host) for host in fabric.hosts] == [[]] * len(fabric.hosts)

        write_changes(fabric, operator, dict.fromkeys(changes, HARMLESS))
        again = operator.apply()
        assert again.code == 0, again.err
        assert all(has(fabric, host, "/var/lib/changed") for host in changes)
        assert log(fabric, link) == "net\n"
        assert operator.broken_promises([run, again]) == []


def test_a_host_goes_back_though_the_coordinator_has_died(
    fabric: Fabric, operator_maker: OperatorMaker
) -> None:
    host = fabric.plain[0]
    cut = {**LINK, "change": f"{GATE['change']}; {LINK['change']}"}
    with changed_site(fabric, operator_maker("confirm"), {host: cut}) as operator:
        killed_in_the_change(fabric, operator, host)
        fabric.run(host, "sh", "-c", "echo > /run/gate")
        await_watchers(fabric, host)
        assert log(fabric, host) == "net\n"
        assert not has(fabric, host, "/var/lib/changed")

        write_changes(fabric, operator, {host: HARMLESS})
        again = operator.apply()
        assert again.code == 0, again.err
        assert has(fabric, host, "/var/lib/changed")
        assert log(fabric, host) == "net\n"


def test_the_next_run_has_the_host_go_back_before_it_checks(
    fabric: Fabric, operator_maker: OperatorMaker
) -> None:
    """The time is long from over; what was begun has ended well, and nobody has confirmed it."""
    host = fabric.plain[0]
    with changed_site(fabric, operator_maker("confirm"), {host: GATE}) as operator:
        give_time(operator, "300s")
        killed_in_the_change(fabric, operator, host)
        fabric.run(host, "sh", "-c", "echo > /run/gate")

        write_changes(fabric, operator, {host: HARMLESS})
        again = operator.apply()
        assert again.code == 0, again.err
        assert log(fabric, host) == "net\n"
        assert [state for cob, state in states(again) if cob == f"{host.name}/net"] == [
            "down",
            "up",
        ]
        assert has(fabric, host, "/var/lib/changed")
        assert watchers(fabric, host) == []


def test_a_host_that_restarts_goes_back_as_it_boots(
    fabric: Fabric, operator_maker: OperatorMaker
) -> None:
    """Where systemd runs it: the link would stay down for ever."""
    host = fabric.systemd[0]
    with changed_site(fabric, operator_maker("confirm"), {host: GATE}) as operator:
        give_time(operator, "300s")
        killed_in_the_change(fabric, operator, host)
        units = "ls /etc/systemd/system | grep cobweb-confirm"
        assert fabric.run(host, "sh", "-c", units).stdout.endswith("-boot.service\n")
        (watcher,) = watchers(fabric, host)
        assert "/cobweb-confirm-" in fabric.run(host, "cat", f"/proc/{watcher}/cgroup").stdout
        fabric.kill(host)
        fabric.start(host)
        fabric.run(host, "sh", "-c", "until test -e /var/lib/log; do sleep 0.1; done")
        await_watchers(fabric, host)
        assert not has(fabric, host, "/var/lib/changed")
        assert fabric.run(host, "sh", "-c", units, check=False).stdout == ""

        write_changes(fabric, operator, {host: HARMLESS})
        again = operator.apply()
        assert again.code == 0, again.err
        assert log(fabric, host) == "net\n"
        assert watchers(fabric, host) == []


def test_a_service_that_cuts_its_host_off_is_stopped_again(
    fabric: Fabric, operator_maker: OperatorMaker
) -> None:
    """The built-in type knows the way back: neither active nor enabled, as it was."""
    host = fabric.systemd[0]
    operator = operator_maker("firewall")
    operator.write_inventory({"firewalls": [host]})
    path = "/etc/systemd/system/firewall.service"
    fabric.run(host, "sh", "-c", f"cat > {path} << 'END'\n{FIREWALL}END\nsystemctl daemon-reload")
    try:
        run = operator.apply()
        unit = [fabric.run(host, "systemctl", ask, "firewall", check=False).stdout for ask in ASKS]
    finally:
        fabric.run(host, "rm", "-rf", path, "/var/lib/cobweb")
        fabric.run(host, "systemctl", "daemon-reload")
    assert run.code == 1, run.err
    (end,) = [event for event in run.events if event["type"] == "transition.end"]
    assert end["message"].endswith("gone back by itself")
    assert unit == ["inactive\n", "disabled\n"]
    assert [state for _, state in states(run)] == ["down", "unknown", "down"]
    assert watchers(fabric, host) == []


ASKS = ("is-active", "is-enabled")
FIREWALL = """\
[Service]
ExecStart=/bin/sleep infinity
ExecStartPost=/sbin/ip link set eth0 down
ExecStopPost=/sbin/ip link set eth0 up
[Install]
WantedBy=default.target
"""


def killed_in_the_change(fabric: Fabric, operator: Operator, host: FabricHost) -> None:
    """Begin an apply, and kill it while the change waits for the test."""
    fabric.run(host, "mkfifo", "/run/begun", "/run/gate")
    with operator.start_apply() as started:
        assert fabric.run(host, "cat", "/run/begun", timeout_s=60).stdout == "begun\n"
        started.process.kill()
        run = started.end()
    assert run.code == -signal.SIGKILL
    assert len(watchers(fabric, host)) == 1


def give_time(operator: Operator, within: str) -> None:
    """Let the site give its changes another time to be confirmed."""
    path = operator.folder / "site.yml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("within: 15s", f"within: {within}"), encoding="utf-8")


def states(run: Run) -> list[tuple[str, str]]:
    """Return the states that objects were found in or brought to."""
    return [
        (event["cob"], event["state"])
        for event in run.events
        if event["type"] == "transition.end" or event.get("reason") == "check"
    ]
