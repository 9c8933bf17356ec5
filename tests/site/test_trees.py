"""Folders of the site as file trees in specs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import SiteError
from cobweb.generation import TreeEntry, TreeKind, read_archive
from cobweb.model import CobId
from cobweb.site.reading import _file_trees as _trees
from cobweb.site.reading._file_trees import excluding
from cobweb.site.reading._files import unchanged

Maker = Any

TYPE = """
types:
  folder:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: }
    spec:
      type: object
      additionalProperties: false
      properties:
        source: {type: string, x-cobweb: tree}
        tree: {type: object}
        exclude: {type: array, items: {type: string}}
        templates: {type: boolean}
      anyOf: [{required: [source]}, {required: [tree]}]
"""
SITE = "cobweb: 1\ncobs:\n  c: {{type: folder, on: {on}, spec: {spec}}}\n" + TYPE.replace(
    "{", "{{"
).replace("}", "}}")
HERE = CobId("app01/c")
PLACE = "site.yml:3:"


def site_of(maker: Maker, spec: str, *, on: str = "app01", **files: str) -> Any:
    return maker.site({"site.yml": SITE.format(spec=spec, on=on), "check.yml": "- debug:", **files})


def findings(maker: Maker, spec: str, **files: str) -> list[str]:
    given = {"site.yml": SITE.format(spec=spec, on="app01"), "check.yml": "- debug:", **files}
    found: list[str] = maker.findings(given)
    return found


def tree(site: Any, cob: CobId = HERE) -> dict[str, TreeEntry]:
    """Return the entries of an object's tree."""
    mark = site.graph().cobs[cob].spec["tree"]
    found = read_archive(site.trees()[mark["digest"]])
    assert mark["files"] == sum(it.kind is not TreeKind.FOLDER for it in found.values())
    assert mark["bytes"] == sum(len(it.data) for it in found.values())
    return found


def test_a_tree_has_files_links_and_folders_with_their_modes(maker: Maker) -> None:
    site = site_of(maker, "{source: etc}", **{"etc/a/b.ini": "x=1\n", "etc/.hidden": ""})
    top = maker.root / "etc"
    (top / "empty").mkdir(mode=0o700)
    (top / "a").chmod(0o2755)
    (top / "a/b.ini").chmod(0o4750)
    (top / "a/out").symlink_to("/etc/passwd")
    (top / "dangling").symlink_to("nowhere")
    (top / ".hidden").chmod(0o600)
    (top / "binary").write_bytes(bytes(range(256)))
    (top / "binary").chmod(0o644)
    (Path(os.fsdecode(os.fsencode(top) + b"/odd \n\xff"))).write_bytes(b"")
    found = tree(site)
    assert [(name, it.kind.value, oct(it.mode), it.target) for name, it in found.items()] == [
        (".hidden", "file", "0o600", ""),
        ("a", "folder", "0o2755", ""),
        ("a/b.ini", "file", "0o4750", ""),
        ("a/out", "link", "0o777", "/etc/passwd"),
        ("binary", "file", "0o644", ""),
        ("dangling", "link", "0o777", "nowhere"),
        ("empty", "folder", "0o700", ""),
        ("odd \n\udcff", "file", oct(found["odd \n\udcff"].mode), ""),
    ]
    assert found["a/b.ini"].data == b"x=1\n"
    assert found["binary"].data == bytes(range(256))


def test_the_same_tree_has_the_same_digest_whenever_it_was_written(maker: Maker) -> None:
    site = site_of(maker, "{source: etc}", **{"etc/a": "1", "etc/b": "2"})
    first = site.graph().cobs[HERE].spec
    os.utime(maker.root / "etc/a", (1, 1))
    again = site_of(maker, "{source: ./etc}").graph().cobs[HERE].spec
    assert first == again == {"tree": first["tree"]}
    other = site_of(maker, "{source: etc}", **{"etc/a": "2"}).graph().cobs[HERE].spec
    assert other["tree"]["digest"] != first["tree"]["digest"]


def test_one_folder_is_read_once_for_all_hosts(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = _trees._read

    def noted(name: str, member: Any) -> TreeEntry:
        read.append(name)
        return real(name, member)

    monkeypatch.setattr(_trees, "_read", noted)
    site = site_of(maker, "{source: etc}", on="all", **{"etc/a": "1", "etc/b": "2"})
    specs = [cob.spec for cob in site.graph().cobs.values()]
    assert len(specs) == 3
    assert all(spec is specs[0] for spec in specs)
    assert len(site.trees()) == 1
    assert read == ["a", "b"]


@pytest.mark.parametrize(
    ("globs", "left"),
    [
        pytest.param("['*.bak']", ["a", "d", "d/a"], id="a name at any depth"),
        pytest.param("[d]", ["a", "x.bak"], id="a folder with all below"),
        pytest.param("[d/]", ["a", "x.bak"], id="a folder, written as one"),
        pytest.param("['d/*.bak']", ["a", "d", "d/a", "x.bak"], id="from the top"),
        pytest.param("['/x*']", ["a", "d", "d/a", "d/y.bak"], id="at the top only"),
        pytest.param("['**/?']", ["x.bak"], id="any folders"),
        pytest.param("['d/**']", ["a", "d", "x.bak"], id="all in a folder"),
        pytest.param("['[!a]*']", ["a"], id="not of a class"),
        pytest.param("['[xy].bak', a]", ["d"], id="several"),
        pytest.param("['x.b?k', 'd/y?bak']", ["a", "d", "d/a"], id="one character"),
    ],
)
def test_globs_leave_out(maker: Maker, globs: str, left: list[str]) -> None:
    files = {"etc/a": "", "etc/x.bak": "", "etc/d/a": "", "etc/d/y.bak": ""}
    assert list(tree(site_of(maker, f"{{source: etc, exclude: {globs}}}", **files))) == left


def test_a_glob_means_what_it_says() -> None:
    left_out = excluding(("a.b", "x+y", "[\\]", "n*"))
    assert [left_out(name) for name in ("a.b", "aXb", "d/a.b", "x+y", "xxy", "\\", "n\n")] == [
        True,
        False,
        True,
        True,
        False,
        True,
        True,
    ]


# --- templates


def test_templates_are_rendered_per_host_and_lose_their_ending(maker: Maker) -> None:
    files = {
        "etc/name.j2": "{{ inventory_hostname }}\n",
        "etc/.j2": "{{ kept }}",
        "etc/d/plain": "{{ kept }}",
        "etc/d.j2/x": "in a folder",
    }
    site = site_of(maker, "{source: etc, templates: true}", on="app", **files)
    (maker.root / "etc/name.j2").chmod(0o640)
    (maker.root / "etc/link.j2").symlink_to("x")
    one, two = tree(site), tree(site, CobId("app02/c"))
    assert list(one) == [".j2", "d", "d.j2", "d.j2/x", "d/plain", "link.j2", "name"]
    assert (one["name"].data, two["name"].data) == (b"app01\n", b"app02\n")
    assert one["name"].mode == 0o640
    assert one["d/plain"].data == one[".j2"].data == b"{{ kept }}"


def test_hosts_for_which_the_same_comes_out_share_the_archive(maker: Maker) -> None:
    site = site_of(maker, "{source: etc, templates: true}", on="all", **{"etc/n.j2": "{{ 1 + 1 }}"})
    site.graph()
    assert len(site.trees()) == 1
    assert tree(site)["n"].data == b"2"


def test_a_folder_is_a_tree_with_and_without_its_templates_rendered(maker: Maker) -> None:
    also = "  plain: {type: folder, on: app01, spec: {source: etc}}\n"
    text = SITE.format(spec="{source: etc, templates: true}", on="app01")
    files = {"check.yml": "- debug:", "etc/n.j2": "{{ 1 + 1 }}"}
    site = maker.site({"site.yml": text.replace("types:\n", f"{also}types:\n", 1), **files})
    assert tree(site)["n"].data == b"2"
    assert tree(site, CobId("app01/plain"))["n.j2"].data == b"{{ 1 + 1 }}"
    assert len(site.trees()) == 2


def test_a_template_is_an_ordinary_file_unless_asked(maker: Maker) -> None:
    site = site_of(maker, "{source: etc}", **{"etc/n.j2": "{{ x }}"})
    assert tree(site)["n.j2"].data == b"{{ x }}"


VAULT = "$ANSIBLE_VAULT;1.1;AES256\n  6162\n"


@pytest.mark.parametrize(
    ("spec", "files", "message"),
    [
        pytest.param(
            "{source: etcc}",
            {"etc/a": ""},
            "folder `etcc` does not exist (did you mean `etc`?)",
            id="missing",
        ),
        pytest.param(
            "{source: ghost/etc}",
            {},
            "folder `ghost/etc` does not exist (paths are relative to the site)",
            id="far off",
        ),
        pytest.param(
            "{source: etc}",
            {"etc": "x"},
            "`etc` is no folder (name a folder; a COB of type `file` takes one file)",
            id="a file",
        ),
        pytest.param("{source: 5}", {}, "`source` must be the path of a folder", id="no text"),
        pytest.param("{source: ''}", {}, "`source` must be the path of a folder", id="empty"),
        pytest.param(
            "{source: etc}",
            {"etc/x/.git/config": ""},
            "folder `etc`: `x/.git` is a Git repository (leave it out: `exclude: [.git]`)",
            id="a repository",
        ),
        pytest.param(
            "{source: etc}",
            {"etc/secret": VAULT},
            "folder `etc`: `secret` is vaulted (what is in a tree is stored as it is; `exclude` "
            "it, and write it with a COB of type `file`)",
            id="vaulted file",
        ),
        pytest.param(
            "{source: etc, templates: true}",
            {"etc/a": "", "etc/a.j2": ""},
            "folder `etc` has both `a.j2` and the file that it becomes (remove one of them)",
            id="two of one name",
        ),
        pytest.param(
            f"{{tree: {{digest: {'0' * 64}, files: 0, bytes: 0}}}}",
            {},
            "COB `c`: `tree` is what Cobweb makes of a folder (name the folder with `source`)",
            id="a tree by hand",
        ),
        pytest.param(
            "{source: etc, exclude: 5}",
            {"etc/a": ""},
            "COB `c`: `exclude` must be a list, not a whole number [on app01]",
            id="no globs",
        ),
    ],
)
def test_bad_trees_are_findings(
    maker: Maker, spec: str, files: dict[str, str], message: str
) -> None:
    (found,) = findings(maker, spec, **files)
    assert found.startswith(PLACE)
    assert found.endswith(f": {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "{{ port }}",
            "etc/n.j2: `port` is undefined [on app01] (it is neither a variable of the host nor "
            "one of Ansible's own)",
            id="undefined",
        ),
        pytest.param(
            "{{ secret }}",
            "etc/n.j2: the template gives a vaulted value [on app01] (what is in a tree is stored "
            "as it is; write this file with a COB of type `file`)",
            id="vaulted",
        ),
        pytest.param(
            "x={{ secret }}",
            "etc/n.j2: a vaulted value stands inside a longer text [on app01] (use it alone, as "
            'in `key: "{{ secret }}"`, or vault the whole text)',
            id="vaulted inside",
        ),
    ],
)
def test_bad_templates_are_findings(maker: Maker, text: str, message: str) -> None:
    variables = "secret: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n"
    files = {"etc/n.j2": text, "group_vars/all.yml": variables}
    assert findings(maker, "{source: etc, templates: true}", **files) == [message]


def test_a_template_that_is_no_text_is_a_finding(maker: Maker) -> None:
    (maker.root / "etc").mkdir()
    (maker.root / "etc/n.j2").write_bytes(b"\xff")
    found = findings(maker, "{source: etc, templates: true}")
    assert found == ["etc/n.j2: the file is not UTF-8 (only text can be a template)"]


def test_special_files_are_findings(maker: Maker) -> None:
    os.mkfifo(maker.write({"etc/a": ""}) / "etc/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(maker.root / "etc", os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/sock")
        os.close(here)
        found = findings(maker, "{source: etc}")
    what = "is neither a file nor a folder nor a link (leave it out with `exclude`)"
    assert [line.partition(": ")[2] for line in found] == [
        f"folder `etc`: `fifo` {what}",
        f"folder `etc`: `sock` {what}",
    ]


def test_what_cannot_be_read_is_a_finding(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, _member: object) -> TreeEntry:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(_trees, "_read", refuse)
    (found,) = findings(maker, "{source: etc}", **{"etc/a": ""})
    assert found.endswith(
        "folder `etc`: cannot read `a`: Permission denied (leave it out with `exclude`)"
    )


def test_a_folder_that_cannot_be_listed_is_a_finding(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("/closed"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr("cobweb.site.reading._file_trees.os.scandir", refuse)
    (found,) = findings(maker, "{source: etc}", **{"etc/closed/a": ""})
    assert found.endswith("folder `etc`: cannot read the folder `closed`: Permission denied")


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [
        ("MAX_FILES", 2, "it has more than 2 files (leave some out: `exclude`)"),
        ("MAX_BYTES", 5, "it holds more than 5 bytes (leave out large files: `exclude`)"),
    ],
)
def test_a_tree_has_limits(
    maker: Maker, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, message: str
) -> None:
    monkeypatch.setattr(_trees, limit, most)
    (found,) = findings(maker, "{source: etc}", **{"etc/a": "12", "etc/b": "34", "etc/c": "56"})
    assert found.endswith(f"folder `etc`: {message}")
    fits = site_of(maker, "{source: etc, exclude: [c]}")
    assert list(tree(fits)) == ["a", "b"]


# --- what else a site says of trees


def test_an_archive_is_made_only_of_what_was_evaluated(maker: Maker) -> None:
    site = site_of(maker, "{source: etc}", **{"etc/a": "1"})
    site.graph()
    (maker.root / "etc/a").write_text("2")
    archives = site.trees()
    with pytest.raises(SiteError) as caught:
        archives[next(iter(archives))]
    (finding,) = caught.value.findings
    assert str(finding).endswith(
        ": the folder has changed while it was read (run the command again)"
    )


def test_a_changed_tree_is_another_site(maker: Maker) -> None:
    site = site_of(maker, "{source: etc, exclude: [b]}", **{"etc/a": "1"})
    site.graph()
    notes = site._parts.files.notes
    (maker.root / "etc/b").write_text("left out")
    assert unchanged(notes)
    (maker.root / "etc/a").chmod(0o600)
    assert not unchanged(notes)


def test_it_is_explained_where_a_tree_comes_from(maker: Maker) -> None:
    site = site_of(maker, "{source: etc}", **{"etc/a": "1"})
    source = site.explain("app01/c.spec.source")
    made = site.explain("app01/c.spec.tree.files")
    assert (source.value, made.value) == ("etc", 1)
    assert source.place == made.place
    assert str(source.place).startswith(PLACE)
    assert list(site.explain("app01/c").value["spec"]) == ["tree"]
