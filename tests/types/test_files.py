"""The type `file` on a host: files, lines and blocks, looked at by real tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

SPECS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "content": ({"content": "one\n"}, {"content": "two\n"}),
    "line": ({"line": {"text": "one"}, "create": True}, {"line": {"text": "two"}, "create": True}),
    "block": (
        {"block": {"text": "one"}, "create": True},
        {"block": {"text": "two", "marker": "; {mark}"}, "create": True},
    ),
}
SUDO = {"path": "/etc/sudoers.d/app", "mode": "0440", "validate": "visudo -cf %s"}
SSHD = {"path": "/etc/ssh/sshd_config", "line": {"text": "MaxSessions 20", "match": "^#?MaxSess"}}
NGINX = "/etc/nginx/nginx.conf"


@pytest.fixture
def host(fabric: Fabric, plain_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host whose files are in the end what they were."""
    look = "cat /etc/ssh/sshd_config /etc/nginx/nginx.conf; ls -lA /etc/sudoers.d /srv"
    before = fabric.run(plain_host, "sh", "-c", look).stdout
    yield plain_host
    assert fabric.run(plain_host, "sh", "-c", look).stdout == before


def read(fabric: Fabric, host: FabricHost, path: str) -> str:
    """Return a host's file."""
    return fabric.run(host, "cat", path).stdout


@pytest.mark.gate("the type once on a real host")
@pytest.mark.parametrize("kind", SPECS)
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost, kind: str) -> None:
    """Check, every transition, a changed spec, and back."""
    spec, changed = ({"path": "/srv/conformance.txt", **each} for each in SPECS[kind])
    live.check_type("file", host, spec, changed)


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "file")


def test_sudo_refuses_what_it_cannot_read(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """The message is visudo's; nothing is there, and then the earlier file."""
    good = {**SUDO, "content": "app ALL=(root) /bin/true\n"}
    bad = {**SUDO, "content": "app ALL=(root /bin/true\n"}
    cob = live.cob("file", host, bad)
    report = cob.move("down", "up")
    assert report.outcome is Outcome.FAILED
    assert "`visudo -cf %s` ended with exit status 1" in report.message
    assert "syntax error" in report.message
    assert cob.check() == "down"
    cob.spec = good
    cob.go("down", "up")
    cob.spec, cob.applied = bad, good
    assert cob.move("outdated", "up").outcome is Outcome.FAILED
    assert read(fabric, host, SUDO["path"]) == good["content"]
    cob.spec = good
    cob.go("up", "down")


def test_sshd_looks_at_a_line_before_it_is_there(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """And at all of the file, with it."""
    validate = "sshd -t -f %s"
    path = SSHD["path"]
    before = read(fabric, host, str(path))
    cob = live.cob("file", host, {**SSHD, "validate": validate})
    cob.go("down", "up")
    assert "\nMaxSessions 20\n" in read(fabric, host, str(path))
    bad = {**SSHD, "line": {"text": "MaxSessions many", "match": "^#?MaxSess"}}
    cob.applied, cob.spec = cob.spec, {**bad, "validate": validate}
    report = cob.move("outdated", "up")
    assert report.outcome is Outcome.FAILED
    assert "integer value" in report.message
    cob.spec = cob.applied
    assert cob.check() == "up"
    cob.go("up", "down")
    assert read(fabric, host, str(path)) == before


def test_a_full_disk_leaves_the_file_as_it_was(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """The message says so, and nothing of the new content is left."""
    fabric.run(host, "sh", "-c", "mkdir /srv/tiny && mount -t tmpfs -o size=16k none /srv/tiny")
    try:
        fabric.run(host, "sh", "-c", "echo before > /srv/tiny/a")
        for spec in (
            {"content": "x" * 40_000},
            {"block": {"text": "x" * 40_000}},
        ):
            cob = live.cob("file", host, {"path": "/srv/tiny/a", **spec})
            state = cob.check()
            report = cob.move(state, "up")
            assert report.outcome is Outcome.FAILED
            assert "cannot write /srv/tiny/a: No space left on device" in report.message
            assert fabric.run(host, "ls", "-A", "/srv/tiny").stdout == "a\n"
            assert read(fabric, host, "/srv/tiny/a") == "before\n"
            assert cob.check() == state
    finally:
        fabric.run(host, "sh", "-c", "umount /srv/tiny && rmdir /srv/tiny")


def test_what_nginx_refuses_holds_up_who_needs_it(
    fabric: Fabric, host: FabricHost, tmp_path: Path
) -> None:
    """Two objects work on its configuration at once; one is bad, and only who needs it waits."""
    operator = Operator(fabric, tmp_path)
    operator.write_inventory({"web": [host]})
    before = read(fabric, host, NGINX)
    site = tmp_path / "site.yml"
    start = "{path: /etc/nginx/nginx.conf, validate: {command: nginx -t, in_place: true}"
    site.write_text(f"""
cobweb: 1
name: nginx
inventory: hosts.yml
cobs:
  files:
    type: file
    on: web
    spec: {start}, line: {{text: worker_rlimit_nofile 4096;}}}}
  bad:
    type: file
    on: web
    after: [files]
    spec: {start}, block: {{text: no_such_word on;}}}}
  motd:
    type: file
    on: web
    spec: {{path: /srv/motd, content: here}}
  app:
    type: file
    on: web
    after: [bad]
    spec: {{path: /srv/app, content: here}}
""")
    run = operator.apply()
    assert run.code == 1, run.out + run.err
    assert set(run.transitions()) == {(f"{host.name}/files", "up"), (f"{host.name}/motd", "up")}
    assert 'unknown directive "no_such_word"' in run.err + run.out
    assert f"{host.name}/bad" in operator.cobweb("why", f"{host.name}/app").out
    now = read(fabric, host, NGINX)
    assert now == before + "worker_rlimit_nofile 4096;\n"
    site.write_text("cobweb: 1\nname: nginx\ninventory: hosts.yml\ncobs: {}\n")
    assert operator.apply().code == 0
