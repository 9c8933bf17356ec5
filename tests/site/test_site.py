"""Load a site: modules, priorities, inventories, specs, and what is asked of it later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cobweb.errors import CobwebError, SiteError, UsageError
from cobweb.model import (
    CobId,
    CobType,
    Host,
    Nothing,
    Role,
    Tasks,
    Transition,
)
from cobweb.site import find_site, load_site
from cobweb_plugins.ansible._adapter import AnsibleInventory

Maker = Any


def test_find_site_looks_upwards(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text("cobweb: 1\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_site(below) == tmp_path / "site.yml"


def test_find_site_says_what_to_do_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="cobweb init"):
        find_site(tmp_path)


def test_a_site_is_named_by_its_folder_or_its_file(maker: Maker) -> None:
    maker.site("name: x")
    assert load_site(maker.root).name == load_site(maker.root / "site.yml").name == "x"
    assert load_site(maker.root).dir == maker.root.resolve()
    assert maker.site("").name == maker.root.name
    assert maker.site("").state_url == "sqlite:///.cobweb/state.db"
    url = "postgresql+psycopg://db/cobweb"
    assert maker.site(f"state: {url}").state_url == url


def test_modules_are_merged_before_the_file_that_imports_them(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "imports: [a.yml, sub/b.yml, 'more/*.yml']\n"
            "cobs: {x: {type: simple, on: app01, after: [z], spec: {l: [site]}}}",
            "a.yml": "cobs: {x: {spec: {l: [a], m: 1}}, z: {type: simple, on: app01}}\n",
            "sub/b.yml": "imports: [c.yml]\ncobs: {x: {spec: {l: [b]}}}\n",
            "sub/c.yml": "imports: [../a.yml]\ncobs: {x: {spec: {l: [c]}}}\n",
            "more/1.yml": "cobs: {x: {spec: {l: [m1]}}}\n",
            "more/2.yml": "cobs: {x: {spec: {l: [m2]}}}\n",
        }
    )
    spec = site.graph().cobs[CobId("app01/x")].spec
    assert spec == {"l": ["a", "c", "b", "m1", "m2", "site"], "m": 1}


def test_everything_merges_from_modules(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "imports: [a/m.yml]\ninventory: {app: {hosts: {app01: {n: 1}}}}\n"
            "cobs: {x: {type: quick, on: app}}",
            "a/m.yml": "name: mine\ninventory: {db: {hosts: {db01: }}, app: {hosts: {app02: }}}\n"
            "types: {quick: {states: [down, up], preferred: up, remove: down, "
            "check: {tasks: c.yml}, transitions: {down -> up: }}}\n"
            "limits: {l: {on: all, max: 1}}\n",
            "a/c.yml": "[]",
        }
    )
    assert site.name == "mine"
    assert list(site.hosts) == ["db01", "app02", "app01"]
    assert [budget.name for budget in site.graph().budgets] == ["l"]
    assert site.types["quick"].check == Tasks(path=str(maker.root / "a/c.yml"))


def test_priorities_choose_and_are_explained(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "imports: [a.yml]\n"
            "cobs: {x: {type: simple, on: app01, spec: {a: 1, b: !default 1, c: !force 1}}}",
            "a.yml": "cobs: {x: {spec: {a: !default 2, b: 2, c: 2, d: {e: [!force 3]}}}}\n",
        }
    )
    assert site.graph().cobs[CobId("app01/x")].spec == {"a": 1, "b": 2, "c": 1, "d": {"e": [3]}}
    first = site.explain("app01/x.spec.a")
    assert (first.value, first.priority) == (1, "normal")
    assert [str(place) for place in first.overrode] == ["a.yml:1:22"]
    forced = site.explain("app01/x.spec.c")
    assert (str(forced.place), forced.priority) == ("site.yml:3:68", "force")
    assert site.explain("app01/x.spec.d.e.0").value == 3


def test_group_vars_and_host_vars_by_the_precedence_of_ansible(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "inventory: inv/hosts.yml",
            "inv/hosts.yml": "app: {hosts: {app01: {d: host}}, vars: {a: group, b: group}}\n",
            "inv/group_vars/all/one.yml": "b: all-file\nc: all-file\n",
            "inv/group_vars/app": "c: group-file\n",
            "group_vars/app.yml": "e: site-group\nd: site-group\n",
            "inv/host_vars/app01.json": '{"e": "host-file"}',
            "host_vars/app01/x.yml": "f: site-host\n",
        }
    )
    assert dict(site.hosts["app01"].variables) == {
        "a": "group",
        "b": "all-file",
        "c": "group-file",
        "d": "host",
        "e": "host-file",
        "f": "site-host",
    }
    found = site.explain("app01.e")
    assert str(found.place) == "inv/host_vars/app01.json:1:7"
    assert [str(place) for place in found.overrode] == ["group_vars/app.yml:1:4"]


def test_a_folder_of_inventories(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "inventory: inv",
            "inv/1.yml": "app: {hosts: {app01: }}\n",
            "inv/2.json": '{"db": {"hosts": "db01"}}',
            "inv/deeper/3.yaml": "web: {children: {app: }}\n",
            "inv/group_vars/web.yml": "a: 1\n",
            "inv/.hidden.yml": "x: {hosts: {hidden: }}\n",
            "inv/old.bak": "what",
            "inv/README.md": "words",
        }
    )
    assert list(site.hosts) == ["app01", "db01"]
    assert site.hosts["app01"] == Host(name="app01", groups=("app", "web"), variables={"a": 1})
    with pytest.raises(KeyError):
        site.hosts["nobody"]


def test_a_folder_that_leads_back_into_itself_is_found(maker: Maker) -> None:
    maker.write({"inv/a.yml": "app: {hosts: {h: }}"})
    (maker.root / "inv/loop").symlink_to(".", target_is_directory=True)
    (finding,) = maker.findings("inventory: inv")
    assert "`inv/loop` leads back" in finding


class Reader:
    """An adapter that reads files called *.ini: one host per line."""

    name: ClassVar[str] = "ini"

    def reads(self, source: Path) -> bool:
        return source.suffix in (".ini", ".yml")

    def hosts(self, source: Path) -> Iterable[Host]:
        for line in source.read_text().replace("plugin: {}", "h2").split():
            if line == "broken":
                raise CobwebError("cannot read it", hint="write it again")
            yield Host(name=line, groups=("app",), variables={"from": source.name, "v": {"x": [1]}})


def test_other_sources_go_to_an_adapter(maker: Maker) -> None:
    site = maker.site({"site.yml": "inventory: h.ini", "h.ini": "h1 h2"}, adapters=[Reader()])
    assert site.select("app") == ("h1", "h2")
    assert dict(site.hosts["h2"].variables) == {"from": "h.ini", "v": {"x": [1]}}


def test_a_plugin_configuration_goes_to_an_adapter_and_yaml_does_not(maker: Maker) -> None:
    files = {
        "site.yml": "inventory: [a.yml, b.yml]",
        "a.yml": "app: {hosts: {h1: }}\n",
        "b.yml": "plugin: {}\n",
    }
    assert "no plugin reads the inventory `b.yml`" in maker.findings(files)[0]
    assert list(maker.site(files, adapters=[Reader()]).hosts) == ["h1", "h2"]


def test_an_adapter_that_fails_is_a_finding(maker: Maker) -> None:
    files = {"site.yml": "inventory: h.ini", "h.ini": "h1 broken"}
    assert maker.findings(files, adapters=[Reader()]) == [
        "site.yml:2:12: inventory adapter ini: cannot read it (write it again)"
    ]


def plugin_type(name: str = "file") -> CobType:
    return CobType(
        name=name,
        states=("down", "up"),
        preferred="up",
        remove="down",
        check=Nothing(),
        transitions=(Transition(source="down", dest="up", action=Nothing()),),
        spec_schema={
            "type": "object",
            "required": ["content"],
            "additionalProperties": False,
            "properties": {
                "content": {"type": "string"},
                "template": {"type": "string", "x-cobweb": "template"},
                "source": {"type": "string", "x-cobweb": "source"},
                "mode": {"type": "string", "default": "0644"},
            },
        },
    )


def test_a_type_says_when_it_serves(maker: Maker) -> None:
    types = maker.site(
        """
types:
  web:
    states: [outdated, broken, down, up]
    preferred: up
    remove: down
    serving: [up, outdated]
    check: {tasks: check.yml}
    transitions:
      down -> up: {tasks: start.yml}
      outdated->up: {tasks: restart.yml, interrupts: true}
      outdated -> down:
  lock:
    states: [outdated, up]
    preferred: up
    remove: up
    serving: [up, outdated]
    check: {tasks: check.yml}
cobs: {a: {type: web, on: app}, b: {type: lock, on: app}}
""",
    ).types
    assert types["web"].serving == types["lock"].serving == ("up", "outdated")
    assert [step.interrupts for step in types["web"].transitions] == [False, True, False]
    assert [it for it in types["web"].states if types["web"].serves(it)] == ["outdated", "up"]


def test_files_become_contents(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "imports: [sub/m.yml]\n"
            "cobs: {a: {type: file, on: app, spec: {template: a.j2}}}",
            "a.j2": "host={{ inventory_hostname }}\npath='a\\tb'\n{{ 'x\\ty' }}\n",
            "sub/m.yml": "cobs: {b: {type: file, on: app01, "
            "spec: {source: b.txt, mode: '0600'}}}\n",
            "sub/b.txt": "{{ raw }}\n",
        },
        types={"file": plugin_type()},
    )
    cobs = site.graph().cobs
    made = "host=app02\npath='a\\tb'\nx\ty\n"
    assert cobs[CobId("app02/a")].spec == {"content": made, "mode": "0644"}
    assert cobs[CobId("app01/b")].spec == {"content": "{{ raw }}\n", "mode": "0600"}


def test_an_unsafe_text_is_no_template_wherever_it_is_used(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "inventory: {app: {hosts: {app01: {other: !unsafe '{{ y }}'}}}}\n"
            "cobs: {a: {type: simple, on: app, spec: {a: '{{ word }}', b: 'is {{ word }}',"
            " c: '{{ all }}', d: '{{ via }}', e: '{{ other }}', f: '{{ word | upper }}'}}}",
            "group_vars/app.yml": "word: !unsafe 'x{{ y }}'\nvia: '{{ word }}'\n"
            "all: !unsafe {k: ['{{ z }}', 1]}\n",
        }
    )
    (cob,) = site.graph().cobs.values()
    assert cob.spec == {
        "a": "x{{ y }}",
        "b": "is x{{ y }}",
        "c": {"k": ["{{ z }}", 1]},
        "d": "x{{ y }}",
        "e": "{{ y }}",
        "f": "X{{ Y }}",
    }
    assert site.hosts["app01"].variables["other"] == {"__ansible_unsafe": "{{ y }}"}


def test_what_is_unsafe_is_an_unknown_tag_in_what_is_no_file_of_ansible(maker: Maker) -> None:
    site = "cobs: {a: {type: simple, on: app, spec: {a: !unsafe x, b: !unsafe [y]}}}"
    found = maker.findings(site)
    assert [it.split(" (")[0] for it in found] == [
        "site.yml:2:45: unknown tag `!unsafe`",
        "site.yml:2:59: unknown tag `!unsafe`",
    ]
    found = maker.findings({"site.yml": "", "group_vars/all.yml": "ansible_port: !unsafe [x]"})
    assert found == ["group_vars/all.yml:1:15: `ansible_port` must be a port number, 1 to 65535"]


def test_a_vaulted_file_and_a_vaulted_value_fit_every_schema(maker: Maker) -> None:
    vault = "$ANSIBLE_VAULT;1.1;AES256\n3132\n"
    site = maker.site(
        {
            "site.yml": "cobs: {a: {type: file, on: app01, spec: {source: s.vault}}, "
            "b: {type: file, on: app01, spec: {content: !vault abc}}}",
            "s.vault": vault,
        },
        types={"file": plugin_type()},
    )
    cobs = site.graph().cobs
    assert cobs[CobId("app01/a")].spec["content"] == {"__ansible_vault": vault}
    assert site.explain("app01/b.spec.content").value == "(vaulted)"
    assert "abc" not in str(site.explain("app01/b"))


def test_a_spec_that_is_the_same_everywhere_is_evaluated_once(maker: Maker) -> None:
    cobs = maker.site("cobs: {a: {type: simple, on: app, spec: {x: [1]}}}").graph().cobs
    assert cobs[CobId("app01/a")].spec is cobs[CobId("app02/a")].spec


def test_drift_is_ignored_by_name_and_hosts_over_all_modules(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "imports: [logs.yml]\ndrift: {ignore: [cache@app01]}\n"
            "cobs:\n  cache: {type: simple, on: app}\n  log-a: {type: simple, on: db}\n",
            "logs.yml": "drift: {ignore: ['log-*']}\n",
        }
    )
    names = ["app01/cache", "app02/cache", "db01/log-a", "gone01/log-old"]
    ignored = [name for name in names if site.ignores_drift(CobId(name))]
    assert ignored == ["app01/cache", "db01/log-a", "gone01/log-old"]
    assert not maker.site("cobs: {a: {type: simple, on: app}}").ignores_drift(CobId("app01/a"))


def test_a_limited_graph_evaluates_no_other_host(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "cobs:\n  a: {type: simple, on: app, after: [b@db], spec: {v: '{{ v }}'}}\n"
            "  b: {type: simple, on: db}\n  c: {type: simple, on: db}",
            "host_vars/app01.yml": "v: 1\n",
            "host_vars/app02.yml": "v: [\n",
        }
    )
    assert list(site.graph("app01").cobs) == ["app01/a", "db01/b"]
    with pytest.raises(SiteError, match="app02"):
        site.graph()


def test_a_limit_that_selects_nothing_is_wrong_use(maker: Maker) -> None:
    site = maker.site("cobs: {a: {type: simple, on: app}}")
    for pattern in ("nobody", "app:!app", "app[9]", ""):
        with pytest.raises(UsageError):
            site.graph(pattern)
    assert site.select("app:!app") == ()


def test_roles_and_attempts(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "types: {t: {states: [down, up], preferred: up, remove: down, "
            "check: {role: mine, timeout: 2.5}, transitions: "
            "{down -> up: {role: x.y.z, attempts: 3, timeout: 60}, up -> down: {}}}}\n"
            "cobs: {a: {type: t, on: app01}}",
            "roles/mine/tasks/main.yml": "[]",
        },
        adapters=(AnsibleInventory(),),
    )
    made = site.types["t"]
    assert made.check == Role(name=str(maker.root / "roles/mine"))
    assert made.check_timeout_s == 2.5
    up, down = made.transitions
    assert (up.action, up.attempts, up.timeout_s) == (Role(name="x.y.z"), 3, 60)
    assert (down.action, down.attempts, down.timeout_s) == (Nothing(), 1, None)
    (finding,) = site.findings_of_files()
    assert "role `x.y.z` does not exist" in finding.message


@pytest.mark.parametrize("by", ["ansible.cfg", "environment"])
def test_roles_are_looked_for_where_ansible_is_told_to(
    maker: Maker, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """By the site's ansible.cfg, relative to it, or by the environment; also for collections."""
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    steps = "down -> up: {role: far}, up -> down: {role: my.own.away}"
    kind = "states: [down, up], preferred: up, remove: down, check: {tasks: c.yml}"
    files = {
        "site.yml": f"types: {{t: {{{kind}, transitions: {{{steps}}}}}}}\n"
        "cobs: {a: {type: t, on: all}}",
        "c.yml": "[]",
        "elsewhere/far/tasks/main.yml": "[]",
        "more/ansible_collections/my/own/roles/away/tasks/main.yml": "[]",
    }
    assert len(maker.site(files, adapters=(AnsibleInventory(),)).findings_of_files()) == 2
    for name, folder in (("roles_path", "elsewhere"), ("collections_path", "more")):
        if by == "environment":
            path = f"/nowhere:{maker.root / folder}"
            monkeypatch.setenv(f"ANSIBLE_{name.upper()}", path)
        else:
            files["ansible.cfg"] = files.get("ansible.cfg", "[defaults]\n") + f"{name} = {folder}\n"
    assert not maker.site(files, adapters=(AnsibleInventory(),)).findings_of_files()


def test_facts_and_variables_of_roles(maker: Maker) -> None:
    """An action says which facts it wants, then its type; else a role has all and tasks none."""
    steps = "down -> up: {role: x.y.z, vars: {p: '{{ q }}'}, facts: [min]}, up -> down: {role: r}"
    text = (
        "types: {t: {states: [down, up], preferred: up, remove: down, FACTS"
        f"check: {{tasks: c.yml}}, transitions: {{{steps}}}}}}}"
    )
    files = {"c.yml": "[]", "hosts.yml": "all: {hosts: {h1: }}"}
    for said, tasks, role in (("", False, True), ("facts: false, ", False, False)):
        site = maker.site({"site.yml": text.replace("FACTS", said), **files})
        made = site.types["t"]
        assert made.check == Tasks(path=str(maker.root / "c.yml"), facts=tasks)
        up, down = (step.action for step in made.transitions)
        assert up == Role(name="x.y.z", vars={"p": "{{ q }}"}, facts=("min",))
        assert down == Role(name="r", facts=role)


def test_files_of_types_that_nobody_uses_may_be_missing(maker: Maker) -> None:
    unused = "types: {t: {states: [u], preferred: u, remove: u, check: {tasks: no}}}"
    assert not maker.site(unused).findings_of_files()


def test_task_files_are_looked_for_in_three_places(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "imports: [lib/t.yml]\ncobs: {a: {type: t, on: app01}}",
            "lib/t.yml": "types: {t: {states: [d, u], preferred: u, remove: d, "
            "check: {tasks: c.yml}, "
            "transitions: {d -> u: {tasks: u.yml}, u -> d: {tasks: d.yml}}}}\n",
            "lib/c.yml": "[]",
            "playbooks/u.yml": "[]",
            "tasks/d.yml": "- name: [",
        },
        adapters=(AnsibleInventory(),),
    )
    actions = [step.action for step in site.types["t"].transitions]
    paths = [action.path for action in actions if isinstance(action, Tasks)]
    assert paths == [str(maker.root / "playbooks/u.yml"), str(maker.root / "tasks/d.yml")]
    (finding,) = site.findings_of_files()
    assert finding.place.file == "tasks/d.yml"


def test_sections_of_plugins_are_checked_and_kept(maker: Maker) -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    site = maker.site("backup: {size: 3}", sections={"backup": schema})
    assert site.sections == {"backup": {"size": 3}}
    (finding,) = maker.findings("backup: {size: x}", sections={"backup": schema})
    assert finding.startswith("site.yml:2:16: section `backup`: `size` must be a whole number")
    assert "unknown key `backup`" in maker.findings("backup: {size: x}")[0]


def test_findings_of_all_parts_are_told_at_once_and_in_order(maker: Maker) -> None:
    findings = maker.findings(
        {
            "site.yml": "nmae: x\nimports: [m.yml]\ncobs:\n"
            "  a: {type: simple, on: app, spec: {v: '{{ nope }}'}, after: [bb]}\n"
            "  b: {type: sample, on: app}\n  c: {type: simple, on: nowhere}\n",
            "m.yml": "limits: {l: {on: app, max: many}}\n",
        }
    )
    places = [finding.split(" ")[0] for finding in findings]
    assert places == [
        "m.yml:1:28:",
        "site.yml:2:1:",
        "site.yml:5:40:",
        "site.yml:5:63:",
        "site.yml:6:13:",
        "site.yml:7:25:",
    ]


def test_what_follows_from_an_unreadable_inventory_is_not_told(maker: Maker) -> None:
    findings = maker.findings(
        {"site.yml": "inventory: h.yml\ncobs: {a: {type: simple, on: app}}", "h.yml": "app: ["}
    )
    assert len(findings) == 1


def test_explain_tells_template_variables_and_places(maker: Maker) -> None:
    site = maker.site(
        {
            "site.yml": "cobs: {a: {type: simple, on: app, "
            "spec: {url: 'x:{{ port }}/{{ groups.app }}'}}}",
            "group_vars/app.yml": "port: '{{ base + 1 }}'\nbase: 80\n",
        }
    )
    found = site.explain("app01/a.spec.url")
    assert found.value == "x:81/['app01', 'app02']"
    assert found.template == "x:{{ port }}/{{ groups.app }}"
    assert [(used.name, used.value, str(used.place)) for used in found.variables] == [
        ("groups", ["all", "app", "db", "ungrouped"], "None"),
        ("port", 81, "group_vars/app.yml:1:7"),
    ]
    assert site.explain("app01.port").value == 81
    assert site.explain("app01.group_names").value == ["app"]
    assert site.explain("app01/a").value["on"] == "app"
    assert site.explain("app01/a.type").value == "simple"


def test_explain_knows_names_with_dots(maker: Maker) -> None:
    site = maker.site(
        "inventory: {app: {hosts: {h: {example: 1}, h.example: {v: {w: 2}}}}}\n"
        "cobs: {n: {type: simple, on: app, spec: {conf: 1}}, n.conf: {type: simple, on: app}}"
    )
    assert site.explain("h.example.v.w").value == 2
    assert site.explain("h.example/n.conf").value["type"] == "simple"
    assert site.explain("h/n.spec.conf").value == 1
    for ref in ("h", "x", "h/", "h/m", "h/n.spec.no", "h/n.no", "x/n", "h.no", "h.example.v.no"):
        with pytest.raises(UsageError):
            site.explain(ref)
