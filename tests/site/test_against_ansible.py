"""Hosts, groups, precedence and patterns are what Ansible itself makes of the same files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cobweb.errors import UsageError
from cobweb.site import Site, load_site
from tests.support.examples import examples
from tests.support.loaded_ansible import loaded_ansible

pytestmark = [pytest.mark.gate("random inventories beside real Ansible")]

pytest.importorskip("ansible")

GROUPS = ["red", "green", "blue", "web1", "web2", "gold"]
HOSTS = ["h1", "h2", "h3", "n.example.com", "web9"]
RANGES = ["r[1:3]", "r[01:03]", "x[a:c]", "s[1:6:2]", "t[1:2]-[a:b]"]
NAMES = ["alpha", "beta", "gamma"]

variables = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(st.integers(0, 9), st.lists(st.integers(0, 3), max_size=2), st.just({"a": 1})),
    max_size=3,
)


@st.composite
def inventories(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an inventory in Ansible's YAML form; children only point forward, so no circles."""
    groups: dict[str, Any] = {}
    for index, name in enumerate(GROUPS):
        if not draw(st.booleans()) and index:
            continue
        hosts = draw(st.lists(st.sampled_from(HOSTS + RANGES), unique=True, max_size=4))
        later = GROUPS[index + 1 :]
        children = draw(st.lists(st.sampled_from(later), unique=True, max_size=3)) if later else []
        body: dict[str, Any] = {
            "hosts": {host: draw(variables) for host in hosts},
            "children": dict.fromkeys(children),
            "vars": draw(variables),
        }
        if draw(st.integers(0, 3)) == 0:
            body["vars"]["ansible_group_priority"] = draw(st.integers(1, 12))
        groups[name] = body
    groups["all"] = {"vars": draw(variables), "hosts": {"lonely": draw(variables)}}
    return groups


@st.composite
def variable_files(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Draw files of variables beside the inventory and beside the site."""
    places = [
        f"{folder}{kind}/{name}{suffix}"
        for folder in ("inv/", "")
        for kind, names in (("group_vars", ["all", "red", "blue"]), ("host_vars", ["h1", "r2"]))
        for name in names
        for suffix in (".yml", "", ".json", "/main.yml")
    ]
    chosen = draw(st.lists(st.sampled_from(places), max_size=5, unique_by=_stem))
    return {place: draw(variables) for place in chosen}


def _stem(place: str) -> str:
    return place.removesuffix("/main.yml").removesuffix(".yml").removesuffix(".json")


@pytest.fixture(scope="module", autouse=True)
def _ansible() -> Iterator[None]:
    with loaded_ansible():
        yield


class Theirs:
    """What Ansible makes of an inventory, beside which a playbook lies in `base`."""

    def __init__(self, source: Path, base: Path) -> None:
        from ansible.inventory.manager import InventoryManager
        from ansible.parsing.dataloader import DataLoader
        from ansible.vars.manager import VariableManager

        loader = DataLoader()
        loader.set_basedir(str(base))
        self.manager = InventoryManager(loader=loader, sources=[str(source)])
        self._variables = VariableManager(loader=loader, inventory=self.manager)

    def hosts(self, pattern: str) -> list[str]:
        return [host.name for host in self.manager.get_hosts(pattern)]

    def groups(self) -> dict[str, list[str]]:
        return {name: list(hosts) for name, hosts in self.manager.get_groups_dict().items()}

    def variables(self, host: str) -> dict[str, Any]:
        found = self._variables.get_vars(host=self.manager.get_host(host), include_hostvars=False)
        plain: dict[str, Any] = json.loads(json.dumps({n: found[n] for n in NAMES if n in found}))
        return plain


def _write(root: Path, groups: dict[str, Any], files: dict[str, dict[str, Any]]) -> Site:
    (root / "inv").mkdir()
    (root / "inv/hosts.yml").write_text(json.dumps(groups))
    (root / "site.yml").write_text("cobweb: 1\ninventory: inv/hosts.yml\n")
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return load_site(root)


relaxed = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None
)


@relaxed
@given(inventories(), variable_files())
def test_groups_and_variables_equal_those_of_ansible(
    groups: dict[str, Any], files: dict[str, dict[str, Any]]
) -> None:
    """Membership of all groups, and each host's variables after precedence."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        site = _write(root, groups, files)
        theirs = Theirs(root / "inv/hosts.yml", root)
        assert sorted(site.hosts) == sorted(theirs.hosts("all"))
        for name, members in theirs.groups().items():
            assert sorted(site.select(name)) == sorted(members), name
        for host in site.hosts:
            assert dict(site.hosts[host].variables).keys() >= theirs.variables(host).keys()
            mine = {n: v for n, v in site.hosts[host].variables.items() if n in NAMES}
            assert mine == theirs.variables(host), host


PARTS = [
    *(*GROUPS, *HOSTS[:3], "all", "*", "web*", "r?", "h[12]", "~r[0-9]+", "~(red|h1)$", "lonely"),
    *("red[0]", "red[-1]", "red[0:1]", "red[1:]", "g*", "*.example.com", "web*[0]", "ungrouped"),
]


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Draw a pattern of one to three parts with signs."""
    signs = st.sampled_from(["", "&", "!"])
    further = st.tuples(signs, st.sampled_from(PARTS)).map("".join)
    chosen = [draw(st.sampled_from(PARTS)), *draw(st.lists(further, max_size=2))]
    return draw(st.sampled_from([":", ","])).join(chosen)


@relaxed
@given(inventories(), st.lists(patterns(), min_size=1, max_size=10))
def test_patterns_select_what_ansible_selects(groups: dict[str, Any], tried: list[str]) -> None:
    """The same hosts in the same order; what Ansible ignores with a warning may be an error here.

    One level of children only: below that Ansible's own order is that of a hash.
    """
    for name in GROUPS[1:]:
        groups.get(name, {}).pop("children", None)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        site = _write(root, groups, {})
        theirs = Theirs(root / "inv/hosts.yml", root)
        for pattern in tried:
            _compare(site, theirs, pattern)


def _compare(site: Site, theirs: Theirs, pattern: str) -> None:
    from ansible.errors import AnsibleError

    try:
        expected = theirs.hosts(pattern)
    except AnsibleError:
        with pytest.raises(UsageError):
            site.select(pattern)
        return
    unknown = {part.lstrip("&!").split("[")[0] for part in re.split(r"[:,](?![^\[]*\])", pattern)}
    unknown -= {*site.hosts, *theirs.groups()}
    if any(not set(name) & set("*?~") for name in unknown):
        with pytest.raises(UsageError, match="no host or group is called"):
            site.select(pattern)
    else:
        assert list(site.select(pattern)) == expected, pattern


@pytest.mark.parametrize("first", ["hosts", "children"])
def test_hosts_come_in_the_order_of_writing(tmp_path: Path, first: str) -> None:
    """Those of a group before or after those of its children: a glob has no other order."""
    body = {"hosts": {"h5": None}, "children": {"g4": {"hosts": {"h3": None, "h9": None}}}}
    keys = sorted(body, key=lambda key: key != first)
    groups = {"g2": {key: body[key] for key in keys}, "g1": {"hosts": {"h1": None}}}
    site = _write(tmp_path, groups, {})
    theirs = Theirs(tmp_path / "inv/hosts.yml", tmp_path)
    for pattern in ("h*", "h*[0]", "~h[0-9]", "g2", "all", "g*"):
        assert list(site.select(pattern)) == theirs.hosts(pattern), pattern


def test_order_of_hosts_is_that_of_ansible(tmp_path: Path) -> None:
    """In an inventory whose groups are one level deep Ansible's own order is fixed."""
    groups = {
        "b": {"hosts": {"z[1:3]": None, "a1": None}},
        "a": {"hosts": {"a1": None, "m": None}, "children": {"b": None}},
    }
    site = _write(tmp_path, groups, {})
    theirs = Theirs(tmp_path / "inv/hosts.yml", tmp_path)
    for pattern in ("all", "a", "b", "b:a", "a:b", "*", "a[0]", "b[1:2]"):
        assert list(site.select(pattern)) == theirs.hosts(pattern), pattern


def test_names_of_hexadecimal_letters_are_no_address(tmp_path: Path) -> None:
    """`a:b:c` are three groups, and `2001:db8::56e` is a host."""
    groups = {name: {"hosts": {f"{name}1": None}} for name in "abc"}
    groups["c"]["hosts"]["2001:db8::56e"] = None
    site = _write(tmp_path, groups, {})
    theirs = Theirs(tmp_path / "inv/hosts.yml", tmp_path)
    for pattern in ("a:b:c", "a:b:c:!a", "2001:db8::56e", "c"):
        assert list(site.select(pattern)) == theirs.hosts(pattern), pattern


def _hostvars(said: str) -> Any:
    return json.loads(said)["_meta"]["hostvars"]


UNSAFE = """\
alpha: !unsafe "a{{ b }}"
beta: !unsafe [x, 7, "7", !!str 7, true, null, 1.5, {"{{ k }}": "{{ z }}", deep: [&d y, !vault v]}]
gamma: {inner: !unsafe &g {p: "{% q %}"}, base: &b "{{ b }}", reused: !unsafe [*b], other: *g}
"""


def test_texts_that_are_no_templates_are_told_as_ansible_tells_them(tmp_path: Path) -> None:
    _write(tmp_path, {"red": {"hosts": {"h1": None}}}, {})
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/red.yml").write_text(UNSAFE)
    command = [sys.executable, "-m", "ansible", "inventory", "--playbook-dir", str(tmp_path)]
    asked = [*command, "-i", str(tmp_path / "inv/hosts.yml"), "--list"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    site = load_site(tmp_path)
    assert json.loads(json.dumps(dict(site.hosts["h1"].variables))) == _hostvars(said)["h1"]
    assert '"__ansible_unsafe": "a{{ b }}"' in said
    assert site.explain("h1.alpha").value == "a{{ b }}"
    assert site.explain("h1.alpha").template is None
