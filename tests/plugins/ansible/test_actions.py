"""What task files and roles say of other hosts of their play is found, with its place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cobweb.api import Site as Session
from cobweb.cli import main
from cobweb.plugin import ActionAdapter, load_plugins
from cobweb.site import Site, load_site
from cobweb.site.reading._files import unchanged
from cobweb_plugins.ansible._adapter import AnsibleInventory

SITE = """\
cobweb: 1
inventory: {app: {hosts: {h1: , h2: }}}
types:
  t:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: CHECK
    transitions: {down -> up: UP, up -> down: , outdated -> up: UP, outdated -> down: }
cobs: {a: {type: t, on: ON}}
"""
COLLECTION = "collections/ansible_collections/a/b/roles"
OWN_PLAY = "each instance of a COB has a play of its own"
TOGETHER = "say `together: true` in `down -> up` of type `t`, `outdated -> up` of type `t`, or"

Make = Callable[..., Site]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of the user, who has nothing of Ansible there yet."""
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else dedent(text).encode()
        path.write_bytes(data)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return what makes a site whose type works by an action, with files."""

    def made(
        files: Mapping[str, str | bytes],
        up: str = "{role: r}",
        *,
        check: str = "{tasks: check.yml}",
        on: str = "app",
        **options: Any,
    ) -> Site:
        root = tmp_path / "site"
        text = SITE.replace("UP", up).replace("CHECK", check).replace("ON", on)
        write(root, {"site.yml": text, "check.yml": "[]", ".git/HEAD": "", **files})
        return load_site(root, adapters=(AnsibleInventory(),), **options)

    return made


def places(site: Site) -> list[str]:
    """Return where something is found, and the word that it is about."""
    found = site.findings_of_files()
    return [f"{it.place} {it.message.split('`')[1]}" for it in found]


def warnings(site: Site) -> list[str]:
    site.findings_of_files()
    return [f"{it.place} {it.message.split('`')[1]}" for it in site.notes()]


# What a task file says -> where it is found.
WORDS: dict[str, list[str]] = {
    "- run_once: true\n  debug:": ["1:3 run_once"],
    "- debug:\n  run_once: '{{ once }}'": ["2:3 run_once"],
    "- debug:\n  run_once: [1]": ["2:3 run_once"],
    "- assert: {that: true}\n  run_once: true\n- ansible.builtin.fail:\n  run_once: true": [],
    "- debug:\n  run_once: false\n- debug:\n  run_once: 'no'\n- debug:\n  run_once:": [],
    "- debug:\n  throttle: 1": ["2:3 throttle"],
    "- debug:\n  throttle: 0": [],
    "- debug:\n  any_errors_fatal: yes": ["2:3 any_errors_fatal"],
    "- debug:\n  any_errors_fatal: False": [],
    "- debug:\n  max_fail_percentage: 0": ["2:3 max_fail_percentage"],
    "- block:\n  - debug:\n    run_once: true": ["3:5 run_once"],
    "- block: []\n  run_once: true": ["2:3 run_once"],
    "- block: []\n  rescue:\n  - {debug: , run_once: 1}": ["3:15 run_once"],
    "- block:\n  - block: []\n    always:\n    - {debug: , throttle: 2}": ["4:17 throttle"],
    "- debug:\n  vars: {run_once: true}": [],
    "- debug: {run_once: true}": [],
    "- include_tasks: {file: no.yml, apply: {run_once: true}}": ["1:41 run_once"],
    "- import_tasks: no.yml\n  run_once: true": ["2:3 run_once"],
    "- &a {debug: , run_once: true}\n- <<: *a\n  when: x": ["1:16 run_once"],
    "- &a {debug: , run_once: true}\n- *a": ["1:16 run_once"],
    "- debug:\n  when: inventory_hostname == ansible_play_hosts[0]": ["2:31 ansible_play_hosts"],
    "- debug: {msg: '{{ ansible_play_hosts_all }}'}": ["1:20 ansible_play_hosts_all"],
    "- debug:\n  loop: '{{ ansible_play_batch }}'": ["2:13 ansible_play_batch"],
    "- debug:\n  loop: '{{ play_hosts | sort }}'": ["2:13 play_hosts"],
    "- debug: {msg: '{{ my_play_hosts }} {{ play_hosts_2 }}'}": [],
    "- debug:  # ansible_play_hosts\n    # run_once: true\n    msg: x": [],
    "- shell: |\n    echo 1\n    echo {{ play_hosts }}\n  # play_hosts": ["3:13 play_hosts"],
    '- debug:\n    msg: "{{ play_hosts }} and\n      {{ play_hosts }}"': [
        "2:14 play_hosts",
        "3:10 play_hosts",
    ],
    "- debug: {msg: !unsafe '{{ play_hosts }}', x: !vault y}": ["1:28 play_hosts"],
    "- [run_once]\n- run_once\n- 5\n- {? [a] : run_once}\n- null": [],
}


@pytest.mark.parametrize(("text", "found"), WORDS.items())
def test_words_of_a_task_file(make: Make, text: str, found: list[str]) -> None:
    site = make({"tasks/up.yml": text}, "{tasks: up.yml}")
    assert places(site) == [f"tasks/up.yml:{it}" for it in found]


@pytest.mark.parametrize("part", ["tasks", "handlers"])
@pytest.mark.parametrize(("text", "found"), WORDS.items())
def test_words_of_a_role(make: Make, text: str, found: list[str], part: str) -> None:
    site = make({f"roles/r/{part}/more/some.yaml": text})
    assert places(site) == [f"roles/r/{part}/more/some.yaml:{it}" for it in found]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("vars/main.yml", "a: '{{ play_hosts }}'", ["1:8 play_hosts"]),
        ("vars/main.yml", "run_once: true", []),
        ("defaults/main/a.yml", "a:\n- '{{ play_hosts }}'", ["2:7 play_hosts"]),
        ("meta/main.yml", "dependencies: [{role: x, when: play_hosts}]", ["1:32 play_hosts"]),
        ("templates/a/b.conf.j2", "x\n{{ play_hosts }}", ["2:4 play_hosts"]),
        ("templates/main.yml", "- run_once: true\n: [", []),
        ("templates/a", "{# play_hosts\n play_hosts #}\n{{ play_hosts }}", ["3:4 play_hosts"]),
        ("templates/a", "{#" * 100_000 + "\n{{ play_hosts }}", ["2:4 play_hosts"]),
        ("templates/a", "{#}{{ play_hosts }}#}{{ play_hosts }}", ["1:25 play_hosts"]),
        ("templates/a", b"\xff\xfe{{ play_hosts }}", ["1:6 play_hosts"]),
        ("files/a.yml", "- run_once: true\n  x: '{{ play_hosts }}'", []),
        ("tests/test.yml", "- run_once: true", []),
        ("tasks/README.md", "- run_once: true", []),
        ("tasks/main", "- run_once: true", ["1:3 run_once"]),
        ("tasks/main.json", '[{"run_once": true}]', ["1:3 run_once"]),
        ("tasks/main.yml", "- run_once: [", []),
        ("tasks/main.yml", b"$ANSIBLE_VAULT;1.1;AES256\n3032\n", []),
        ("tasks/main.yml", "---\n- run_once: true\n---\n- run_once: true", []),
        ("tasks/main.yml", "{% if x %}\n- run_once: true\n", []),
        ("tasks/main.yml", "[" * 100_000, []),
        ("tasks/main.yml", "\n".join(" " * it + "- block:" for it in range(600)), []),
        ("tasks/main.yml", "- run_once: true\n#" + "x" * 256 * 1024, []),
    ],
)
def test_each_file_of_a_role(make: Make, name: str, text: str | bytes, found: list[str]) -> None:
    site = make({"roles/r/tasks/x.yml": "", f"roles/r/{name}": text})
    assert places(site) == [f"roles/r/{name}:{it}" for it in found]


FOUND = {"further.yml": "- {debug: , run_once: true}"}


@pytest.mark.parametrize(
    "text",
    [
        "- import_tasks: ../further.yml",
        "- include_tasks: ../further.yml x=1",
        "- include_tasks: {file: ../further.yml}",
        "- include_tasks: file=../further.yml",
        "- include_tasks:\n  args: {file: ../further.yml}",
        "- ansible.builtin.import_tasks: ../further.yml",
        "- ansible.legacy.include_tasks: ../further.yml",
        "- action: include_tasks ../further.yml",
        "- action: {module: ansible.builtin.include_tasks, file: ../further.yml}",
        "- block: [{block: [], rescue: [{import_tasks: ../further.yml}]}]",
        "- import_tasks: further.yml",
        "- import_tasks: nested/again.yml",
    ],
)
def test_files_that_a_task_file_takes_in(make: Make, text: str) -> None:
    again = "- import_tasks: ../../further.yml\n- import_tasks: up.yml\n- import_tasks: again.yml"
    files = {"tasks/up.yml": text, "tasks/nested/again.yml": again, **FOUND}
    assert places(make(files, "{tasks: up.yml}")) == ["further.yml:1:13 run_once"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- assert: {that: true}\n- ansible.builtin.assert: {that: x}", []),
        ("- assert: {that: true}\n- command: x", ["tasks/main.yml:2:3 run_once"]),
        ("- import_tasks: main.yml", ["tasks/main.yml:2:3 run_once"]),
    ],
)
def test_what_only_asks_may_do_so_on_each_host(make: Make, text: str, found: list[str]) -> None:
    """So do many roles with what they are given, by a file of its own."""
    main = "- ansible.builtin.import_tasks: {file: assert.yml}\n  run_once: true\n"
    site = make({"roles/r/tasks/main.yml": main, "roles/r/tasks/assert.yml": text})
    assert places(site) == [f"roles/r/{it}" for it in found]


def test_what_a_site_gives_to_a_role(make: Make) -> None:
    up = '{role: r, vars: {hosts: "{{ ansible_play_hosts }}"}}'
    assert places(make({"roles/r/tasks/main.yml": "[]"}, up))[0].endswith("ansible_play_hosts")


def test_a_task_file_that_is_nested_too_deeply(make: Make) -> None:
    (finding,) = make({"up.yml": "[" * 100_000}, "{tasks: up.yml}").findings_of_files()
    assert str(finding) == "up.yml: this is not YAML: it is nested too deeply (mend the syntax)"


@pytest.mark.parametrize(
    "text", ["- import_tasks: '{{ x }}.yml'", "- import_tasks: no.yml", "- import_tasks: [a]"]
)
def test_what_is_taken_in_by_no_plain_name_is_left_to_ansible(make: Make, text: str) -> None:
    assert places(make({"tasks/up.yml": text, **FOUND}, "{tasks: up.yml}")) == []


def test_nothing_outside_of_the_repository_is_read(make: Make, tmp_path: Path) -> None:
    write(tmp_path, FOUND)
    files = {"tasks/up.yml": "- import_tasks: ../../further.yml"}
    assert places(make(files, "{tasks: up.yml}")) == []
    assert places(make(files, "{tasks: up.yml}", allow_outside=True)) == [
        "../further.yml:1:13 run_once"
    ]


@pytest.mark.parametrize(
    "files",
    [
        {"roles/r/meta/main.yml": "dependencies: [further]"},
        {"roles/r/meta/main.yml": "dependencies: [{role: further, when: x}]"},
        {"roles/r/meta/main.yml": "dependencies: [{name: further}, {src: x}, {role: [x]}]"},
        {"roles/r/tasks/main.yml": "- include_role: {name: further, tasks_from: x}"},
        {"roles/r/tasks/main.yml": "- import_role: name=further"},
        {"roles/r/tasks/main.yml": "- ansible.builtin.include_role: {role: further}"},
        {"roles/r/handlers/main.yml": "- block: [{ansible.legacy.import_role: {name: further}}]"},
        {"roles/r/tasks/main.yml": "- import_role:\n  args: {name: further}"},
        {"roles/r/tasks/main.yml": "- import_tasks: ../../further/tasks/main.yml"},
        {
            "roles/r/meta/main.yml": "dependencies: [middle]",
            "roles/middle/tasks/main.yml": "- include_role: {name: r}\n- include_role: {name: r}",
            "roles/middle/meta/main.yml": "dependencies: [middle, r, further]",
        },
    ],
)
def test_roles_that_a_role_takes_in(make: Make, files: Mapping[str, str]) -> None:
    further = {"roles/further/tasks/main.yml": "- run_once: true", "roles/r/tasks/x.yml": ""}
    assert places(make({**files, **further})) == ["roles/further/tasks/main.yml:1:3 run_once"]


def test_a_role_that_a_task_file_takes_in(make: Make) -> None:
    files = {"up.yml": "- include_role: {name: r}", "roles/r/tasks/main.yml": "- run_once: 1"}
    assert places(make(files, "{tasks: up.yml}")) == ["roles/r/tasks/main.yml:1:3 run_once"]


@pytest.mark.parametrize("where", ["home", "environment", "ansible.cfg", "user's ansible.cfg"])
def test_roles_that_the_user_has_installed(
    make: Make, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Their places have the whole path; a dependency is beside them, or in the same collection."""
    folder = home / ".ansible" if where == "home" else tmp_path / "else"
    write(
        folder,
        {
            "roles/x.y/meta/main.yml": "dependencies: [x.z]",
            "roles/x.z/tasks/main.yml": "- run_once: true",
            f"{COLLECTION}/c/tasks/main.yml": "- import_role: {name: d}",
            f"{COLLECTION}/d/templates/e": "{{ play_hosts }}",
        },
    )
    names = {name: folder / name for name in ("roles", "collections")}
    said = "[defaults]\n" + "".join(f"{name}_path = {it}\n" for name, it in names.items())
    files = {}
    if where == "environment":
        for name, it in names.items():
            monkeypatch.setenv(f"ANSIBLE_{name.upper()}_PATH", str(it))
    elif where == "ansible.cfg":
        files["ansible.cfg"] = said
    elif where == "user's ansible.cfg":
        write(home, {".ansible.cfg": said})
    role = folder / "roles/x.z/tasks/main.yml"
    assert places(make(files, "{role: x.y}")) == [f"{role}:1:3 run_once"]
    template = folder / COLLECTION / "d/templates/e"
    assert places(make(files, "{role: a.b.c}")) == [f"{template}:1:4 play_hosts"]


def test_roles_of_the_repository_have_names_in_it(make: Make) -> None:
    files = {
        "ansible.cfg": "[defaults]\nroles_path = more\n",
        "more/x/tasks/a.yml": "- run_once: 1",
    }
    assert places(make(files, "{role: x}")) == ["more/x/tasks/a.yml:1:3 run_once"]


@pytest.mark.parametrize("name", ["../../else/x", "/nowhere", "{{ x }}", "x/../../../else/x", "''"])
def test_a_role_that_leads_out_of_its_folders_is_not_read(
    make: Make, tmp_path: Path, name: str
) -> None:
    write(tmp_path, {"else/x/tasks/a.yml": "- run_once: 1", "home/.ansible/roles/x/a": ""})
    text = (
        f"- include_role: {{name: {name}}}" if "{" not in name else f"- include_role: name='{name}'"
    )
    assert places(make({"up.yml": text}, "{tasks: up.yml}")) == []


def test_collections_of_the_site(make: Make) -> None:
    name = f"{COLLECTION}/c/tasks/main.yml"
    assert places(make({name: "- run_once: 1"}, "{role: a.b.c}")) == [f"{name}:1:3 run_once"]


def test_what_was_read_of_the_user_is_noted(make: Make, home: Path) -> None:
    """A kept site is evaluated anew where it has changed, or comes to be."""
    write(home, {".ansible/roles/x.y/tasks/main.yml": "[]"})
    changes: tuple[tuple[str, str], ...] = (
        (".ansible/roles/x.y/tasks/main.yml", "- run_once: true"),
        (".ansible/roles/x.y/tasks/more.yml", "- run_once: true"),
        (".ansible/roles/x.y/templates/new", "x"),
        (".ansible.cfg", "[defaults]\nroles_path = /nowhere\n"),
        (".ansible.cfg", "[defaults]\nroles_path = ~/.ansible/roles\n"),
    )
    for name, text in changes:
        site = make({}, "{role: x.y}")
        site.findings_of_files()
        notes = site._parts.files.notes
        assert unchanged(notes)
        assert site.content_key() is not None
        write(home, {name: text})
        assert not unchanged(notes), name


ONCE = {"roles/r/tasks/main.yml": "- run_once: true", "up.yml": "- include_role: {name: r}"}


@pytest.mark.parametrize("up", ["{role: r}", "{tasks: up.yml}"])
def test_where_each_object_has_one_host_it_means_the_same(make: Make, up: str) -> None:
    assert len(places(make(ONCE, up))) == 1
    assert places(make(ONCE, up, on="h1")) == []
    assert places(make(ONCE, up, on="'app[0]'")) == []


@pytest.mark.parametrize("up", ["{role: r, together: true}", "{tasks: up.yml, together: true}"])
def test_what_goes_together_is_as_in_a_playbook(make: Make, up: str) -> None:
    assert places(make(ONCE, up)) == []
    assert len(places(make(ONCE, up, check="{role: r}"))) == 1


def test_a_type_without_objects_is_not_looked_at(make: Make, tmp_path: Path) -> None:
    make(ONCE)
    site = tmp_path / "site/site.yml"
    site.write_text(site.read_text().replace("a: {type: t, on: app}", ""))
    assert places(load_site(site, adapters=(AnsibleInventory(),))) == []


def test_each_place_is_told_once_with_all_who_use_it(make: Make) -> None:
    (finding,) = make({**ONCE}).findings_of_files()
    assert str(finding) == (
        f"roles/r/tasks/main.yml:1:3: `run_once` would run on each host: {OWN_PLAY}"
        f" ({TOGETHER} put it into a COB of its own on one host)"
    )


@pytest.mark.parametrize(
    ("text", "means", "hint"),
    [
        ("throttle: 1", "`throttle` would hold nobody back", "limits say how many"),
        ("any_errors_fatal: 1", "`any_errors_fatal` would stop no other host", "needs say"),
        ("max_fail_percentage: 1", "`max_fail_percentage` would count one host", "--max-failures"),
        ("when: play_hosts", "`play_hosts` would name one host", "take the hosts from `groups`"),
    ],
)
def test_what_helps_is_said(make: Make, text: str, means: str, hint: str) -> None:
    (finding,) = make({"up.yml": f"- {text}"}, "{tasks: up.yml}").findings_of_files()
    assert finding.message == f"{means}: {OWN_PLAY}"
    assert TOGETHER.removesuffix(", or") in finding.hint
    assert hint in finding.hint


BLIND: dict[str, list[str]] = {
    "- command: x": ["1:3 command"],
    "- ansible.builtin.shell: x": ["1:3 ansible.builtin.shell"],
    "- ansible.legacy.raw: x": ["1:3 ansible.legacy.raw"],
    "- name: x\n  script: x": ["2:3 script"],
    "- expect: {command: x, responses: {}}": ["1:3 expect"],
    "- action: shell echo x": ["1:11 shell"],
    "- local_action: ansible.builtin.command echo": ["1:17 ansible.builtin.command"],
    "- action: {module: command, cmd: x}": ["1:20 command"],
    "- block: [{block: [{command: x}]}]": ["1:21 command"],
    "- command: x\n  check_mode: false": [],
    "- command: x\n  changed_when: false": [],
    "- block: [{command: x}]\n  check_mode: false": [],
    "- block: [{block: [{command: x}]}]\n  check_mode: false": [],
    "- command: x creates=/y": [],
    "- command: {cmd: x, removes: /y}": [],
    "- command: x\n  args: {creates: /y}": [],
    "- action: command x creates=/y": [],
    "- action: {module: shell, cmd: x, creates: /y}": [],
    "- copy: {content: command, dest: /x}": [],
    "- other.command: x\n- community.general.shell: x": [],
    "- debug:\n  vars: {command: x}": [],
}


@pytest.mark.parametrize(("text", "found"), BLIND.items())
def test_tasks_that_check_mode_cannot_look_at(make: Make, text: str, found: list[str]) -> None:
    files = {"roles/r/tasks/main.yml": text, "roles/r/handlers/main.yml": "- command: x"}
    site = make(files, "{role: r}", check="{role: r, mode: check}")
    assert warnings(site) == [f"roles/r/tasks/main.yml:{it}" for it in found]
    assert site.findings_of_files() == ()
    files = {"c.yml": "- import_tasks: d.yml", "d.yml": text}
    site = make(files, "{role: r}", check="{tasks: c.yml, mode: check}", on="h1")
    assert warnings(site) == [f"d.yml:{it}" for it in found]
    assert warnings(make(files, "{role: r}", check="{role: r}")) == []


def test_what_a_warning_says(make: Make) -> None:
    site = make({"c.yml": "- command: x"}, "{}", check="{tasks: c.yml, mode: check}")
    assert site.findings_of_files() == ()
    (note,) = site.notes()
    assert str(note) == (
        "c.yml:1:3: `command` cannot be looked at in check mode (give it `check_mode: false` and"
        " `changed_when` if it only reads; else what it would change is not found)"
    )


def test_a_role_of_too_many_files_is_left_out(make: Make) -> None:
    many = {f"roles/r/templates/{number}": "{{ play_hosts }}" for number in range(500)}
    assert len(places(make(many))) == 500
    assert places(make({"roles/r/tasks/main.yml": "- run_once: true"})) == []


def test_links_that_lead_back_are_harmless(make: Make, tmp_path: Path) -> None:
    make(ONCE)
    (tmp_path / "site/roles/r/tasks/loop").symlink_to("..")
    (tmp_path / "site/roles/r/templates").symlink_to("tasks")
    assert places(make({})) == ["roles/r/tasks/main.yml:1:3 run_once"]


def test_a_damaged_ansible_cfg_is_for_the_run_to_tell(make: Make) -> None:
    assert len(places(make({**ONCE, "ansible.cfg": "[defaults\nroles_path"}))) == 1


LONG = "n" * 3000
TEXTS = ["{{ play_hosts }}", "x creates=y", "module", "r", "a.b.c", "up.yml", "<<", "\0", LONG]
KEYS = [
    *("block", "rescue", "action", "module", "args", "apply", "file", "name"),
    *("shell", "include_tasks", "import_role", "run_once", "dependencies", "<<"),
]
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(TEXTS))
ODD: st.SearchStrategy[Any] = LEAVES
for _ in range(3):
    ODD = st.one_of(
        LEAVES,
        st.lists(ODD, max_size=3),
        st.dictionaries(st.sampled_from(KEYS), ODD, max_size=3),
    )


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(ODD, max_size=3), ODD, st.binary(max_size=40))
def test_garbage_never_crashes(tasks: Any, meta: Any, noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        text = SITE.replace("UP", "{tasks: up.yml}").replace("ON", "app")
        write(
            root,
            {
                "site.yml": text.replace("CHECK", "{role: r, mode: check}"),
                "up.yml": yaml.safe_dump(tasks),
                "roles/r/tasks/main.yml": yaml.safe_dump(tasks),
                "roles/r/tasks/noise.yml": noise,
                "roles/r/templates/noise": noise,
                "roles/r/handlers/main.yml": yaml.safe_dump(meta).encode() + noise,
                "roles/r/meta/main.yml": yaml.safe_dump(meta),
            },
        )
        site = load_site(root, adapters=(AnsibleInventory(),))
        for finding in (*site.findings_of_files(), *site.notes()):
            assert finding.place.line, finding
            assert finding.hint


def test_it_is_said_where_no_inventory_is_trusted(make: Make, tmp_path: Path) -> None:
    make(ONCE)
    with Session(tmp_path / "site", no_cache=True) as session:
        (finding,) = session.evaluated.findings_of_files()
    assert finding.place.line == 1


def test_a_kept_site_says_its_warnings_again(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COBWEB_NO_CACHE", raising=False)
    make({"c.yml": "- command: x"}, "{}", check="{tasks: c.yml, mode: check}")
    for _ in range(2):
        assert main(["-C", str(tmp_path / "site"), "validate"]) == 0
        assert "c.yml:1:3: `command` cannot be looked at" in capsys.readouterr().err
    write(tmp_path / "site", {"c.yml": "- command: x\n  run_once: true"})
    assert main(["-C", str(tmp_path / "site"), "validate"]) == 3
    assert "c.yml:2:3: `run_once` would run on each host" in capsys.readouterr().err


def test_the_adapter_is_one_that_looks_at_actions() -> None:
    assert isinstance(load_plugins().adapters["ansible-inventory"], ActionAdapter)
