"""What a catalog is read as, what it cannot say, and what a cluster has of its template."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cobweb.errors import ModelError
from cobweb_plugins.cluster._catalog import Catalog, Cluster, Lease, Quantities
from cobweb_plugins.cluster._catalog_checks import joined
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._merge import merged, merged_template
from cobweb_plugins.cluster._problems import circle_in
from cobweb_plugins.cluster._template import Resolved, resolve

Sections = dict[str, Any]
Change = Callable[[Sections], object]


def sections() -> Sections:
    """Return a small catalog with two clusters of two tenants."""
    return {
        "catalog": {
            "providers": {"lab": {"type": "namespaces"}, "cloud": {"type": "static"}},
            "hardwaretypes": {
                "small": {"cores": 1, "memory_mb": 512, "providers": {"lab": {"flavor": "s"}}},
                "large": {"cores": 8, "providers": {"lab": {}, "cloud": {}}},
                "any": {},
            },
            "imagetypes": {
                "debian12": {"user": "root", "providers": {"lab": {"image": "base"}}},
                "alpine": {"providers": {"cloud": {"image": "a"}}},
            },
            "automators": {"chef": {"role": "my.chef"}},
            "services": {
                "base": {"actions": {"install": {"tasks": "base.yml"}}},
                "web": {
                    "version": "2.4",
                    "dependencies": {
                        "provides": ["http"],
                        "install": {"requires": ["base"]},
                        "runtime": {"requires": ["database"], "uses": ["cache"]},
                    },
                    "actions": {
                        "install": {"automator": "chef", "fields": {"run_list": "web"}},
                        "start": {"role": "my.web", "timeout": "10m", "attempts": 1},
                    },
                },
                "mysql": {
                    "dependencies": {
                        "provides": ["database"],
                        "conflicts": ["postgres"],
                        "install": {"requires": ["base"]},
                    },
                },
                "postgres": {"dependencies": {"provides": ["database"]}},
                "cache": {},
            },
            "templates": {
                "plain": {
                    "defaults": {
                        "services": ["base", "web", "mysql"],
                        "provider": "lab",
                        "config": {"web": {"port": 80, "tls": {"on": True}}, "mysql": {"size": 1}},
                    },
                    "constraints": {
                        "size": {"max": 10},
                        "layout": {
                            "mustcoexist": [["base", "web"]],
                            "cantcoexist": [["web", "mysql"]],
                        },
                        "services": {"mysql": {"quantities": {"max": 1}}},
                    },
                    "lease": {"initial": "30d", "max": "90d", "step": "7d"},
                },
                "locked": {
                    "extends": "plain",
                    "defaults": {"hardwaretype": "small", "imagetype": "debian12"},
                    "locked": ["services", "hardwaretype", "config.mysql"],
                },
            },
        },
        "clusters": {
            "one": {"template": "plain", "nodes": 3, "tenant": "a"},
            "two": {"template": "locked", "nodes": 2, "tenant": "b"},
        },
        "tenants": {"a": {"clusters": 1, "nodes": 3}, "b": {"cores": 40}},
    }


def _read(change: Change = lambda _sections: None) -> Catalog:
    data = sections()
    change(data)
    return read_catalog(data)


def _put(path: str, value: Any) -> Change:
    """Return a change that puts a value at a path of keys."""

    def change(data: Sections) -> None:
        *keys, last = path.split("/")
        here: Any = data
        for key in keys:
            here = here.setdefault(key, {})
        here[last] = value

    return change


def _validate(data: Sections) -> None:
    from cobweb.cli.schema import read_schema

    for name, section in data.items():
        Draft202012Validator(read_schema(f"sections/{name}")).validate(section)


# Reading.


def test_the_small_catalog_fits_the_schemas() -> None:
    _validate(sections())


def test_defaults_are_filled_in() -> None:
    catalog = _read()
    web = catalog.services["web"]
    assert web.requires == ("base", "database")
    assert web.actions["install"].role == "my.chef"
    assert web.actions["install"].automator == "chef"
    assert web.actions["install"].timeout_s == 1800
    assert (web.actions["start"].timeout_s, web.actions["start"].attempts) == (600, 1)
    assert catalog.templates["plain"].rules["mysql"].quantities == Quantities(min=1, max=1)
    assert catalog.clusters["one"].services is None
    assert catalog.providers_of("database") == ("mysql", "postgres")


def test_a_provider_can_say_how_many_cores_its_machines_have() -> None:
    change = _put("catalog/hardwaretypes/large/providers/cloud", {"cores": 4})
    large = _read(change).hardwaretypes["large"]
    assert (large.cores_at("cloud"), large.cores_at("lab"), large.cores_at("none")) == (4, 8, 8)


def test_a_site_without_a_catalog_has_an_empty_one() -> None:
    assert read_catalog({}) == Catalog()


def test_a_template_has_what_it_is_based_on() -> None:
    locked = _read().templates["locked"]
    assert locked.defaults.services == ("base", "web", "mysql")
    assert locked.defaults.hardwaretype == "small"
    assert locked.size_max == 10
    assert locked.lease == Lease(initial_s=30 * 86400, max_s=90 * 86400, step_s=7 * 86400)


def test_includes_come_over_what_is_extended_and_lists_are_replaced() -> None:
    templates = {
        "a": {"description": "a", "defaults": {"services": ["x"], "config": {"k": 1, "l": 1}}},
        "b": {"defaults": {"services": ["y"], "config": {"l": 2}}},
        "c": {"defaults": {"config": {"l": 3}}},
        "d": {"extends": "a", "includes": ["b", "c"], "defaults": {"config": {"m": 4}}},
    }
    assert merged_template("d", templates) == {
        "extends": "a",
        "includes": ["b", "c"],
        "defaults": {"services": ["y"], "config": {"k": 1, "l": 3, "m": 4}},
    }


def test_a_template_that_is_inherited_on_many_ways_is_merged_once() -> None:
    chain = {f"t{n}": {"extends": f"t{n - 1}", "includes": [f"t{n - 1}"]} for n in range(1, 60)}
    assert merged_template("t59", {"t0": {"defaults": {"services": ["a"]}}, **chain}) == {
        "extends": "t58",
        "includes": ["t58"],
        "defaults": {"services": ["a"]},
    }


def test_a_vaulted_value_is_never_merged() -> None:
    vaulted = {"__ansible_vault": "$ANSIBLE_VAULT;..."}
    assert merged({"p": {"a": 1}}, {"p": vaulted}) == {"p": vaulted}
    assert merged({"p": vaulted}, {"p": {"a": 1}}) == {"p": {"a": 1}}


# What cannot be: the change, where it is found, what the message and hint say.

S = "catalog/services"
T = "catalog/templates/plain"
BAD: Mapping[str, tuple[Change, str, str]] = {
    "provider of hardware": (
        _put("catalog/hardwaretypes/small/providers", {"lap": {}}),
        "catalog/hardwaretypes/small/providers/lap",
        "there is no provider `lap` (did you mean `lab`?)",
    ),
    "provider of an image": (
        _put("catalog/imagetypes/alpine/providers", {"x": {}}),
        "catalog/imagetypes/alpine/providers/x",
        "there is no provider `x` (there is cloud, lab)",
    ),
    "default image that is not allowed": (
        _put("catalog/templates/locked/compatibility", {"imagetypes": ["alpine"]}),
        "catalog/templates/locked/defaults/imagetype",
        "does not allow its own default image type `debian12` (it allows alpine)",
    ),
    "default service that is not allowed": (
        _put(f"{T}/compatibility", {"services": ["base", "mysql"]}),
        f"{T}/defaults/services",
        "does not allow its own default service `web` (it allows base, mysql)",
    ),
    "template for a provider": (
        _put("catalog/providers/lab/fields/hosts/h1/address", "{{ address }}"),
        "catalog/providers/lab/fields/hosts/h1/address",
        "the fields of a provider are no templates (write the value itself)",
    ),
    "template for a provider in a list": (
        _put("catalog/providers/lab/fields/hosts", ["a", "{% b %}"]),
        "catalog/providers/lab/fields/hosts/1",
        "the fields of a provider are no templates (write the value itself)",
    ),
    "required service": (
        _put(f"{S}/cache/dependencies", {"install": {"requires": ["bas"]}}),
        f"{S}/cache/dependencies/install/requires/0",
        "there is no service `bas` (did you mean `base`?)",
    ),
    "used service": (
        _put(f"{S}/cache/dependencies", {"runtime": {"uses": ["base", "nothing"]}}),
        f"{S}/cache/dependencies/runtime/uses/1",
        "there is no service `nothing`",
    ),
    "conflict": (
        _put(f"{S}/cache/dependencies", {"conflicts": ["nothing"]}),
        f"{S}/cache/dependencies/conflicts/0",
        "there is no service `nothing`",
    ),
    "circle of installation": (
        _put(f"{S}/base/dependencies", {"install": {"uses": ["web"]}}),
        f"{S}/base/dependencies/install",
        "in a circle (install): base -> web -> base",
    ),
    "circle of run time": (
        _put(f"{S}/cache/dependencies", {"runtime": {"requires": ["web"]}}),
        f"{S}/web/dependencies/runtime",
        "in a circle (runtime): web -> cache -> web",
    ),
    "circle of a virtual service": (
        _put(f"{S}/base/dependencies", {"install": {"requires": ["http"]}}),
        f"{S}/base/dependencies/install",
        "in a circle (install): base -> web -> base",
    ),
    "needs itself": (
        _put(f"{S}/cache/dependencies", {"runtime": {"uses": ["cache"]}}),
        f"{S}/cache/dependencies/runtime/uses/0",
        "`cache` needs itself",
    ),
    "provides itself": (
        _put(f"{S}/cache/dependencies", {"provides": ["cache"]}),
        f"{S}/cache/dependencies/provides/0",
        "`cache` provides itself",
    ),
    "conflicts with what it requires": (
        _put(f"{S}/cache/dependencies", {"conflicts": ["base"], "install": {"requires": ["base"]}}),
        f"{S}/cache/dependencies/conflicts/0",
        "`cache` conflicts with `base`, which it requires",
    ),
    "conflicts with itself": (
        _put(f"{S}/cache/dependencies", {"conflicts": ["cache"]}),
        f"{S}/cache/dependencies/conflicts/0",
        "`cache` conflicts with `cache`, which it is",
    ),
    "the name of the machine": (
        _put(f"{S}/node", {}),
        f"{S}/node",
        "a service cannot be named `node`",
    ),
    "the name of all nodes": (
        _put(f"{S}/nodes", {}),
        f"{S}/nodes",
        "a service cannot be named `nodes`",
    ),
    "action without a way": (
        _put(f"{S}/cache/actions", {"start": {"fields": {}}}),
        f"{S}/cache/actions/start",
        "`start` has no tasks, role or automator",
    ),
    "action with two ways": (
        _put(f"{S}/cache/actions", {"start": {"tasks": "a.yml", "role": "b"}}),
        f"{S}/cache/actions/start",
        "`start` has tasks and role (write one of tasks, role or automator)",
    ),
    "automator": (
        _put(f"{S}/cache/actions", {"start": {"automator": "chief"}}),
        f"{S}/cache/actions/start/automator",
        "there is no automator `chief` (did you mean `chef`?)",
    ),
    "automator without a way": (
        _put("catalog/automators/chef", {}),
        "catalog/automators/chef",
        "`chef` has no tasks or role",
    ),
    "timeout": (
        _put(f"{S}/cache/actions", {"start": {"role": "a", "timeout": "soon"}}),
        f"{S}/cache/actions/start/timeout",
        "`soon` is no duration",
    ),
    "default service": (
        _put(f"{T}/defaults/services", ["base", "wbe"]),
        f"{T}/defaults/services/1",
        "there is no service `wbe` (did you mean `web`?)",
    ),
    "default provider": (
        _put(f"{T}/defaults/provider", "nobody"),
        f"{T}/defaults/provider",
        "there is no provider `nobody`",
    ),
    "default hardware": (
        _put(f"{T}/defaults/hardwaretype", "smal"),
        f"{T}/defaults/hardwaretype",
        "there is no hardware type `smal` (did you mean `small`?)",
    ),
    "default image": (
        _put(f"{T}/defaults/imagetype", "debian"),
        f"{T}/defaults/imagetype",
        "there is no image type `debian`",
    ),
    "compatible services": (
        _put(f"{T}/compatibility", {"services": ["x"]}),
        f"{T}/compatibility/services/0",
        "there is no service `x`",
    ),
    "compatible hardware": (
        _put(f"{T}/compatibility", {"hardwaretypes": ["x"]}),
        f"{T}/compatibility/hardwaretypes/0",
        "there is no hardware type `x`",
    ),
    "service of a rule": (
        _put(f"{T}/constraints/services/x", {}),
        f"{T}/constraints/services/x",
        "there is no service `x`",
    ),
    "image of a rule": (
        _put(f"{T}/constraints/services/web", {"imagetypes": ["x"]}),
        f"{T}/constraints/services/web/imagetypes/0",
        "there is no image type `x`",
    ),
    "service of a layout": (
        _put(f"{T}/constraints/layout", {"cantcoexist": [["web", "x"]]}),
        f"{T}/constraints/layout/cantcoexist/0/1",
        "there is no service `x`",
    ),
    "minimum above the maximum": (
        _put(f"{T}/constraints/services/web", {"quantities": {"min": 3, "max": 2}}),
        f"{T}/constraints/services/web/quantities/max",
        "`web` has a minimum of 3 above its maximum of 2",
    ),
    "minimum above an inherited maximum": (
        _put(
            "catalog/templates/locked/constraints",
            {"services": {"mysql": {"quantities": {"min": 2}}}},
        ),
        "catalog/templates/locked/constraints/services/mysql/quantities/max",
        "`mysql` has a minimum of 2 above its maximum of 1",
    ),
    "size": (
        _put(f"{T}/constraints/size", {"min": 5, "max": 4}),
        f"{T}/constraints/size/max",
        "the size has a minimum of 5 above its maximum of 4",
    ),
    "together and apart": (
        _put(
            f"{T}/constraints/layout",
            {
                "mustcoexist": [["base", "web"], ["web", "cache"]],
                "cantcoexist": [["base", "cache"]],
            },
        ),
        f"{T}/constraints/layout/cantcoexist/0",
        "`base` and `cache` cannot be on one node and must be (mustcoexist)",
    ),
    "lease": (
        _put(f"{T}/lease/step", "a while"),
        f"{T}/lease/step",
        "`a while` is no duration",
    ),
    "lease longer than the longest": (
        _put(f"{T}/lease", {"initial": "10d", "max": "1d"}),
        f"{T}/lease/initial",
        "the initial lease is longer than the longest, 1d",
    ),
    "lease for ever": (
        _put(f"{T}/lease", {"max": "1d"}),
        f"{T}/lease/initial",
        "the initial lease is longer than the longest, 1d",
    ),
    "extends": (
        _put("catalog/templates/locked/extends", "plan"),
        "catalog/templates/locked/extends",
        "there is no template `plan` (did you mean `plain`?)",
    ),
    "includes": (
        _put("catalog/templates/locked/includes", ["plain", "x"]),
        "catalog/templates/locked/includes/1",
        "there is no template `x`",
    ),
    "circle of templates": (
        _put(f"{T}/includes", ["locked"]),
        T,
        "in a circle: plain -> locked -> plain",
    ),
    "template of a cluster": (
        _put("clusters/one/template", "plane"),
        "clusters/one/template",
        "there is no template `plane` (did you mean `plain`?)",
    ),
    "service of a cluster": (
        _put("clusters/one/services", ["x"]),
        "clusters/one/services/0",
        "there is no service `x`",
    ),
    "provider of a cluster": (
        _put("clusters/one/provider", "x"),
        "clusters/one/provider",
        "there is no provider `x`",
    ),
    "tenant of a cluster": (
        _put("clusters/one/tenant", "c"),
        "clusters/one/tenant",
        "there is no tenant `c` (there is a, b)",
    ),
    "version of no service": (
        _put("clusters/one/versions", {"x": "1"}),
        "clusters/one/versions/x",
        "there is no service `x`",
    ),
    "too many nodes": (
        _put("clusters/two/nodes", 11),
        "clusters/two/nodes",
        "`two` has 11 nodes, its template `locked` 1 to 10",
    ),
    "date without a zone": (
        _put("clusters/one/lease", {"expires": "2030-01-01T00:00:00"}),
        "clusters/one/lease/expires",
        "`2030-01-01T00:00:00` is no date and time with a time zone",
    ),
    "no date": (
        _put("clusters/one/lease", {"created": "tomorrow"}),
        "clusters/one/lease/created",
        "`tomorrow` is no date and time with a time zone",
    ),
    "name of a node": (
        _put("clusters/one-2", {"template": "plain", "nodes": 1}),
        "clusters/one-2",
        "`one-2` is the name of a node of the cluster `one`",
    ),
    "locked hardware": (
        _put("clusters/two/hardwaretype", "large"),
        "clusters/two/hardwaretype",
        "`hardwaretype` is locked by the template `locked`",
    ),
    "locked services": (
        _put("clusters/two/services", ["base"]),
        "clusters/two/services",
        "`services` is locked by the template `locked`",
    ),
    "locked configuration": (
        _put("clusters/two/config", {"mysql": {"size": 2}}),
        "clusters/two/config/mysql",
        "`config.mysql` is locked by the template `locked`",
    ),
    "quota of clusters": (
        _put("clusters/three", {"template": "plain", "nodes": 1, "tenant": "a"}),
        "tenants/a/clusters",
        "the tenant `a` has 2 clusters, its limit is 1 (its clusters: one, three)",
    ),
    "quota of nodes": (
        _put("clusters/one/nodes", 4),
        "tenants/a/nodes",
        "the tenant `a` has 4 nodes, its limit is 3",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_told_where_it_is(case: str) -> None:
    change, where, text = BAD[case]
    data = sections()
    change(data)
    _validate(data)
    with pytest.raises(ModelError) as caught:
        read_catalog(data)
    told = {
        "/".join(map(str, path)): f"{message} ({hint})"
        for path, message, hint in caught.value.problems
    }
    assert where in told
    assert text in told[where]


def test_all_problems_are_told_at_once() -> None:
    data = sections()
    changes = [BAD[case][0] for case in ("automator", "lease", "size", "circle of run time")]
    data["catalog"]["services"]["cache"]["actions"] = {"start": {"automator": "chief"}}
    for change in changes[1:]:
        change(data)
    with pytest.raises(ModelError) as caught:
        read_catalog(data)
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("clusters/two/hardwaretype", "small"),
        ("clusters/two/services", ["mysql", "web", "base"]),
        ("clusters/two/config", {"mysql": {"size": 1}, "web": {"port": 81}}),
        ("clusters/two/imagetype", "debian12"),
        (f"{T}/lease", {"initial": 0, "max": None, "step": "0"}),
        (f"{T}/constraints/services/web", {"quantities": {"max": 0}}),
        (f"{S}/web/dependencies/runtime/uses", ["cache", "postgres"]),
        (f"{S}/mysql/dependencies/runtime", {"uses": ["database"]}),
    ],
)
def test_what_looks_alike_can_be(path: str, value: Any) -> None:
    assert _read(_put(path, value)).clusters


# Resolving.


def _resolved(change: Change = lambda _sections: None, name: str = "one") -> Resolved:
    catalog = _read(change)
    return resolve(catalog, catalog.clusters[name])


def test_a_cluster_has_what_its_template_says() -> None:
    found = _resolved(_put("clusters/one/config", {"web": {"port": 8080, "tls": {"on": False}}}))
    assert found.services == ("base", "mysql", "web")
    assert found.provider.name == "lab"
    assert found.hardwaretypes == ("any", "large", "small")
    assert found.imagetypes == ("debian12",)
    assert found.config == {"web": {"port": 8080, "tls": {"on": False}}, "mysql": {"size": 1}}
    assert found.needs["web"].install == ("base",)
    assert found.needs["web"].runtime == ("mysql",)
    assert found.needs["web"].binding == ("mysql",)


def test_a_solver_is_asked_in_plain_data() -> None:
    found = _resolved(name="two")
    assert found.solver_template() == {
        "services": ["base", "mysql", "web"],
        "hardwaretypes": ["any", "large", "small"],
        "imagetypes": ["debian12"],
        "size": {"min": 1, "max": 10},
        "mustcoexist": [["base", "web"]],
        "cantcoexist": [["web", "mysql"]],
        "rules": {
            "mysql": {
                "hardwaretypes": [],
                "imagetypes": [],
                "min": 1,
                "max": 1,
                "ratio": None,
                "step": None,
            }
        },
        "conflicts": [],
    }
    assert found.solver_constraints() == {
        "nodes": 2,
        "existing": [],
        "hardwaretype": "small",
        "imagetype": "debian12",
    }


def test_rules_about_other_services_do_not_count() -> None:
    found = _resolved(_put("clusters/one/services", ["base", "cache"])).solver_template()
    assert (found["mustcoexist"], found["cantcoexist"], found["rules"]) == ([], [], {})


@pytest.mark.parametrize(
    ("third", "asked"), [("mysql", [["base", "web", "mysql"]]), ("postgres", [])]
)
def test_of_a_group_that_cannot_coexist_some_may_share_a_node(
    third: str, asked: list[list[str]]
) -> None:
    def change(data: Sections) -> None:
        layout = {"mustcoexist": [["base", "web"]], "cantcoexist": [["base", "web", "mysql"]]}
        _put(f"{T}/constraints/layout", layout)(data)
        _put("clusters/one/services", ["base", "web", third])(data)

    assert _resolved(change).solver_template()["cantcoexist"] == asked


def test_a_conflict_is_the_solver_s_to_tell() -> None:
    found = _resolved(_put("clusters/one/services", ["base", "mysql", "postgres"]))
    assert found.conflicts == (("mysql", "postgres"),)


def test_the_type_that_is_asked_for_is_that_of_all_nodes() -> None:
    found = _resolved(_put("clusters/one/hardwaretype", "small"))
    assert found.solver_constraints()["hardwaretype"] == "small"


def test_a_type_that_is_not_allowed_is_the_solver_s_to_tell() -> None:
    def change(data: Sections) -> None:
        _put(f"{T}/compatibility", {"hardwaretypes": ["small"]})(data)
        _put("clusters/one/hardwaretype", "large")(data)

    found = _resolved(change)
    assert (found.hardwaretype, found.hardwaretypes) == ("large", ("small",))


@pytest.mark.parametrize(
    ("change", "where", "text"),
    [
        (
            _put("clusters/one/services", ["web"]),
            "services/0",
            "`web` requires `base`, which is not on the cluster (add `base` to the services)",
        ),
        (
            _put("clusters/one/services", ["base", "web"]),
            "services/1",
            "`web` requires `database`, which is not on the cluster (add `mysql` or `postgres`",
        ),
        (_put("clusters/one/services", []), "services", "`one` has no services"),
        (
            lambda data: [
                _put(f"{T}/compatibility", {"services": ["base", "web", "mysql"]})(data),
                _put("clusters/one/services", ["base", "web", "mysql", "cache"])(data),
            ],
            "services/3",
            "the template `plain` does not allow the service `cache` (it allows base, mysql, web)",
        ),
        (
            lambda data: [
                _put("clusters/one/provider", "cloud")(data),
                _put("clusters/one/hardwaretype", "small")(data),
            ],
            "hardwaretype",
            "the provider of `one` does not know the hardware type `small` (it knows large, any)",
        ),
        (
            lambda data: [
                _put("clusters/one/provider", "cloud")(data),
                _put(f"{T}/compatibility", {"imagetypes": ["debian12"]})(data),
            ],
            "imagetype",
            "`one` can have no image type: its provider knows none that is allowed",
        ),
        (
            lambda data: data["catalog"]["templates"]["plain"]["defaults"].pop("provider"),
            "provider",
            "`one` has no provider, and its template names none",
        ),
        (
            lambda data: [
                _put(f"{S}/mysql/dependencies/runtime", {"uses": ["web"]})(data),
            ],
            "services",
            "in a circle (runtime): web -> mysql -> web (leave one of them out)",
        ),
    ],
    ids=[
        "required",
        "virtual",
        "none",
        "not allowed",
        "unknown hardware",
        "no image",
        "no provider",
        "circle",
    ],
)
def test_what_no_cluster_can_be_is_told(change: Change, where: str, text: str) -> None:
    with pytest.raises(ModelError) as caught:
        _resolved(change)
    assert any(
        "/".join(map(str, path)) == f"clusters/one/{where}" and text in f"{message} ({hint})"
        for path, message, hint in caught.value.problems
    )


def test_the_example_of_the_page_can_be() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "catalog.md"
    text = page.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    data = {key: it for key, it in yaml.safe_load(text).items() if key != "cobweb"}
    _validate(data)
    catalog = read_catalog(data)
    found = resolve(catalog, catalog.clusters["web1"])
    assert found.needs["apache-httpd"].binding == ("mysql-server",)


# Properties.

names = st.sampled_from("abcdef")
graphs = st.dictionaries(names, st.lists(names, max_size=3), max_size=6)


@given(graphs)
def test_a_circle_is_found_if_there_is_one_and_only_then(edges: dict[str, list[str]]) -> None:
    circle = circle_in(edges)
    rest = {node: set(after) for node, after in edges.items()}
    while sources := [node for node, after in rest.items() if not after & rest.keys()]:
        for node in sources:
            del rest[node]
    assert bool(circle) == bool(rest)
    if circle:
        assert circle[0] == circle[-1]
        assert all(after in edges[node] for node, after in pairwise(circle))


groups = st.lists(st.lists(names, min_size=2, max_size=3, unique=True), max_size=5)


@given(groups)
def test_groups_that_share_a_service_are_one(said: list[list[str]]) -> None:
    found = joined(said)
    members = [name for group in found for name in group]
    assert len(members) == len(set(members))
    assert set(members) == {name for group in said for name in group}
    assert all(any(set(group) <= set(whole) for whole in found) for group in said)


plain = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict) or not value:
        return {path: value}
    return {where: it for key in value for where, it in _leaves(value[key], (*path, key)).items()}


@given(plain, plain)
def test_what_is_over_wins_and_what_it_does_not_name_stays(below: Any, above: Any) -> None:
    before = copy.deepcopy((below, above))
    both = _leaves(merged(below, above))
    assert (below, above) == before
    over = {path: it for path, it in _leaves(above).items() if it != {}}
    assert over.items() <= both.items()
    if isinstance(below, dict) and isinstance(above, dict):
        kept = {
            path: it for path, it in _leaves(below).items() if path[:1] and path[0] not in above
        }
        assert kept.items() <= both.items()


def test_a_cluster_that_is_not_in_the_site_is_read_with_it() -> None:
    data = sections()
    data["clusters"] = {**data["clusters"], "new": {"template": "locked", "nodes": 1}}
    catalog = read_catalog(data)
    assert catalog.clusters["new"] == Cluster(name="new", template="locked", nodes=1)
