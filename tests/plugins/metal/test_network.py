"""Machines that boot over a network, from outside: the real dnsmasq and boot server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from cobweb_plugins.metal.simulated import two_writers
from tests.plugins.metal.live import PORT, SERVES, kill, system, until
from tests.plugins.metal.network import Network, NetworkSite, need_network

pytestmark = [pytest.mark.netns, pytest.mark.timeout(300)]

FOREIGN = "192.0.2.1"
"""What the DNS server of others says of every name."""

Done = subprocess.CompletedProcess[str]
NOTHING = "nothing to do, all is as it should be (0 transitions"


@pytest.fixture
def network() -> Iterator[Network]:
    """Return a network, of which nothing is left in the end."""
    need_network()
    made = Network()
    yield made
    made.end()


@pytest.fixture
def live(tmp_path: Path, network: Network, request: pytest.FixtureRequest) -> Iterator[NetworkSite]:
    """Return a site with one machine, or as many as the test says."""
    made = NetworkSite(tmp_path, network, machines=getattr(request, "param", 1))
    yield made
    made.end()


def apply(live: NetworkSite, code: int = 0, *arguments: str) -> str:
    """Bring the site to its desired state; return what was said."""
    done = live.ran("apply", "--yes", *arguments)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    return " ".join(said.split())


def check_active(live: NetworkSite, content: bytes) -> None:
    """Check that machines run a content under their own names and addresses, and all agree."""
    for name, said in live.metal["machines"].items():
        assert live.disk(name).read_bytes() == content
        assert live.answer(name).startswith(f"Hello from {said['name']}.")
        assert live.named(said["name"]) == [said["address"]]
        assert live.lease(live.hosts[name]) == (said["address"], said["name"])
    assert two_writers(live.ledger) == []
    assert two_holders(live.ledger) == []


def two_holders(ledger: Path) -> list[str]:
    """Return what a ledger says against "no two systems ever had one name or address at once"."""
    problems, held = [], dict[str, set[str]]()
    for event in map(json.loads, ledger.read_text().splitlines()):
        if event["event"] in {"power-off", "boot"}:
            held.pop(event["machine"], None)
        if event["event"] == "lease":
            own = {event["name"], event["address"]}
            others = {key: own & it for key, it in held.items() if key != event["machine"]}
            problems += [f"{event} while {key} had {it}" for key, it in others.items() if it]
            held[event["machine"]] = own
    return problems


def systems(live: NetworkSite) -> int:
    """Return how often a system began to run, on any machine."""
    return len(live.history("system"))


@pytest.mark.full("it waits for ten seconds, as the firmware does")
def test_firmware_without_an_answer_boots_its_disk(live: NetworkSite) -> None:
    live.machines.mkdir(mode=0o700)
    live.disk("m01").write_bytes(system("hang"))
    assert live.switch("m01", "on") == "on"
    until(lambda: systems(live) == 1)
    assert live.history("boot", "lease") == []
    assert live.switch("m01", "off") == "off"
    assert "state DOWN" in live.hosts["m01"].ran("ip", "link", "show", "eth0").stdout


@pytest.mark.gate("figure 2 of the paper: the whole cycle of a machine on a network")
def test_a_machine_goes_from_off_to_a_system_and_back(live: NetworkSite) -> None:
    apply(live)
    check_active(live, system(SERVES))
    assert NOTHING in apply(live)
    begun = len(live.history())
    live.store("web", system(SERVES, "# anew"))
    apply(live)
    check_active(live, system(SERVES, "# anew"))
    assert [event for _, event in live.history()[begun:]] == [
        *("power-off", "power-on", "boot", "write-begin", "write-end", "boot", "system", "lease")
    ]
    said = live.metal["machines"]["m01"]
    wanted = {key: said.pop(key) for key in ("template", "name", "address")}
    live.write()
    apply(live)
    assert live.switch("m01", "status") == "off"
    said |= wanted
    live.write()
    before, begun = live.disks(), len(live.history())
    apply(live)
    check_active(live, system(SERVES, "# anew"))
    assert live.disks() == before
    assert [event for _, event in live.history()[begun:]] == [
        *("power-on", "boot", "boot", "system", "lease")
    ]


@pytest.mark.gate("a machine that nobody knows is found, and becomes one of the site")
def test_a_foreign_machine_is_found_and_adopted(live: NetworkSite) -> None:
    parts = [f"boot-server/{it}" for it in ("boot-server", "dhcp-server", "image-web")]
    apply(live, 0, *(f"--only={it}" for it in parts))
    mac = "52:54:00:00:00:09"
    live.hosts["m09"], live.macs["m09"] = live.network.plug(mac), mac
    live.hosts["m09"].do("ip link set eth0 up")
    assert live.lease(live.hosts["m09"]) is None
    assert live.ran("metal", "discover", "--for", "30m").returncode == 0
    assert live.lease(live.hosts["m09"]) is not None
    live.machines.mkdir(mode=0o700)
    live.disk("m09").write_bytes(system("hang"))
    live.switch("m09", "on")
    until(lambda: systems(live))
    assert [event for _, event in live.history()] == ["power-on", "boot", "boot", "system"]
    (found,) = json.loads(live.ran("metal", "discover", "-o", "json").stdout)["found"]
    assert (found["mac"], found["hardware"]["cores"]) == (mac, 4)
    assert live.ran("metal", "adopt", mac, "--name", "m09").returncode == 0
    assert live.ran("metal", "discover", "--for", "0").returncode == 0
    path = live.folder / "machines" / "m09.yml"
    module = yaml.safe_load(path.read_text())
    adopted = module["metal"]["machines"]["m09"]
    power = {"kind": "command", "command": live.plug_command(live.hosts["m09"])}
    adopted |= {"template": "shop", "name": "web9", "address": "10.72.0.19", "power": power}
    path.write_text(yaml.safe_dump(module))
    live.data["imports"] = ["machines/*.yml"]
    live.write()
    apply(live)
    live.metal["machines"]["m09"] = adopted
    check_active(live, system(SERVES))


def at_power_on(live: NetworkSite, name: str, script: str) -> None:
    """Have a script run once, just before the machine is switched on next."""
    path = live.folder / "at-on"
    path.write_text(script)
    switch = f'test "$0" = on && mv {path} {path}.now && . {path}.now; exec "$@"'
    words = ["sh", "-c", switch, "{action}", *live.plug_command(live.hosts[name])]
    live.metal["machines"][name]["power"]["command"] = words
    live.write()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("kill -9 {supervisor} {dnsmasq}", marks=pytest.mark.gate("the trap, once")),
        pytest.param("kill -STOP {dnsmasq}", marks=pytest.mark.full("the same, more slowly")),
    ],
)
def test_no_old_system_comes_back_where_dhcp_falls_silent(live: NetworkSite, end: str) -> None:
    apply(live)
    begun = systems(live)
    live.store("web", system(SERVES, "# anew"))
    dnsmasq = live.dhcp_pid()
    supervisor = psutil.Process(dnsmasq).ppid()
    at_power_on(live, "m01", end.format(supervisor=supervisor, dnsmasq=dnsmasq))
    assert "m01: the DHCP server" in apply(live, 1)
    assert live.switch("m01", "status") == "off"
    assert live.view("m01")["phase"] == "off"
    with suppress(ProcessLookupError):
        os.kill(dnsmasq, signal.SIGCONT)
    assert systems(live) == begun
    apply(live)
    assert systems(live) == begun + 1
    check_active(live, system(SERVES, "# anew"))


@pytest.mark.full("the same for the boot server, which is back in a moment")
def test_no_old_system_comes_back_where_the_boot_server_dies(live: NetworkSite) -> None:
    apply(live)
    begun = systems(live)
    live.store("web", system(SERVES, "# anew"))
    at_power_on(live, "m01", f"kill -9 {live.server_pid()}")
    apply(live)
    assert systems(live) == begun + 1
    check_active(live, system(SERVES, "# anew"))


@pytest.mark.full("an image that resets at once is a failed boot, not an endless one")
def test_an_image_that_resets_at_once_is_a_failed_boot(live: NetworkSite) -> None:
    live.store("web", system("reset"))
    assert "a failed boot" in apply(live, 1)
    assert live.switch("m01", "status") == "off"
    assert systems(live) == 1


@pytest.mark.gate("names and addresses while systems renew them, servers die, and machines swap")
@pytest.mark.parametrize("live", [2], indirect=True)
def test_a_name_and_an_address_are_of_one_machine(live: NetworkSite) -> None:
    apply(live)
    check_active(live, system(SERVES))
    own = {name: live.lease(live.hosts[name]) for name in live.names}
    kill(live.dhcp_pid())
    until(lambda: live.lease(live.hosts["m01"]) is not None)
    kill(live.server_pid())
    assert {name: live.lease(live.hosts[name]) for name in live.names} == own
    one, two = live.metal["machines"].values()
    for key in ("name", "address"):
        one[key], two[key] = two[key], one[key]
    live.write()
    apply(live)
    assert {name: live.lease(live.hosts[name]) for name in ("m02", "m01")} == {
        "m02": own["m01"],
        "m01": own["m02"],
    }
    check_active(live, system(SERVES))


ORDER = """
import json, sys
from cobweb_plugins.metal._client import Client
url, folder, name, goal = sys.argv[1:]
client = Client(url, folder)
view = client.order(name, json.loads(goal))
while not view["over"]:
    view = client.machine(name, wait_s=20)
sys.exit(view["failure"] or 0)
"""


def order(live: NetworkSite, name: str, goal: str, **more: str) -> None:
    """Have the boot server send a machine to a goal, as a coordinator of its own, and wait."""
    said = live.metal["machines"][name]
    digest, size = live.metal["images"]["web"]["sha256"], len(system(SERVES))
    data = {
        "key": f"other/1/{len(live.history())}",
        "goal": goal,
        "mac": said["mac"],
        "power": said["power"],
        "image": {"sha256": digest, "bytes": size},
        "name": said["name"],
        "address": said["address"],
        "ready": {"tcp": PORT},
        **more,
    }
    words = (sys.executable, "-c", ORDER, live.url, live.server, name, json.dumps(data))
    done = live.network.boot_host.ran(*words)
    assert done.returncode == 0, done.stderr


def start_dns(live: NetworkSite, address: str) -> None:
    """Start a DNS server of others, which knows every name there is."""
    other = live.network.plug("52:54:00:00:00:53")
    other.do(f"ip address add {address}/24 dev eth0")
    other.do("ip link set eth0 up")
    words = ("--conf-file=/dev/null", "--keep-in-foreground", "--user=root", "--no-resolv")
    other.start("dnsmasq", *words, "--no-hosts", "--pid-file", f"--address=/#/{FOREIGN}")


@pytest.mark.gate("names in domains of their own, which are nobody else's business")
@pytest.mark.parametrize("live", [2], indirect=True)
def test_a_name_is_in_the_domain_of_its_goal_as_long_as_it_is_lent(live: NetworkSite) -> None:
    live.metal["network"]["dns"] = ["10.72.0.53"]
    live.write()
    start_dns(live, "10.72.0.53")
    apply(live, 0, *(f"--only=boot-server/{it}" for it in ("dhcp-server", "image-web")))
    until(lambda: live.named("web1", "shop.test") == [FOREIGN])
    for name in live.names:
        order(live, name, "active", domain="shop.test", vcluster="shop/1", owner="shop/1")
        said = live.metal["machines"][name]
        assert live.named(said["name"], "shop.test") == [said["address"]]
        assert live.names_of(said["address"]) == [f"{said['name']}.shop.test"]
        assert live.lease(live.hosts[name]) == (said["address"], said["name"])
        assert live.named(said["name"]) == [said["address"]]
        assert live.names_of(said["address"]) == [f"{said['name']}.shop.test"]
    assert live.named("web3", "shop.test") == []
    assert live.named("web1", "other.test") == [FOREIGN]
    order(live, "m01", "off")
    until(lambda: live.named("web1", "shop.test") == [])
    assert live.named("web2", "shop.test") == ["10.72.0.12"]
    order(live, "m02", "active")
    assert live.named("web2") == ["10.72.0.12"]
    assert live.names_of("10.72.0.12") == ["web2.cod.test"]
    assert live.named("web2", "shop.test") == [], "m01 may still have its domain"


@pytest.mark.gate("a second DHCP server would contradict ours")
def test_another_dhcp_server_refuses_the_start(live: NetworkSite) -> None:
    (live.server / "dhcp" / "pid").unlink()
    other = live.network.plug("52:54:00:00:00:99")
    other.do("ip address add 10.72.0.250/24 dev eth0")
    other.do("ip link set eth0 up")
    words = ("--conf-file=/dev/null", "--keep-in-foreground", "--user=root", "--no-ping")
    files = (f"--dhcp-leasefile={live.folder}/leases", "--pid-file", "--interface=eth0")
    lent = "--dhcp-range=10.72.0.100,10.72.0.110,2m"
    other.start("dnsmasq", *words, *files, "--bind-interfaces", "--port=0", lent)
    third = live.network.plug("52:54:00:00:00:98")
    third.do("ip link set eth0 up")
    until(lambda: live.lease(third))
    log = re.findall(r"its output is in (\S+)", apply(live, 1))[0]
    assert "10.72.0.250 gives out addresses" in Path(log).read_text()
    assert live.history("power-on") == []


@pytest.mark.full("a system with another host key than before is none of ours")
def test_host_keys_are_pinned_until_the_next_priming(live: NetworkSite, tmp_path: Path) -> None:
    live.metal["templates"]["shop"]["ready"] = {"tcp": 22}
    live.store("web", system("hang"))
    first, second = (new_key(tmp_path / name) for name in ("first", "second"))
    sshd = start_sshd(live, tmp_path / "first")
    apply(live)
    assert live.view("m01")["host_keys"] == [first]
    known = (live.server / "known_hosts").read_text()
    assert known == f"web1,10.72.0.11,web1.cod.test {first}\n"
    kill(sshd.pid)
    start_sshd(live, tmp_path / "second")
    assert live.ran("metal", "power", "m01", "off", "--yes").returncode == 0
    assert "other host keys than before" in apply(live, 1, "--refresh=all")
    assert live.switch("m01", "status") == "off"
    live.store("web", system("hang", "# anew"))
    apply(live)
    assert live.view("m01")["host_keys"] == [second]


def new_key(path: Path) -> str:
    """Make a key; return its public part."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text().strip()


def start_sshd(live: NetworkSite, key: Path) -> subprocess.Popen[bytes]:
    """Start what answers for the system of m01 wherever its card has an address."""
    sshd = f"exec /usr/sbin/sshd -D -f /dev/null -h {key}"
    script = f"mount -t tmpfs none /run && mkdir /run/sshd && {sshd}"
    return live.hosts["m01"].start("unshare", "--mount", "sh", "-c", script)
