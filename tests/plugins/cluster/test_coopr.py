"""Coopr's published entities become a catalog that resolves; what does not fit is told."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cobweb.cli import main
from cobweb_plugins.cluster._automators import task_file
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._coopr import KINDS, Entity, Notes, converted, kind_of
from cobweb_plugins.cluster._coopr_files import is_ours, module_text, with_import
from cobweb_plugins.cluster._coopr_fit import fitted
from cobweb_plugins.cluster._coopr_shape import misshapen
from cobweb_plugins.cluster._template import resolve
from cobweb_plugins.cluster._yaml_text import yaml_lines

pytestmark = [pytest.mark.full("published catalogs entity by entity")]

PUBLISHED = Path(__file__).resolve().parents[2] / "fixtures" / "coopr"
MORE = PUBLISHED.with_name("coopr-more")
TEMPLATES = ("ambari", "base", "lamp", "mean-singlenode", "mongodb-singlenode")
SITE = "cobweb: 1\nname: c\ninventory: {all: {hosts: {h: {}}}}\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site that has nothing yet."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE)
    return folder


@pytest.fixture
def entities(tmp_path: Path) -> Callable[..., Path]:
    """Write entities of Coopr: a folder `kind`, a name and what the entity has besides."""

    def write(**kinds: dict[str, dict[str, Any]]) -> Path:
        for kind, all_of_kind in kinds.items():
            for name, data in all_of_kind.items():
                path = tmp_path / "coopr" / kind / f"{name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps({"name": name, **data}))
        return tmp_path / "coopr"

    return write


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the catalog that the published entities become."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "site.yml").write_text(SITE)
    assert main(["import", "coopr", str(PUBLISHED), "-C", str(folder)]) == 0
    return _catalog(folder / "catalog")


def _catalog(folder: Path) -> dict[str, Any]:
    """Return the catalog that the modules of a folder have, read by another reader."""
    found: dict[str, Any] = {}
    for path in folder.glob("*.yml"):
        found |= yaml.safe_load(path.read_text())["catalog"]
    return found


# The published entities.


@pytest.mark.gate("the command once")
def test_the_published_entities_are_imported(run: Any, site: Path, check_schema: Any) -> None:
    ran = run("import", "coopr", PUBLISHED, "-C", site, "-o", "json")
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    check_schema("import", data)
    assert tuple(data["imported"]["templates"]) == TEMPLATES
    assert len(data["imported"]["services"]) == 14
    imports = 'imports: ["catalog/*.yml"]\n'
    assert (site / "site.yml").read_text() == SITE.replace("name:", f"{imports}name:")
    gone = {it["name"] for it in data["left_out"] if not it["what"]}
    assert gone == {"centos7", "debian8", "rhel6", "rhel7"}
    assert run("validate", "-C", site).code == 0


@pytest.mark.gate("the example of the paper")
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_published_template_resolves(published: dict[str, Any], name: str) -> None:
    request = {"clusters": {"c": {"template": name, "nodes": 1}}}
    catalog = read_catalog({"catalog": published, **request})
    found = resolve(catalog, catalog.clusters["c"])
    assert found.provider.type == "rackspace"
    assert found.hardwaretype in found.hardwaretypes
    assert found.imagetype in found.imagetypes
    assert set(found.services) == set(catalog.templates[name].defaults.services)


@pytest.mark.gate("the example of the paper")
def test_the_lamp_template_is_as_it_was_published(published: dict[str, Any]) -> None:
    catalog = read_catalog({"catalog": published})
    lamp = catalog.templates["lamp"]
    published = json.loads((PUBLISHED / "clustertemplates" / "lamp.json").read_text())
    assert lamp.defaults.config == published["defaults"]["config"]
    assert lamp.mustcoexist == (("apache-httpd", "php", "php-modules"),)
    assert {name: rule.quantities.max for name, rule in lamp.rules.items()} == {
        "haproxy": 1,
        "mysql-server": 1,
    }
    assert lamp.links == (("Apache HTTPd", "http://%ip.access_v4.service.apache-httpd%:80"),)
    medium = catalog.hardwaretypes["standard-medium"].providers["rackspace"]
    assert medium == {"flavor": "5", "cost": 0.36, "cores": 2, "memory_mb": 4096}
    assert catalog.imagetypes["debian6"].providers["aws-us-east-1"]["user"] == "admin"
    start = catalog.services["mysql-server"].actions["start"]
    assert (start.automator, start.tasks) == ("chef-solo", "catalog/automators/chef-solo.yml")
    assert json.loads(start.fields["json_attributes"]) == {"coopr_mysql": {"action": "start"}}


def test_importing_twice_changes_nothing(run: Any, site: Path) -> None:
    run("import", "coopr", PUBLISHED, "-C", site)
    before = {path: path.read_bytes() for path in site.rglob("*.yml")}
    assert run("import", "coopr", PUBLISHED, "-C", site).code == 0
    assert {path: path.read_bytes() for path in site.rglob("*.yml")} == before


def test_text_says_what_came_and_what_did_not(run: Any, site: Path) -> None:
    ran = run("import", "coopr", PUBLISHED, "-C", site)
    assert "providers      aws-us-east-1, openstack, rackspace" in ran.out
    assert "left out: imagetypes rhel6 (none of its providers is there (google))" in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= 80
    assert ran.err == "34 entities in catalog, 20 things left out\n"


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Return a folder with all that Coopr has published, which may be changed."""
    folder = tmp_path / "whole"
    for part in (PUBLISHED, MORE):
        shutil.copytree(part, folder, dirs_exist_ok=True)
    return folder


def imported(run: Any, site: Path, source: Path) -> tuple[Any, Any]:
    """Import entities, which must leave a sound site; return what came, and what did not."""
    ran = run("import", "coopr", source, "-C", site, "-o", "json")
    assert ran.code == 0, ran.err
    assert run("validate", "-C", site).code == 0
    data = json.loads(ran.out)
    return data["imported"], data["left_out"]


def test_the_whole_published_catalog_is_imported(run: Any, site: Path, whole: Path) -> None:
    """A template that requires a service that was never published is left out, and told."""
    came, left_out = imported(run, site, whole)
    assert {part: len(names) for part, names in came.items()} == {
        "hardwaretypes": 5,
        "imagetypes": 11,
        "providers": 8,
        "services": 53,
        "templates": 14,
    }
    assert [it["name"] for it in left_out if not it["what"]] == ["coopr-standalone-docker"]
    assert {
        "kind": "templates",
        "name": "docker-base",
        "what": "imagetype: centos6",
        "why": "the template does not allow its own default",
    } in left_out
    assert ["cdap-distributed", "constraints.layout.mustcoexist: mysql-server"] in [
        [it["name"], it["what"]] for it in left_out
    ]


def as_texts(value: Any) -> Any:
    """Return data with its numbers as texts, as older releases wrote them."""
    if isinstance(value, dict):
        return {key: as_texts(it) for key, it in value.items()}
    if isinstance(value, list):
        return [as_texts(it) for it in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if is_number else value


def doubled(value: Any) -> Any:
    """Return data with the first of each list of names there twice."""
    if isinstance(value, dict):
        free = ("config", "fields")
        return {key: it if key in free else doubled(it) for key, it in value.items()}
    if isinstance(value, list) and value:
        return (
            [*map(doubled, value), value[0]]
            if isinstance(value[0], str)
            else [*map(doubled, value)]
        )
    return value


def with_nulls(value: Any) -> Any:
    """Return data with null for what is empty, as Coopr's export wrote it."""
    if isinstance(value, dict):
        return {key: with_nulls(it) for key, it in value.items()}
    return None if value == [] else value


def as_before_0_9_8(value: Any) -> Any:
    """Return a service with the names of what it needs in one list, and bare actions."""
    needs = value.get("dependencies") or {}
    runtime = needs.get("runtime") or {}
    if not runtime.get("requires"):
        return value
    rest = {**needs, "runtime": {key: it for key, it in runtime.items() if key != "requires"}}
    return {**value, "dependencies": rest, "dependson": runtime["requires"]}


def as_before_0_9_9(value: Any) -> Any:
    """Return a provider whose fields are below `auth`."""
    if "providertype" not in value or "provisioner" not in value:
        return value
    return {**value, "provisioner": {"auth": value["provisioner"]}}


def with_icons(value: Any) -> Any:
    """Return an entity with words that Cobweb has not."""
    return {**value, "icon": "x.png", "partnerProvider": True}


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, dict[str, Any]]:
    """Return what comes of the whole published catalog, what does not, and the catalog."""
    folder = tmp_path_factory.mktemp("unchanged")
    (folder / "site.yml").write_text(SITE)
    for part in (PUBLISHED, MORE):
        shutil.copytree(part, folder / "whole", dirs_exist_ok=True)
    with redirect_stdout(io.StringIO()) as out:
        words = ["-C", str(folder), "-o", "json"]
        assert main(["import", "coopr", str(folder / "whole"), *words]) == 0
    data = json.loads(out.getvalue())
    return data["imported"], data["left_out"], _catalog(folder / "catalog")


def vary(whole: Path, trait: Callable[[Any], Any]) -> int:
    """Give all entities a trait; return how many have become others by it."""
    changed = 0
    for path in whole.rglob("*.json"):
        before = json.loads(path.read_text())
        after = trait(before)
        path.write_text(json.dumps(after))
        changed += after != before
    return changed


@pytest.mark.parametrize(
    "trait",
    [
        *(as_texts, doubled, with_nulls, with_icons),
        *(as_before_0_9_8, as_before_0_9_9),
    ],
)
def test_traits_of_older_releases_change_nothing(
    run: Any, site: Path, whole: Path, unchanged: Any, trait: Callable[[Any], Any]
) -> None:
    assert vary(whole, trait)
    came, left_out = imported(run, site, whole)
    assert came == unchanged[0]
    assert _catalog(site / "catalog") == unchanged[2]
    told = {(it["name"], it["what"]) for it in left_out}
    assert told >= {(it["name"], it["what"]) for it in unchanged[1]}
    if trait is with_icons:
        assert {("lamp", "icon"), ("lamp", "partnerProvider")} <= told


BLOCKS = (
    *("administration", "compatibility", "constraints", "defaults", "dependencies"),
    *("description", "links", "providermap", "providertype", "provisioner"),
)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_missing_block_leaves_the_rest_and_a_sound_site(
    run: Any, site: Path, whole: Path, unchanged: Any, block: str
) -> None:
    def without(data: Any) -> Any:
        return {key: it for key, it in data.items() if key != block}

    assert vary(whole, without)
    came, left_out = imported(run, site, whole)
    gone = {part: sorted(set(unchanged[0][part]) - set(came[part])) for part in came}
    is_told = {it["name"] for it in left_out if not it["what"]}
    assert {name for names in gone.values() for name in names} <= is_told
    # Only what no provider knows cannot be had, and no template of such types.
    wanted = {"hardwaretypes", "imagetypes", "templates"} if block == "providermap" else set()
    assert {part for part, names in gone.items() if names} == wanted


@pytest.mark.parametrize(
    ("kind", "name", "change", "why"),
    [
        ("clustertemplates", "lamp", {"constraints": {"size": {"min": 9, "max": 2}}}, "size"),
        ("clustertemplates", "lamp", {"constraints": {"size": {"max": "many"}}}, "size"),
        (
            "clustertemplates",
            "lamp",
            {"constraints": {"services": {"mysql-server": {"quantities": {"max": "few"}}}}},
            "quantities.max",
        ),
        ("clustertemplates", "lamp", {"extends": "nowhere"}, "based on the template nowhere"),
        ("clustertemplates", "lamp", {"links": [{"label": "page"}]}, "links"),
        (
            "services",
            "nginx",
            {"provisioner": {"actions": {"start": {"fields": {"a": 1}}}}},
            "start",
        ),
        (
            "services",
            "nginx",
            {"dependencies": {"install": {"requires": ["nothing"]}}},
            "requires nothing",
        ),
        ("hardwaretypes", "standard-small", {"providermap": {"google": "n1"}}, "as Coopr writes"),
        ("providers", "google", {"provisioner": {"zone": "{{ zone }}"}}, "no templates"),
    ],
    ids=[
        *("bounds", "no number", "no count", "no base", "half a link", "no way", "no service"),
        *("no words", "a template for a provider"),
    ],
)
def test_what_is_unsound_is_left_out_alone(  # noqa: PLR0913  # one row of the table
    *,
    run: Any,
    site: Path,
    whole: Path,
    unchanged: Any,
    kind: str,
    name: str,
    change: dict[str, Any],
    why: str,
) -> None:
    came = unchanged[0]
    path = whole / kind / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    after, left_out = imported(run, site, whole)
    assert [it["why"] for it in left_out if it["name"] == name and why in it["why"]]
    part = KINDS[kind]
    assert name in set(came[part]) - set(after[part])
    assert len(after["services"]) >= len(came["services"]) - 1
    assert len(after["templates"]) >= len(came["templates"]) - 2


def test_one_file_with_all_entities_gives_the_same(
    run: Any, site: Path, tmp_path: Path, published: dict[str, Any]
) -> None:
    kinds = [path for path in PUBLISHED.iterdir() if path.is_dir()]
    export = {
        kind.name: [json.loads(path.read_text()) for path in kind.glob("*.json")] for kind in kinds
    }
    (tmp_path / "export.json").write_text(json.dumps(export))
    assert run("import", "coopr", tmp_path / "export.json", "-C", site).code == 0
    assert _catalog(site / "catalog") == published


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*/*.json")), ids=lambda path: path.stem)
def test_the_kind_of_an_entity_shows(path: Path) -> None:
    assert kind_of(json.loads(path.read_text())) == path.parent.name


# What is not as it should be.


def test_a_changed_module_is_not_overwritten(run: Any, site: Path) -> None:
    run("import", "coopr", PUBLISHED, "-C", site)
    mine = site / "catalog" / "services.yml"
    mine.write_text(mine.read_text().replace("MySQL Server", "Our MySQL"))
    before = mine.read_text()
    ran = run("import", "coopr", PUBLISHED, "-C", site)
    assert ran.code == 1
    assert "catalog/services.yml was not written by" in ran.err
    assert mine.read_text() == before


def test_task_files_of_automators_belong_to_the_site(run: Any, site: Path) -> None:
    run("import", "coopr", PUBLISHED, "-C", site)
    mine = site / "catalog" / "automators" / "chef-solo.yml"
    mine.write_text("- ansible.builtin.debug:\n")
    assert run("import", "coopr", PUBLISHED, "-C", site).code == 0
    assert mine.read_text() == "- ansible.builtin.debug:\n"


def test_an_automator_that_the_site_has_is_used(run: Any, site: Path) -> None:
    (site / "site.yml").write_text(SITE + "catalog: {automators: {chef-solo: {role: my.chef}}}\n")
    assert run("import", "coopr", PUBLISHED, "-C", site).code == 0
    assert not (site / "catalog" / "automators.yml").exists()


def test_what_would_make_the_site_wrong_is_taken_back(run: Any, site: Path) -> None:
    text = SITE + "catalog: {providers: {rackspace: {type: mine}}}\n"
    (site / "site.yml").write_text(text)
    ran = run("import", "coopr", PUBLISHED, "-C", site)
    assert ran.code == 3
    assert "providers.yml" in ran.err
    assert (site / "site.yml").read_text() == text
    assert not list(site.rglob("catalog/*.yml"))


@pytest.mark.gate("a table of bad input")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2", "no JSON"),
        ("{}", "no entities of Coopr"),
        ('{"name": "x", "what": 1}', "no entities of Coopr"),
    ],
)
def test_a_file_that_is_none_is_an_error(
    run: Any, site: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "x.json").write_text(text)
    ran = run("import", "coopr", tmp_path / "x.json", "-C", site)
    assert ran.code in (1, 64)
    assert message in ran.err
    assert list(site.iterdir()) == [site / "site.yml"]


@pytest.mark.parametrize("into", ["/etc/x", "../x", "."])
def test_the_catalog_stays_in_the_site(run: Any, site: Path, into: str) -> None:
    ran = run("import", "coopr", PUBLISHED, "-C", site, "--into", into)
    assert ran.code == 64
    assert "no folder below the site" in ran.err


def test_what_requires_something_missing_goes_and_so_what_needs_it(
    run: Any, site: Path, entities: Any
) -> None:
    needs = {"dependencies": {"install": {"requires": ["gone"]}}}
    source = entities(
        services={
            "a": needs,
            "b": {"dependencies": {"runtime": {"requires": ["a"]}}},
            "c": {"dependencies": {"runtime": {"uses": ["a"]}, "conflicts": ["gone"]}},
            "d": {"dependson": ["c"]},
        },
        clustertemplates={
            "of-b": {"defaults": {"services": ["b"]}},
            "of-d": {
                "defaults": {"services": ["c", "d"], "provider": "gone", "hardwaretype": "gone"},
                "compatibility": {"services": ["b", "c", "d"]},
                "constraints": {
                    "layout": {"mustcoexist": [["c", "d"], ["a", "c"]]},
                    "services": {"a": {}, "d": {"quantities": {"max": 1}}},
                },
            },
            "on-b": {"extends": {"name": "of-b"}},
            "strict": {"compatibility": {"hardwaretypes": ["gone"]}},
            "ruled": {"constraints": {"services": {"c": {"imagetypes": ["gone"]}}}},
        },
    )
    data = json.loads(run("import", "coopr", source, "-C", site, "-o", "json").out)
    catalog = _catalog(site / "catalog")
    assert sorted(catalog["services"]) == ["c", "d"]
    assert catalog["services"]["c"]["dependencies"] == {"conflicts": [], "runtime": {"uses": []}}
    assert list(catalog["templates"]) == ["of-d"]
    assert catalog["templates"]["of-d"]["constraints"] == {
        "layout": {"mustcoexist": [["c", "d"]]},
        "services": {"d": {"quantities": {"max": 1}}},
    }
    why = {it["name"]: it["why"] for it in data["left_out"] if not it["what"]}
    assert why == {
        "a": "it requires gone, which is not there",
        "b": "it requires a, which is not there",
        "of-b": "its service b is not there",
        "on-b": "it is based on the template of-b, which is not there",
        "strict": "none of the hardware types that it allows is there",
        "ruled": "none of the image types for c is there",
    }


@pytest.mark.gate("bad input")
def test_unknown_words_are_named(run: Any, site: Path, entities: Any) -> None:
    source = entities(
        services={
            "a": {
                "icon": "a.png",
                "provisioner": {
                    "actions": {"dance": {"type": "shell"}, "start": {"type": "shell"}}
                },
            },
            "Bad Name": {},
        },
        clustertemplates={
            "t": {
                "defaults": {"services": ["a"], "dnsSuffix": "x.org"},
                "administration": {"leaseduration": {"initial": 86_400_000, "max": 10**15}},
            }
        },
    )
    data = json.loads(run("import", "coopr", source, "-C", site, "-o", "json").out)
    assert {(it["name"], it["what"]) for it in data["left_out"]} == {
        ("a", "icon"),
        ("a", "actions.dance"),
        ("Bad Name", "services/Bad Name.json"),
        ("t", "defaults.dnsSuffix"),
        ("t", "lease.max"),
    }
    assert _catalog(site / "catalog")["templates"]["t"]["lease"]["initial"] == "1d"


@pytest.mark.parametrize(
    ("milliseconds", "wanted"),
    [
        (0, 0),
        (1, "1s"),
        (90_000, "90s"),
        (120_000, "2m"),
        (7_200_000, "2h"),
        (2_592_000_000, "30d"),
        ("0", 0),
        ("86400000", "1d"),
    ],
)
def test_milliseconds_become_durations(milliseconds: int | str, wanted: str | int) -> None:
    data = {"administration": {"leaseduration": {"initial": milliseconds}}}
    entity = Entity(kind="clustertemplates", name="t", data=data, source="t.json")
    assert converted(entity, Notes())["lease"]["initial"] == wanted


def test_the_script_of_an_action_of_before_is_one_of_its_fields() -> None:
    action = {"type": "shell", "script": "run.sh", "data": "x"}
    data = {"provisioner": {"actions": {"start": action}}}
    made = converted(Entity(kind="services", name="s", data=data, source="s.json"), Notes())
    fields = {"script": "run.sh", "data": "x"}
    assert made["actions"] == {"start": {"automator": "shell", "fields": fields}}


def test_a_template_that_allowed_not_its_own_default_can_be_had(
    run: Any, site: Path, whole: Path
) -> None:
    imported(run, site, whole)
    words = ("--template", "docker-base", "--nodes", "3", "-o", "json")
    (layout,) = json.loads(run("cluster", "solve", "-C", site, *words).out)["layout"]
    assert (layout["count"], layout["hardwaretype"]) == (3, "standard-medium")


def test_numbers_that_are_none_stay_as_they_are() -> None:
    data = {"providermap": {"p": {"flavor": "x", "vcpu": "many", "ram": "1.7", "cost": None}}}
    entity = Entity(kind="hardwaretypes", name="h", data=data, source="h.json")
    providers = converted(entity, Notes())["providers"]
    assert providers == {"p": {"flavor": "x", "vcpu": "many", "memory_mb": 1740.8, "cost": None}}


@pytest.mark.parametrize(
    ("kind", "data", "what"),
    [
        ("hardwaretypes", {"providermap": {"p": "large"}}, "providermap.p"),
        ("imagetypes", {"providermap": []}, "providermap"),
        ("services", {"dependencies": {"install": {"requires": "base"}}}, "install.requires"),
        ("clustertemplates", {"defaults": {"services": [1]}}, "defaults.services.0"),
        ("clustertemplates", {"extends": {}}, "extends"),
    ],
)
def test_an_entity_of_another_form_is_told(kind: str, data: dict[str, Any], what: str) -> None:
    assert misshapen(kind, data).endswith(f"{what} is not as Coopr writes it")


def test_an_entity_of_another_form_is_left_out(run: Any, site: Path, entities: Any) -> None:
    source = entities(services={"odd": {"dependencies": []}, "even": {}})
    told = json.loads(run("import", "coopr", source, "-C", site, "-o", "json").out)
    why = "its dependencies is not as Coopr writes it"
    assert told["left_out"] == [{"kind": "services", "name": "odd", "what": "", "why": why}]
    assert told["imported"]["services"] == ["even"]


words = """
    providertype provisioner actions auth providermap p flavor vcpu ram image sshuser dependencies
    install requires uses dependson conflicts start type fields script defaults services provider
    config compatibility hardwaretypes constraints size min max layout mustcoexist quantities a
    administration leaseduration initial extends includes name links label url
"""
keys = st.sampled_from(words.split())
odd = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**15) | st.sampled_from(["", "a", "2", "1.5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.dictionaries(keys, odd, max_size=6))
def test_an_entity_is_misshapen_or_can_be_converted(kind: str, data: dict[str, Any]) -> None:
    assert kind_of(data) in {*KINDS, ""}
    if misshapen(kind, data):
        return
    entity = Entity(kind=kind, name="a", data=data, source="a.json")
    made: dict[str, dict[str, Any]] = {part: {} for part in KINDS.values()}
    made[KINDS[kind]] = {"a": converted(entity, Notes())}
    for part, things in fitted(made, {}, Notes()).items():
        assert yaml.safe_load(module_text(part, things, {})) == {"catalog": {part: things}}


def test_nothing_fits_into_an_empty_site() -> None:
    assert fitted({}, {}, Notes()) == {}


# The text of modules.

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["no", "0644", "22:22", "a: b", "# x", "1e3", "~"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), plain, min_size=1, max_size=4))
def test_what_is_written_as_yaml_is_read_again(data: dict[str, Any]) -> None:
    text = "\n".join(yaml_lines(data))
    assert yaml.safe_load(text) == data


def test_a_module_knows_whether_it_was_changed() -> None:
    text = module_text("services", {"a": {"version": "1.0"}}, {"a": "services/a.json"})
    assert is_ours(text)
    assert '    # services/a.json\n    a:\n      version: "1.0"\n' in text
    assert not is_ours(text + "\n")
    assert not is_ours("cobweb: 1\n")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cobweb: 1\n", 'cobweb: 1\nimports: ["c/*.yml"]\n'),
        ("cobweb: 1", 'cobweb: 1\nimports: ["c/*.yml"]\n'),
        ("cobweb: 1\nimports: [a.yml]  # x\n", 'cobweb: 1\nimports: [a.yml, "c/*.yml"]  # x\n'),
        ("cobweb: 1\nimports: []\n", 'cobweb: 1\nimports: ["c/*.yml"]\n'),
        ("cobweb: 1\nimports:\n  - a.yml\n", 'cobweb: 1\nimports:\n  - "c/*.yml"\n  - a.yml\n'),
        ("cobweb: 1\nimports:\n- a.yml\n", 'cobweb: 1\nimports:\n- "c/*.yml"\n- a.yml\n'),
        ("cobweb: 1\nimports: !default [a.yml]\n", None),
        ("cobweb: 1\nimports:\n", None),
        ("name: x\n", None),
    ],
)
def test_an_import_is_added_where_the_form_is_plain(text: str, wanted: str | None) -> None:
    assert with_import(text, "c/*.yml") == wanted


@pytest.mark.parametrize("name", ["chef-solo", "shell", "docker"])
def test_the_task_file_of_an_automator_is_one(name: str) -> None:
    tasks = yaml.safe_load(task_file(name))
    assert all("name" in task and len(task) > 1 for task in tasks)
    assert len(tasks) > 1
