"""Going back: by command, after a failure, and on real files; what is refused changes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cobweb.testing.promises import check_promises

pytestmark = [pytest.mark.full("each way back; the gate has the chief ones")]

Run = Callable[..., Any]
CheckSchema = Callable[[str, Any], None]
SIMULATED = ("--yes", "--executor", "simulate")


def change(site: Path, old: str, new: str) -> None:
    file = site / "site.yml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def generations(run: Run, site: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("-C", site, "generations", "-o", "json").out)[
        "generations"
    ]
    return found


@pytest.fixture
def changed(run: Run, site: Path) -> Path:
    """Make a site that has reached two generations: the second has another port and no b."""
    assert run("-C", site, "apply", *SIMULATED).code == 0
    change(site, "port: 8080", "port: 9090")
    change(site, "  b:\n    type: simple\n    on: front\n    requires: [a@back]\n", "")
    assert run("-C", site, "apply", *SIMULATED).code == 0
    return site


@pytest.mark.gate("the story of a rollback")
def test_the_content_of_an_earlier_generation_becomes_a_new_one(run: Run, changed: Path) -> None:
    ran = run("-C", changed, "rollback", *SIMULATED)
    assert ran.code == 0, ran.err
    assert "going back to generation 1\n" in ran.err
    newest, second, first = generations(run, changed)
    assert newest["digest"] == first["digest"] != second["digest"]
    assert newest["message"] == "rollback to 1"
    assert newest["reached"]
    status = json.loads(run("-C", changed, "status", "-o", "json").out)
    assert {cob["id"] for cob in status["cobs"]} == {"alpha/a", "alpha/cfg", "beta/b"}


@pytest.mark.gate("the command once")
@pytest.mark.parametrize(("typed", "words"), [("n\n", "nothing was changed"), ("y\n", "done (")])
def test_the_plan_is_shown_before_the_question(
    run: Run, changed: Path, monkeypatch: pytest.MonkeyPatch, typed: str, words: str
) -> None:
    stdin = io.StringIO(typed)
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run("-C", changed, "rollback", "--executor", "simulate", "-o", "json")
    assert ran.code == 0
    assert ran.err.index("+ beta/b") < ran.err.index("Apply this plan? [y/N]")
    assert words in ran.err
    assert ran.out == "" or json.loads(ran.out)["result"] == "ok"


def test_a_host_that_is_gone_has_no_generation_any_more(run: Run, site: Path) -> None:
    assert run("-C", site, "apply", *SIMULATED).code == 0
    change(site, "      front: {hosts: {beta: {}}}\n", "")
    change(site, "  b:\n    type: simple\n    on: front\n    requires: [a@back]\n", "")
    assert run("-C", site, "apply", *SIMULATED).code == 0
    with database(site) as connection:
        rows = connection.execute("SELECT name FROM cobweb_hosts WHERE generation > 0").fetchall()
    assert rows == [("alpha",)]


@pytest.mark.gate("the story of a rollback")
def test_what_was_gone_back_from_can_be_gone_to_again(run: Run, changed: Path) -> None:
    assert run("-C", changed, "rollback", *SIMULATED).code == 0
    ran = run("-C", changed, "rollback", *SIMULATED, "-m", "once more", "-o", "json")
    assert "going back to generation 2: this takes the rollback back\n" in ran.err
    newest = generations(run, changed)[0]
    assert newest["message"] == "once more"
    assert run("-C", changed, "plan", "--detailed-exitcode").code == 0


def test_plan_shows_the_way_back_and_that_the_files_differ_afterwards(
    run: Run, changed: Path
) -> None:
    plan = run("-C", changed, "plan", "--generation", "1", "--detailed-exitcode")
    assert plan.code == 2
    assert "+ beta/b" in plan.out
    assert '+text: "port=8080"' in plan.out.replace("    ", "")
    assert len(generations(run, changed)) == 2
    assert run("-C", changed, "rollback", *SIMULATED).code == 0
    note = "note: generation 3 is generation 1 again, and the files of the site say otherwise\n"
    again = run("-C", changed, "plan", "--detailed-exitcode")
    assert (again.code, note in again.err) == (2, True)
    assert note in run("-C", changed, "status").err
    assert run("-C", changed, "plan", "--generation", "1", "--detailed-exitcode").code == 0
    assert run("-C", changed, "apply", *SIMULATED).code == 0
    assert generations(run, changed)[0]["digest"] == generations(run, changed)[2]["digest"]
    for command in ("plan", "status"):
        assert "again" not in run("-C", changed, command).err, "the files say the same"


def test_files_that_were_taken_back_are_no_rollback(run: Run, changed: Path) -> None:
    text = (changed / "site.yml").read_text(encoding="utf-8")
    change(changed, "port: 9090", "port: 7070")
    assert run("-C", changed, "apply", *SIMULATED).code == 0
    (changed / "site.yml").write_text(text, encoding="utf-8")
    assert run("-C", changed, "apply", *SIMULATED).code == 0
    newest, _, before, _ = generations(run, changed)
    assert newest["digest"] == before["digest"]
    change(changed, "port: 9090", "port: 6060")
    ran = run("-C", changed, "plan", "--detailed-exitcode")
    assert ran.code == 2
    assert "again" not in ran.err
    assert "again" not in run("-C", changed, "status").err


@pytest.mark.gate("a table of bad input")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("rollback", "7"), 64, "there is no generation 7"),
        (("plan", "--generation", "7"), 64, "there is no generation 7"),
        (("plan", "--generation", "1", "--limit", "alpha"), 64, "--limit does not go with"),
        (("plan", "--generation", "1", "--out", "x"), 64, "--out does not go with"),
        (("rollback", "0"), 64, "0 is not in the range"),
        (("rollback", "--limit", "alpha"), 64, "No such option"),
        (("apply", "--on-failure", "rollback", "--limit", "alpha"), 64, "is for the whole site"),
    ],
    ids=str,
)
def test_wrong_usage_is_refused(
    run: Run, changed: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ran = run("-C", changed, *arguments)
    assert ran.code == code
    assert said in ran.err
    assert "going back" not in ran.err
    assert len(generations(run, changed)) == 2


@pytest.mark.gate("bad input")
def test_there_may_be_nothing_to_go_back_to(run: Run, site: Path) -> None:
    said = "there is no earlier generation that was reached"
    assert said in run("-C", site, "rollback").err
    assert not (site / ".cobweb").exists()
    assert run("-C", site, "apply", *SIMULATED).code == 0
    ran = run("-C", site, "rollback")
    assert (ran.code, said in ran.err) == (64, True)


def database(site: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(site / ".cobweb/state.db"))


def spoil(site: Path, content: bytes, *, with_digest: bool) -> None:
    """Put another content into generation 1."""
    with database(site) as connection:
        connection.execute(
            "UPDATE cobweb_generations SET content = ? WHERE id = 1", (zlib.compress(content),)
        )
        if with_digest:
            digest = hashlib.sha256(content).hexdigest()
            connection.execute("UPDATE cobweb_generations SET digest = ? WHERE id = 1", (digest,))
        connection.commit()


@pytest.mark.gate("bad input")
@pytest.mark.parametrize(
    ("content", "with_digest", "said"),
    [
        (b"{}", False, "damaged"),
        (b"{}", True, "damaged"),
        (b'{"format":9}', True, "has format 9"),
        (b'{"format":3}', True, "has format 3"),
        (b'{"format":4,"cobs":3}', True, "damaged"),
    ],
    ids=str,
)
def test_a_damaged_generation_is_refused(
    run: Run, changed: Path, content: bytes, *, with_digest: bool, said: str
) -> None:
    spoil(changed, content, with_digest=with_digest)
    for command in (("rollback", "1", *SIMULATED), ("plan", "--generation", "1")):
        ran = run("-C", changed, *command)
        assert ran.code == 1
        assert said in ran.err
    assert len(generations(run, changed)) == 2


def test_a_task_file_without_a_copy_is_told_before_anything_is_changed(
    run: Run, changed: Path
) -> None:
    (changed / "simple/start.yml").write_text("- ping:\n", encoding="utf-8")
    assert run("-C", changed, "apply", *SIMULATED).code == 0
    (changed / "simple/start.yml").write_text("- debug:\n", encoding="utf-8")
    with database(changed) as connection:
        connection.execute("DELETE FROM cobweb_files")
        connection.commit()
    ran = run("-C", changed, "rollback", "3", *SIMULATED)
    assert ran.code == 3
    assert (
        "cobweb: generation 3 cannot be desired again (bring back its files, and apply)\n"
        "  type simple: the task file site:simple/check.yml is not as it was, and the copy of"
        " site:simple/start.yml is gone\n"
    ) in ran.err
    assert len(generations(run, changed)) == 3


@pytest.mark.parametrize(
    ("told", "where"),
    [
        ("alpha/cfg.spec.text: its vaulted value", "    spec: {{text: {secret}}}\n"),
        ("alpha: the vaulted value of the variable ansible_password", ""),
    ],
)
def test_a_secret_that_is_gone_is_told_with_its_place(
    run: Run, site: Path, told: str, where: str
) -> None:
    vaulted = '!vault "$ANSIBLE_VAULT;1.1;AES256 3632"'
    plain = '    spec: {text: "port={{ port }}"}\n'
    if where:
        change(site, plain, where.format(secret=vaulted))
    else:
        change(site, "port: 8080", f"ansible_password: {vaulted}, port: 8080")
    assert run("-C", site, "apply", *SIMULATED).code == 0
    text = (site / "site.yml").read_text(encoding="utf-8")
    (site / "site.yml").write_text(text.replace(vaulted, '"plain"'), encoding="utf-8")
    assert run("-C", site, "apply", *SIMULATED).code == 0
    ran = run("-C", site, "rollback", *SIMULATED)
    assert ran.code == 3
    assert told in ran.err
    assert "3632" not in ran.err
    # Elsewhere in the site it is found again.
    change(site, "cobs:\n", f"cobs:\n  other: {{type: simple, on: back, spec: {{k: {vaulted}}}}}\n")
    ran = run("-C", site, "rollback", *SIMULATED)
    assert ran.code == 0, ran.err


def test_a_removal_that_lacks_its_secret_is_planned_to_fail_and_fails_alone_until_that_is_back(
    run: Run, site: Path, check_schema: CheckSchema
) -> None:
    vaulted = '!vault "$ANSIBLE_VAULT;1.1;AES256 3632"'
    more = f"""\
  old: {{type: simple, on: front, spec: {{key: {vaulted}}}}}
  old2: {{type: simple, on: front}}
"""
    change(site, "cobs:\n", f"cobs:\n{more}")
    assert run("-C", site, "apply", *SIMULATED).code == 0
    change(site, more, "")
    change(site, "port: 8080", "port: 9090")
    lost = (
        "the vaulted value of spec.key is not in the site any more (write it anywhere in the site"
        " again, or take the object away by hand and `cobweb forget beta/old`)\n"
    )
    told = run("-C", site, "plan").out
    assert "- beta/old (removed: not possible, see below)\n" in told
    way = "up -> down, then kept until its host goes on, see below"
    assert f"- beta/old2 (removed: {way})\n" in told
    assert f"beta/old would be left unknown:\n  beta/old would fail: {lost}" in told
    assert "alpha/cfg  outdated -> up" in told  # no barrier: it has nothing to do with that
    data = json.loads(run("-C", site, "plan", "-o", "json").out)
    check_schema("plan", data)
    assert [(it["kind"], it["detail"]) for it in data["waits"][0]["chain"]] == [
        ("failed", lost.strip())
    ]
    ran = run("-C", site, "apply", *SIMULATED)
    assert ran.code == 1
    assert f"beta/old is unknown\n  beta/old failed in this run: {lost}" in ran.err
    assert "then the check" not in ran.err
    assert "beta/old2  up -> down" in ran.err
    assert "alpha/cfg  outdated -> up" in ran.err
    change(site, "port: 9090", f"port: 9090, kept: {vaulted}")
    ran = run("-C", site, "apply", *SIMULATED)
    assert ran.code == 0, ran.err
    assert "beta/old  up -> down" in ran.err
    assert run("-C", site, "plan", "--detailed-exitcode").code == 0


def test_a_removal_without_its_tasks_fails_alone(run: Run, site: Path) -> None:
    more = """\
types:
  gone:
    states: [up, down]
    preferred: up
    remove: down
    check: {tasks: gone/check.yml}
    transitions: {up -> down: {tasks: gone/check.yml}, down -> up: {tasks: gone/check.yml}}
"""
    (site / "gone").mkdir()
    (site / "gone/check.yml").write_text("- ping:\n", encoding="utf-8")
    change(site, "types:\n", more)
    change(site, "cobs:\n", "cobs:\n  old: {type: gone, on: front}\n")
    assert run("-C", site, "apply", *SIMULATED).code == 0
    (site / "gone/check.yml").unlink()
    change(site, more, "types:\n")
    change(site, "  old: {type: gone, on: front}\n", "")
    with database(site) as connection:
        kept = connection.execute("SELECT * FROM cobweb_files").fetchall()
        connection.execute("DELETE FROM cobweb_files")
        connection.commit()
    ran = run("-C", site, "apply", *SIMULATED)
    assert ran.code == 1
    assert "the copy of site:gone/check.yml is gone" in ran.err
    assert "beta/old" in run("-C", site, "status").out
    with database(site) as connection:
        connection.executemany("INSERT OR IGNORE INTO cobweb_files VALUES (?, ?)", kept)
        connection.commit()
    assert run("-C", site, "apply", *SIMULATED).code == 0
    assert "beta/old" not in run("-C", site, "status").out


def test_of_many_problems_the_first_are_told(run: Run, changed: Path) -> None:
    content = json.loads(content_of(changed, 1))
    gone = {"__cobweb_secret": "sha256:0"}
    content["cobs"]["alpha/a"]["spec"] = {f"key{number:02}": gone for number in range(25)}
    put(changed, 1, content)
    ran = run("-C", changed, "rollback", "1", *SIMULATED)
    assert ran.code == 3
    assert ran.err.count("its vaulted value is not in the site any more") == 20
    assert ran.err.endswith("  ... and 5 more\n")


def test_the_commit_is_named_that_has_what_is_gone(run: Run, changed: Path) -> None:
    content = json.loads(content_of(changed, 1))
    content["cobs"]["alpha/a"]["spec"] = {"key": {"__cobweb_secret": "sha256:0"}}
    put(changed, 1, content)
    with database(changed) as connection:
        connection.execute(
            'UPDATE cobweb_generations SET "commit" = ? WHERE id = 1', ("0123456789abcdef+changes",)
        )
        connection.commit()
    ran = run("-C", changed, "rollback", "1", *SIMULATED)
    said = "check out commit 0123456789ab of the site, which had changes that were not committed"
    assert f"({said}, and apply)\n" in ran.err


def test_a_plugin_type_that_has_other_states_now_is_refused(run: Run, changed: Path) -> None:
    text = (changed / "site.yml").read_text(encoding="utf-8")
    spec = "    spec: {path: /tmp/a, content: x}\n"
    (changed / "site.yml").write_text(
        text + f"  d:\n    type: file\n    on: back\n{spec}", encoding="utf-8"
    )
    assert run("-C", changed, "apply", *SIMULATED).code == 0
    (changed / "site.yml").write_text(text, encoding="utf-8")
    assert run("-C", changed, "apply", *SIMULATED).code == 0
    content = json.loads(content_of(changed, 3))
    content["types"]["file"]["states"] = ["up", "down"]
    content["cobs"]["alpha/d"]["spec"] = {}
    put(changed, 3, content)
    ran = run("-C", changed, "rollback", "3", *SIMULATED)
    assert (ran.code, "type file: the plugin has given it other" in ran.err) == (3, True)
    content["types"]["file"] = json.loads(content_of(changed, 3))["types"]["file"]
    content["types"]["file"]["states"] = ["outdated", "down", "up"]
    put(changed, 3, content)
    ran = run("-C", changed, "rollback", "3", *SIMULATED)
    assert (ran.code, "alpha/d: `spec` lacks" in ran.err) == (3, True), ran.err
    content["types"]["nobody's"] = {**content["types"]["file"], "check": {"python": "no.check"}}
    content["cobs"]["alpha/d"]["type"] = "nobody's"
    put(changed, 3, content)
    ran = run("-C", changed, "rollback", "3", *SIMULATED)
    assert ran.code == 3
    assert "type nobody's: no plugin has the type no with `check` any more" in ran.err


def content_of(site: Path, generation: int) -> str:
    with database(site) as connection:
        rows = connection.execute(
            "SELECT content FROM cobweb_generations WHERE id = ?", (generation,)
        )
        return zlib.decompress(rows.fetchone()[0]).decode()


def put(site: Path, generation: int, data: Any) -> None:
    text = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    with database(site) as connection:
        connection.execute(
            "UPDATE cobweb_generations SET content = ?, digest = ? WHERE id = ?",
            (zlib.compress(text), hashlib.sha256(text).hexdigest(), generation),
        )
        connection.commit()


def test_what_can_never_work_is_refused(run: Run, changed: Path) -> None:
    content = json.loads(content_of(changed, 1))
    content["needs"].append(
        {"cob": "alpha/a", "from": "*", "to": "up", "on": "beta/b", "state": "up"}
    )
    put(changed, 1, content)
    ran = run("-C", changed, "rollback", "1", *SIMULATED)
    assert ran.code == 3
    assert "wait for each other" in ran.err or "circle" in ran.err


# --- on real files

REAL = """\
cobweb: 1
name: notes
inventory:
  all:
    hosts:
      one: {{}}
      two: {{}}
    vars:
      ansible_connection: local
      ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
      greeting: "{{{{ word }}}} there"
      word: hello
cobs:
  a: {{type: note, on: one, spec: {{path: {folder}/a, text: first}}}}
  b: {{type: note, on: two, spec: {{path: {folder}/b, text: first}}, requires: [a@one]}}
types:
  note:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {{tasks: note/check.yml}}
    transitions:
      down -> up: {{tasks: note/write.yml}}
      outdated -> up: {{tasks: note/write.yml}}
      up -> down: {{tasks: note/remove.yml}}
      outdated -> down: {{tasks: note/remove.yml}}
"""
WRITE = '- ansible.builtin.template: {src: note.j2, dest: "{{ cob.spec.path }}", mode: "0644"}\n'
TASKS = {
    "check.yml": """\
- ansible.builtin.stat: {path: "{{ cob.spec.path }}"}
  register: there
- ansible.builtin.set_fact:
    cob_state: >-
      {{ 'down' if not there.stat.exists
         else 'up' if lookup('file', cob.spec.path) == lookup('template', 'note.j2') | trim
         else 'outdated' }}
""",
    "write.yml": WRITE,
    "remove.yml": '- ansible.builtin.file: {path: "{{ cob.spec.path }}", state: absent}\n',
    "note.j2": "{{ greeting }} {{ cob.spec.text }}\n",
}


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """Make a site whose objects are files of this machine, written by Ansible."""
    site = tmp_path / "site"
    (site / "note").mkdir(parents=True)
    for name, text in TASKS.items():
        (site / "note" / name).write_text(text, encoding="utf-8")
    (site / "site.yml").write_text(REAL.format(folder=tmp_path), encoding="utf-8")
    return site


def read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


@pytest.mark.full("by Ansible itself, several runs; the gate has rollbacks simulated")
@pytest.mark.timeout(180)
def test_what_is_gone_is_removed_by_copies_and_comes_back_by_them(
    run: Run, real: Path, tmp_path: Path
) -> None:
    """Tasks, template, variables and a host are gone from the site, and are all needed again."""
    ran = run("-C", real, "apply", "--yes")
    assert ran.code == 0, ran.err
    assert read(tmp_path / "b") == "hello there first\n"
    (real / "note").rename(real / "memo")
    (real / "memo/note.j2").write_text("{{ cob.spec.text }}!\n", encoding="utf-8")
    (real / "memo/remove.yml").write_text("- ansible.builtin.fail:\n", encoding="utf-8")
    change(real, "note/", "memo/")
    change(real, "      two: {}\n", "")
    change(real, '      greeting: "{{ word }} there"\n      word: hello\n', "")
    spec = f"spec: {{path: {tmp_path}/b, text: first}}"
    change(real, f"  b: {{type: note, on: two, {spec}, requires: [a@one]}}\n", "")
    change(real, "text: first", "text: second")
    ran = run("-C", real, "apply", "--yes")
    assert ran.code == 0, ran.err
    assert (read(tmp_path / "a"), read(tmp_path / "b")) == ("second!\n", None)
    ran = run("-C", real, "rollback", "--yes")
    assert ran.code == 0, ran.err
    assert read(tmp_path / "a") == read(tmp_path / "b") == "hello there first\n"
    assert run("-C", real, "apply", "--yes").code == 0
    assert (read(tmp_path / "a"), read(tmp_path / "b")) == ("second!\n", None)


@pytest.mark.full("by Ansible itself, several runs; the gate has rollbacks simulated")
@pytest.mark.timeout(180)
def test_variables_that_only_a_removal_needs_are_there_for_it(
    run: Run, real: Path, tmp_path: Path
) -> None:
    """Both ways: for what is gone from the site, and for what is gone since one went back."""
    spec = f"{{path: {tmp_path}/c, text: x}}"
    more = f"""\
  c: {{type: spare, on: one, spec: {spec}}}
types:
  spare:
    states: [down, up]
    preferred: up
    remove: down
    check: {{tasks: spare/check.yml}}
    transitions:
      down -> up: {{tasks: spare/write.yml}}
      up -> down: {{tasks: spare/remove.yml}}
"""
    assert run("-C", real, "apply", "--yes").code == 0
    (real / "spare").mkdir()
    for name, text in TASKS.items():
        (real / "spare" / name).write_text(text.replace("greeting", "phrase"), encoding="utf-8")
    gone = '- ansible.builtin.file: {path: "{{ cob.spec.path }}{{ ending }}", state: absent}\n'
    (real / "spare/remove.yml").write_text(gone, encoding="utf-8")
    change(real, "types:\n", more)
    change(real, "      word: hello\n", "      word: hello\n      phrase: hi\n      ending: ''\n")
    assert run("-C", real, "apply", "--yes").code == 0
    assert read(tmp_path / "c") == "hi x\n"
    ran = run("-C", real, "rollback", "--yes")
    assert (ran.code, read(tmp_path / "c")) == (0, None), ran.err
    ran = run("-C", real, "apply", "--yes")
    assert (ran.code, read(tmp_path / "c")) == (0, "hi x\n"), ran.err
    change(real, more, "types:\n")
    change(real, "      phrase: hi\n      ending: ''\n", "")
    ran = run("-C", real, "apply", "--yes")
    assert (ran.code, read(tmp_path / "c")) == (0, None), ran.err


@pytest.mark.full("by Ansible itself, several runs; the gate has rollbacks simulated")
@pytest.mark.timeout(180)
def test_a_failed_apply_goes_back_at_once(
    run: Run, real: Path, tmp_path: Path, check_schema: CheckSchema
) -> None:
    assert run("-C", real, "apply", "--yes").code == 0
    (real / "note/write.yml").write_text(
        f"{WRITE}- ansible.builtin.fail: {{msg: no room}}\n  when: cob.name == 'b'\n",
        encoding="utf-8",
    )
    change(real, "text: first", "text: second")
    events = tmp_path / "events.jsonl"
    go = ("-C", real, "apply", "--yes", "--on-failure", "rollback")
    ran = run(*go, "--events", events, "-o", "json")
    assert ran.code == 1
    assert read(tmp_path / "a") == read(tmp_path / "b") == "hello there first\n"
    data = json.loads(ran.out)
    check_schema("result", data)
    assert (data["result"], data["rollback"]["result"]) == ("failed", "ok")
    assert "no room" in ran.err
    assert "going back to generation 1\n" in ran.err
    newest, failed, _first = generations(run, real)
    assert newest["message"] == "rollback to 1 after a failure"
    assert not failed["reached"]
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    starts = [number for number, line in enumerate(lines) if line["type"] == "version"]
    assert [line["run"] for line in lines if line["type"] == "run.start"] == [
        data["run"],
        data["rollback"]["run"],
    ]
    graph = json.loads(run("-C", real, "graph", "-o", "json").out)
    assert check_promises(lines[: starts[1]], graph) == []
    assert check_promises(lines[starts[1] :], graph) == []
    assert "holds 2 runs" in run("-C", real, "report", "--events", events).err


@pytest.mark.full("by Ansible itself, several runs; the gate has rollbacks simulated")
@pytest.mark.timeout(180)
def test_a_failure_under_a_generation_that_was_reached_is_not_taken_back(
    run: Run, real: Path, tmp_path: Path, check_schema: CheckSchema
) -> None:
    change(real, f"path: {tmp_path}/b", f"path: {tmp_path}/none/b")
    go = ("-C", real, "apply", "--yes", "--on-failure", "rollback", "-o", "json")
    ran = run(*go)
    assert ran.code == 1
    assert "not going back: there is no earlier generation that was reached" in ran.err
    data = json.loads(ran.out)
    check_schema("result", data)
    assert data["rollback"] is None
    (tmp_path / "none").mkdir()
    assert run(*go).code == 0
    (tmp_path / "none/b").unlink()
    (tmp_path / "none").rmdir()
    ran = run(*go, "--refresh", "all")
    assert ran.code == 1
    assert "not going back: generation 1 was reached before" in ran.err
