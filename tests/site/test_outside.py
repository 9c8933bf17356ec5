"""A site uses the files of its repository: what it names elsewhere is refused, and never read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cobweb._cache import Cache
from cobweb.errors import ModelError, SiteError
from cobweb.model import Expansion
from cobweb.site import find_state, load_site, read_document, read_sections

OUTSIDE = "outside of the site's repository (move it there; `--allow-outside`"
SYSTEM = "is of the running system, and never a file of a site (write into the site"
CONTENT = "of-another-project"

TYPES = """
types:
  file:
    states: [up, down]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: }
    spec:
      properties: {template: {x-cobweb: template}, source: {x-cobweb: source}, content: {}}
  tree:
    states: [up, down]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: }
    spec: {properties: {source: {x-cobweb: tree}, tree: {}}}
"""
CHECK = "check: {tasks: check.yml}"


def with_spec(kind: str, spec: str) -> str:
    return f"cobweb: 1{TYPES}cobs: {{c: {{type: {kind}, on: app01, spec: {spec}}}}}\n"


def with_check(check: str) -> str:
    return with_spec("file", "{}").replace(CHECK, f"check: {check}", 1)


@pytest.fixture
def folder(maker: Any, tmp_path: Path) -> Path:
    """Lay a site beside a file that is not its own; return the folder of both."""
    maker.root = tmp_path / "repository"
    (tmp_path / "other").mkdir()
    for name in ("secret.yml", "group.yml", "all"):
        (tmp_path / "other" / name).write_text(f"{CONTENT}: 1\n", encoding="utf-8")
    maker.write({"check.yml": "- debug:\n", "sub/hosts.yml": "all: {hosts: {x: }}\n"})
    return tmp_path


NAMED = {
    "template": with_spec("file", "{template: %s}"),
    "source": with_spec("file", "{source: %s}"),
    "a path by a template": with_spec("file", "{source: \"{{ '%s' }}\"}"),
    "import": "imports: [%s]\n",
    "imports by a glob": "imports: ['%s*']\n",
    "inventory": "inventory: %s\n",
    "inventories": "inventory: [sub/hosts.yml, %s]\n",
    "tasks": with_check("{tasks: %s}"),
    "role": with_check("{role: %s}"),
}


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("{top}/other/secret.yml", OUTSIDE),
        ("../other/secret.yml", OUTSIDE),
        ("../other/is-not-there.yml", OUTSIDE),
        ("link.yml", OUTSIDE),
        ("to-other/secret.yml", OUTSIDE),
        ("/proc/self/environ", SYSTEM),
        ("to-proc/self/environ", SYSTEM),
        ("/dev/stdin", SYSTEM),
    ],
)
def test_what_a_site_names_elsewhere_is_refused(
    maker: Any, folder: Path, text: str, path: str, cause: str
) -> None:
    (maker.root / "link.yml").symlink_to("../other/secret.yml")
    (maker.root / "to-other").symlink_to("../other")
    (maker.root / "to-proc").symlink_to("/proc")
    if "role" in text and not path.startswith(("/", "{", "..")):
        (maker.root / "roles").mkdir()
        (maker.root / "roles" / path.partition("/")[0]).symlink_to(
            "/proc" if "proc" in path else folder / "other"
        )
    if "role" in text:  # which is looked for one folder deeper
        path = path.replace("../", "../../")
    found = maker.findings(text % path.format(top=folder))
    assert [finding for finding in found if cause in finding], found
    assert CONTENT not in "".join(found)
    assert all(finding.startswith("site.yml:") for finding in found)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("path", ["../other", "to-other", "/dev", "..", "/"])
def test_a_tree_elsewhere_is_refused(maker: Any, path: str) -> None:
    (maker.root / "to-other").symlink_to("../other")
    (found,) = maker.findings(with_spec("tree", f"{{source: {path}}}"))
    assert (SYSTEM if path == "/dev" else OUTSIDE) in found


@pytest.mark.parametrize(
    ("link", "target", "cause"),
    [
        ("group_vars", "other", OUTSIDE),
        ("group_vars/app.yml", "other/group.yml", OUTSIDE),
        ("group_vars/app", "other", OUTSIDE),
        ("host_vars/app01.yml", "other/group.yml", OUTSIDE),
        ("group_vars/app.yml", "/proc/self/status", SYSTEM),
        ("inventory/more.yml", "other/group.yml", OUTSIDE),
        ("inventory/more", "other", OUTSIDE),
    ],
)
def test_links_to_what_is_elsewhere_are_refused(
    maker: Any, folder: Path, link: str, target: str, cause: str
) -> None:
    maker.write({"inventory/hosts.yml": "app: {hosts: {app01: }}\n"})
    (maker.root / link).parent.mkdir(exist_ok=True)
    (maker.root / link).symlink_to(folder / target)
    text = "inventory: inventory\n" + with_spec("file", "{content: '{{ undefined_one }}'}")
    found = maker.findings(text)
    assert CONTENT not in "".join(found)
    if link == "group_vars":  # not a file that anything names: it is as if it was not there
        assert len(found) == 1
    else:
        assert [finding for finding in found if cause in finding], found


@pytest.mark.usefixtures("folder")
def test_a_site_file_that_is_a_link_to_elsewhere_is_refused(maker: Any) -> None:
    (maker.root / "site.yml").symlink_to("../other/secret.yml")
    for read in (
        load_site,
        find_state,
        lambda root: read_document(root, "site.yml", {}, "a site file"),
        lambda root: read_sections(root, {}),
    ):
        with pytest.raises(SiteError) as caught:
            read(maker.root)
        assert OUTSIDE in str(caught.value)
        assert CONTENT not in str(caught.value)


@pytest.mark.usefixtures("folder")
def test_nothing_elsewhere_is_said_to_be_there_or_not(maker: Any) -> None:
    """Neither names beside a path, nor whether it exists, come out."""
    found = {
        maker.findings(with_spec("file", f"{{source: ../other/{name}}}"))[0].replace(name, "X")
        for name in ("secret.yml", "secrt.yml")
    }
    assert len(found) == 1


@pytest.mark.parametrize("marker", ["folder", "file", "link"])
def test_the_root_is_that_of_the_git_repository(maker: Any, folder: Path, marker: str) -> None:
    git = folder / ".git"
    if marker == "folder":
        git.mkdir()
    elif marker == "file":
        git.write_text("gitdir: elsewhere", encoding="utf-8")
    else:
        git.symlink_to("elsewhere")
    site = maker.site(with_spec("file", "{source: ../other/secret.yml}"))
    assert site.graph().cobs["app01/c"].spec["content"] == f"{CONTENT}: 1\n"
    assert maker.findings(with_spec("file", f"{{source: {folder.parent}/x}}")) != []


@pytest.mark.usefixtures("folder")
def test_what_the_user_allows_is_read_but_never_the_system(maker: Any) -> None:
    text = with_spec("file", "{source: ../other/secret.yml}")
    site = maker.site(text, allow_outside=True)
    assert site.graph().cobs["app01/c"].spec["content"] == f"{CONTENT}: 1\n"
    system = text.replace("../other/secret.yml", "/proc/self/environ")
    (found,) = maker.findings(system, allow_outside=True)
    assert SYSTEM in found


def test_what_was_kept_with_the_option_is_not_there_without(maker: Any, folder: Path) -> None:
    cache = Cache(folder / "cache")
    text = with_spec("file", "{source: ../other/secret.yml}")
    maker.site(text, allow_outside=True, cache=cache).graph()
    assert maker.site(text, allow_outside=True, cache=cache).is_kept
    assert OUTSIDE in maker.findings(text, cache=cache)[0]


@pytest.mark.usefixtures("folder")
def test_a_document_elsewhere_is_refused(maker: Any) -> None:
    maker.write({"site.yml": "cobweb: 1\n"})
    with pytest.raises(SiteError, match="outside of the site"):
        read_document(maker.root, "../other/secret.yml", {}, "the model")
    found = read_document(maker.root, "../other/secret.yml", {}, "the model", allow_outside=True)
    assert found.data == {CONTENT: 1}


class Reading:
    """A section that reads the file that it names."""

    name = "reading"
    source = Path(__file__)

    def __init__(self, error: list[ModelError]) -> None:
        self._error = error

    def expand(self, sections: Any, context: Any) -> Expansion:
        try:
            context.read(sections["reading"])
        except ModelError as error:
            self._error.append(error)
            raise
        return Expansion()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("path", "cause"), [("../other/all", OUTSIDE), ("/proc/version", SYSTEM)])
def test_a_section_reads_nothing_elsewhere(maker: Any, path: str, cause: str) -> None:
    errors: list[ModelError] = []
    options = {"sections": {"reading": {}}, "expanders": [Reading(errors)]}
    (found,) = maker.findings(f"reading: {path}", **options)
    assert cause in found
    assert len(errors) == 1


def test_roles_and_collections_that_are_installed_are_not_of_the_site(
    maker: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    inside = "ansible_collections/a/b/roles/c"
    for path in (".ansible/roles/nginx", f".ansible/collections/{inside}"):
        (folder / path).mkdir(parents=True)
    for role in ("nginx", "a.b.c"):
        assert maker.findings(with_check(f"{{role: {role}}}")) == []


def test_a_name_with_a_null_byte_is_told(maker: Any) -> None:
    (found,) = maker.findings(with_spec("file", r'{source: "a\0b"}'))
    assert "does not exist" in found
