"""The client of the boot server, and the commands that show what it says."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import CobwebError
from cobweb_plugins.metal._client import AnswerError, Client, NoAnswerError
from tests.plugins.metal.fake import DIGEST, FakeServer, view

Call = Callable[..., Any]

SITE = """\
cobweb: 1
name: four
metal:
  folder: {folder}
  network: {{address: 127.0.0.1/8, port: {port}}}
  images: {{web: {{file: web.img, sha256: {digest}}}}}
  templates: {{shop: {{image: web}}}}
  machines:
    m01: {{mac: "52:54:00:00:00:01", power: {{kind: manual}}, template: shop, name: web1,
          address: 127.72.5.11}}
    m02: {{mac: "52:54:00:00:00:02", power: {{kind: manual}}}}
"""


@pytest.fixture
def client(fake: FakeServer) -> Client:
    """Return a client that does not wait."""
    return Client(fake.url, str(fake.folder))


@contextmanager
def raw_server(said: bytes) -> Iterator[str]:
    """Answer one connection with these bytes, whatever is asked; yield the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            line, _ = listener.accept()
            with line:
                line.recv(65536)
                line.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_who_does_not_answer_is_named_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x", encoding="ascii")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(CobwebError, match=f"the boot server at {url} does not answer") as raised:
        Client(url, str(tmp_path)).machines()
    assert "cobweb apply" in raised.value.hint


def test_a_server_without_a_key_has_never_begun(tmp_path: Path) -> None:
    with pytest.raises(NoAnswerError, match="no boot server has begun there yet"):
        Client("http://127.0.0.1:1", str(tmp_path), patience_s=60).machines()


def test_a_key_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    with pytest.raises(CobwebError, match="cannot be read") as raised:
        Client("http://127.0.0.1:1", str(tmp_path), patience_s=60).machines()
    assert "as the user" in raised.value.hint


def test_the_key_is_read_each_time(fake: FakeServer, client: Client) -> None:
    key = (fake.folder / "key").read_text(encoding="ascii")
    (fake.folder / "key").write_text("an older one", encoding="ascii")
    with pytest.raises(AnswerError, match="that is not the key") as raised:
        client.machines()
    assert raised.value.status == 401
    (fake.folder / "key").write_text(key, encoding="ascii")
    assert client.machines() == []


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b"{" * 500])
def test_what_is_no_boot_server_is_told(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "key").write_text("x", encoding="ascii")
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    with raw_server(head + body) as url, pytest.raises(AnswerError, match="no JSON object"):
        Client(url, str(tmp_path)).machines()


@pytest.mark.parametrize("body", [b"{}", b'{"error": "x"}', b'{"error": {"message": null}}'])
def test_a_refusal_without_a_word_is_told_by_its_status(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "key").write_text("x", encoding="ascii")
    head = b"HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n\r\n" % len(body)
    with raw_server(head + body) as url, pytest.raises(AnswerError, match=r"refuses \(500\)"):
        Client(url, str(tmp_path)).machines()


def test_an_image_that_is_refused_early_is_not_sent_again(tmp_path: Path) -> None:
    """The server has answered and gone before all of it was sent; the answer may be lost."""
    (tmp_path / "key").write_text("x", encoding="ascii")
    (tmp_path / "big.img").write_bytes(bytes(32 << 20))
    body = b'{"error": {"message": "the disk is full"}}'
    head = b"HTTP/1.1 507 Full\r\nContent-Length: %d\r\n\r\n" % len(body)
    with raw_server(head + body) as url:
        sent = Client(url, str(tmp_path))
        with pytest.raises(CobwebError, match=r"the disk is full|does not answer"):
            sent.store_image(DIGEST, tmp_path / "big.img")


# Commands.


@pytest.fixture
def ask(run: Call, fake: FakeServer, tmp_path: Path) -> Call:
    """Return what runs `cobweb metal` on a site whose boot server is the fake."""
    port = fake.url.rpartition(":")[2]
    folder = tmp_path / "site"
    folder.mkdir()
    text = SITE.format(folder=fake.folder, port=port, digest=DIGEST)
    (folder / "site.yml").write_text(text, encoding="utf-8")
    return lambda *words: run("metal", words[0], "-C", folder, *words[1:])


def test_list_says_what_each_machine_does_and_asks(fake: FakeServer, ask: Call) -> None:
    asks = {"phase": "starting", "over": False, "asks": "switch m01 on"}
    fake.views["m01"] = view(**asks, power="unknown")
    ran = ask("list")
    assert ran.code == 0, ran.err
    told = " ".join(ran.out.split())
    assert "m01 starting > active" in told
    assert "m02 new" in told
    assert max(map(len, ran.out.splitlines())) <= 80


def test_list_and_show_are_of_one_schema(fake: FakeServer, ask: Call, check_schema: Call) -> None:
    fake.views["m01"] = view()
    listed = json.loads(ask("list", "-o", "json").out)
    check_schema("metal", listed)
    assert [it["id"] for it in listed["machines"]] == ["m01", "m02"]
    for name in ("m01", "m02"):
        shown = json.loads(ask("show", name, "-o", "json").out)
        check_schema("metal", shown)
        assert shown["machines"][0] in listed["machines"]


def test_show_tells_all_that_is_known(fake: FakeServer, ask: Call) -> None:
    disks = [{"name": "sda", "bytes": 16_000_000_000, "serial": "X"}]
    hardware = {"cores": 4, "memory_mb": 8192, "disks": disks, "firmware": "uefi"}
    word = {"time": 1790000000, "text": "primed"}
    fake.views["m01"] = view(
        hardware=hardware, word=word, asks="switch m01 on", failure="no word within 10m"
    )
    ran = ask("show", "m01")
    assert ran.out == (
        "machine:   m01\n"
        "mac:       52:54:00:00:00:01\n"
        "phase:     active since 2026-09-21 14:13\n"
        "power:     on\n"
        "system:    web1 127.72.5.11\n"
        f"image:     {DIGEST[:12]}\n"
        f"disk:      {DIGEST[:12]}\n"
        "hardware:  4 cores, 8192 MB, sda 16.0 GB, uefi\n"
        "last word: primed (2026-09-21 14:13)\n"
        "switch m01 on\n"
        "failed: no word within 10m\n"
    )


def test_a_machine_that_nobody_knows_is_refused(ask: Call) -> None:
    ran = ask("show", "m09")
    assert ran.code == 64
    assert "there is no machine `m09`" in ran.err
    assert "m01, m02" in ran.err


@pytest.mark.parametrize("action", ["off", "reset"])
def test_power_is_switched_only_by_who_was_asked(fake: FakeServer, ask: Call, action: str) -> None:
    fake.views["m01"] = view()
    assert ask("power", "m01", action).code == 64
    assert fake.of("POST") == []
    assert ask("power", "m01", action, "--yes").code == 0
    assert fake.of("POST") == [{"action": action, "power": {"kind": "manual"}}]


def test_what_is_done_is_said_without_a_question(fake: FakeServer, ask: Call) -> None:
    fake.views["m01"] = view()
    assert ask("power", "m01", "done").code == 0
    assert fake.of("POST") == [{"action": "done", "power": {"kind": "manual"}}]


def test_the_boot_server_needs_no_site(
    run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[Path, str, str | None]] = []
    monkeypatch.setattr(
        "cobweb_plugins.metal.server.serve", lambda *it: called.append(it), raising=False
    )
    monkeypatch.chdir(tmp_path)
    ran = run("metal", "boot-server", "--folder", "kept", "--listen", "127.72.5.1:7480")
    assert ran.code == 0, ran.err
    assert called == [(tmp_path / "kept", "127.72.5.1:7480", None)]


def test_the_boot_server_names_the_extra_that_it_needs(
    run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    ran = run("metal", "boot-server", "--folder", "kept", "--listen", "127.72.5.1:7480")
    assert ran.code == 1
    assert "needs the Python package starlette (install Cobweb with its extra `metal`" in ran.err


def test_a_power_command_reads_the_state_of_a_simulated_machine(
    run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[Any] = []

    def simulate(*it: Any, **more: Any) -> str:
        called.append((it, more))
        return "off"

    monkeypatch.setattr("cobweb_plugins.metal.simulated.simulate", simulate, raising=False)
    given = {"folder": tmp_path, "server": "http://127.72.5.1:7480", "mac": "52:54:00:00:00:01"}
    options = [word for key, value in given.items() for word in (f"--{key}", str(value))]
    ran = run("metal", "simulate", "m01", "status", *options)
    assert (ran.code, ran.out) == (0, "off\n")
    assert called == [(("m01", "status"), {**given, "interface": ""})]


def test_a_site_without_metal_is_told(run: Call, tmp_path: Path) -> None:
    text = "cobweb: 1\ninventory: {all: {hosts: {n1: {}}}}\n"
    (tmp_path / "site.yml").write_text(text, encoding="utf-8")
    ran = run("metal", "list", "-C", tmp_path)
    assert ran.code == 64
    assert "no section `metal`" in ran.err
