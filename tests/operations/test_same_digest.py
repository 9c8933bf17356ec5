"""The same files give the same generation on any machine; what means nothing changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cobweb.generation import read_site
from cobweb.operations.context._desired import desired_of, roots_of
from cobweb.site import load_site

FILES = {
    "prod/site.yml": """
cobweb: 1
imports: [../common/ntp.yml]
inventory: hosts.yml
cobs:
  b: {type: simple, on: app, spec: {port: "{{ port }}", names: [é, b], deep: {y: 1, x: 2}}}
  a: {type: simple, on: app, requires: [b]}
limits:
  two: {on: app, cob: b, max: 1}
  one: {on: app, cob: a, max: 50%, per: rack}
types:
  simple:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: simple/check.yml}
    transitions: {down -> up: {role: web}, up -> down: }
""",
    "prod/hosts.yml": "app: {hosts: {h1: {rack: r1, x: 1}, h2: {rack: r2}}, vars: {port: 80}}",
    "prod/group_vars/all.yml": "ansible_user: root\nused: 'é'\n",
    "prod/simple/check.yml": "- debug: {msg: '{{ used }}'}",
    "prod/roles/web/tasks/main.yml": "- debug:",
    "common/ntp.yml": """
cobs: {ntp: {type: clock, on: app}}
types:
  clock:
    states: [up]
    preferred: up
    remove: up
    check: {tasks: tasks/check.yml}
""",
    "common/tasks/check.yml": "- debug:",
}

TELL = """
import sys
from pathlib import Path
from cobweb.site import load_site
from cobweb.operations.context._desired import desired_of
print(desired_of(load_site(Path(sys.argv[1]))).evaluated.digest)
"""


def checkout(folder: Path, files: dict[str, str], *, last_first: bool = False) -> Path:
    """Write the files of a repository in an order, and return the site's folder."""
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    for name in sorted(files, reverse=last_first):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name], encoding="utf-8")
    return folder / "prod"


def digest_of(folder: Path, files: dict[str, str]) -> str:
    return desired_of(load_site(checkout(folder, files))).evaluated.digest


@pytest.fixture
def known(tmp_path: Path) -> str:
    return digest_of(tmp_path / "known", FILES)


@pytest.mark.parametrize(
    ("umask", "environment"),
    [
        (0o022, {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}),
        (0o077, {"PYTHONHASHSEED": "2", "LC_ALL": "C", "TZ": "Asia/Tokyo", "HOME": "/nowhere"}),
    ],
    ids=["one", "other"],
)
def test_the_same_files_elsewhere_give_the_same_digest(
    tmp_path: Path, known: str, umask: int, environment: dict[str, str]
) -> None:
    before = os.umask(umask)
    try:
        folder = checkout(tmp_path / "a b/é", FILES, last_first=bool(umask & 0o055))
    finally:
        os.umask(before)
    told = subprocess.run(
        [sys.executable, "-c", TELL, str(folder)],
        env={**os.environ, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout.strip() == known


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cobs:\n", "# a comment\n\ncobs:\n"),
        ("deep: {y: 1, x: 2}", "deep: {x: 2, y: 1}"),
        ("{type: simple, on: app, requires: [b]}", "{requires: [b], on: app, type: simple}"),
        (
            "  two: {on: app, cob: b, max: 1}\n  one: {on: app, cob: a, max: 50%, per: rack}\n",
            "  one: {per: rack, on: app, cob: a, max: 50%}\n  two: {on: app, cob: b, max: 1}\n",
        ),
        (
            "imports: [../common/ntp.yml]\ninventory: hosts.yml\n",
            "inventory: hosts.yml\nimports: [../common/ntp.yml]\n",
        ),
    ],
)
def test_comments_and_the_order_of_keys_change_nothing(
    tmp_path: Path, known: str, old: str, new: str
) -> None:
    text = FILES["prod/site.yml"]
    assert text.count(old) == 1
    assert digest_of(tmp_path, {**FILES, "prod/site.yml": text.replace(old, new)}) == known


OTHER = {
    "connection": ("prod/group_vars/all.yml", "root", "ann"),
    "named": ("prod/group_vars/all.yml", "'é'", "'e'"),
    "tasks": ("prod/simple/check.yml", "debug", "assert"),
    "imported": ("common/tasks/check.yml", "debug", "assert"),
    "role": ("prod/roles/web/tasks/main.yml", "debug", "assert"),
    "spec": ("prod/hosts.yml", "port: 80", "port: 81"),
    "order": (
        "prod/hosts.yml",
        "h1: {rack: r1, x: 1}, h2: {rack: r2}",
        "h2: {rack: r2}, h1: {rack: r1, x: 1}",
    ),
}
"""The order of hosts counts because the site has budgets: it says which unit goes first."""

SAME = {
    "unnamed": ("prod/hosts.yml", "x: 1", "x: 2"),
}


def changed_digest(folder: Path, change: tuple[str, str, str]) -> str:
    file, old, new = change
    assert FILES[file].count(old) == 1
    return digest_of(folder, {**FILES, file: FILES[file].replace(old, new)})


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_what_counts_gives_another_digest(
    tmp_path: Path, known: str, change: tuple[str, str, str]
) -> None:
    assert changed_digest(tmp_path, change) != known


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_nothing_asks_for_gives_the_same_digest(
    tmp_path: Path, known: str, change: tuple[str, str, str]
) -> None:
    assert changed_digest(tmp_path, change) == known


def test_a_generation_names_no_place_of_this_machine_and_is_read_back(tmp_path: Path) -> None:
    site = load_site(checkout(tmp_path, FILES))
    text = desired_of(site).evaluated.text()
    assert str(tmp_path) not in text
    stored = read_site(text)
    assert sorted(stored.files.digests) == [
        "site:../common/tasks/check.yml",
        "site:roles/web/tasks/main.yml",
        "site:simple/check.yml",
    ]
    graph, again = site.graph(), stored.graph(roots_of(site))
    assert {cob: it.type.actions() for cob, it in again.cobs.items()} == {
        cob: it.type.actions() for cob, it in graph.cobs.items()
    }
