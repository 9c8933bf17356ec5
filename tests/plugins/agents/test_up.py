"""The section `agents` and `cobweb agents up`: what is refused, what is written, real servers."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from cobweb.errors import CobwebError
from cobweb.plugin import Link
from cobweb_plugins.agents import Nats
from cobweb_plugins.agents import _up as up_module
from cobweb_plugins.agents._keys import certificate, now, public_key
from cobweb_plugins.agents._server import Server, config_text
from tests.support.nats_server import PROGRAM, free_port

Call = Callable[..., Any]
KEY = "U" + "A" * 55
HEAD = f"""\
cobweb: 1
name: agents
inventory:
  all:
    hosts: {{n1: , n2: , n3: }}
    children: {{odd: {{hosts: {{n1: , n3: }}}}}}
    vars: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}
"""


def write(folder: Path, section: Mapping[str, Any] | None) -> None:
    """Write a site with this section."""
    text = "" if section is None else f"agents: {json.dumps(section)}\n"
    (folder / "site.yml").write_text(HEAD + text, encoding="utf-8")


@pytest.mark.parametrize(
    ("section", "place", "message"),
    [
        ({}, 8, "section `agents`: `spec` lacks `nats`"),
        ({"nats": []}, 8, "`nats` must have at least 1"),
        ({"nats": ["nats://n1:1", "nats://n2:1"]}, 8, "2 servers are neither one nor three"),
        ({"nats": ["n1:4222"]}, 8, "`n1:4222` is no URL of a server"),
        ({"nats": ["nats://n1"]}, 8, "`nats://n1` is no URL of a server"),
        ({"nats": ["nats://n1:0"]}, 8, "is no URL of a server"),
        ({"nats": ["nats://n1:65000"]}, 8, "is no URL of a server"),
        ({"nats": ["nats://a:b@n1:4222"]}, 8, "is no URL of a server"),
        ({"nats": ["nats://n1:4222/x"]}, 8, "is no URL of a server"),
        ({"nats": ["tls://n1:4222"]}, 8, "is no URL of a server"),
        ({"nats": ["nats://[n1:4222"]}, 8, "is no URL of a server"),
        ({"nats": [{"url": "nats://[::1]:4222", "on": "n1"}]}, 8, "is no URL of a server"),
        ({"nats": ["nats://n 1:4222"]}, 8, "is no URL of a server"),
        (
            {"nats": ["nats://n1:1", "nats://n1:2", "nats://n2:1"]},
            8,
            "`nats://n1:2` on `n1` is there twice",
        ),
        (
            {
                "nats": [
                    {"url": "nats://x:1", "on": "n1"},
                    {"url": "nats://x:1", "on": "n2"},
                    "nats://n3:1",
                ]
            },
            8,
            "`nats://x:1` on `n2` is there twice",
        ),
        ({"nats": [{"url": "nats://x:1"}]}, 8, "`nats.0` lacks `on`"),
        ({"nats": ["nats://n1:1"], "owners": ["a", "a"]}, 8, "`owners` has `a` twice"),
        ({"nats": ["nats://n1:1"], "owners": ["../a"]}, 8, "`owners.0` cannot be `../a`"),
        ({"nats": ["nats://n1:1"], "folder": "relative"}, 8, "`folder` cannot be `relative`"),
        ({"nats": ["nats://n1:1"], "listen": "a b"}, 8, "`listen` cannot be `a b`"),
        ({"nats": ["nats://n1:1"], "more": 1}, 8, "more"),
    ],
    ids=str,
)
def test_a_section_that_cannot_be_is_refused_at_its_place(
    section: dict[str, Any], place: int, message: str, run: Call, tmp_path: Path
) -> None:
    write(tmp_path, section)
    ran = run("-C", tmp_path, "validate")
    assert ran.code == 3, ran.out
    assert f"site.yml:{place}:" in ran.err
    assert message in ran.err


def test_before_the_first_up_there_are_no_objects(run: Call, tmp_path: Path) -> None:
    write(tmp_path, {"nats": ["nats://n1:4222"], "on": "all:!n2"})
    assert "0 COBs" in run("-C", tmp_path, "validate").err


def test_a_configuration_is_one_that_nats_reads(tmp_path: Path) -> None:
    certificate(tmp_path / "keys", "n1", ["n1"], now())
    for name, source in (("server.key", "servers/n1.key"), ("server.pem", "servers/n1.pem")):
        shutil.copy(tmp_path / "keys" / source, tmp_path / name)
    shutil.copy(tmp_path / "keys" / "ca.pem", tmp_path / "ca.pem")
    owners = {it: public_key(tmp_path / "keys" / f"{it}.seed") for it in ("n1.example.org", "west")}
    server = Server(
        host="n1", address="n1", port=4222, folder=str(tmp_path), routes=["n2:6222", "n3:6222"]
    )
    text = config_text(server, owners)
    (tmp_path / "nats.conf").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [str(PROGRAM), "-t", "-c", str(tmp_path / "nats.conf")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(text)
    assert [it["permissions"] for it in made["authorization"]["users"]] == [
        {
            "publish": ["cobweb.*.*.n1%2Eexample%2Eorg"],
            "subscribe": ["cobweb.*.n1%2Eexample%2Eorg.*"],
        },
        {"publish": ["cobweb.*.*.west"], "subscribe": ["cobweb.*.west.*"]},
    ]
    assert made["tls"]["handshake_first"]
    assert made["cluster"]["tls"]["verify"]


def test_what_is_made_is_closed_to_others_and_stays(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    first = (public_key(keys / "a.seed"), certificate(keys, "ca", ["ca", "10.0.0.1"], now()))
    files = {it: it.read_bytes() for it in keys.rglob("*") if it.is_file()}
    assert {stat.S_IMODE(it.stat().st_mode) for it in files} == {0o600}
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert sorted(it.name for it in files) == ["a.seed", "ca.key", "ca.key", "ca.pem", "ca.pem"]
    assert (
        public_key(keys / "a.seed"),
        certificate(keys, "ca", ["ca", "10.0.0.1"], now()),
    ) == first
    assert {it: it.read_bytes() for it in files} == files
    assert certificate(keys, "ca", ["other"], now()) != first[1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.seed", "none", "this is no key of NATS"),
        ("ca.pem", "none", "a certificate of the agents is damaged"),
        ("ca.key", "none", "a key of the agents is damaged"),
    ],
)
def test_what_is_damaged_is_told(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    make = (lambda: public_key(tmp_path / name)) if name == "a.seed" else None
    with pytest.raises(CobwebError, match=message):
        (make or (lambda: certificate(tmp_path, "n1", ["n1"], now())))()


class Up:
    """A site whose servers are on this machine, and what `agents up` says of it."""

    def __init__(self, folder: Path, run: Call, count: int = 1) -> None:
        self.folder, self._run = folder / "site", run
        self.folder.mkdir()
        ports = [free_port() for _ in range(count)]
        self.section: dict[str, Any] = {
            "owners": ["east", "west"],
            "folder": str(folder / "nats"),
            "listen": "127.0.0.1",
            "nats": [
                {"url": f"nats://127.0.0.1:{port}", "on": f"n{number}"}
                for number, port in enumerate(ports, 1)
            ],
        }
        self.write()

    def write(self, **more: Any) -> None:
        self.section |= more
        write(self.folder, self.section)

    def call(self, *words: str) -> Any:
        return self._run("-C", self.folder, *words)

    def up(self) -> Any:
        """Return what is said of a call that ends well."""
        ran = self.call("agents", "up", "--yes", "-o", "json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    def link(self, owner: str, address: str) -> Link:
        return Nats().connect(address, owner, lambda: None)

    def take_down(self) -> None:
        """Have the section go, with all that it stands for."""
        write(self.folder, None)
        ran = self.call("apply", "--yes", "--max-removals", "100%")
        assert ran.code == 0, ran.err


@pytest.fixture
def site(run: Call, tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path, run)
    yield made
    made.take_down()
    assert not (tmp_path / "nats").exists()
    assert not [it for it in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(it.info)]


@pytest.mark.gate("a real server by real tasks: the main path")
def test_up_gives_owners_keys_and_starts_a_server(site: Up, check_schema: Call) -> None:
    first = site.up()
    check_schema("agents", first)
    owners = [(it["name"], it["here"]) for it in first["owners"]]
    assert owners == [("coordinator", True), ("east", True), ("west", True)]
    assert [it["state"] for it in first["servers"]] == ["up"]
    site.link("east", first["address"]).close()
    secret = (site.folder / ".cobweb" / "agents" / "servers" / "n1.key").read_text().split("\n")[1]
    for path in (site.folder / ".cobweb").glob("state*"):
        assert secret.encode() not in path.read_bytes()

    again = site.call("agents", "up", "--yes")
    assert again.code == 0
    assert "nothing to do" in again.err
    assert f"address: {first['address']}" in again.out

    with pytest.raises(CobwebError, match="the key of n3 cannot be read"):
        site.link("n3", first["address"])
    site.write(on="odd", owners=["east"])
    changed = site.up()
    assert [it["name"] for it in changed["owners"]] == ["coordinator", "east", "n1", "n3"]
    site.link("n3", changed["address"]).close()
    with pytest.raises(CobwebError, match="does not let west in: Authorization Violation"):
        site.link("west", changed["address"])

    seed = site.folder / ".cobweb" / "agents" / "n3.seed"
    old = seed.read_bytes()
    seed.unlink()
    assert site.call("decide", "agents", "owner/n3", "null", "--reason", "it was lost").code == 0
    renewed = site.up()
    site.link("n3", renewed["address"]).close()
    seed.write_bytes(old)
    with pytest.raises(CobwebError, match="does not let n3 in: Authorization Violation"):
        site.link("n3", renewed["address"])
    assert site.call("agents", "up", "--yes").code == 1
    seed.unlink()
    (missing,) = (it for it in site.up()["owners"] if not it["here"])
    assert missing["name"] == "n3"
    assert "the secret key of n3 is not on this machine" in site.call("agents", "up", "-y").out


def test_nobody_is_asked_without_a_terminal(run: Call, tmp_path: Path) -> None:
    made = Up(tmp_path, run)
    ran = made.call("agents", "up")
    assert (ran.code, "--yes" in ran.err) == (64, True)
    assert not (made.folder / ".cobweb" / "agents").exists()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (None, "the site has no section `agents`"),
        ({"nats": ["nats://n1:4222"]}, "there are no owners"),
        ({"nats": ["nats://n1:4222"], "on": "none"}, "none"),
        ({"nats": ["nats://n9:4222"], "on": "all"}, "the site has no host `n9`"),
    ],
    ids=str,
)
def test_up_without_what_it_needs_says_what(
    section: Mapping[str, Any] | None, message: str, run: Call, tmp_path: Path
) -> None:
    write(tmp_path, section)
    ran = run("-C", tmp_path, "agents", "up", "--yes")
    assert ran.code in {3, 64}, ran.out
    assert message in ran.err
    assert not (tmp_path / ".cobweb" / "agents").exists()


def test_an_inventory_that_is_a_program_is_run_only_where_it_may(run: Call, tmp_path: Path) -> None:
    made = Up(tmp_path, run)
    hosts = made.folder / "hosts"
    hosts.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{{}}'\n", encoding="utf-8")
    hosts.chmod(0o755)
    file = made.folder / "site.yml"
    text = file.read_text(encoding="utf-8").partition("agents:")
    file.write_text(
        f"cobweb: 1\nname: agents\ninventory: [hosts]\n{''.join(text[1:])}", encoding="utf-8"
    )
    ran = made.call("agents", "up", "--yes")
    assert ran.code == 3
    assert "--trust-inventory" in ran.err
    assert not (tmp_path / "ran").exists()
    ran = made.call("agents", "up", "--yes", "--trust-inventory")
    assert "the site has no host `n1`" in ran.err
    assert (tmp_path / "ran").exists()


def test_a_program_that_nobody_knows_is_not_brought(
    run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Up(tmp_path, run)
    monkeypatch.setattr(up_module, "PROGRAMS", ("0" * 64,))
    ran = made.call("agents", "up", "--yes")
    assert ran.code != 0
    assert "this is not the nats-server that Cobweb knows" in ran.err
    assert not (made.folder / ".cobweb" / "agents").exists()


def test_a_key_that_is_not_the_decided_one_is_refused(run: Call, tmp_path: Path) -> None:
    made = Up(tmp_path, run)
    seed = made.folder / ".cobweb" / "agents" / "east.seed"
    public_key(seed)
    decided = made.call("decide", "agents", "owner/east", json.dumps({"key": KEY}), "--reason", "x")
    assert decided.code == 0, decided.err
    ran = made.call("agents", "up", "--yes")
    assert ran.code != 0
    assert f"decided for east is {KEY}" in ran.err
    assert str(seed) in ran.err
