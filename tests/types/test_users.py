"""The type `user` on a host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

HASH, OTHER_HASH = (f"$6$salt${letter * 86}" for letter in "ab")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirst ann@here"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOther ann@there"
FILES = ("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow")


@pytest.fixture
def host(fabric: Fabric, plain_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host whose users and groups are in the end what they were."""
    before = fabric.run(plain_host, "cat", *FILES).stdout
    yield plain_host
    after = fabric.run(plain_host, "cat", *FILES).stdout
    fabric.run(plain_host, "sh", "-c", "for it in ann bob; do userdel $it; groupdel $it; done; :")
    fabric.run(plain_host, "sh", "-c", "rm -rf /home/ann /home/bob /var/lib/cobweb/user")
    assert after == before


def entry(fabric: Fabric, host: FabricHost, database: str, name: str) -> str:
    """Return the line of a user or group, or nothing."""
    return fabric.run(host, "getent", database, name, check=False).stdout.strip()


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    spec = {"name": "ann", "uid": 4001, "password": HASH, "keys": [KEY], "groups": ["adm"]}
    changed = {"shell": "/bin/sh", "password": OTHER_HASH, "keys": [OTHER_KEY], "lock": True}
    live.check_type("user", host, spec, {**spec, **changed})


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "user")


def test_what_is_asked_for_is_there(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """Number, group with its number, further groups, home with keys, password; home is kept."""
    spec = {
        "name": "ann",
        "uid": 4001,
        "gid": 4002,
        "groups": ["adm", "users"],
        "comment": "Ann, ops",
        "password": HASH,
        "keys": [KEY],
    }
    cob = live.cob("user", host, spec)
    cob.go("down", "up")
    assert entry(fabric, host, "passwd", "ann") == "ann:x:4001:4002:Ann, ops:/home/ann:/bin/sh"
    assert entry(fabric, host, "group", "ann") == "ann:x:4002:"
    assert entry(fabric, host, "shadow", "ann").split(":")[1] == HASH
    groups = fabric.run(host, "id", "-Gn", "ann").stdout
    assert sorted(groups.split()) == ["adm", "ann", "users"]
    keys = fabric.run(host, "stat", "-c", "%U %a", "/home/ann/.ssh/authorized_keys").stdout
    assert keys == "ann 600\n"
    cob.applied = spec
    cob.spec = {**spec, "append": False, "groups": ["users"], "lock": True}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert fabric.run(host, "id", "-Gn", "ann").stdout.split() == ["ann", "users"]
    assert entry(fabric, host, "shadow", "ann").split(":")[1] == f"!{HASH}"
    cob.go("up", "down")
    assert entry(fabric, host, "passwd", "ann") + entry(fabric, host, "group", "ann") == ""
    assert fabric.run(host, "ls", "-A", "/home/ann/.ssh").stdout == "authorized_keys\n"
    cob.spec = {**spec, "remove_home": True}
    cob.go("down", "up")
    cob.go("up", "down")
    assert fabric.run(host, "test", "-e", "/home/ann", check=False).returncode == 1


def test_a_user_that_was_there_is_put_back(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """With number, groups, password and their own keys."""
    fabric.run(host, "useradd", "-m", "-u", "4005", "-G", "adm", "bob")
    own = f"mkdir /home/bob/.ssh; echo '{OTHER_KEY}' > /home/bob/.ssh/authorized_keys"
    fabric.run(host, "sh", "-ec", f"{own}; chown -R bob: /home/bob/.ssh")
    before = [entry(fabric, host, base, "bob") for base in ("passwd", "shadow")]
    try:
        wish = {"uid": 4006, "shell": "/bin/bash", "append": False, "groups": ["users"]}
        cob = live.cob("user", host, {"name": "bob", "password": HASH, "keys": [KEY], **wish})
        assert cob.check() == "outdated"
        cob.go("outdated", "up")
        assert fabric.run(host, "id", "-Gn", "bob").stdout.split() == ["bob", "users"]
        cob.go("up", "down")
        after = [entry(fabric, host, base, "bob") for base in ("passwd", "shadow")]
        assert [line.split(":")[:2] for line in after] == [line.split(":")[:2] for line in before]
        assert after[0] == before[0]
        assert fabric.run(host, "id", "-Gn", "bob").stdout.split() == ["bob", "adm"]
        keys = fabric.run(host, "cat", "/home/bob/.ssh/authorized_keys").stdout
        assert keys == f"{OTHER_KEY}\n"
    finally:
        fabric.run(host, "userdel", "-r", "bob", check=False)


def test_a_user_of_another_name_replaces_the_earlier_one(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """In one transition."""
    cob = live.cob("user", host, {"name": "ann"})
    cob.go("down", "up")
    cob.applied, cob.spec = cob.spec, {"name": "bob"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert entry(fabric, host, "passwd", "ann") == ""
    cob.go("up", "down")


def test_what_an_interruption_leaves_is_mended(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """A user without keys and home, and a group without its user."""
    cob = live.cob("user", host, {"name": "ann", "gid": 4002, "keys": [KEY]})
    cob.go("down", "up")
    fabric.run(host, "rm", "-r", "/home/ann")
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert fabric.run(host, "cat", "/home/ann/.ssh/authorized_keys").stdout == f"{KEY}\n"
    fabric.run(host, "sh", "-c", "userdel ann; groupadd -g 4002 ann")
    assert cob.check() == "broken"
    cob.go("broken", "down")


def test_a_user_at_work_is_not_removed(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """The tool says which process is in the way."""
    cob = live.cob("user", host, {"name": "ann"})
    cob.go("down", "up")
    command = "setpriv --reuid ann --clear-groups sleep 600 < /dev/null > /dev/null 2>&1 & echo $!"
    pid = fabric.run(host, "sh", "-c", command).stdout.strip()
    try:
        report = cob.move("up", "down")
        assert report.outcome is Outcome.FAILED
        assert f"userdel: user ann is currently used by process {pid}" in report.message
        assert cob.check() == "up"
    finally:
        fabric.run(host, "kill", pid)
    cob.go("up", "down")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "ann", "groups": ["nowhere"]}, "useradd: group 'nowhere' does not exist"),
        ({"name": "ann", "uid": 1}, "useradd: UID 1 is not unique"),
        ({"name": "ann", "uid": 1, "gid": 4002}, "useradd: UID 1 is not unique"),
        ({"name": "ann", "password": "open sesame"}, "`password` is not a hash as in /etc/shadow"),
        ({"name": "ann", "group": "adm", "gid": 77}, "group adm is there and has the number 4"),
        ({"name": "root", "keys": [KEY]}, "user root has number 0, like root"),
        ({"name": "ann", "uid": 0}, "user ann has number 0, like root"),
        ({"name": "root", "allow_root": True, "lock": True}, "root could be locked out"),
    ],
)
def test_bad_input_has_the_message_of_the_tool(
    live: Live, host: FabricHost, spec: dict[str, object], message: str
) -> None:
    """And nothing is changed; the fixture looks at that."""
    report = live.cob("user", host, spec).move("down", "up")
    assert report.outcome is Outcome.FAILED
    assert message in report.message
    assert "sesame" not in str(report)


def test_a_link_in_the_place_of_the_keys_shows_the_user_nothing(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """They would get what only root may read; keys of others survive, whatever their bytes are."""
    cob = live.cob("user", host, {"name": "ann", "uid": 4001})
    cob.go("down", "up")
    script = "umask 077; mkdir .ssh; ln -s /etc/shadow .ssh/authorized_keys"
    fabric.run(host, "su", "ann", "-s", "/bin/sh", "-c", f"cd; {script}")
    cob.applied, cob.spec = cob.spec, {**cob.spec, "keys": [KEY]}
    report = cob.move("outdated", "up")
    assert report.outcome is Outcome.FAILED
    assert "Permission denied" in report.message
    other = "printf 'ssh-rsa \\377 old' > .k; mv .k .ssh/authorized_keys"
    fabric.run(host, "su", "ann", "-s", "/bin/sh", "-c", f"cd; {other}")
    cob.go("outdated", "up")
    keys = fabric.run(host, "od", "-An", "-c", "/home/ann/.ssh/authorized_keys").stdout
    assert "377" in keys
    cob.go("up", "down")
