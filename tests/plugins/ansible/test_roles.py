"""Roles are what Ansible people have: facts, variables, handlers, and what lies beside a site."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Action, Outcome, Report, Role, Tasks
from cobweb_plugins.ansible._facts import GATHERED, RunFacts
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from tests.plugins.ansible.conftest import BOTH, Bench, MakeBench

pytestmark = pytest.mark.gate("Ansible gathers facts of this machine, and runs roles")

GATHER = "Gathering Facts"
SAY = """
- ansible.builtin.set_fact:
    cob_results:
      family: "{{ ansible_os_family | default('none') }}"
      facts: "{{ ansible_facts.os_family | default('none') }}"
      other: "{{ hostvars.h2.ansible_facts.os_family | default('none') }}"
"""


def gatherings(reports: list[Report]) -> int:
    """Return how often facts were gathered."""
    return sum(task.name == GATHER for report in reports for task in report.tasks)


def role(bench: Bench, name: str, files: dict[str, str], **more: Any) -> Action:
    """Write a role of the site and return the action that runs it, as a site names it."""
    for path, text in files.items():
        bench.write(f"site/roles/{name}/{path}", text)
    return Role(name=str(bench.folder / "site/roles" / name), **more)


@BOTH
def test_facts_are_gathered_once_per_host_and_shared(make_bench: MakeBench, kind: Any) -> None:
    """Roles have them without a word, tasks where they ask; nobody gathers what is there."""
    bench = make_bench(kind, hosts=2, parallel=2 if kind is AnsibleExecutor else 1)
    mine = role(bench, "mine", {"tasks/main.yml": SAY})
    silent = bench.tasks("say.yml", SAY)
    asking = Tasks(path=silent.path, facts=True)  # type: ignore[union-attr]  # they are tasks
    (second,) = bench.run(bench.job(mine, host="h2"))
    assert second.results == {"family": "Debian", "facts": "Debian", "other": "Debian"}
    reports = bench.run(*(bench.job(action) for action in (mine, asking, mine, asking)))
    assert [report.results["other"] for report in reports] == ["Debian"] * 4
    assert (gatherings(reports), gatherings([second])) == (1, 1)
    (plain,) = bench.run(bench.job(silent))
    assert plain.results == dict.fromkeys(("family", "facts", "other"), "none")
    assert gatherings([plain]) == 0


@BOTH
def test_facts_of_a_machine_are_not_those_of_another(make_bench: MakeBench, kind: Any) -> None:
    """What was gathered is of a machine: with another address there is another."""
    bench = make_bench(kind, hosts=1)
    mine = role(bench, "mine", {"tasks/main.yml": SAY})
    reports = bench.run(bench.job(mine))
    reports += bench.run(bench.job(mine, host_vars={"ansible_port": 2222}))
    assert gatherings(reports) == 2


@BOTH
def test_subsets_and_no_facts(make_bench: MakeBench, kind: Any) -> None:
    """A list names what is gathered; `false` gathers nothing, for a role, too."""
    bench = make_bench(kind, hosts=1)
    text = SAY.replace("hostvars.h2.ansible_facts.os_family", "ansible_processor_count")
    few = role(bench, "few", {"tasks/main.yml": text}, facts=("!all", "!min", "distribution"))
    none = Role(name=few.name, facts=False)  # type: ignore[union-attr]  # it is a role
    all_of_it = Role(name=few.name)  # type: ignore[union-attr]
    first, second, third, fourth = (
        bench.run(bench.job(action))[0] for action in (few, none, all_of_it, few)
    )
    assert first.results == {"family": "Debian", "facts": "Debian", "other": "none"}
    assert second.results["family"] == "none"
    assert isinstance(third.results["other"], int)
    assert [gatherings([it]) for it in (first, second, third)] == [1, 0, 1]
    assert fourth.outcome is Outcome.OK


def test_what_is_gathered_counts_for_what_it_has(tmp_path: Path) -> None:
    """All facts are enough for everybody; some are for who asks for the same ones."""
    facts = RunFacts()

    def asks(*subsets: str, host: str = "h" * 253) -> bool:
        gathers = facts.begin(host, {}, subsets, tmp_path)
        if gathers:
            facts.set(host, {GATHERED: True, **dict.fromkeys(subsets, 1)})
        seen = facts.get(host)
        facts.end()
        assert seen.keys() >= {*subsets} or "all" in seen
        return gathers

    assert [asks("min"), asks("min"), asks("network"), asks("network", "min")] == [1, 0, 1, 1]
    assert [asks("!all", "!min", "distribution"), asks("distribution"), asks("!all")] == [1, 1, 1]
    assert [asks("all", "!hardware"), asks("hardware"), asks("all", "!hardware")] == [1, 1, 0]
    assert [asks("all"), asks("all"), asks("virtual"), asks("!all", "min")] == [1, 0, 0, 0]
    assert facts.get("h" * 253) == {}


@BOTH
def test_facts_that_cannot_be_gathered_fail_the_job(make_bench: MakeBench, kind: Any) -> None:
    """The job says why, and the next one tries again."""
    bench = make_bench(kind, hosts=1)
    bad = role(bench, "bad", {"tasks/main.yml": SAY}, facts=("no-such-subset",))
    good = Role(name=bad.name)  # type: ignore[union-attr]
    (report,) = bench.run(bench.job(bad))
    assert report.outcome is Outcome.FAILED
    assert "no-such-subset" in report.message
    (report,) = bench.run(bench.job(good))
    assert report.outcome is Outcome.OK


LIES = """#!/usr/bin/python
import json
names = "inventory_hostname inventory_hostname_short group_names omit inventory_dir groups".split()
print(json.dumps({"ansible_facts": {**dict.fromkeys(names, "bad"), "ansible_os_family": "Lie"}}))
"""
SEE = """
- ansible.builtin.set_fact:
    cob_results:
      name: "{{ inventory_hostname }} {{ inventory_hostname_short }}"
      groups: "{{ group_names }} {{ groups.app }}"
      dir: "{{ inventory_dir == 'bad' }}"
      lie: "{{ ansible_os_family }}"
- ansible.builtin.command: {argv: ["true"], chdir: "{{ omit }}"}
"""


@BOTH
def test_facts_do_not_say_who_a_host_is(make_bench: MakeBench, kind: Any) -> None:
    """Its name, its groups and `omit` are Ansible's own, whatever the host claims to have found."""
    bench = make_bench(kind, hosts=1)
    bench.write("site/library/setup.py", LIES)
    mine = role(bench, "mine", {"tasks/main.yml": SEE})
    for _ in range(2):
        (report,) = bench.run(bench.job(mine))
        assert report.outcome is Outcome.OK, report.message
        assert report.results == {
            "name": "h1 h1",
            "groups": "['app'] ['h1']",
            "dir": False,
            "lie": "Lie",
        }


TRAITS = {
    "defaults/main.yml": "greeting: default\nport: 1\nlast: '{{ port + 1 }}'\n",
    "vars/main.yml": "inner: of the role\n",
    "meta/main.yml": "dependencies: [base]\n",
    "templates/t.j2": "{{ greeting }} {{ port }}\n",
    "handlers/main.yml": "- name: told\n  ansible.builtin.set_fact: {told: '{{ role_name }}'}\n",
    "tasks/main.yml": """
- ansible.builtin.debug: {msg: x}
  changed_when: true
  notify: told
  tags: [never_mind]
- ansible.builtin.meta: flush_handlers
- ansible.builtin.import_tasks: more.yml
- ansible.builtin.set_fact:
    cob_results:
      text: "{{ lookup('ansible.builtin.template', 't.j2') }}"
      last: "{{ last }}"
      inner: "{{ inner }}"
      told: "{{ told }}"
      base: "{{ base_ran }}"
      role: "{{ role_name }}"
      imported: "{{ imported }}"
      book: "{{ playbook_dir }}"
""",
    "tasks/more.yml": "- ansible.builtin.set_fact: {imported: '{{ role_path | basename }}'}\n",
}


@BOTH
def test_a_role_is_what_ansible_makes_of_it(make_bench: MakeBench, kind: Any) -> None:
    """Defaults, variables, dependencies, handlers, templates, tags, its name; `vars` over `cob`."""
    bench = make_bench(kind, hosts=1)
    bench.write(
        "site/roles/base/tasks/main.yml",
        "- ansible.builtin.set_fact: {base_ran: '{{ role_name }}'}\n",
    )
    values = {"greeting": "hello {{ cob.spec.who }}", "port": "{{ cob.spec.port }}"}
    action = role(bench, "some.web", TRAITS, vars=values, facts=False)
    (report,) = bench.run(bench.job(action, spec={"who": "{{ you }}", "port": 80}))
    assert report.outcome is Outcome.OK, report.message
    said = dict(report.results)
    book = said.pop("book")
    assert said == {
        "text": "hello {{ you }} 80\n",
        "last": 81,
        "inner": "of the role",
        "told": "some.web",
        "base": "base",
        "role": "some.web",
        "imported": "some.web",
    }
    assert book == str(bench.folder / "site") or kind.name == "ansible-plain"


FILTER = (
    "class FilterModule:\n    def filters(self):\n        return {'NAME': lambda it: it + '!'}\n"
)
TEST = (
    "class TestModule:\n    def tests(self):\n        return {'loud': lambda it: it[-1] == '!'}\n"
)
LOOKUP = """
from ansible.plugins.lookup import LookupBase
class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        return [term * 2 for term in terms]
"""
ACTION = """
from ansible.plugins.action import ActionBase
class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"changed": False, "ansible_facts": {"acted": self._task.args["word"]}}
"""
BESIDE = {
    "filter_plugins/loud.py": FILTER.replace("NAME", "shout"),
    "test_plugins/loud.py": TEST,
    "lookup_plugins/twice.py": LOOKUP,
    "action_plugins/act.py": ACTION,
    "collections/ansible_collections/my/tools/plugins/filter/more.py": FILTER.replace(
        "NAME", "more"
    ),
    "collections/ansible_collections/my/tools/roles/deep/tasks/main.yml": (
        "- ansible.builtin.set_fact: {deep: '{{ role_name }} {{ ansible_role_name }}'}\n"
    ),
    "collections/ansible_collections/my/tools/galaxy.yml": json.dumps(
        {"namespace": "my", "name": "tools", "version": "1.0.0", "readme": "x", "authors": ["me"]}
    ),
}
USE = """
- act: {word: act}
- ansible.builtin.include_role: {name: my.tools.deep}
- ansible.builtin.set_fact:
    cob_results:
      filter: "{{ 'a' | shout }}"
      test: "{{ 'a!' is loud }}"
      lookup: "{{ lookup('twice', 'ab') }}"
      action: "{{ acted }}"
      collection: "{{ 'b' | my.tools.more }}"
      role: "{{ deep }}"
"""


@BOTH
def test_plugins_and_collections_beside_a_site_are_found(make_bench: MakeBench, kind: Any) -> None:
    """As beside a playbook: filters, tests, lookups, actions, collections."""
    bench = make_bench(kind, hosts=1)
    for name, text in BESIDE.items():
        bench.write(f"site/{name}", text)
    (report,) = bench.run(bench.job(bench.tasks("use.yml", USE)))
    assert report.outcome is Outcome.OK, report.message
    assert report.results == {
        "filter": "a!",
        "test": True,
        "lookup": "abab",
        "action": "act",
        "collection": "b!",
        "role": "deep my.tools.deep",
    }


@BOTH
def test_a_role_of_a_collection(make_bench: MakeBench, kind: Any) -> None:
    """By its full name, as a site may give it."""
    bench = make_bench(kind, hosts=1)
    for name, text in BESIDE.items():
        bench.write(f"site/{name}", text)
    bench.write(
        "site/collections/ansible_collections/my/tools/roles/say/tasks/main.yml",
        "- ansible.builtin.set_fact: {cob_results: {role: '{{ role_name }}'}}\n",
    )
    (report,) = bench.run(bench.job(Role(name="my.tools.say", facts=False)))
    assert report.results == {"role": "say"}, report.message


def test_twenty_jobs_of_five_hosts_gather_five_times(make_bench: MakeBench) -> None:
    """However many lanes want them at once."""
    bench = make_bench(AnsibleExecutor, hosts=5, parallel=8)
    mine = role(bench, "mine", {"tasks/main.yml": SAY})
    hosts = [f"h{number % 5 + 1}" for number in range(20)]
    reports = bench.run(*(bench.job(mine, host=host) for host in hosts))
    counts = Counter(host for host, it in zip(hosts, reports, strict=True) if gatherings([it]))
    assert counts == {f"h{number}": 1 for number in range(1, 6)}
    assert all(report.results["family"] == "Debian" for report in reports)
