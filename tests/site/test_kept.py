"""A site that was kept says the same as one that is evaluated, and only while nothing differs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings

from cobweb._cache import Cache
from cobweb.errors import CobwebError, Place, SiteError
from cobweb.model import CobId, Graph, Host
from cobweb.site import Site, _key, load_site
from cobweb.site._cache import pack, unpack
from cobweb_plugins.ansible._adapter import AnsibleInventory
from tests.site.conftest import TYPES
from tests.support.random_sites import Case, cases

Maker = Any

SITE = f"""
cobweb: 1
name: kept
inventory:
  app:
    hosts: {{app01: {{rack: a}}, app02: {{rack: b, db: db01}}, app03: {{rack: a, db: db01}}}}
    vars: {{secret: !vault "$ANSIBLE_VAULT;1.1;AES256 3632", db: db02}}
  db: {{hosts: {{db01: , db02: }}}}
cobs:
  a: {{type: simple, on: app, spec: {{x: "{{{{ rack }}}}", y: [1, 1.0, true, null], z: ""}}}}
  b: {{type: simple, on: app, binds: [a, "d@{{{{ db }}}}"], spec: {{s: "{{{{ secret }}}}"}}}}
  c: {{type: other, on: "app[0]", after: [b@app]}}
  d: {{type: simple, on: db}}
limits:
  rolling: {{on: app, max: 50%, per: rack, order: "{{{{ rack }}}}", first: 1, pause: 5, trust: 9}}
  gates: {{on: app, transition: "* -> *", max: 50%, per: rack}}
drift: {{ignore: ["*@app"]}}
{TYPES}
  other: {{states: [on], preferred: on, remove: on, check: {{tasks: check.yml}}}}
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def root(maker: Maker, tmp_path: Path) -> Path:
    maker.root = tmp_path / "site"
    maker.write({"site.yml": SITE, "tasks/check.yml": "- debug:"})
    return Path(maker.root)


def test_what_was_kept_is_what_is_evaluated(root: Path, cache: Cache) -> None:
    first, plain = load_site(root, cache=cache), load_site(root)
    assert same(first.graph(), plain.graph())
    second = load_site(root, cache=cache)
    assert second._kept is not None
    assert same(second.graph(), plain.graph())
    assert second.findings_of_files() == ()
    assert "_parts" not in second.__dict__, "a file was read"
    assert facts(second) == facts(plain)
    plain.findings_of_files()
    assert second.content_key() == first.content_key() == plain.content_key()


def test_the_rest_is_read_when_it_is_asked_for(root: Path, cache: Cache) -> None:
    load_site(root, cache=cache).graph()
    kept, plain = load_site(root, cache=cache), load_site(root)
    assert same(kept.graph("app02"), plain.graph("app02"))
    assert kept.select("app*") == plain.select("app*")
    assert kept.explain("app01/a.spec.x") == plain.explain("app01/a.spec.x")
    assert dict(kept.hosts) == dict(plain.hosts)
    assert "nobody" not in kept.hosts
    with pytest.raises(KeyError):
        kept.hosts["nobody"]
    assert kept.content_key() is not None


def test_what_changes_between_looking_and_reading_has_no_key(root: Path, cache: Cache) -> None:
    load_site(root, cache=cache).graph()
    kept = load_site(root, cache=cache)
    with (root / "site.yml").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    kept.graph("app02")
    assert kept.content_key() is None


def test_a_changed_site_is_evaluated_anew(root: Path, cache: Cache) -> None:
    before = load_site(root, cache=cache)
    before.graph()
    (root / "site.yml").write_text(SITE.replace("rack: b", "rack: c"), encoding="utf-8")
    after = load_site(root, cache=cache)
    assert after._kept is None
    assert after.graph().cobs[CobId("app02/a")].spec["x"] == "c"
    assert after.content_key() != before.content_key()
    (root / "site.yml").write_text(SITE, encoding="utf-8")
    assert same(load_site(root, cache=cache).graph(), before.graph())


def test_types_of_plugins_are_those_of_today(root: Path, cache: Cache) -> None:
    foreign = {"plugged": load_site(root).types["other"]}
    load_site(root, cache=cache, types=foreign).graph()
    assert load_site(root, cache=cache)._kept is None
    kept = load_site(root, cache=cache, types=foreign)
    assert kept._kept is not None
    assert kept.types["plugged"] is foreign["plugged"]
    assert list(kept.types) == list(load_site(root, types=foreign).types)


def test_mistakes_are_never_kept(root: Path, cache: Cache, tmp_path: Path) -> None:
    (root / "tasks/check.yml").unlink()
    for _ in range(2):
        site = load_site(root, cache=cache, adapters=(AnsibleInventory(),))
        site.graph()
        assert [finding.message for finding in site.findings_of_files()] != []
    (root / "site.yml").write_text(SITE.replace("rack }}", "rakc }}"), encoding="utf-8")
    for _ in range(2):
        with pytest.raises(SiteError, match="rakc"):
            load_site(root, cache=cache).graph()
    assert not (tmp_path / "cache").exists()


def test_sites_that_share_a_file_by_links_keep_apart(
    maker: Maker, tmp_path: Path, cache: Cache
) -> None:
    maker.root = tmp_path
    (tmp_path / ".git").mkdir()
    maker.write({"site.yml": SITE, "tasks/check.yml": "- debug:"})
    for name in ("one", "two"):
        (tmp_path / name / "group_vars").mkdir(parents=True)
        (tmp_path / name / "site.yml").symlink_to("../site.yml")
        (tmp_path / name / "tasks").symlink_to("../tasks")
        text = f"db: db0{1 + (name == 'two')}"
        (tmp_path / name / "group_vars/app.yml").write_text(text, encoding="utf-8")
    made = {}
    for name in ("one", "two", "one", "two"):
        site, plain = load_site(tmp_path / name, cache=cache), load_site(tmp_path / name)
        assert site.is_kept is (name in made)
        assert site.dir == plain.dir == tmp_path / name
        assert same(site.graph(), plain.graph())
        made[name] = site.content_key()
    assert made["one"] != made["two"]


def test_a_site_named_from_elsewhere_is_looked_at_where_it_is(
    root: Path, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    load_site(Path(), cache=cache).graph()
    monkeypatch.chdir(tmp_path)
    assert load_site(root, cache=cache).is_kept
    (root / "group_vars").mkdir()
    (root / "group_vars/db.yml").write_text("new: 1", encoding="utf-8")
    site = load_site(root, cache=cache)
    assert not site.is_kept
    assert site.hosts["db01"].variables["new"] == 1


@pytest.mark.parametrize("question", ["file", "folder", "glob"])
def test_a_site_that_changes_while_it_is_read_is_not_kept(
    root: Path, cache: Cache, tmp_path: Path, question: str
) -> None:
    site = load_site(root, cache=cache)
    files = site._parts.files
    ask: dict[str, Callable[[], object]] = {
        "file": lambda: files.data(root / "more"),
        "folder": lambda: files.members(root),
        "glob": lambda: files.glob(root, "m*"),
    }
    if question == "file":
        (root / "more").write_bytes(b"one")
    ask[question]()
    before = dict(files.notes)
    (root / "more").write_bytes(b"two")
    ask[question]()
    assert files.notes == before, "what was said first is forgotten"
    site.graph()
    assert site.content_key() is None
    assert not (tmp_path / "cache").exists()


def test_cobwebs_own_code_is_not_looked_at_for_a_site_that_was_never_kept(
    root: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_arguments: object) -> None:
        raise AssertionError("it was looked at")

    with monkeypatch.context() as patch:
        patch.setattr(_key, "code_of", never)
        site = load_site(root, cache=cache)
    site.graph()
    assert load_site(root, cache=cache).is_kept


class Opener:
    """An adapter that opens vaulted files, and counts how often."""

    name: ClassVar[str] = "opener"

    def __init__(self) -> None:
        self.opened: list[tuple[str, Path]] = []

    def reads(self, source: Path) -> bool:
        return source.suffix == ".sh"

    def hosts(self, source: Path) -> list[Host]:
        raise NotImplementedError

    def unvaulted(self, path: Path, site_dir: Path) -> dict[str, Any]:
        self.opened.append((path.name, site_dir))
        if "damaged" in path.read_text():
            raise CobwebError("it is damaged", hint="look")
        mark = {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n3132\n"}
        return {"vault_pw": mark, "ansible_port": mark, "on": True, "deep": [{"k": mark}, None]}


VAULTED = "$ANSIBLE_VAULT;1.1;AES256\n3132\n"
OF_VAULT = {
    "site.yml": "cobs: {a: {type: simple, on: all, spec: {a: '{{ vault_pw }}', b: '{{ deep }}',"
    " c: '{{ on }}'}}}",
    "group_vars/all/vault.yml": VAULTED,
    "group_vars/all/vars.yml": "plain: 1\n",
    "tasks/check.yml": "- debug:",
    "check.yml": "- debug:",
}


def test_a_vaulted_file_is_opened_once_and_its_site_is_kept(maker: Maker, cache: Cache) -> None:
    maker.root /= "site"
    opener = Opener()
    site = maker.site(OF_VAULT, adapters=[opener], cache=cache)
    spec = site.graph().cobs[CobId("app01/a")].spec
    mark = {"__ansible_vault": VAULTED}
    assert spec == {"a": mark, "b": [{"k": mark}, None], "c": True}
    assert dict(site.hosts["db01"].variables)["plain"] == 1
    found = site.explain("app01.deep")
    assert (found.value, str(found.place)) == (
        [{"k": "(vaulted)"}, None],
        "group_vars/all/vault.yml",
    )
    assert opener.opened == [("vault.yml", maker.root)]
    again = load_site(maker.root, adapters=[opener], cache=cache)
    assert again._kept is not None
    assert same(again.graph(), site.graph())
    assert len(opener.opened) == 1
    maker.write({"group_vars/all/vault.yml": VAULTED + "33\n"})
    assert load_site(maker.root, adapters=[opener], cache=cache)._kept is None
    assert len(opener.opened) == 2


def test_what_an_opener_says_of_a_file_is_a_finding(maker: Maker) -> None:
    files = {**OF_VAULT, "group_vars/all/vault.yml": VAULTED + "damaged"}
    told = "group_vars/all/vault.yml: it is damaged (look)"
    assert told in maker.findings(files, adapters=[Opener()])
    told = "group_vars/all/vault.yml: the whole file is vaulted (vault single values, as"
    assert [it for it in maker.findings(files) if it.startswith(told)]


def test_only_variables_may_be_vaulted_as_a_whole(maker: Maker) -> None:
    files = {"site.yml": "inventory: hosts.yml", "hosts.yml": VAULTED}
    (told,) = maker.findings(files, adapters=[Opener()])
    assert told.startswith("hosts.yml: the whole file is vaulted")


class Program:
    """An adapter whose hosts could be others the next time."""

    name: ClassVar[str] = "program"

    def reads(self, source: Path) -> bool:
        return source.suffix == ".sh"

    def hosts(self, source: Path) -> list[Host]:
        return [Host(name=source.stem, groups=("app",))]


def test_what_a_plugin_tells_is_never_kept(maker: Maker, cache: Cache, tmp_path: Path) -> None:
    site = "cobs: {a: {type: simple, on: app}}\ninventory: more.sh"
    for _ in range(2):
        files = {"site.yml": site, "more.sh": "", "check.yml": "- debug:"}
        made = maker.site(files, cache=cache, adapters=[Program()])
        assert list(made.graph().cobs) == ["more/a"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("kind", ["site", "graph"])
@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_without_an_entry_it_is_evaluated(
    root: Path, cache: Cache, tmp_path: Path, kind: str, damage: str
) -> None:
    plain = load_site(root).graph()
    load_site(root, cache=cache).graph()
    (entry,) = (tmp_path / "cache").glob(f"{kind}.*")
    if damage == "gone":
        entry.unlink()
    else:
        entry.write_bytes(entry.read_bytes()[:-1])
    assert same(load_site(root, cache=cache).graph(), plain)
    again = load_site(root, cache=cache)
    assert again._kept is not None
    assert same(again.graph(), plain)
    assert "_parts" not in again.__dict__, "it was not kept again"


def test_secrets_stay_sealed(root: Path, cache: Cache) -> None:
    load_site(root, cache=cache).graph()
    spec = load_site(root, cache=cache).graph().cobs[CobId("app01/b")].spec
    assert spec == {"s": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256 3632"}}


def test_specs_that_are_no_plain_data_are_not_kept(root: Path) -> None:
    graph = load_site(root).graph()
    cob = graph.cobs[CobId("db01/d")]
    odd = type(cob)(id=cob.id, type=cob.type, spec={"x": object()}, place=Place(file="f"))
    assert pack(Graph(cobs={cob.id: odd})) is None
    assert unpack(pack(Graph(cobs={})) or b"", {}) == Graph(cobs={})


@pytest.mark.gate("a property over random sites")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases(trouble=False))
def test_random_sites_are_the_same_with_and_without(case: Case) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "site")
        folder.mkdir()
        for task in ("check.yml", "do.yml"):
            (folder / task).write_text("- debug:", encoding="utf-8")
        plain = case.load(folder).graph()
        cache = Cache(Path(name, "cache"))
        assert same(load_site(folder, cache=cache).graph(), plain)
        kept = load_site(folder, cache=cache)
        assert kept._kept is not None
        assert same(kept.graph(), plain)


def same(one: Graph, other: Graph) -> bool:
    """Say whether two graphs are equal in their places and in the order of everything, too."""
    return (
        one == other
        and list(one.cobs) == list(other.cobs)
        and [repr(cob.spec) for cob in one.cobs.values()]
        == [repr(cob.spec) for cob in other.cobs.values()]
        and [need.place for need in one.needs] == [need.place for need in other.needs]
        and [limit.place for limit in one.limits] == [limit.place for limit in other.limits]
        and [it.place for it in one.budgets] == [it.place for it in other.budgets]
    )


def facts(site: Site) -> list[object]:
    """Return what a site says without its objects."""
    return [
        site.name,
        site.dir,
        site.state_url,
        dict(site.types),
        dict(site.sections),
        [site.ignores_drift(CobId(cob)) for cob in ("app01/c", "elsewhere/c")],
        [*site.hosts],
    ]


def test_the_trees_of_a_site_that_was_kept_can_be_had(root: Path, cache: Cache) -> None:
    """Its specs are evaluated then, and say the same."""
    text = SITE.replace("cobs:\n", "cobs:\n  t: {type: folder, on: app, spec: {source: etc}}\n") + (
        "  folder: {states: [on], preferred: on, remove: on, check: {tasks: check.yml},"
        " spec: {properties: {source: {x-cobweb: tree}}}}\n"
    )
    (root / "etc").mkdir()
    (root / "etc/a").write_text("1")
    (root / "site.yml").write_text(text)
    first = load_site(root, cache=cache)
    tree = first.graph().cobs[CobId("app01/t")].spec["tree"]
    second = load_site(root, cache=cache)
    assert second._kept is not None
    assert second.graph().cobs[CobId("app01/t")].spec["tree"] == tree
    assert dict(second.trees()) == dict(first.trees())
    assert list(second.trees()) == [tree["digest"]]
    (root / "etc/a").write_text("2")
    assert load_site(root, cache=cache)._kept is None
