"""The section `metal` in a site: hosts, objects and needs, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb_plugins.metal._power import CommandPower, ManualPower, power_kinds

WEB, BIG = "a" * 64, "b" * 64
SITE = f"""\
cobweb: 1
name: four
metal:
  network: {{address: 127.72.5.1/24}}
  images:
    web: {{file: images/web.img, sha256: {WEB}}}
    big: {{file: images/big.img, sha256: {BIG}}}
  templates:
    shop: {{image: web}}
    data: {{image: big, ready: {{tcp: 5432}}, boots: 2}}
  machines:
    m01: {{mac: "52:54:00:00:00:01", power: {{kind: manual}}, template: shop,
          name: web1, address: 127.72.5.11, properties: {{rack: a}}}}
    m02: {{mac: 52-54-00-00-00-0A, template: data,
          power: {{kind: command, command: [fence, "{{action}}"]}},
          name: db1, address: 127.72.5.12}}
    m-3: {{mac: "52:54:00:00:00:03", power: {{kind: manual}}}}
"""

Call = Callable[..., Any]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Write a site with three machines."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE, encoding="utf-8")
    return folder


@pytest.fixture
def ask(run: Call, site: Path) -> Call:
    """Return what runs `cobweb` on the site."""
    return lambda *words: run("-C", site, *words)


@pytest.fixture
def show(ask: Call) -> Call:
    """Return what shows the objects of a host, or one of them."""

    def call(name: str) -> Any:
        ran = ask("show", name, "-o", "json")
        assert ran.code == 0, ran.err
        (host,) = json.loads(ran.out)["hosts"]
        return host

    return call


def edit(site: Path, old: str, new: str) -> None:
    """Change the site's text."""
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new), encoding="utf-8")


def needs_of(ask: Call, cob: str) -> set[tuple[str, str, str]]:
    """Return what an object needs: the transition, of whom, the state."""
    found = json.loads(ask("graph", "-o", "json").out)["needs"]
    return {
        (f"{it['from']} -> {it['to']}", it["on"], it["state"]) for it in found if it["cob"] == cob
    }


def test_the_plan_boots_machines_once_server_and_images_are_there(ask: Call) -> None:
    ran = ask("plan", "-o", "json")
    assert ran.code == 0, ran.err
    steps = [
        (stage, f"{it['cob']} {it['to']}")
        for stage, found in enumerate(json.loads(ran.out)["stages"], 1)
        for it in found
    ]
    assert sorted(steps) == [
        (1, "boot-server/boot-server up"),
        (2, "boot-server/image-big stored"),
        (2, "boot-server/image-web stored"),
        (3, "m01/machine trampoline"),
        (3, "m02/machine trampoline"),
        (4, "m01/machine primed"),
        (4, "m02/machine primed"),
        (5, "m01/machine active"),
        (5, "m02/machine active"),
    ]


def test_a_machine_has_what_its_template_says(show: Call) -> None:
    wanted = {"image": BIG, "name": "db1", "address": "127.72.5.12"}
    (cob,) = show("m02/machine")["cobs"]
    assert cob["spec"] == {"wanted": wanted}, "what `ready` means is no content: nothing is booted"


def test_a_machine_without_a_template_is_off(ask: Call, show: Call) -> None:
    (cob,) = show("m-3/machine")["cobs"]
    assert cob["spec"] == {"wanted": {}}
    cobs = {it["id"]: it["preferred"] for it in json.loads(ask("graph", "-o", "json").out)["cobs"]}
    assert (cobs["m-3/machine"], cobs["m01/machine"]) == ("off", "active")


def test_the_server_is_a_process_on_this_machine(show: Call, site: Path) -> None:
    (cob,) = show("boot-server/boot-server")["cobs"]
    folder = f"{site}/.cobweb/metal"
    words = ["metal", "boot-server", "--folder", folder, "--listen", "127.72.5.1:7480"]
    assert cob["spec"] == {
        "command": [sys.executable, "-m", "cobweb", *words],
        "listen": "127.72.5.1:7480",
        "state_dir": f"{folder}/process",
    }


def test_the_server_may_be_on_a_host_of_the_site(site: Path, show: Call) -> None:
    edit(site, "metal:\n", "inventory: {all: {hosts: {boot1: {}}}}\nmetal:\n  on: boot1\n")
    found = {it["name"]: it["spec"] for it in show("boot1")["cobs"]}
    folder = "/var/lib/cobweb/metal"
    words = ["metal", "boot-server", "--folder", folder, "--listen", "127.72.5.1:7480"]
    assert found["boot-server"]["command"] == ["python3", "-m", "cobweb", *words]
    assert found["image-web"]["folder"] == folder


def test_a_machine_moves_only_when_its_own_image_is_there(ask: Call) -> None:
    found = {(way, on) for way, on, state in needs_of(ask, "m01/machine") if state == "stored"}
    ways = ("off", "active", "outdated")
    assert found == {
        *((f"{way} -> trampoline", "boot-server/image-web") for way in ways),
        ("trampoline -> primed", "boot-server/image-web"),
    }
    assert {state for _, _, state in needs_of(ask, "m-3/machine")} == {"up"}


def test_the_server_goes_last(ask: Call) -> None:
    found = {(on, state) for way, on, state in needs_of(ask, "boot-server/boot-server")}
    images = {(f"boot-server/image-{it}", "absent") for it in ("web", "big")}
    assert found == {*images, *((f"{it}/machine", "off") for it in ("m01", "m02", "m-3"))}


def test_an_interface_brings_a_dhcp_server_that_machines_boot_by(
    site: Path, ask: Call, show: Call
) -> None:
    assert ask("apply", "--executor", "simulate", "--yes").code == 0
    edit(site, "1/24}", "1/24, interface: br0, domain: cod.test, dns: [9.9.9.9]}")
    (cob,) = show("boot-server/dhcp-server")["cobs"]
    folder = f"{site}/.cobweb/metal"
    words = ["--folder", folder, "--url", "http://127.72.5.1:7480", "--interface", "br0"]
    words += ["--address", "127.72.5.1/24", "--range", "127.72.5.192-127.72.5.254"]
    words += ["--domain", "cod.test", "--dns", "9.9.9.9"]
    assert cob["spec"]["command"][3:] == ["metal", "dhcp-server", *words]
    assert cob["spec"]["listen"] == "127.72.5.1:53"
    (server,) = show("boot-server/boot-server")["cobs"]
    assert server["spec"]["command"][-3:] == ["--dhcp", "--domain", "cod.test"]
    served = {way for way, on, _ in needs_of(ask, "m01/machine") if on == "boot-server/dhcp-server"}
    ways = ("off", "active", "outdated")
    assert served == {*(f"{way} -> trampoline" for way in ways), "primed -> active"}
    ran = ask("plan", "-o", "json")
    steps = [it["cob"] for stage in json.loads(ran.out)["stages"] for it in stage]
    assert steps == ["boot-server/boot-server", "boot-server/dhcp-server"], "no machine is touched"
    off = {on for _, on, _ in needs_of(ask, "boot-server/dhcp-server")}
    assert off == {"m01/machine", "m02/machine", "m-3/machine"}


def test_no_machine_goes_down_for_an_image_that_cannot_be_stored(site: Path, ask: Call) -> None:
    assert ask("apply", "--executor", "simulate", "--yes").code == 0
    edit(site, WEB, "c" * 64)
    ran = ask("simulate", "--from-journal", "--fail", "boot-server/image-web")
    assert ran.code == 1
    assert "m01/machine waits for boot-server/image-web to be stored" in ran.out + ran.err
    assert "(0 transitions" in ran.out + ran.err


def test_machines_and_images_go_before_the_server(site: Path, ask: Call) -> None:
    assert ask("apply", "--executor", "simulate", "--yes").code == 0
    (site / "site.yml").write_text(
        "cobweb: 1\nname: four\ninventory: {all: {hosts: {x: {}}}}\n", encoding="utf-8"
    )
    stages = json.loads(ask("plan", "--max-removals", "100%", "-o", "json").out)["stages"]
    assert [sorted(f"{it['cob']} {it['to']}" for it in stage) for stage in stages] == [
        [
            "boot-server/image-big absent",
            "boot-server/image-web absent",
            "m01/machine off",
            "m02/machine off",
        ],
        ["boot-server/boot-server down"],
    ]


def test_the_site_may_have_machines_in_its_own_groups(site: Path, show: Call) -> None:
    edit(
        site,
        "metal:\n",
        "inventory: {web: {hosts: {m01: {rack: '{{ metal.properties.rack }}'}}}}\nmetal:\n",
    )
    more = (
        "cobs: {motd: {type: file, on: web, spec: {path: /etc/motd, content: 'rack {{ rack }}'}}}\n"
    )
    file = site / "site.yml"
    file.write_text(file.read_text(encoding="utf-8") + more, encoding="utf-8")
    specs = {it["name"]: it["spec"] for it in show("m01")["cobs"]}
    assert specs["motd"]["content"] == "rack a"


def test_settings_that_are_no_content_change_no_object(site: Path, ask: Call) -> None:
    before = ask("show", "-o", "json").out
    edit(site, "[fence,", "[other-fence,")
    edit(site, "  images:\n", "  limits: {off: 90}\n  images:\n")
    assert ask("show", "-o", "json").out == before


M1 = "power: {kind: manual}, template"
WRONG = {
    "mac of another": (
        '"52:54:00:00:00:03"',
        '"52:54:00:00:00:0a"',
        "`m02` and `m-3` have the same mac",
    ),
    "name of another": ("name: db1", "name: web1", "`m01` and `m02` have the same name `web1`"),
    "address of another": ("127.72.5.12", "127.72.5.11", "the same address `127.72.5.11`"),
    "no image": ("{image: web}", "{image: wob}", "there is no image `wob` (known are big, web)"),
    "no template": ("template: shop", "template: ship", "there is no template `ship`"),
    "no name": ("name: web1, ", "", "machine `m01`: has a template and no `name`"),
    "no address": (", address: 127.72.5.12", "", "has a template and no `address`"),
    "name alone": (
        '03", power',
        '03", name: x, power',
        "machine `m-3`: has `name` and no template",
    ),
    "foreign address": (
        "127.72.5.11",
        "127.72.6.11",
        "not in the network of the boot server (that is 127.72.5.0/24",
    ),
    "broadcast": ("127.72.5.11", "127.72.5.255", "not in the network of the boot server"),
    "the server's": ("127.72.5.11", "127.72.5.1", "`127.72.5.1` is the boot server's own"),
    "no address at all": ("127.72.5.11", "web1", "`web1` is no IPv4 address"),
    "no network": ("127.72.5.1/24", "127.72.5/24", "`127.72.5/24` is no IPv4 address of a network"),
    "network's own": ("127.72.5.1/24", "127.72.5.0/24", "is no address that a server can have"),
    "no mac": ("52-54-00-00-00-0A", "52-54-00-00-00", "`52-54-00-00-00` is no MAC"),
    "mac of many": ("52-54-00-00-00-0A", "53-54-00-00-00-0A", "no single network card has"),
    "no such power": (
        M1,
        M1.replace("manual", "magic"),
        "there is no kind of power `magic` (known are command, manual)",
    ),
    "power's setting": (
        "[fence,",
        "[1,",
        "machine `m02`: power of the kind `command`: 1 is not of type 'string'",
    ),
    "power's word": ("command: [fence", "commands: [fence", "'command' is a required property"),
    "no duration": (
        "  images:\n",
        "  limits: {off: soon}\n  images:\n",
        "limit `off`: `soon` is no duration",
    ),
    "server's host": ("m-3:", "boot-server:", "has the name of the boot server's host"),
    "rules": ("{image: web}", "{image: web, rules: []}", "rules"),
    "interface": ("/24}", "/24, interface: br/0}", "interface"),
    "domain without interface": ("/24}", "/24, domain: cod.test}", "interface"),
    "range": ("/24}", "/24, interface: br0, range: [127.72.5.9, 127.72.5.8]}", "no range"),
    "relative program": ("[fence,", "[../fence,", "does not match"),
    "range of nobody": (
        "1/24}",
        "1/24, interface: br0, range: [127.72.5.1, 127.72.5.1]}",
        "no range",
    ),
    "range elsewhere": ("/24}", "/24, interface: br0, range: [127.72.6.1, 127.72.6.9]}", "not in"),
    "in the range": ("/24}", "/24, interface: br0, range: [127.72.5.5, 127.72.5.20]}", "boot with"),
    "router": ("/24}", "/24, interface: br0, router: 127.72.5.11}", "is the router's"),
    "router in the range": ("/24}", "/24, interface: br0, router: 127.72.5.250}", "is in it"),
    "dns": ("/24}", "/24, interface: br0, dns: [one.one]}", "no IPv4 address"),
    "label": ("m-3:", "m_3:", "m_3"),
    "digest": (WEB, WEB[1:], "it must match"),
    "clusters": ("  images:\n", "  clusters: {}\n  images:\n", "clusters"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_what_is_wrong_is_told_where_it_stands(site: Path, ask: Call, case: str) -> None:
    old, new, said = WRONG[case]
    edit(site, old, new)
    ran = ask("validate")
    assert ran.code == 3
    told = " ".join((ran.out + ran.err).split())
    assert said in told
    assert told.startswith("site.yml:")


def test_all_that_is_wrong_is_told_at_once(site: Path, ask: Call) -> None:
    edit(site, "{image: web}", "{image: wob}")
    edit(site, "name: db1", "name: web1")
    edit(site, "52-54-00-00-00-0A", "52-54")
    ran = ask("validate")
    told = ran.out + ran.err
    assert "site.yml:9:19: there is no image `wob`" in told
    assert "site.yml:14:16: machine `m02`: `52-54` is no MAC" in told
    assert "the same name" in told


# Power.


def test_a_command_has_its_placeholders_filled_in() -> None:
    words = ["fence", "--{action}", "{mac}/{name}", "{server}{other}{}"]
    values = {"mac": "52:54:00:00:00:01", "name": "{mac}", "server": "http://x"}
    found = CommandPower.command({"command": words}, "off", values)
    assert found == ["fence", "--off", "52:54:00:00:00:01/{mac}", "http://x{other}{}"]


def test_what_a_kind_can_do_is_said_by_the_settings() -> None:
    assert CommandPower.can({"command": ["x"]}) == {"status", "on", "off"}
    assert CommandPower.can({"command": ["x"], "can": ["off"]}) == {"off"}
    assert ManualPower.can({}) == frozenset()
    with pytest.raises(ValueError, match="no program does `on`"):
        ManualPower.command({}, "on", {})


def test_the_kinds_of_all_plugins_are_found_without_a_site() -> None:
    assert {"command", "manual"} <= power_kinds().keys()
