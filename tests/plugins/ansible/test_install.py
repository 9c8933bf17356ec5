"""`cobweb install` with a real ansible-galaxy, from archives and repositories of this machine."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cobweb.cli import main
from cobweb.plugin import data_dir
from tests.support.galaxy_server import GalaxyServer, archive, collection, galaxy_server

SITE = "cobweb: 1\nname: small\n"
REQUIREMENTS = """\
roles:
  - {name: web, src: sources/web.tar.gz, version: 1.10}
collections:
  - {name: sources/acme-tools-1.0.0.tar.gz, type: file}
  - {name: sources/acme-base-1.0.0.tar.gz, type: file}
"""
LOCK = "requirements.lock.yml"
ALL = ["acme.base", "acme.tools", "my.base", "web"]
DIES = """
import os, pathlib, signal, sys
from cobweb.cli import main
left, rename = int(sys.argv.pop(1)), pathlib.Path.rename
def dying(self, target):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return rename(self, target)
pathlib.Path.rename = dying
sys.exit(main(sys.argv[1:]))
"""

Files = Mapping[str, tuple[int, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site, and calls of `cobweb install` on it."""

    dir: Path
    capsys: pytest.CaptureFixture[str]

    def install(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error."""
        self.capsys.readouterr()
        code = main(["-C", str(self.dir), "install", *words])
        out, err = self.capsys.readouterr()
        return code, out, err

    def states(self, *words: str) -> dict[str, str]:
        """Return the state of each item by its name."""
        _, out, _ = self.install("-o", "json", *words)
        data = json.loads(out)
        Draft202012Validator(_schema("install")).validate(data)
        return {item["name"]: item["state"] for item in data["items"]}

    def refused(self, *words: str) -> str:
        """Call it, see that it fails and changes nothing, and return what it says."""
        before = self.files()
        code, _, err = self.install(*words)
        assert code == 1
        assert self.files() == before
        assert "Traceback" not in err
        assert "\x1b" not in err
        return err

    def files(self) -> Files:
        """Return mode and content of all files, and targets of links."""
        found = {}
        for path in sorted(self.dir.rglob("*")):
            data = os.fsencode(path.readlink()) if path.is_symlink() else b""
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
            found[str(path.relative_to(self.dir))] = (path.lstat().st_mode, data)
        return found

    def write(self, name: str, text: str) -> None:
        """Write a file of the site."""
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def lock(self) -> dict[str, Any]:
        """Return the lock, which its schema allows."""
        data: dict[str, Any] = yaml.safe_load((self.dir / LOCK).read_text(encoding="utf-8"))
        Draft202012Validator(_schema("requirements-lock")).validate(data)
        return data


def _schema(name: str) -> Any:
    return json.loads((data_dir("schemas") / f"{name}.schema.json").read_text())


def _role(folder: Path, name: str, *, task: str, dependencies: str = "[]") -> None:
    """Write the archive of a role."""
    role = folder / "made" / name
    for part in ("meta", "tasks"):
        (role / part).mkdir(parents=True, exist_ok=True)
    (role / "meta" / "main.yml").write_text(f"dependencies: {dependencies}\n", encoding="utf-8")
    (role / "tasks" / "main.yml").write_text(f"- debug: {{msg: {task}}}\n", encoding="utf-8")
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
        archive.add(role, name)
    shutil.rmtree(folder / "made")


def _galaxy(*words: str | Path) -> None:
    tool = Path(sysconfig.get_path("scripts")) / "ansible-galaxy"
    subprocess.run([tool, *words], check=True, capture_output=True)


def _collections(folder: Path) -> None:
    for name, needs in (("base", ""), ("tools", "dependencies: {acme.base: '*'}\n")):
        made = folder / "made" / name
        made.mkdir(parents=True)
        head = f"namespace: acme\nname: {name}\nversion: 1.0.0\nreadme: README.md\nauthors: [a]\n"
        (made / "galaxy.yml").write_text(head + needs, encoding="utf-8")
        (made / "README.md").write_text(name, encoding="utf-8")
    built = [folder / "made" / name for name in ("base", "tools")]
    _galaxy("collection", "build", *built, "--output-path", folder)
    shutil.rmtree(folder / "made")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a site in which everything was installed."""
    site = tmp_path_factory.mktemp("installed") / "site"
    sources = site / "sources"
    sources.mkdir(parents=True)
    _role(
        sources, "web", task="one", dependencies="[{src: sources/base.tar.gz, name: my.base}, near]"
    )
    _role(sources, "base", task="base")
    _collections(sources)
    (site / "site.yml").write_text(SITE, encoding="utf-8")
    (site / "requirements.yml").write_text(REQUIREMENTS, encoding="utf-8")
    assert main(["-C", str(site), "install"]) == 0
    return site


@pytest.fixture
def site(installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    """Return a copy of the site in which everything was installed."""
    shutil.copytree(installed, tmp_path / "site")
    return Site(dir=tmp_path / "site", capsys=capsys)


@pytest.fixture
def bare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    """Return a site without requirements."""
    site = Site(dir=tmp_path / "bare", capsys=capsys)
    site.write("site.yml", SITE)
    return site


@pytest.mark.gate("makes what all others here start from: four calls of ansible-galaxy, 4 s")
def test_the_first_install_locks_roles_and_collections_with_what_they_depend_on(site: Site) -> None:
    lock = site.lock()
    assert sorted([*lock["roles"], *lock["collections"]]) == ALL
    assert lock["roles"]["web"]["dependencies"] == ["my.base"]
    assert lock["roles"]["web"]["version"] == "1.10"
    assert lock["collections"]["acme.tools"]["dependencies"] == ["acme.base"]
    assert "requirement" not in lock["roles"]["my.base"]
    assert "one" in (site.dir / "roles/web/tasks/main.yml").read_text()
    assert (site.dir / "collections/ansible_collections/acme/tools/README.md").is_file()
    assert not (site.dir / ".cobweb-install").exists()


def test_a_second_install_fetches_nothing(site: Site) -> None:
    shutil.rmtree(site.dir / "sources")
    before = site.files()
    code, out, err = site.install()
    assert (code, out, err) == (0, "", "nothing to do\n")
    assert site.files() == before
    assert site.states("--check") == dict.fromkeys(ALL, "unchanged")
    assert site.install("--check")[0] == 0


@pytest.mark.gate("a source that was tampered with is the reason of the lock: 3 s")
def test_content_that_is_not_what_was_locked_is_refused_until_it_is_locked_anew(site: Site) -> None:
    locked = site.lock()["roles"]["web"]["sha256"]
    _role(site.dir / "sources", "web", task="two")
    shutil.rmtree(site.dir / "roles" / "web")
    err = site.refused()
    assert "role web is not what was locked" in err
    assert f"locked is sha256 {locked[:16]}" in err
    assert "`cobweb install --update web`" in err

    code, out, err = site.install("--update", "web")
    assert code == 0, err
    assert "two" in (site.dir / "roles/web/tasks/main.yml").read_text()
    assert site.lock()["roles"]["web"]["sha256"] != locked
    assert "my.base" not in out
    assert "no requirement names role my.base any more" in err
    assert site.install("--update", "my.base")[0] == 0
    assert not (site.dir / "roles/my.base").exists()


def test_a_dependency_may_not_lead_out_of_the_site(bare: Site) -> None:
    (bare.dir / "sources").mkdir()
    _role(bare.dir / "sources", "web", task="one", dependencies="[{src: a.b, name: ../../x}]")
    bare.write("requirements.yml", "[{src: sources/web.tar.gz, name: web}]")
    err = bare.refused()
    assert "a dependency of the role web cannot be installed: ../../x is no name" in err


@pytest.mark.full("from a server; the gate has an archive in the site")
def test_a_collection_may_not_call_itself_out_of_the_site(
    bare: Site, server: GalaxyServer, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    server.roles["evil"] = {"1": collection(f"a.{tmp_path}/kept", "1.0.0", {})}
    url = f"{server.url}/api/files/evil/1"
    bare.write("requirements.yml", f"collections: [{{name: '{url}', type: url}}]\n")
    assert f"calls itself a.{tmp_path}/kept, which is no NAMESPACE.NAME" in bare.refused()
    assert not [*(tmp_path / "kept").iterdir()]


def test_a_collection_that_is_missing_is_fetched_alone(site: Site) -> None:
    shutil.rmtree(site.dir / "collections/ansible_collections/acme/tools")
    (site.dir / "sources/acme-base-1.0.0.tar.gz").unlink()
    states = site.states()
    assert states == {**dict.fromkeys(ALL, "unchanged"), "acme.tools": "installed"}
    assert not (site.dir / "collections/ansible_collections/acme/base").is_symlink()
    assert site.install("--check")[0] == 0


@pytest.mark.gate("two calls of ansible-galaxy: 2 s")
def test_what_was_changed_by_hand_is_refused_and_replaced_by_force(site: Site) -> None:
    site.write("roles/web/tasks/main.yml", "[]\n")
    (site.dir / "roles/my.base/more").symlink_to("/etc/passwd")
    err = site.refused()
    assert "roles/web was changed by hand" in err
    assert "roles/my.base was changed by hand" in err
    assert "`cobweb install --force`" in err
    assert "changed by hand" in site.refused("--update")
    assert site.install("--check")[0] == 2
    assert site.states("--check")["web"] == "changed by hand"
    lock = site.lock()
    assert site.install("--force")[0] == 0
    assert "one" in (site.dir / "roles/web/tasks/main.yml").read_text()
    assert not (site.dir / "roles/my.base/more").is_symlink()
    assert site.lock() == lock


@pytest.mark.parametrize(
    "change",
    [
        lambda role: (role / "tasks/main.yml").chmod(0o755),
        lambda role: (role / "tasks/more.yml").touch(),
        lambda role: (role / "tasks/main.yml").rename(role / "main.yml"),
        lambda role: (role / "tasks/main.yml").unlink(),
        shutil.rmtree,
    ],
    ids=["executable", "added", "moved", "removed", "whole"],
)
def test_each_change_of_a_folder_is_seen(site: Site, change: Callable[[Path], None]) -> None:
    change(site.dir / "roles" / "web")
    assert site.install("--check")[0] == 2


def test_what_galaxy_python_and_git_write_is_no_change(site: Site) -> None:
    site.write("roles/web/meta/.galaxy_install_info", "install_date: another\n")
    site.write("roles/web/library/__pycache__/a.pyc", "")
    site.write("roles/web/.git/HEAD", "")
    (site.dir / "roles/web/files").mkdir()
    assert site.install("--check")[0] == 0


def test_a_folder_of_the_users_own_is_never_overwritten(bare: Site) -> None:
    bare.write("requirements.yml", "[{src: 'file:///nowhere/web.tar.gz'}]\n")
    bare.write("roles/web/tasks/main.yml", "- debug:\n")
    for words in ((), ("--force",), ("--update",)):
        assert "roles/web is a folder of your own" in bare.refused(*words)
    assert bare.states("--check") == {"web": "own folder"}


def test_a_folder_of_the_users_own_is_no_dependency(site: Site) -> None:
    for path in (site.dir / LOCK, site.dir / "roles/web"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(site.dir / "collections")
    assert "roles/my.base is a folder of your own" in site.refused()


def test_an_entry_that_was_edited_is_refused_until_it_is_locked_anew(site: Site) -> None:
    site.write("requirements.yml", REQUIREMENTS.replace("1.10", "1.11"))
    err = site.refused()
    assert "requirements.yml:2:5: the requirement of role web is not the one" in err
    assert "`cobweb install --update web`" in err
    assert site.states("--check")["web"] == "other requirement"


def test_what_nothing_requires_is_told_and_dropped_by_an_update(site: Site) -> None:
    site.write("requirements.yml", REQUIREMENTS.partition("collections:")[0])
    site.write("collections/ansible_collections/acme/base/mine", "")
    code, _, err = site.install()
    assert code == 0
    assert "no requirement names collection acme.tools any more" in err
    assert site.install("--check")[0] == 0
    code, _, err = site.install("--update", "acme.tools", "acme.base")
    assert code == 0, err
    assert "acme/base was changed by hand and is left" in err
    assert not (site.dir / "collections/ansible_collections/acme/tools").exists()
    assert (site.dir / "collections/ansible_collections/acme/base/mine").exists()
    assert "collections" not in site.lock()


LATER = pytest.mark.full("the moments beside the one in the gate")


@pytest.mark.parametrize("renames", [pytest.param(0, marks=LATER), 1, pytest.param(2, marks=LATER)])
def test_an_install_that_dies_while_it_moves_is_finished_by_the_next(
    site: Site, renames: int
) -> None:
    site.write("requirements.yml", REQUIREMENTS.partition("collections:")[0])
    words = ["-C", str(site.dir), "install", "--update", "acme.tools", "acme.base"]
    dead = subprocess.run(
        [sys.executable, "-c", DIES, str(renames), *words], check=False, capture_output=True
    )
    assert dead.returncode == (-signal.SIGKILL if renames < 2 else 0)
    code, _, err = site.install()
    assert code == 0, err
    assert ("cut off was finished first" in err) == (renames < 2)
    assert not [*(site.dir / "collections/ansible_collections/acme").iterdir()]
    assert not (site.dir / ".cobweb-install").exists()
    assert "collections" not in site.lock()


@pytest.mark.parametrize(
    ("move", "message"),
    [
        ({"kind": "role", "name": "../../x"}, "../../x is no name of a role"),
        ({"kind": "role", "name": "linked"}, "there are links beside it"),
        ({"kind": "thing", "name": "x"}, "'thing' is not a valid Kind"),
        ({}, "'kind'"),
    ],
)
def test_what_a_repository_brings_as_a_journal_leads_nowhere(
    bare: Site, tmp_path: Path, move: dict[str, Any], message: str
) -> None:
    (tmp_path / "x" / "linked").mkdir(parents=True)
    moves = [{**move, "arrives": True, "before": None}]
    data = {"format": 1, "lock": "format: 1\n", "moves": moves}
    bare.write(".cobweb-install/journal.json", json.dumps(data))
    (bare.dir / ".cobweb-install" / "roles").symlink_to(tmp_path / "x")
    bare.write("requirements.yml", "[]\n")
    err = bare.refused()
    assert message in err
    assert "remove .cobweb-install if no install of yours was cut off" in err
    assert (tmp_path / "x" / "linked").is_dir()


@pytest.mark.full("fetches for each rename; the gate dies while it removes")
@pytest.mark.parametrize("renames", range(4))
def test_a_role_that_is_replaced_is_whole_whenever_the_install_dies(
    site: Site, renames: int
) -> None:
    before = site.files()
    for name in ("web", "my.base"):
        site.write(f"roles/{name}/tasks/main.yml", "- debug: {msg: mine}\n")
    words = ["-C", str(site.dir), "install", "--force"]
    dead = subprocess.run(
        [sys.executable, "-c", DIES, str(renames), *words], check=False, capture_output=True
    )
    assert dead.returncode == -signal.SIGKILL
    for name in ("web", "my.base"):
        assert len([*(site.dir / "roles").glob(f"{name}/*/main.yml")]) in (0, 2)
    assert site.install()[0] == 0
    now = site.files()
    dates = {name for name in before if name.endswith(".galaxy_install_info")}
    assert now.keys() == before.keys()
    assert all(now[name] == before[name] for name in before.keys() - dates)


@pytest.mark.gate("the command is killed while galaxy runs, awaited by a fifo: 3 s")
def test_a_killed_install_has_changed_nothing_and_leaves_no_process(site: Site) -> None:
    source = site.dir / "sources" / "late.tar.gz"
    os.mkfifo(source)
    before = site.files()
    site.write(
        "requirements.yml", REQUIREMENTS.replace("roles:", f"roles:\n  - src: file://{source}")
    )
    before = site.files()
    command = Path(sysconfig.get_path("scripts")) / "cobweb"
    process = subprocess.Popen(
        [command, "-C", site.dir, "install"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    fifo = os.open(source, os.O_WRONLY)  # until galaxy reads
    assert (site.dir / ".cobweb-install").is_dir()
    process.kill()
    process.wait()
    ended = select.poll()
    ended.register(fifo, 0)
    ended.poll()  # until nobody reads any more
    os.close(fifo)
    edits = os.open(site.dir, os.O_RDONLY)
    fcntl.flock(edits, fcntl.LOCK_EX)  # until the guard has cleaned up
    os.close(edits)
    assert site.files() == before

    source.unlink()
    _role(site.dir / "sources", "late", task="late")
    site.write(".cobweb-install/roles/late/half", "")  # as if the guard had been killed, too
    code, _, err = site.install()
    assert code == 0, err
    assert "late" in site.lock()["roles"]
    assert not (site.dir / "roles/late/half").exists()
    assert not (site.dir / ".cobweb-install").exists()


@pytest.mark.full("a role and a collection from Git, whose name only galaxy can tell")
def test_what_comes_from_git_is_pinned_too(bare: Site, tmp_path: Path) -> None:
    _repository(tmp_path / "role", {"meta/main.yml": "dependencies:\n", "tasks/main.yml": "[]\n"})
    head = "namespace: acme\nname: git\nversion: 1.0.0\nreadme: README.md\nauthors: [a]\n"
    _repository(tmp_path / "content", {"galaxy.yml": head, "README.md": "git"})
    bare.write(
        "requirements.yml",
        f"roles: ['git+file://{tmp_path}/role,,mine']\n"
        f"collections: [{{name: 'file://{tmp_path}/content', type: git}}]\n",
    )
    assert bare.states() == {"acme.git": "installed", "mine": "installed"}
    assert bare.install()[2] == "nothing to do\n"
    shutil.rmtree(bare.dir / "collections")
    assert bare.states() == {"acme.git": "installed", "mine": "unchanged"}


def _repository(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)


@pytest.fixture
def server(bare: Site) -> Iterator[GalaxyServer]:
    """Return a Galaxy server that `bare` has in its ansible.cfg."""
    with galaxy_server() as server:
        bare.write("ansible.cfg", f"[galaxy]\nserver = {server.url}\n")
        yield server


def _published_role(version: str) -> bytes:
    return archive({"x/meta/main.yml": "dependencies:\n", "x/tasks/main.yml": f"# {version}\n"})


def install_tools(bare: Site, server: GalaxyServer) -> None:
    """Install a collection that depends on another one, both from a server."""
    server.publish("acme.tools", "1.0.0", acme__base=">=1.0.0")
    server.publish("acme.base", "1.0.0")
    bare.write("requirements.yml", "collections: [acme.tools]\n")
    assert set(bare.states().values()) == {"installed"}


@pytest.mark.gate("what most sites have, names on a server: three calls of ansible-galaxy, 3 s")
def test_versions_of_a_server_are_those_of_the_lock_until_an_update(
    bare: Site, server: GalaxyServer
) -> None:
    install_tools(bare, server)

    server.publish("acme.tools", "1.1.0", acme__base=">=1.1.0")
    server.publish("acme.base", "1.1.0")
    shutil.rmtree(bare.dir / "collections")
    before = (bare.dir / LOCK).read_text(encoding="utf-8")
    assert set(bare.states().values()) == {"installed"}
    assert (bare.dir / LOCK).read_text(encoding="utf-8") == before

    assert set(bare.states("--update").values()) == {"installed"}
    assert {it["version"] for it in bare.lock()["collections"].values()} == {"1.1.0"}
    server.asked.clear()
    assert set(bare.states().values()) == {"unchanged"}
    assert not server.asked


@pytest.mark.full("the same for roles; the gate has it of collections")
def test_versions_of_roles_are_those_of_the_lock_until_an_update(
    bare: Site, server: GalaxyServer
) -> None:
    server.roles["acme.web"] = {"1.0.0": _published_role("1.0.0")}
    bare.write("requirements.yml", "- acme.web\n")
    assert bare.states() == {"acme.web": "installed"}
    server.roles["acme.web"]["2.0.0"] = _published_role("2.0.0")
    shutil.rmtree(bare.dir / "roles")
    assert bare.states() == {"acme.web": "installed"}
    assert bare.lock()["roles"]["acme.web"]["version"] == "1.0.0"
    assert bare.states("--update") == {"acme.web": "installed"}
    assert bare.lock()["roles"]["acme.web"]["version"] == "2.0.0"


@pytest.mark.full("each state of a dependency; the gate has the way of most")
def test_a_dependency_on_a_server_is_pinned_and_fetched_alone(
    bare: Site, server: GalaxyServer
) -> None:
    install_tools(bare, server)
    server.publish("acme.base", "2.0.0")
    shutil.rmtree(bare.dir / "collections/ansible_collections/acme/base")
    assert bare.states() == {"acme.base": "installed", "acme.tools": "unchanged"}
    assert bare.lock()["collections"]["acme.base"]["version"] == "1.0.0"

    bare.write("requirements.yml", "collections: [acme.tools, acme.more]\n")
    server.publish("acme.more", "1.0.0", acme__base=">=2.0.0")
    err = bare.refused()
    assert "acme.base:==1.0.0" in err
    assert "acme.base:>=2.0.0" in err
    assert "the lock holds versions until `cobweb install --update NAME`" in err
    assert bare.states("--update", "acme.base", "acme.more") == {
        "acme.base": "installed",
        "acme.more": "installed",
        "acme.tools": "unchanged",
    }
    assert bare.lock()["collections"]["acme.base"]["version"] == "2.0.0"


def test_what_galaxy_says_is_told_in_a_few_words(bare: Site) -> None:
    bare.write("requirements.yml", "[{src: 'http://me:secret@localhost:1/web.tar.gz'}]\n")
    err = bare.refused()
    assert "ansible-galaxy failed: " in err
    assert "web was NOT installed successfully" in err
    assert "nothing was changed in the site" in err
    assert "secret" not in err
    assert len(err) < 1000


def test_a_galaxy_that_is_missing_is_told(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.write("requirements.yml", "[{src: 'file:///nowhere/web.tar.gz'}]\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "ansible-galaxy is not installed" in bare.refused()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda site: (site / ".cobweb-install").symlink_to("sources"), "install is a link"),
        (lambda site: os.mkfifo(site / "roles/web/fifo"), "fifo is neither a file nor a folder"),
        (lambda site: shutil.copy(site / "site.yml", site / ".cobweb-install"), "cannot use"),
    ],
    ids=["link", "fifo", "file"],
)
def test_what_stands_in_the_way_is_told(
    site: Site, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(site.dir)
    assert message in site.refused()


def test_roles_that_are_a_file_are_told(bare: Site) -> None:
    bare.write("roles", "")
    bare.write("requirements.yml", "[{src: 'file:///nowhere/web.tar.gz'}]\n")
    assert "roles is no folder" in bare.refused()


@pytest.mark.parametrize("name", ["roles", "collections", "collections/ansible_collections"])
def test_a_folder_that_leads_out_of_the_site_is_refused(
    bare: Site, tmp_path: Path, name: str
) -> None:
    (tmp_path / "outside").mkdir()
    (bare.dir / name).parent.mkdir(exist_ok=True)
    (bare.dir / name).symlink_to(tmp_path / "outside")
    bare.write(
        "requirements.yml",
        "roles: [{src: 'file:///nowhere/web.tar.gz'}]\ncollections: [acme.base]\n",
    )
    assert f"{name} leads out of the site" in bare.refused("--allow-outside")
    assert not [*(tmp_path / "outside").iterdir()]


BAD: Mapping[str, tuple[str, str]] = {
    "roles: [": ("requirements.yml:1:9", "this is not YAML"),
    "roles:\n\t- a.b\n": ("requirements.yml:2:1", "this is not YAML"),
    "just words\n": ("requirements.yml:1:1", "has to be a list of roles"),
    "rolls: []\n": ("requirements.yml:1:1", "unknown key rolls"),
    "roles: {a: b}\n": ("requirements.yml:1:8", "`roles` has to be a list"),
    "roles:\n  - [a.b]\n": ("requirements.yml:2:5", "a name, or a mapping"),
    "roles:\n  - src: a.b\n    verison: 1\n": ("requirements.yml:2:5", "unknown key verison"),
    "- include: more.yml\n": ("requirements.yml:1:3", "write the entries of that file here"),
    "- {src: a.b, version: [1]}\n": ("requirements.yml:1:3", "`version` has to be text"),
    "- {version: 1}\n": ("requirements.yml:1:3", "neither `src` nor `name`"),
    "- a.b,1,c,d\n": ("requirements.yml:1:3", "more than SRC,VERSION,NAME"),
    "- {src: a.b, name: ../x}\n": ("requirements.yml:1:3", "../x is no name of a folder"),
    "- {src: a.b, name: /x}\n": ("requirements.yml:1:3", "/x is no name of a folder"),
    "- {src: a.b, name: ..}\n": ("requirements.yml:1:3", ".. is no name of a folder"),
    "- git+https://x.invalid/..\n": ("requirements.yml:1:3", ".. is no name of a folder"),
    "- --upload-pack=x,1,name\n": ("requirements.yml:1:3", "taken for an option"),
    "- a.b\n- {src: c.d, name: a.b}\n": ("requirements.yml:2:3", "required twice, and not alike"),
    "collections: [../x]\n": ("requirements.yml:1:15", "../x is neither NAMESPACE.NAME nor"),
    "collections: [a]\n": ("requirements.yml:1:15", "a is neither NAMESPACE.NAME nor"),
    "collections: [{type: zip, name: a.b}]\n": ("requirements.yml:1:15", "type zip is none of"),
    "collections: [{version: 1}]\n": ("requirements.yml:1:15", "neither `name` nor `source`"),
    "collections: [evil.tar.gz]\n": ("requirements.yml:1:15", "calls itself a./tmp/x, which is"),
    "collections: [./site.yml]\n": ("requirements.yml:1:15", "site.yml is no archive"),
}


@pytest.mark.parametrize("text", BAD)
def test_a_mistake_in_the_requirements_is_told_at_its_place(bare: Site, text: str) -> None:
    bare.write("requirements.yml", text)
    bare.write("MANIFEST.json", '{"collection_info": {"namespace": "a", "name": "/tmp/x"}}')
    with tarfile.open(bare.dir / "evil.tar.gz", "w:gz") as archive:
        archive.add(bare.dir / "MANIFEST.json", "MANIFEST.json")
    before = bare.files()
    place, message = BAD[text]
    for words in ((), ("--check",)):
        code, out, err = bare.install(*words)
        assert (code, out) == (3, "")
        assert err.startswith(f"{place}: ")
        assert message in err
    assert bare.files() == before


def test_all_mistakes_of_all_files_are_told_at_once(bare: Site) -> None:
    bare.write("requirements.yml", "- {version: 1}\n- {version: 2}\n")
    bare.write("collections/requirements.yml", "- acme.base\n")
    bare.write("roles/requirements.yml", "- {src: a.b, name: ../x}\n")
    code, _, err = bare.install()
    assert code == 3
    assert "collections/requirements.yml:1:1: a list means roles (write it below" in err
    assert "4 findings" in err


def test_a_site_without_requirements_is_told_so(bare: Site) -> None:
    code, _, err = bare.install()
    assert code == 3
    assert err.startswith("requirements.yml: there is no such file, nor one in roles/")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<<<<<< HEAD\nformat: 1\n", f"{LOCK}:2:7: the lock is damaged"),
        ("format: 2\n", f"{LOCK}: the lock is damaged: $.format: 1 was expected"),
        (f"format: 1\nroles: {{../x: {{sha256: {'0' * 64}}}}}\n", "'../x' does not match"),
    ],
)
def test_a_damaged_lock_is_refused(bare: Site, text: str, message: str) -> None:
    bare.write("requirements.yml", "[]\n")
    bare.write(LOCK, text)
    code, _, err = bare.install()
    assert code == 3
    assert message in err
    assert "take it back from Git" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("web",), "names go with --update only"),
        (("--check", "--force"), "--check changes nothing"),
        (("--update", "wbe"), "neither requirements nor lock have wbe (known are acme.base"),
    ],
)
def test_wrong_usage_is_told(site: Site, words: tuple[str, ...], message: str) -> None:
    code, _, err = site.install(*words)
    assert code == 64
    assert message in err
