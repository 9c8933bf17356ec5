"""Decisions from outside: by the command line, with the section `lamps` of the example package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cobweb import api
from cobweb._resources import data_dir
from cobweb.cli import main
from cobweb.errors import ConflictError, SiteError, UsageError
from tests.support.example_plugin import PACKAGE

HOSTS = ", ".join(f"n{number}: {{ansible_connection: local}}" for number in range(1, 4))
SITE = f"""
cobweb: 1
name: street
inventory: {{all: {{hosts: {{{HOSTS}}}}}}}
lamps: {{hosts: [n1, n2, n3]}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Street:
    """A site of lamps, and commands on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], installed: Path) -> None:
        self.folder, self.installed = folder, installed
        self._capsys = capsys
        folder.mkdir()
        self.file.write_text(SITE)

    @property
    def file(self) -> Path:
        return self.folder / "site.yml"

    def ran(self, *words: str) -> Ran:
        self._capsys.readouterr()
        code = main(["-C", str(self.folder), *words])
        out, err = self._capsys.readouterr()
        return Ran(code=code, out=out, err=err)

    def done(self, *words: str) -> Ran:
        ran = self.ran(*words)
        assert ran.code == 0, ran
        return ran

    def decide(self, key: str, body: str, *words: str) -> Ran:
        return self.ran("decide", "lamps", key, body, "--reason", "it is dark", *words)

    def lit(self) -> set[str]:
        """Return the hosts whose lamp is on, by what was applied."""
        folder = self.folder / "lamps"
        found = {path.name: path.read_text() for path in folder.glob("*")}
        return {name.partition("--")[0] for name, text in found.items() if text == "on\n"}


@pytest.fixture
def street(tmp_path: Path, capsys: pytest.CaptureFixture[str], example_plugin: Path) -> Street:
    return Street(tmp_path / "site", capsys, example_plugin)


@pytest.fixture
def applied(street: Street) -> Street:
    """Return the site with all lamps off."""
    street.done("apply", "--yes")
    assert not street.lit()
    return street


def user() -> str:
    return Path("~").expanduser().owner()


def test_a_decision_is_planned_explained_and_applied(applied: Street) -> None:
    told = applied.decide("n1", '{"on": true}')
    decided = f"decision lamps/n1, revision 1, by {user()}: it is dark"
    assert (told.code, told.out) == (0, "")
    assert told.err.startswith(f"decided: {decided}\n")
    assert applied.done("plan").out.startswith(f"{decided}\n~ n1/lamp-n1\n")
    plan = applied.done("plan", "-o", "json").data
    assert plan["decisions"] == {"lamps": 1}
    assert [(it["key"], it["body"]) for it in plan["decided"]] == [("n1", {"on": True})]
    assert f"from {decided}" in applied.done("explain", "n1/lamp-n1.spec.text").out
    assert "n1 (groups: lit)" in applied.done("show").out
    applied.done("apply", "--yes")
    assert applied.lit() == {"n1"}
    assert "decision" not in applied.done("plan").out
    generations = applied.done("generations", "-o", "json").data["generations"]
    assert [it["decisions"] for it in generations] == [{"lamps": 1}, {"lamps": 0}]


def test_what_is_taken_back_is_as_if_it_had_never_been(applied: Street) -> None:
    applied.decide("n1", '{"on": true}')
    applied.done("apply", "--yes")
    applied.decide("n1", "null")
    assert applied.done("plan").out.startswith("decision lamps/n1 taken back, revision 2, by ")
    applied.done("apply", "--yes")
    assert not applied.lit()


def test_decisions_are_listed_by_section_and_key(applied: Street) -> None:
    assert "nothing is decided" in applied.done("decisions").err
    for key, body in (("n1", '{"on": true}'), ("n2", '{"on": true}'), ("n1", "null")):
        applied.decide(key, body)
    listed = applied.done("decisions")
    assert listed.out.splitlines()[1].split()[:4] == ["lamps/n2", "2", '{"on":', "true}"]
    assert "lamps/n1" not in listed.out
    assert "lamps is at revision 3" in listed.err
    history = applied.done("decisions", "lamps", "n1", "--history", "-o", "json").data
    found = history["sections"]["lamps"]["history"]
    assert [(it["revision"], it["body"]) for it in found] == [(3, None), (1, {"on": True})]
    schema = json.loads((data_dir("schemas") / "decisions.schema.json").read_text())
    for data in (history, applied.done("decisions", "-o", "json").data):
        Draft202012Validator(schema).validate(data)


WRONG = {
    "revision": (
        ["lamps", "n1", '{"on": true}', "--revision", "0"],
        1,
        "lamps is at revision 1, not 0",
    ),
    "later": (
        ["lamps", "n1", '{"on": true}', "--revision", "2"],
        1,
        "lamps is at revision 1, not 2",
    ),
    "schema": (
        ["lamps", "n1", '{"on": 1}'],
        64,
        "`lamps` does not take this for `n1`: `on` must be true or false",
    ),
    "empty": (
        ["lamps", "n1", "{}"],
        64,
        "`lamps` does not take this for `n1`: the decision does not fit",
    ),
    "syntax": (["lamps", "n1", "{on: true}"], 64, "the decision:1:2: this is no JSON"),
    "twice": (["lamps", "n1", "1 2"], 64, "the decision:1:3: this is no JSON"),
    "nan": (["lamps", "n1", '{"on": NaN}'], 64, "NaN is no number of JSON"),
    "deep": (["lamps", "n1", "[" * 5000 + "]" * 5000], 64, "levels of nesting"),
    "section": (["lamp", "n1", "true"], 64, "did you mean lamps?"),
    "other": (
        ["clusters", "n1", "true"],
        64,
        "known are agents, applications, lamps, metal, pools",
    ),
    "key": (["lamps", "n1\n", '{"on": true}'], 64, r"'n1\n' is no key of a decision"),
    "no key": (["lamps", "", '{"on": true}'], 64, "'' is no key of a decision"),
    "infinite": (["lamps", "n1", '{"on": 1e999}'], 64, "`n1` of `lamps` is no JSON"),
    "surrogate": (["lamps", "n1", '{"\\ud800": true}'], 64, "`n1` of `lamps` is no JSON"),
    "nothing": (["lamps", "n2", "null"], 64, "nothing is decided for `n2` of `lamps`"),
    "host": (
        ["lamps", "n9", '{"on": true}'],
        3,
        "site.yml:5:16: decision lamps/n9, revision 2, by ",
    ),
}


@pytest.mark.parametrize(("words", "code", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_decided_is_refused_and_nothing_is_stored(
    applied: Street, words: list[str], code: int, message: str
) -> None:
    applied.decide("n1", '{"on": true}')
    before = applied.done("decisions", "-o", "json").out
    ran = applied.ran("decide", *words, "--reason", "x")
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert applied.done("decisions", "-o", "json").out == before


@pytest.mark.parametrize("reason", ["", " \n", "x" * 3000, "\udcff"])
def test_a_decision_has_a_reason_that_people_can_read(street: Street, reason: str) -> None:
    ran = street.ran("decide", "lamps", "n1", '{"on": true}', "--reason", reason)
    assert (ran.code, ran.out, "Traceback" in ran.err) == (64, "", False)
    assert "a decision has a reason" in ran.err or "the reason is no JSON" in ran.err
    assert not (street.folder / ".cobweb").exists()


def test_a_site_without_the_section_takes_no_decisions_of_it(street: Street) -> None:
    street.file.write_text(SITE.replace("lamps: {hosts: [n1, n2, n3]}", ""))
    ran = street.decide("n1", '{"on": true}')
    assert (ran.code, "the site has no section `lamps`" in ran.err) == (64, True)
    assert not (street.folder / ".cobweb").exists()


def test_what_was_decided_may_be_taken_back_where_the_site_is_wrong_with_it(street: Street) -> None:
    street.decide("n3", '{"on": true}')
    street.file.write_text(SITE.replace(", n3]", "]"))
    wrong = street.ran("plan")
    assert (wrong.code, "or `cobweb decide lamps n3 null`" in wrong.err) == (3, True)
    assert street.decide("n3", "null").code == 0
    street.done("plan")


def test_a_removal_by_decision_is_no_slip_and_one_beside_it_is(applied: Street) -> None:
    for host in ("n1", "n2", "n3"):
        applied.decide(host, '{"gone": true}')
    kept = SITE + "cobs: {more: {type: marker, on: n1, spec: {folder: more, text: x}}}\n"
    applied.file.write_text(kept)
    applied.done("apply", "--yes", "--max-removals", "0")
    assert list((applied.folder / "lamps").iterdir()) == []
    applied.file.write_text(SITE)
    refused = applied.ran("apply", "--yes", "--max-removals", "0")
    assert (refused.code, "1 removal, of 1 known objects" in refused.err) == (1, True)


def test_a_plan_is_applied_with_what_was_decided_when_it_was_made(applied: Street) -> None:
    applied.decide("n1", '{"on": true}')
    plan = str(applied.folder / "plan")
    applied.done("plan", "--out", plan)
    applied.decide("n2", '{"on": true}')
    applied.done("apply", plan)
    assert applied.lit() == {"n1"}
    assert applied.done("plan", "-o", "json").data["counts"]["change"] == 1


@pytest.mark.parametrize("takes_back", [False, True])
def test_a_plan_is_refused_where_newer_decisions_were_applied(
    applied: Street, *, takes_back: bool
) -> None:
    """Also where these make the same site: the plan would take them back."""
    applied.decide("n1", '{"on": true}')
    plan = str(applied.folder / "plan")
    applied.done("plan", "--out", plan)
    applied.decide("n1", '{"on": false}')
    if takes_back:
        applied.decide("n1", '{"on": true}')
    applied.done("apply", "--yes")
    refused = applied.ran("apply", plan)
    assert (refused.code, "since the plan was made" in refused.err) == (1, True)


def test_a_generation_goes_back_and_the_decisions_stay(applied: Street) -> None:
    applied.decide("n1", '{"on": true}')
    applied.done("apply", "--yes")
    applied.done("rollback", "--yes")
    assert not applied.lit()
    assert applied.done("decisions", "-o", "json").data["sections"]["lamps"]["revision"] == 1
    assert "decision lamps/n1, revision 1" in applied.done("plan").out
    applied.done("apply", "--yes")
    assert applied.lit() == {"n1"}


def test_validate_opens_no_database(street: Street) -> None:
    """There is no server behind this URL: who asks it gets an error."""
    street.file.write_text(SITE + "state: postgresql://nobody@127.0.0.1:1/none\n")
    street.done("validate")
    assert street.ran("show").code == 1
    file = street.folder / "decisions.json"
    one = {
        "key": "n9",
        "body": {"on": True},
        "revision": 4,
        "author": "a",
        "reason": "b",
        "time": 1,
    }
    section = {"revision": 4, "decisions": [one]}
    file.write_text(json.dumps({"format": 1, "sections": {"lamps": section}}))
    found = street.ran("validate", "--decisions", str(file))
    assert (found.code, "decision lamps/n9, revision 4, by a: b" in found.err) == (3, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read the file: No such file or directory"),
        ("{", "this is no JSON"),
        ("[]", "there are no decisions: at $: [] is not of type 'object'"),
        (
            '{"format": 1, "sections": {"lamps": {"revision": 1, "history": []}}}',
            "this is a history of decisions",
        ),
        ('{"format": 2, "sections": {}}', "there are no decisions: at $.format"),
    ],
)
def test_a_file_without_decisions_is_told(street: Street, text: str | None, message: str) -> None:
    file = street.folder / "decisions.json"
    if text is not None:
        file.write_text(text)
    ran = street.ran("validate", "--decisions", str(file))
    assert (ran.code, message in ran.err) == (64, True), ran


def test_what_the_database_says_is_what_validate_gets_by_its_export(applied: Street) -> None:
    applied.decide("n1", '{"on": true}')
    file = applied.folder / "decisions.json"
    file.write_text(applied.done("decisions", "-o", "json").out)
    applied.done("validate", "--decisions", str(file))


@contextmanager
def child(street: Street, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command in another process."""
    path = os.pathsep.join([str(street.installed), str(PACKAGE / "src")])
    command = [sys.executable, "-m", "cobweb", "-C", str(street.folder), *words]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.gate("a run in another process waits for the lock of the site")
@pytest.mark.parametrize("change", ["decision", "file"])
def test_what_is_decided_or_edited_while_a_run_waits_is_what_it_applies(
    applied: Street, change: str
) -> None:
    applied.decide("n1", '{"on": true}')
    hold = applied.done("lock", "hold", "--for", "10m", "--reason", "test").out.strip()
    with child(applied, "apply", "--yes", "--wait", "1m") as waiting:
        assert waiting.stderr is not None
        assert "locked by" in waiting.stderr.readline()
        if change == "decision":
            applied.decide("n1", "null")
            applied.decide("n2", '{"on": true}')
        else:
            applied.file.write_text(
                SITE
                + 'cobs: {more: {type: marker, on: n3, spec: {folder: lamps, text: "on\\n"}}}\n'
            )
        applied.done("lock", "break", hold, "--yes")
        err = waiting.stderr.read()
        assert waiting.wait() == 0, err
    assert applied.lit() == ({"n2"} if change == "decision" else {"n1", "n3"})


@pytest.mark.gate("a run in another process waits for the lock of the site")
def test_what_leaves_no_site_while_a_run_waits_is_refused_by_it(applied: Street) -> None:
    applied.decide("n1", '{"on": true}')
    hold = applied.done("lock", "hold", "--for", "10m", "--reason", "test").out.strip()
    with child(applied, "apply", "--yes", "--wait", "1m") as waiting:
        assert waiting.stderr is not None
        assert "locked by" in waiting.stderr.readline()
        applied.file.write_text(SITE.replace("[n1, ", "["))
        applied.done("lock", "break", hold, "--yes")
        assert "decision lamps/n1, revision 1" in waiting.stderr.read()
        assert waiting.wait() == 3
    assert not applied.lit()


@pytest.mark.gate("6,000 objects, evaluated once and then taken from the cache")
def test_of_a_large_site_from_the_cache_decisions_are_seen(
    street: Street, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COBWEB_NO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    street.file.write_text(
        SITE
        + "cobs:\n"
        + "".join(
            f"  m{number}: {{type: marker, on: all, spec: {{folder: m, text: x}}}}\n"
            for number in range(2000)
        )
    )
    session = api.Site(street.folder)
    session.graph()
    assert not session.evaluated.is_kept
    assert api.Site(street.folder).evaluated.is_kept
    assert street.decide("n1", '{"on": true}').code == 0
    with api.Site(street.folder) as changed:
        assert len(changed.graph().cobs) == 6003
        assert not changed.evaluated.is_kept
    with api.Site(street.folder) as again:
        assert again.evaluated.is_kept
        assert again.graph().cobs.keys() == changed.graph().cobs.keys()
        assert again.evaluated.decisions["lamps"].by_key["n1"].body == {"on": True}
        assert again.desired().evaluated.digest != session.desired().evaluated.digest


def test_a_program_decides_and_applies_by_the_api(applied: Street) -> None:
    with api.Site(applied.folder) as site:
        site.graph()
        assert site.decisions("lamps").revision == 0
        assert (
            site.decide("lamps", 0, {"n1": {"on": True}, "n2": {"on": True}}, "pool", "night") == 1
        )
        with pytest.raises(ConflictError):
            site.decide("lamps", 0, {"n3": {"on": True}}, "pool", "night")
        with pytest.raises(UsageError):
            site.decide("lamps", 1, {"n3": {"on": "yes"}}, "pool", "night")
        assert str(site.apply().ending) == "ok"
        assert applied.lit() == {"n1", "n2"}
        site.decide("lamps", 1, {"n9": {"on": True}}, "pool", "night")
        with pytest.raises(SiteError, match="decision lamps/n9, revision 2, by pool: night"):
            site.apply()
        assert site.decisions("lamps", 1).by_key.keys() == {"n1", "n2"}


def test_a_program_that_goes_on_sees_what_it_has_decided(applied: Street) -> None:
    with api.Site(applied.folder) as site:
        site.check()
        site.decide("lamps", 0, {"n9": {"on": True}}, "pool", "night")
        with pytest.raises(SiteError):
            site.check()
        site.decide("lamps", 1, {"n9": None, "n1": {"on": True}}, "pool", "night")
        assert site.plan().decisions == {"lamps": 2}


NO_JSON: list[Any] = [{"on": {1, 2}}, {"on": b"x"}, {"on": float("inf")}, object()]


@pytest.mark.parametrize("body", NO_JSON, ids=[type(it).__name__ for it in NO_JSON])
def test_a_program_decides_plain_data_only(applied: Street, body: Any) -> None:
    with api.Site(applied.folder) as site, pytest.raises(UsageError):
        site.decide("lamps", 0, {"n1": body}, "pool", "night")


def test_what_was_decided_is_listed_and_taken_back_when_its_plugin_is_gone(
    applied: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied.decide("n1", '{"on": true}')
    monkeypatch.setattr(sys, "path", [it for it in sys.path if it != str(applied.installed)])
    assert "lamps/n1" in applied.done("decisions").out
    assert applied.decide("n1", '{"on": true}').code == 64
    assert applied.decide("n1", "null").code == 0
    assert "lamps/n1" not in applied.done("decisions").out
