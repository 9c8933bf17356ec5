"""`cobweb put` and `cobweb get` on this machine: what is there afterwards, and what is not."""

# ruff: noqa: PLR0913, PLR0917 - a test takes its fixtures and its row of a table

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, Run
from tests.plugins.applications.conftest import RUNS, MakeSite, MakeSsh, instead, over
from tests.support.pool_members import until

CheckSchema = Callable[[str, Any], None]
HOMES = f'export HOME="$0.$HOST"; mkdir -p "$HOME"; {RUNS}'
"""ssh to hosts each of which has a home folder of its own."""

NO_EXECUTION = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return all that is below a folder: modes, and contents or targets."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = b""
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder, and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def texts(folder: Path) -> dict[str, str]:
    """Return the files below a folder."""
    return {str(it.relative_to(folder)): it.read_text() for it in folder.rglob("*") if it.is_file()}


def names_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder."""
    return sorted(it.name for it in folder.iterdir())


@pytest.fixture
def one(make_site: MakeSite) -> Path:
    """Make a site of one host, which is this machine."""
    return make_site(["n1"])


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Return a folder on the host."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a file to be put."""
    path = tmp_path / "sources" / "motd"
    path.parent.mkdir()
    path.write_text("well met\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def put(run: Run, site: Path, *words: Any) -> Ran:
    """Call `cobweb put` on all hosts of a site."""
    return run("-C", site, "put", "--on", "all", *map(str, words))


def get(run: Run, site: Path, *words: Any) -> Ran:
    """Call `cobweb get` on all hosts of a site."""
    return run("-C", site, "get", "--on", "all", *map(str, words))


# --- put: a file


@pytest.mark.parametrize(
    ("dest", "name"), [("/new", "new"), ("", "motd"), ("/", "motd"), ("/in/", "in/motd")]
)
def test_a_file_gets_its_new_name_or_into_a_folder(
    run: Run, one: Path, source: Path, there: Path, dest: str, name: str
) -> None:
    (there / "in").mkdir()
    ran = put(
        run, one, source, f"{there}/{dest}".removesuffix("/") if not dest else f"{there}/{dest}"
    )
    assert (ran.code, ran.out) == (0, "n1: was put\n")
    assert texts(there) == {name: "well met\n"}
    assert stat.S_IMODE((there / name).stat().st_mode) == NO_EXECUTION


def test_a_relative_dest_is_below_the_home_folder(
    run: Run, one: Path, source: Path, home: Path
) -> None:
    assert put(run, one, source, "motd").code == 0
    assert texts(home) == {"motd": "well met\n"}


@pytest.mark.parametrize("name", ["a b", "-rf", 'it\'s "$HOME"', "ünï", "*", "a\\b"])
def test_names_may_be_odd(run: Run, one: Path, source: Path, there: Path, name: str) -> None:
    odd = source.rename(source.with_name(name))
    (there / "in").mkdir()
    assert put(run, one, odd, there / "in").code == 0
    assert put(run, one, odd, there / name).code == 0
    assert texts(there) == {name: "well met\n", f"in/{name}": "well met\n"}


@pytest.mark.parametrize(
    ("mode", "bits"), [("755", 0o755), ("u=rw,go=", 0o600), ("0400", 0o400), ("4755", 0o4755)]
)
def test_a_file_has_the_mode_that_is_said(
    run: Run, one: Path, source: Path, there: Path, mode: str, bits: int
) -> None:
    assert put(run, one, "--mode", mode, source, there / "new").code == 0
    assert stat.S_IMODE((there / "new").stat().st_mode) == bits


def test_a_mode_that_is_none_changes_nothing(
    run: Run, one: Path, source: Path, there: Path
) -> None:
    written(there, {"old": "old\n"})
    before = tree(there)
    ran = put(run, one, "--mode", "999", source, there / "old")
    assert ran.code == 1
    assert "n1: exit code 1:" in ran.out
    assert tree(there) == before


def test_who_has_the_file_is_sent_nothing(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, source: Path, tmp_path: Path
) -> None:
    site = make_site(["n1", "n2", "n3"], over(make_ssh(HOMES)))
    has = written(tmp_path / "ssh.n2", {"motd": source.read_text()}) / "motd"
    before = has.stat()
    ran = put(run, site, source, "motd")
    assert ran.code == 0
    assert ran.out.splitlines() == ["n[1,3] (2 hosts): was put", "n2: is there"]
    assert ran.err.splitlines()[-1] == "3 of 3 hosts answered"
    assert (has.stat().st_ino, has.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert put(run, site, source, "motd").out == "n[1-3] (3 hosts): is there\n"


def test_a_file_that_is_there_gets_the_mode_that_is_said(
    run: Run, one: Path, source: Path, there: Path
) -> None:
    for said in ("was put", "is there"):
        ran = put(run, one, "--mode", "700", source, there)
        assert (ran.code, ran.out) == (0, f"n1: {said}\n")
        assert stat.S_IMODE((there / "motd").stat().st_mode) == 0o700
        (there / "motd").chmod(0o644)


def test_a_file_is_replaced_by_a_rename(run: Run, one: Path, source: Path, there: Path) -> None:
    old = written(there, {"motd": "old\n"}) / "motd"
    with old.open() as opened:
        assert put(run, one, source, there).out == "n1: was put\n"
        assert opened.read() == "old\n"
    assert texts(there) == {"motd": "well met\n"}


def test_a_digest_lets_its_source_through_and_no_other(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, source: Path, there: Path
) -> None:
    program = make_ssh()
    site = make_site(["n1"], over(program))
    right = hashlib.sha256(source.read_bytes()).hexdigest()
    ran = put(run, site, "--sha256", "0" * 64, source, there)
    assert (ran.code, ran.out) == (64, "")
    assert f"it has the SHA-256 {right}, and not {'0' * 64}" in ran.err
    assert not Path(f"{program}.arguments").exists()
    assert texts(there) == {}
    assert put(run, site, "--sha256", right.upper(), source, there).code == 0


@pytest.mark.parametrize("dest", ["none/motd", "file/motd", "file/"])
def test_where_there_is_no_such_folder_nothing_is_put(
    run: Run, one: Path, source: Path, there: Path, dest: str
) -> None:
    written(there, {"file": "a file\n"})
    before = tree(there)
    ran = put(run, one, source, f"{there}/{dest}")
    assert ran.code == 1
    assert "  stderr: " in ran.out
    assert tree(there) == before


def test_a_folder_that_is_named_as_one_is_made(
    run: Run, one: Path, source: Path, there: Path
) -> None:
    assert put(run, one, source, f"{there}/a/b/").code == 0
    assert texts(there) == {f"a/b/{source.name}": source.read_text(encoding="utf-8")}


DAMAGES = {
    "bytes are lost": ("head -c 4", "refused: what came has the SHA-256"),
    "a byte is another one": (r"tr '\001-\100' '\002-\101'", "refused: what came has the SHA-256"),
    "nothing comes": ("head -c 0", "refused: what came has the SHA-256"),
    "more comes": ("sed p", "refused: what came has the SHA-256"),
}


@pytest.mark.parametrize("is_unpacked", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_transfer_is_refused(
    run: Run,
    make_site: MakeSite,
    make_ssh: MakeSsh,
    source: Path,
    there: Path,
    damage: str,
    is_unpacked: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    program, said = DAMAGES[damage]
    damaged = f'case "$*" in *mktemp*) {program} | sh -c "$*";; *) {RUNS};; esac'
    site = make_site(["n1"], over(make_ssh(damaged)))
    written(there, {"motd": "old\n", "in/old": "old\n"})
    before = tree(there)
    words = ("--unpack", packed(source.parent), there / "in") if is_unpacked else (source, there)
    ran = put(run, site, *words)
    assert ran.code == 1
    assert said in ran.out
    assert tree(there) == before


def test_a_connection_that_ends_during_a_transfer_leaves_what_was_there(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, source: Path, there: Path
) -> None:
    cut = f'case "$*" in *mktemp*) head -c 4 | sh -c "$*" | head -n 1; exit 255;; *) {RUNS};; esac'
    site = make_site(["n1"], over(make_ssh(cut)))
    written(there, {"motd": "old\n"})
    before = tree(there)
    ran = put(run, site, source, there)
    assert ran.code == 1
    assert "n1: the connection was lost while the command ran" in ran.out
    assert tree(there) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "DEST"], "nothing: there is no such file or folder"),
        (["--sha256", "0" * 64, "FOLDER", "DEST"], "a folder has no SHA-256"),
        (["--sha256", "xyz", "SOURCE", "DEST"], "and not xyz"),
        (["SOURCE"], "DEST"),
        ([], "SOURCE"),
        (["--timeout", "x", "SOURCE", "DEST"], "`x` is no duration"),
        (["--fanout", "0", "SOURCE", "DEST"], "--fanout"),
        (["SOURCE", "DEST", "more"], "more"),
    ],
    ids=str,
)
def test_wrong_usage_of_put_is_refused(
    run: Run,
    make_site: MakeSite,
    make_ssh: MakeSsh,
    source: Path,
    there: Path,
    words: list[str],
    said: str,
) -> None:
    program = make_ssh()
    site = make_site(["n1"], over(program))
    names = {"SOURCE": source, "FOLDER": source.parent, "DEST": there}
    ran = put(run, site, *(names.get(it, it) for it in words))
    assert (ran.code, ran.out) == (64, "")
    assert said in ran.err
    assert not Path(f"{program}.arguments").exists()
    assert texts(there) == {}


def test_the_data_of_put_are_of_the_schema(
    run: Run, make_site: MakeSite, source: Path, there: Path, check_schema: CheckSchema
) -> None:
    site = make_site({"n1": {}, "n2": {"ansible_connection": "docker"}})
    ran = put(run, site, "-o", "json", source, there)
    data = json.loads(ran.out)
    check_schema("broadcast", data)
    assert ran.code == 1
    assert data["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert (data["source"], data["dest"]) == (str(source), str(there))
    assert [(it["hosts"], it["output"]) for it in data["answers"]] == [(["n1"], "was put\n")]
    assert [it["hosts"] for it in data["missing"]] == [["n2"]]


# --- put: folders and archives


def packed(folder: Path, name: str = "packed.tar.gz") -> Path:
    """Pack the content of a folder."""
    path = folder.parent / name
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, arcname=".")
    return path


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Return a folder to be put: files of different modes, a folder in it, a link."""
    folder = written(tmp_path / "conf.d", {"a": "new\n", "deep/run": "run\n"})
    (folder / "deep" / "run").chmod(0o750)
    (folder / "link").symlink_to("deep/run")
    return folder


@pytest.mark.parametrize("what", ["folder", "archive"])
def test_content_gets_into_dest_and_what_is_there_else_stays(
    run: Run, one: Path, conf: Path, there: Path, what: str
) -> None:
    written(there, {"in/a": "old\n", "in/b": "stays\n", "in/deep/c": "stays\n"})
    words = [conf] if what == "folder" else ["--unpack", packed(conf)]
    for dest in ("in", "new", "new-too/"):
        ran = put(run, one, *words, f"{there}/{dest}")
        assert (ran.code, ran.out) == (0, "n1: was unpacked\n")
    wanted = tree(conf)
    for name in ("in", "new", "new-too"):
        found = tree(there / name)
        assert {it: found[it] for it in wanted} == wanted
    assert texts(there / "in") == {**texts(conf), "b": "stays\n", "deep/c": "stays\n"}
    assert names_in(there) == ["in", "new", "new-too"]


@pytest.mark.parametrize("what", ["folder", "archive"])
def test_a_dest_that_there_was_keeps_its_own_mode(
    run: Run, one: Path, conf: Path, there: Path, what: str
) -> None:
    there.chmod(0o1777)  # as /tmp has it
    words = [conf] if what == "folder" else ["--unpack", packed(conf)]
    assert put(run, one, *words, there).code == 0
    assert texts(there) == texts(conf)
    assert stat.S_IMODE(there.stat().st_mode) == 0o1777


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away: run it as root")
def test_owners_are_those_of_who_is_logged_in(run: Run, one: Path, conf: Path, there: Path) -> None:
    os.chown(conf / "a", 12345, 12345)
    assert put(run, one, conf, there).code == 0
    assert (there / "a").stat().st_uid == os.getuid()


def test_an_archive_that_is_none_changes_nothing(
    run: Run, one: Path, source: Path, there: Path
) -> None:
    written(there, {"in/a": "old\n"})
    before = tree(there)
    for dest in ("in", "new"):
        ran = put(run, one, "--unpack", source, there / dest)
        assert ran.code == 1
        assert "  stderr: " in ran.out
        assert tree(there) == before


def test_an_archive_does_not_get_into_the_place_of_a_file(
    run: Run, one: Path, conf: Path, there: Path
) -> None:
    written(there, {"file": "old\n"})
    before = tree(there)
    assert put(run, one, conf, there / "file").code == 1
    assert tree(there) == before


def test_an_archive_that_is_there_as_a_file_is_not_unpacked_there(
    run: Run, one: Path, conf: Path, there: Path
) -> None:
    archive = packed(conf)
    assert put(run, one, archive, there / "ring").code == 0
    ran = put(run, one, "--unpack", archive, there / "ring")
    assert ran.code == 1 or (there / "ring").is_dir()


def test_an_archive_that_leads_out_of_dest_changes_nothing(
    run: Run, one: Path, tmp_path: Path, there: Path
) -> None:
    archive = tmp_path / "evil.tar"
    archive.write_bytes(tar_of(member("../escaped")))
    before = tree(there)
    assert put(run, one, "--unpack", archive, there / "in").code == 1
    assert tree(there) == before


# --- get


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return where things are got to; it is not there yet."""
    return tmp_path / "here"


def test_each_host_has_a_folder_of_its_own(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path, here: Path
) -> None:
    site = make_site(["n1", "n2", "n3"], over(make_ssh(HOMES)))
    written(tmp_path, {"ssh.n1/log": "one\n", "ssh.n2/log": "two\n"})
    written(here, {"n3/log": "old\n"})
    ran = get(run, site, "log", here)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "n[1-2] (2 hosts): is here",
        "n3: exit code 1:",
        "  stderr: log: no such file or folder",
    ]
    assert texts(here) == {"n1/log": "one\n", "n2/log": "two\n", "n3/log": "old\n"}


@pytest.mark.parametrize("before", [{}, {"n1/x": "old\n"}, {"n1/x/a": "old\n", "n1/x/b": "old\n"}])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_has_come_takes_the_place_of_what_was_there(
    run: Run, one: Path, there: Path, here: Path, before: dict[str, str], what: str
) -> None:
    made = {"x": "new\n"} if what == "file" else {"x/a": "new\n", "x/deep/c": "new\n"}
    written(there, made)
    written(here, {**before, "n1/other": "stays\n", "n0/x": "stays\n"})
    ran = get(run, one, f"{there}/x/" if what == "folder" else there / "x", here)
    assert (ran.code, ran.out) == (0, "n1: is here\n")
    stays = {"n1/other": "stays\n", "n0/x": "stays\n"}
    assert texts(here) == {**{f"n1/{name}": it for name, it in made.items()}, **stays}
    assert names_in(here) == ["n0", "n1"]


@pytest.mark.parametrize("name", ["a b", "-rf", 'it\'s "$HOME"', "ünï", "*"])
def test_odd_names_can_be_got(run: Run, one: Path, there: Path, here: Path, name: str) -> None:
    written(there, {name: "x\n"})
    assert get(run, one, there / name, here).code == 0
    assert texts(here) == {f"n1/{name}": "x\n"}


@pytest.mark.parametrize("old", ["n1/x", "n1/x/a"])
def test_what_is_more_than_the_bound_changes_nothing(
    run: Run, one: Path, there: Path, here: Path, old: str
) -> None:
    (there / "x").write_bytes(os.urandom(2**21))
    written(here, {old: "old\n"})
    ran = get(run, one, "--most", "1", there / "x", here)
    assert (ran.code, ran.out) == (
        1,
        "n1: it is more than 1 MiB (`--most` says how much)\n",
    )
    assert texts(here) == {old: "old\n"}
    assert names_in(here) == ["n1"]
    assert get(run, one, "--most", "3", there / "x", here).code == 0


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return an archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def member(
    name: str,
    kind: bytes = tarfile.REGTYPE,
    link: str = "",
    content: bytes = b"",
    **pax: str,
) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.pax_headers = kind, link, len(content), pax
    info.mode = 0o755
    return info, content


FOLDER = member("x", tarfile.DIRTYPE)
HOSTILE: Mapping[str, bytes] = {
    "a way out": tar_of(member("../escaped", content=b"x")),
    "a way out below its name": tar_of(FOLDER, member("x/../../../escaped", content=b"x")),
    "a link out": tar_of(member("x", tarfile.SYMTYPE, "../../site/site.yml")),
    "an absolute link": tar_of(member("x", tarfile.SYMTYPE, "/etc/passwd")),
    "a link out in a folder": tar_of(FOLDER, member("x/l", tarfile.SYMTYPE, "../..")),
    "a file behind a link": tar_of(
        member("x", tarfile.SYMTYPE, ".."), member("x/escaped", content=b"x")
    ),
    "a hard link out": tar_of(member("x", tarfile.LNKTYPE, "../../site/site.yml")),
    "a device": tar_of(member("x", tarfile.CHRTYPE)),
    "a block device in a folder": tar_of(FOLDER, member("x/d", tarfile.BLKTYPE)),
    "a pipe": tar_of(member("x", tarfile.FIFOTYPE)),
    "a longer name than there can be": tar_of(member("x" * 300, content=b"x")),
    "no archive": b"no archive at all\n" * 100,
    "a part of one": tar_of(member("x", content=b"a" * 5000))[:3000],
}
EMPTY = {
    "an empty archive": tar_of(),
    "an absolute name": tar_of(member("/x1", content=b"x")),
    "another name": tar_of(member("y", content=b"x")),
}
UNEXPECTED = {
    "a name with a NUL": tar_of(FOLDER, member("x/b", content=b"x", path="x/a\0b")),
    "a time that is none": tar_of(member("x", content=b"x", mtime="nan")),
    "a time without end": tar_of(member("x", content=b"x", mtime="1e300")),
    "a part of a packed one": gzip.compress(
        tar_of(member("x", content=bytes(range(256)) * 4096)), 1
    )[:2000],
}


ARCHIVES = {**HOSTILE, **EMPTY, **UNEXPECTED}


def cases(archives: Mapping[str, bytes], old: str) -> Iterator[Any]:
    """Yield cases of archives where there is a file or folder of before."""
    for name, data in archives.items():
        yield pytest.param(data, old, id=f"{name}, {old}")


@pytest.mark.parametrize(
    ("archive", "old"),
    [
        *(it for old in ("n1/x", "n1/x/a") for it in cases(ARCHIVES, old)),
    ],
)
def test_a_hostile_archive_changes_nothing_and_is_the_reason(
    run: Run,
    make_site: MakeSite,
    make_ssh: MakeSsh,
    tmp_path: Path,
    here: Path,
    archive: bytes,
    old: str,
) -> None:
    (tmp_path / "evil").write_bytes(archive)
    sends = instead(f"cat {tmp_path}/evil")
    text = f"if [ $HOST = n1 ]; then {sends}; else {RUNS}; fi"
    site = make_site(["n1", "n2"], over(make_ssh(text)))
    written(here, {old: "old\n"})
    written(tmp_path, {"good/x": "good\n", "ssh.arguments": ""})
    (here / "n2").mkdir()
    before = {it: all_ for it, all_ in tree(tmp_path).items() if it != "ssh.arguments"}
    ran = get(run, site, tmp_path / "good" / "x", here)
    assert (here / "n2" / "x").read_text() == "good\n"  # no host has another one's mistake
    (here / "n2" / "x").unlink()
    assert {it: all_ for it, all_ in tree(tmp_path).items() if it != "ssh.arguments"} == before
    assert ran.code == 1
    assert ran.out.startswith("n2: is here\nn1: what it sent cannot be unpacked: ")


def test_the_bound_holds_for_what_is_unpacked(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path, here: Path
) -> None:
    bomb = gzip.compress(tar_of(member("x", content=bytes(2**23))))
    (tmp_path / "bomb").write_bytes(bomb)
    site = make_site(["n1"], over(make_ssh(instead(f"cat {tmp_path}/bomb"))))
    assert get(run, site, "--most", "1", "/var/x", here).code == 1
    assert texts(here) == {}


def test_a_link_to_a_file_is_got_as_the_file_or_refused(
    run: Run, one: Path, there: Path, here: Path
) -> None:
    written(there, {"real": "x\n"})
    (there / "link").symlink_to("real")
    ran = get(run, one, there / "link", here)
    assert ran.code == 1 or (here / "n1" / "link").read_text() == "x\n"


def test_a_file_that_grows_is_got_as_it_was(
    run: Run, one: Path, there: Path, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(there, {"log": "x\n"})
    fake = tmp_path / "bin" / "tar"  # one that says what GNU tar says then
    fake.parent.mkdir()
    real = shutil.which("tar")
    fake.write_text(f'#!/bin/sh\n{real} "$@"\n[ "$1" = --version ] || exit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    assert get(run, one, there / "log", here).code == 0
    assert texts(here) == {"n1/log": "x\n"}


def test_a_file_is_not_put_into_a_folder_of_its_name(
    run: Run, one: Path, source: Path, there: Path
) -> None:
    (there / source.name).mkdir()
    ran = put(run, one, source, there)
    assert ran.code == 1
    assert "is a folder" in ran.out
    assert list((there / source.name).iterdir()) == []


@pytest.mark.gate("the time limit of a transfer that takes longer")
def test_what_is_given_up_leaves_nothing_beside_dest(
    run: Run,
    one: Path,
    source: Path,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = tmp_path / "bin" / "sha256sum"  # which comes to no end
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    ran = put(run, one, "--timeout", "2s", source, there / "new")
    assert (ran.code, ran.out) == (1, "n1: no answer within 2 s\n")
    until(lambda: texts(there) == {})


@pytest.mark.parametrize("old", ["n1/x", "n1/x/a"])
def test_what_breaks_off_changes_nothing(
    run: Run, make_site: MakeSite, make_ssh: MakeSsh, tmp_path: Path, here: Path, old: str
) -> None:
    (tmp_path / "part").write_bytes(tar_of(member("x", content=b"a" * 5000)))
    site = make_site(["n1"], over(make_ssh(instead(f"cat {tmp_path}/part; kill -9 $PPID"))))
    written(here, {old: "old\n"})
    ran = get(run, site, "/var/x", here)
    assert (ran.code, ran.out) == (1, "n1: the connection was lost while the command ran\n")
    assert texts(here) == {old: "old\n"}
    assert names_in(here) == ["n1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/", "HERE"], "`/` names no file or folder"),
        (["/etc/..", "HERE"], "`/etc/..` names no file or folder"),
        (["", "HERE"], "names no file or folder"),
        (["--most", "0", "/etc/hostname", "HERE"], "--most"),
        (["/etc/hostname"], "DEST"),
        (["/etc/hostname", "FILE"], "FILE"),
        (["--timeout", "x", "/etc/hostname", "HERE"], "`x` is no duration"),
    ],
    ids=str,
)
def test_wrong_usage_of_get_is_refused(
    run: Run, one: Path, source: Path, here: Path, words: list[str], said: str
) -> None:
    names = {"HERE": here, "FILE": source}
    ran = get(run, one, *(names.get(it, it) for it in words))
    assert (ran.code, ran.out) == (64, "")
    assert said.replace("FILE", str(source)) in ran.err.replace("\n", " ")
    assert not here.exists()


def test_a_dest_that_cannot_be_made_is_wrong_usage(run: Run, one: Path, source: Path) -> None:
    ran = get(run, one, "/etc/hostname", source / "below" / "a-file")
    assert ran.code == 64
    assert "Traceback" not in ran.err


def test_the_data_of_get_are_of_the_schema(
    run: Run, make_site: MakeSite, source: Path, here: Path, check_schema: CheckSchema
) -> None:
    site = make_site({"n1": {}, "n2": {"ansible_connection": "docker"}})
    ran = get(run, site, "-o", "json", source, here)
    data = json.loads(ran.out)
    check_schema("broadcast", data)
    assert ran.code == 1
    assert (data["source"], data["dest"]) == (str(source), str(here))
    assert [(it["hosts"], it["output"]) for it in data["answers"]] == [(["n1"], "is here\n")]
