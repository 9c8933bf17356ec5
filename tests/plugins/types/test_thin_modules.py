"""What the modules of `user`, `mount` and `firewall` decide, without a host."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

COUNTER = {"counter": {"packets": 1, "bytes": 2}}
KEYS = ["ssh-ed25519 A ann", "ssh-rsa B bob"]
SAYS = r"""
22 1 0:20 / /mnt rw,noatime shared:1 - tmpfs tmp rw,size=1024k
23 22 0:21 /sub /mnt/a\040b ro,nosuid - fuse.glusterfs st1:/data rw,allow_other
24 22 0:22 / /mnt rw - tmpfs  rw
"""
FSTAB = """\
# /dev/x /mnt ext4 defaults 0 0
/dev/y / ext4 defaults 0 1
tmp  /mnt  tmpfs size=1m 0 0
old /mnt\\0402 none bind 0 0
"""


@pytest.fixture
def mounts(
    mounts_module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> ModuleType:
    """Return what knows mounts, with a system of its own."""
    (tmp_path / "mountinfo").write_text(SAYS.lstrip())
    (tmp_path / "fstab").write_text(FSTAB)
    monkeypatch.setattr(mounts_module, "MOUNTINFO", tmp_path / "mountinfo")
    monkeypatch.setattr(mounts_module, "FSTAB", tmp_path / "fstab")
    return mounts_module


@pytest.mark.parametrize(
    ("found", "spec", "wanted"),
    [
        ("!", {}, "!"),
        ("$6$a", {"password": "$6$b"}, "$6$b"),
        ("$6$a", {"lock": True}, "!$6$a"),
        ("!$6$a", {"lock": True}, "!$6$a"),
        ("!$6$a", {"lock": False}, "$6$a"),
        ("!", {"lock": False}, "!"),
        ("!", {"lock": True, "password": "$6$b"}, "!$6$b"),
    ],
)
def test_a_lock_stands_before_the_password(
    user_module: ModuleType, found: str, spec: dict[str, Any], wanted: str
) -> None:
    """A user without a password does not get an empty one by being unlocked."""
    assert user_module.wanted_hash(found, spec) == wanted


@pytest.mark.parametrize(
    ("lines", "keys", "ours", "after"),
    [
        ([], KEYS, [], KEYS),
        (["# note", KEYS[0]], [KEYS[0]], [], ["# note", KEYS[0]]),
        ([KEYS[0], "other"], [KEYS[1]], [KEYS[0]], ["other", KEYS[1]]),
        ([KEYS[0], "other"], [], [], [KEYS[0], "other"]),
    ],
)
def test_lines_of_others_stay(
    user_module: ModuleType, lines: list[str], keys: list[str], ours: list[str], after: list[str]
) -> None:
    """Only keys that were ours go."""
    assert user_module.keys_after(lines, keys, ours) == after


def test_the_topmost_mount_counts(mounts: ModuleType) -> None:
    """A place may be mounted over; names are decoded; a source may be empty."""
    assert mounts.find("/mnt") == mounts.Mounted("", "/", "tmpfs", "rw", "rw")
    below = mounts.find("/mnt/a b")
    assert below.essence == ["st1:/data", "/sub", "fuse.glusterfs", "ro,nosuid", "rw"]
    assert mounts.below("/mnt") == ["/mnt/a b"]
    assert mounts.find("/nowhere") is None
    spec = {"source": "st1:/data", "path": "/mnt/a b", "fstype": "glusterfs"}
    assert mounts.is_source(below, spec)
    assert not mounts.is_source(below, {**spec, "fstype": "nfs"})
    assert mounts.has_flags(below, {**spec, "options": "ro"})
    assert not mounts.has_flags(below, {**spec, "options": "ro,noexec"})


@pytest.mark.parametrize(
    ("old", "new", "options"),
    [
        ("defaults", "ro", "defaults,ro"),
        ("ro,noexec", "noexec", "rw,noexec"),
        ("size=1m", "size=2m,noatime", "size=2m,noatime"),
        ("size=1m", "noatime", "size=50%,noatime"),
        ("defaults", "defaults,x-systemd.automount", "defaults,x-systemd.automount"),
        ("defaults", "data=journal", None),
        ("bind", "rbind", None),
    ],
)
def test_a_remount_takes_back_what_is_not_asked_for_any_more(
    mounts: ModuleType, old: str, new: str, options: str | None
) -> None:
    """And is not tried where it does not help."""
    assert mounts.remount_options(old, new) == options


def test_bytes_of_other_lines_of_fstab_stay(mounts: ModuleType) -> None:
    """Old files are not in UTF-8, and not all that breaks a line elsewhere does so here."""
    others = "# Größe\n".encode("latin-1") + "# a\u2028/dev/z /mnt/z ext4\x0cx\n".encode()
    mounts.FSTAB.write_bytes(others)
    mounts.set_fstab_line("/new", "x /new y z 0 0")
    assert mounts.FSTAB.read_bytes() == others + b"x /new y z 0 0\n"
    assert mounts.fstab_line("/mnt/z") is None


def test_a_line_of_fstab_is_replaced_in_its_place(mounts: ModuleType) -> None:
    """All other lines stay as they are, to the blank."""
    assert mounts.fstab_line("/mnt") == "tmp  /mnt  tmpfs size=1m 0 0"
    spec = {"source": "a b", "path": "/mnt", "fstype": "tmpfs", "passno": 2}
    line = mounts.wanted_line(spec)
    assert line == r"a\040b /mnt tmpfs defaults 0 2"
    mounts.set_fstab_line("/mnt", line)
    replaced = FSTAB.replace("tmp  /mnt  tmpfs size=1m 0 0", line)
    assert mounts.FSTAB.read_text() == replaced
    mounts.set_fstab_line("/mnt 2", None)
    mounts.set_fstab_line("/new", "x /new y z 0 0")
    assert mounts.FSTAB.read_text().splitlines()[-2:] == [line, "x /new y z 0 0"]
    assert mounts.wanted_line({**spec, "boot": False}) is None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"handle": 9}, True),
        ({"expr": [{"counter": {"packets": 7, "bytes": 99}}, {"drop": None}]}, True),
        ({"expr": [{"counter": {"packets": 1, "bytes": 2}}, {"accept": None}]}, False),
        ({"chain": "other"}, False),
    ],
)
def test_what_a_table_counts_is_no_change(
    firewall_module: ModuleType, change: dict[str, Any], *, same: bool
) -> None:
    """Nor the number of a rule; what a rule does is."""
    rule = {"chain": "in", "handle": 4, "expr": [COUNTER, {"drop": None}]}
    one, other = ([{"metainfo": {}}, {"rule": it}] for it in (rule, {**rule, **change}))
    assert (firewall_module._essence(one) == firewall_module._essence(other)) is same


@pytest.mark.parametrize(("flags", "same"), [(["dynamic", "timeout"], True), (["interval"], False)])
def test_what_a_set_has_learnt_is_no_change(
    firewall_module: ModuleType, flags: list[str], *, same: bool
) -> None:
    """But the elements that the rules say are theirs."""
    one, other = ([{"set": {"flags": flags, "elem": it}}] for it in (["a"], ["a", "b"]))
    assert (firewall_module._essence(one) == firewall_module._essence(other)) is same
