"""The boot server as a process: what it answers to machines, to coordinators, and to others."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import CobwebError
from cobweb_plugins.metal.server._book import Book, records_in
from cobweb_plugins.metal.server._records import MIXED, Record
from tests.plugins.metal.real_server import (
    HARDWARE,
    IMAGE,
    IMAGE_SHA256,
    MAC,
    RealServer,
    until,
)

pytestmark = pytest.mark.gate("a server of its own for each test, which is killed and started")


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """Yield a server that tests share which change nothing."""
    server = RealServer(tmp_path_factory.mktemp("idle"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    """Yield a server that is up."""
    server = RealServer(tmp_path)
    server.start()
    yield server
    server.kill()


def free_port() -> int:
    """Return a port that nobody listens at."""
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


def test_nobody_else_may_answer_where_a_system_is_to(server: RealServer) -> None:
    """Else one that is said to be off, or has no place in the book, makes another one active."""
    server.primed()
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        server.order("active", ready={"tcp": port})
        found = server.over()
    assert found["phase"] == "off"
    assert f"something else answers at 127.0.0.1:{port}" in found["failure"]


def test_a_machine_goes_all_the_way_and_each_word_counts_once(server: RealServer) -> None:
    server.primed()
    port = free_port()
    server.order("active", ready={"tcp": port})
    assert server.say("order", method="GET") == (200, b"boot\n")
    assert server.boot() == (
        "#!ipxe\n# cobweb name=web1 address=127.0.0.1\n"
        "iseq ${platform} efi && exit 1 ||\nsanboot --no-describe --drive 0x80\n"
    )
    with closing(socket.create_server(("127.0.0.1", port))):
        found = server.over()
        assert (found["phase"], found["failure"]) == ("active", "")
        assert found["disk"]["booted"]
    assert server.asked().count("on") == 1
    assert server.say("order", method="GET")[0] == 403


def test_a_token_is_for_the_address_that_asked_and_for_this_boot(server: RealServer) -> None:
    server.order("trampoline")
    assert server.booted().startswith("#!ipxe\nkernel http://")
    first = server.token
    assert server.say("hello", HARDWARE, source="127.0.0.2")[0] == 403
    server.boot()  # the answer was lost: the same boot asks again, and has another token
    assert server.say("hello", HARDWARE, token=first)[0] == 403
    assert server.say("hello", HARDWARE)[0] == 200
    server.order("off")
    assert server.over()["phase"] == "off"
    assert server.say("order", method="GET", token="m01.guess")  # noqa: S106 - no token[0] == 403
    assert server.view()["phase"] == "off"
    assert server.say("order", method="GET")[0] == 403
    assert server.view()["phase"] == "unknown", "one that is said to be off has spoken"


def test_the_image_is_for_the_machine_that_is_primed_with_it(server: RealServer) -> None:
    server.store()
    server.on_trampoline()
    assert server.say("image", method="GET")[0] == 403
    server.order("primed")
    words = f"prime {IMAGE_SHA256} {len(IMAGE)} raw sda none\n"
    assert server.say("order", method="GET") == (200, words.encode())
    assert server.say("image", method="GET") == (200, IMAGE)
    part = server.say("image", method="GET", headers={"Range": "bytes=19000-"})
    assert part == (206, IMAGE[19000:])
    server.restart()  # in the middle: the same token goes on
    assert server.say("order", method="GET") == (200, words.encode())
    server.say("word?word=primed", IMAGE_SHA256.encode())
    assert server.over()["phase"] == "primed"
    assert server.say("image", method="GET")[0] == 403
    assert server.asked().count("on") == 1


def test_the_order_to_wipe_is_in_the_book_and_outlives_the_server(server: RealServer) -> None:
    server.store()
    server.on_trampoline()
    server.order("primed", vcluster="shop/1", wipe="zero")
    words = f"prime {IMAGE_SHA256} {len(IMAGE)} raw sda zero\n".encode()
    assert server.say("order", method="GET") == (200, words)
    server.kill()
    assert records_in(server.folder / "server")["m01"].vcluster == MIXED
    server.start()
    assert server.say("order", method="GET") == (200, words)
    server.say("word?word=primed", IMAGE_SHA256.encode())
    assert (server.over()["phase"], server.view()["vcluster"]) == ("primed", "shop/1")
    assert records_in(server.folder / "server")["m01"].vcluster == "shop/1"
    server.order("primed", vcluster="db/2")  # the image that it has, and has not booted
    assert server.say("order", method="GET") == (200, words.replace(b"zero", b"discard"))


def test_a_machine_by_another_id_has_the_disks_that_it_had(server: RealServer) -> None:
    server.store()
    server.on_trampoline()
    server.order("primed", vcluster="shop/1")
    server.say("word?word=primed", IMAGE_SHA256.encode())
    server.over()
    server.order("off")
    server.over()
    status, _ = server.ask("PUT", "/v1/machines/m02", server.goal("primed"))
    assert status == 200
    books = records_in(server.folder / "server")
    assert {it.id: it.vcluster for it in books.values()} == {"m02": MIXED}


def test_a_packed_image_is_known_by_what_it_holds(server: RealServer) -> None:
    packed = gzip.compress(IMAGE, mtime=0)
    path = f"/v1/images/{IMAGE_SHA256}"
    assert server.ask("GET", path)[0] == 404
    status, body = server.ask("PUT", path, packed)
    assert (status, json.loads(body)["format"]) == (200, "gzip")
    assert json.loads(server.ask("GET", path)[1])["bytes"] == len(IMAGE)
    assert server.ask("DELETE", path)[0] == 204
    assert server.ask("DELETE", path)[0] == 204
    assert server.ask("GET", path)[0] == 404


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"something else", "the image has the SHA-256"),
        (gzip.compress(IMAGE, mtime=0)[:-9], "the image cannot be unpacked"),
        (gzip.compress(IMAGE, mtime=0)[:20] + b"x" * 50, "the image cannot be unpacked"),
        (b"", "the image has the SHA-256"),
        (gzip.compress(IMAGE, mtime=0) + b"\0" * 512, "the image cannot be unpacked"),
    ],
    ids=["another", "cut", "garbage", "nothing", "padded"],
)
def test_an_image_that_is_another_one_is_not_kept(
    idle: RealServer, body: bytes, cause: str
) -> None:
    status, said = idle.ask("PUT", f"/v1/images/{IMAGE_SHA256}", body)
    assert status == 422
    assert cause in json.loads(said)["error"]["message"]
    assert list((idle.folder / "server" / "images").iterdir()) == []


def test_an_image_that_was_damaged_touches_no_disk(server: RealServer) -> None:
    server.store()
    server.on_trampoline()
    path = server.folder / "server" / "images" / IMAGE_SHA256
    path.write_bytes(IMAGE[:-1] + b"?")
    server.order("primed")
    assert server.say("order", method="GET")[0] == 403
    found = server.over()
    assert found["phase"] == "off"
    assert "was damaged on the boot server" in found["failure"]
    assert server.ask("GET", f"/v1/images/{IMAGE_SHA256}")[0] == 404, "so it is sent again"


def test_what_a_crash_has_left_of_an_image_is_none(server: RealServer) -> None:
    server.store()
    about = server.folder / "server" / "images" / f"{IMAGE_SHA256}.json"
    for text in ("", "{}", "[1]"):
        about.write_text(text)
        assert server.ask("GET", f"/v1/images/{IMAGE_SHA256}")[0] == 404
    server.store()


@pytest.mark.parametrize("key", ["", "wrong", "ö"])
def test_who_lacks_the_key_is_told_nothing(idle: RealServer, key: str) -> None:
    for method, path in (("GET", "/v1/machines"), ("PUT", "/v1/machines/m01")):
        status, body = idle.ask(method, path, headers={"Authorization": key})
        assert status == 401
        assert "machines" not in json.loads(body)


GOAL: dict[str, Any] = {"key": "s/1/1", "goal": "trampoline", "mac": MAC, "power": {}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("m01", b"{"),
        ("m01", b"[]"),
        ("m01", b"\xff"),
        ("m01", {}),
        ("m01", {**GOAL, "key": "s/x/1"}),
        ("m01", {**GOAL, "key": "1"}),
        ("m01", {**GOAL, "key": 7}),
        ("m01", {**GOAL, "goal": "primed"}),
        ("m01", {**GOAL, "goal": "on fire"}),
        ("m01", {**GOAL, "image": {"sha256": "../key", "bytes": 1}}),
        ("m01", {**GOAL, "image": "web"}),
        *(("m01", {**GOAL, "domain": it}) for it in ("shop/", "Shop", "a..b", "-a", "a\n", ["a"])),
        ("m01", {**GOAL, "domain": ".".join(["a" * 63] * 4)}),
        ("m01", {**GOAL, "mac": 12}),
        ("m01", {**GOAL, "power": "on"}),
        ("m01", {**GOAL, "ready": {"udp": 1}}),
        ("m01", {**GOAL, "limits": {"off": 0}}),
        ("m01", {**GOAL, "limits": 5}),
        ("m%2F01", GOAL),
        ("..", GOAL),
        ("m" * 80, GOAL),
        ("m01", b" " * ((1 << 20) + 1)),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused(idle: RealServer, path: str, body: Any) -> None:
    status, said = idle.ask("PUT", f"/v1/machines/{path}", body)
    assert status in (400, 404), said
    assert json.loads(idle.ask("GET", "/v1/machines")[1]) == {"machines": []}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        [],
        {},
        {**HARDWARE, "cores": "many"},
        b'{"cores": Infinity, "memory_mb": 1, "disks": []}',
        {**HARDWARE, "disks": [{"name": "sda; reboot", "bytes": 1, "serial": ""}]},
        {**HARDWARE, "disks": [{"name": "sda"}]},
        {**HARDWARE, "disks": 5},
        {**HARDWARE, "nics": [1]},
    ],
)
def test_hardware_that_makes_no_sense_is_refused(server: RealServer, body: Any) -> None:
    server.order("trampoline")
    server.booted()
    assert server.say("hello", body)[0] == 400
    assert server.view()["phase"] == "starting"
    assert server.say("hello", HARDWARE)[0] == 200


def test_what_a_machine_says_of_itself_is_made_safe(server: RealServer) -> None:
    server.order("trampoline")
    server.booted()
    said = {**HARDWARE, "vendor": "\ud800\x1b[31m" + "x" * 9999, "product": 7}
    assert server.say("hello", said)[0] == 200
    hardware = server.over()["hardware"]
    assert (hardware["product"], len(hardware["vendor"]) <= 500) == ("7", True)
    assert hardware["vendor"].startswith("[31mx")


def test_nobody_answers_a_machine_that_is_not_known(idle: RealServer) -> None:
    assert idle.ask("HEAD", f"/boot?mac={MAC}", key="")[0] == 405
    for mac in (MAC, "", "52:54", "${net0/mac}", "52:54:00:00:00:0g"):
        assert idle.ask("GET", f"/boot?mac={mac}", key="")[0] == 404


def test_a_machine_that_starts_unasked_is_switched_off_by_its_script(server: RealServer) -> None:
    server.order("off")
    assert server.over()["phase"] == "off"
    assert server.boot().startswith("#!ipxe\npoweroff ||\n")
    found = server.view()
    assert (found["phase"], found["word"]["text"]) == (
        "unknown",
        "its firmware asked what to boot, from 127.0.0.1",
    )


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"key": "site/0/9"}, "stale"),
        ({"key": "another/5/1"}, "stale"),
        ({"key": "site/with/slash/5/1"}, "stale"),
        ({"image": {"sha256": "f" * 64, "bytes": 1}}, "refused"),
    ],
)
def test_an_order_that_is_not_for_this_server_changes_nothing(
    server: RealServer, more: dict[str, Any], kind: str
) -> None:
    server.store()
    server.on_trampoline()
    before = server.view()
    status, body = server.ask("PUT", "/v1/machines/m01", server.goal("primed", **more))
    assert (status, json.loads(body)["error"]["kind"]) == (409, kind)
    assert server.view() == before


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"name": "web2", "address": "127.0.0.2"}, "the MAC"),
        ({"mac": "52:54:00:00:00:02", "address": "127.0.0.2"}, "the name web1"),
        ({"mac": "52:54:00:00:00:02", "name": "web2"}, "the address 127.0.0.1"),
    ],
)
def test_mac_name_and_address_are_of_one_machine(
    server: RealServer, other: dict[str, Any], same: str
) -> None:
    server.primed()
    server.order("active")
    status, body = server.ask("PUT", "/v1/machines/m02", server.goal("active", **other))
    assert status == 409
    assert same in json.loads(body)["error"]["message"]
    assert server.ask("GET", "/v1/machines/m02")[0] == 404


def test_a_machine_that_is_off_leaves_its_mac_to_another_one(server: RealServer) -> None:
    """It was renamed; an order that is refused for something else forgets nothing."""
    server.primed()
    server.order("active")
    manual = {"power": {"kind": "manual"}}
    off = server.goal("off", mac="52:54:00:00:00:02", **manual)
    assert server.ask("PUT", "/v1/machines/m02", off)[0] == 200
    for name, code, known in (("web1", 409, ["m01", "m02"]), ("web3", 200, ["m01", "m03"])):
        more = {"mac": "52:54:00:00:00:02", "name": name, "address": "127.0.0.3", **manual}
        order = server.goal("active", **more)
        assert server.ask("PUT", "/v1/machines/m03", order)[0] == code
        machines = json.loads(server.ask("GET", "/v1/machines")[1])["machines"]
        assert [it["id"] for it in machines] == known


def test_what_may_still_run_keeps_its_name_and_address(server: RealServer) -> None:
    """Also while it is switched off, and where that could not be done."""
    server.primed()
    server.order("active")
    (server.power_folder / "fail-off").touch()
    other = {"mac": "52:54:00:00:00:02", "power": {"kind": "manual"}}
    for wait in ("stopping", "unknown"):
        server.order("off", limits={"off": 2})
        until(lambda wait=wait: server.view()["phase"] == wait)  # type: ignore[misc]
        status, body = server.ask("PUT", "/v1/machines/m02", server.goal("active", **other))
        assert (status, json.loads(body)["error"]["kind"]) == (409, "taken"), wait
    (server.power_folder / "fail-off").unlink()
    server.order("off")
    server.over()
    assert server.ask("PUT", "/v1/machines/m02", server.goal("active", **other))[0] == 200


def test_another_site_may_have_what_this_one_has_off(server: RealServer) -> None:
    server.order("off")
    server.over()
    assert server.order("trampoline", key="another/1/1")["site"] == "another"


# --- power


def test_a_machine_is_off_when_its_power_says_so(server: RealServer) -> None:
    """And whoever orders it hears why not, and what it was doing."""
    server.on_trampoline()
    (server.power_folder / "fail-off").touch()
    server.order("off", limits={"off": 1})
    found = server.over()
    assert found["phase"] == "unknown"
    assert found["failure"].startswith("it was not off within 1 s: ")
    assert "the BMC says no" in found["failure"]
    (server.power_folder / "fail-off").unlink()
    server.order("off")
    assert server.over()["phase"] == "off"


def test_a_switch_that_says_no_to_what_is_so_already_is_believed(server: RealServer) -> None:
    (server.power_folder / "fail-off").touch()
    server.order("off")
    assert (server.over()["phase"], server.asked()) == ("off", ["off", "status"])


def test_what_fails_once_is_tried_again(server: RealServer) -> None:
    fault = server.power_folder / "fail-on"
    fault.touch()
    server.order("trampoline")
    until(lambda: server.asked().count("on") == 2)
    fault.unlink()
    server.booted()
    server.say("hello", HARDWARE)
    assert server.over()["phase"] == "trampoline"


def test_a_machine_that_dies_on_its_way_is_seen(server: RealServer) -> None:
    """By the next look; the order that follows goes on from the power."""
    server.primed()
    server.order("active")
    (server.power_folder / "state").write_text("off")
    status, _ = server.ask("POST", "/v1/machines/m01/look", {"mac": MAC, "power": server.power})
    assert status == 200
    server.order("active")
    server.booted()
    assert server.say("hello", HARDWARE)[0] == 200
    until(lambda: server.say("order", method="GET") == (200, b"boot\n"))


def test_a_machine_that_is_not_switched_on_yet_is_not_lost(server: RealServer) -> None:
    """A look may be answered between `off` and `on`."""
    server.order("off")
    server.over()
    (server.power_folder / "fail-on").touch()
    server.order("trampoline")
    until(lambda: "on" in server.asked())
    body = {"mac": MAC, "power": server.power}
    status, said = server.ask("POST", "/v1/machines/m01/look", body)
    assert (status, json.loads(said)["power"], json.loads(said)["phase"]) == (
        200,
        "off",
        "starting",
    )
    (server.power_folder / "fail-on").unlink()
    server.booted()
    assert server.say("hello", HARDWARE)[0] == 200
    assert server.over()["phase"] == "trampoline"


def test_what_hinders_is_told_while_it_is_tried_again(server: RealServer) -> None:
    (server.power_folder / "fail-on").touch()
    server.order("trampoline")
    until(lambda: "the BMC says no" in server.view()["failure"])
    assert not server.view()["over"]


def test_a_limit_ends_a_power_command_too(server: RealServer) -> None:
    (server.power_folder / "hang-off").touch()
    server.order("off", limits={"off": 1})
    found = server.over()
    assert (found["phase"], "its power command was still at work" in found["failure"]) == (
        "unknown",
        True,
    )


def test_what_a_command_leaves_running_holds_up_no_other_command(server: RealServer) -> None:
    (server.power_folder / "leave-on").touch()
    server.order("trampoline")
    server.booted()
    left = int((server.power_folder / "left").read_text())
    try:
        locks = {it.resolve().name for it in Path(f"/proc/{left}/fd").iterdir()}
        assert "m01.lock" in locks, "it has not closed its files"
        server.order("off")
        assert server.over()["phase"] == "off"
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_command_that_outlives_its_server_ends_before_the_next_one(server: RealServer) -> None:
    hang = server.power_folder / "hang-on"
    hang.touch()
    server.order("trampoline")
    until(lambda: "on" in server.asked())
    server.restart()
    server.order("off")
    assert server.view(wait=1)["phase"] == "stopping"
    assert server.asked()[-1] == "on", "nothing is asked of the power while a command is at work"
    hang.unlink()
    assert server.over()["phase"] == "off"
    assert (server.power_folder / "state").read_text() == "off"


def test_a_person_is_asked_where_no_program_can(server: RealServer) -> None:
    manual = {"power": {"kind": "manual"}}
    view = server.order("trampoline", **manual)
    assert view["asks"] == "switch m01 on; it has to boot from the network"
    server.boot()
    server.say("hello", HARDWARE)
    assert server.over()["asks"] == ""
    assert server.ask("POST", "/v1/machines/m01/power", {"action": "done"})[0] == 409
    view = server.order("off", **manual)
    assert view["asks"] == "switch m01 off, then: cobweb metal power m01 done"
    assert server.ask("POST", "/v1/machines/m01/power", {"action": "done"})[0] == 200
    assert server.over()["phase"] == "off"


def test_a_person_who_is_late_is_believed_all_the_same(server: RealServer) -> None:
    server.on_trampoline()
    server.order("off", power={"kind": "manual"}, limits={"off": 1})
    found = server.over()
    assert found["phase"] == "unknown"
    asked = "it was not off within 1 s: switch m01 off, then: cobweb metal power m01 done"
    assert found["failure"] == asked
    assert server.ask("POST", "/v1/machines/m01/power", {"action": "done"})[0] == 200
    assert server.view()["phase"] == "off"


# --- the book


@pytest.mark.parametrize("phase", ["starting", "priming", "booting", "stopping"])
def test_a_server_that_was_killed_goes_on_from_its_book(server: RealServer, phase: str) -> None:
    if phase == "priming":
        server.store()
        server.on_trampoline()
        server.order("primed")
    elif phase == "booting":
        server.primed()
        server.order("active")
    elif phase == "starting":
        server.order("trampoline")
        server.booted()
    else:
        server.on_trampoline()
        (server.power_folder / "fail-off").touch()
        server.order("off")
    assert server.view()["phase"] == phase
    server.kill()
    (server.power_folder / "fail-off").unlink(missing_ok=True)
    server.start()
    if phase == "priming":
        assert server.say("order", method="GET")[1].startswith(b"prime ")
    elif phase == "stopping":
        assert server.over()["phase"] == "off"
    else:  # what it may have missed is not known: it begins with the power
        server.booted()
        assert server.say("hello", HARDWARE)[0] == 200
        assert server.view()["phase"] == ("trampoline" if phase == "starting" else "booting")


def record(id_: str, phase: str = "off") -> Record:
    return Record(id=id_, mac=MAC, power={"kind": "manual"}, phase=phase)


def read(folder: Path) -> list[Record]:
    """Return what a book has."""
    with closing(Book(folder)) as book:
        return list(book)


def test_a_torn_last_line_of_the_book_was_acted_on_by_nobody(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.write(record("m01"))
    book.write(record("m02"))
    book.forget("m01")
    book.close()
    path = tmp_path / "book.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "m02", "rec')
    again = Book(tmp_path)
    assert list(again) == [record("m02")]
    again.write(record("m03"))
    again.close()
    assert read(tmp_path) == [record("m02"), record("m03")]


def test_a_book_that_grows_is_written_anew(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("cobweb_plugins.metal.server._book._COMPACT_AT", 2000)
    book = Book(tmp_path)
    for number in range(50):
        book.write(record("m01", f"phase {number}"))
    assert (tmp_path / "book.jsonl").stat().st_size < 3000
    book.close()
    assert read(tmp_path) == [record("m01", "phase 49")]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (b'{"format":1}\nnonsense\n', "book.jsonl:2 is no record: the book was damaged"),
        (b'{"format":1}\n17\n', "book.jsonl:2 is no record: the book was damaged"),
        (b'{"format":2}\n', "is of another version of Cobweb"),
    ],
)
def test_a_book_that_cannot_be_read_is_not_begun_anew(
    tmp_path: Path, text: bytes, cause: str
) -> None:
    (tmp_path / "book.jsonl").write_bytes(text)
    with pytest.raises(CobwebError, match=cause):
        Book(tmp_path)
    assert (tmp_path / "book.jsonl").read_bytes() == text


@pytest.mark.parametrize("what", ["folder", "address", "nonsense"])
def test_a_second_server_ends_with_the_cause(idle: RealServer, what: str) -> None:
    folder = idle.folder / ("server" if what == "folder" else "other")
    listen = {
        "folder": f"{idle.address}:7481",
        "address": f"{idle.address}:7480",
        "nonsense": "here:there",
    }[what]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "cobweb", "metal", "boot-server"),
            *("--folder", str(folder), "--listen", listen),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    cause = "another boot server has" if what == "folder" else f"cannot listen at {listen}"
    assert cause in done.stderr
    assert "Traceback" not in done.stderr
    assert idle.ask("GET", "/v1/server")[0] == 200


def test_the_digest_of_the_test_is_right() -> None:
    assert hashlib.sha256(IMAGE).hexdigest() == IMAGE_SHA256
