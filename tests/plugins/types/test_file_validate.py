"""A file becomes active only after a command has looked at it; if it fails, all is as before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.plugins.types.test_file import _crash_in
from tests.support.tasks import digest_of

GOOD, BAD = "good\n", "bad\n"
LOOKS = "grep -q bad {} && {{ echo {}: bad word >&2; exit 3; }} || true"


@pytest.fixture
def path(system: Path) -> Path:
    """Return the file."""
    return system / "a.conf"


@pytest.fixture(params=[False, True], ids=["staged", "in place"])
def validate(request: pytest.FixtureRequest, path: Path) -> dict[str, Any]:
    """Return a command that refuses a bad word, and says the tool's own message."""
    name = str(path) if request.param else "$1"
    words = ["sh", "-c", LOOKS.format(name, name), "sh", "%s"]
    return {"command": words, "in_place": request.param}


def _cob(path: Path, validate: object, **spec: object) -> dict[str, Any]:
    state = str(path.with_name("state"))
    given = {"path": str(path), "validate": validate, "state_dir": state, **spec}
    return {"id": "h1/thing", "spec": given, "applied": None}


KINDS: Mapping[str, tuple[str | None, dict[str, Any], dict[str, Any]]] = {
    "content": ("before\n", {"content": GOOD}, {"content": BAD}),
    "a new file": (None, {"content": GOOD}, {"content": BAD}),
    "line": ("before\n", {"line": {"text": "good"}}, {"line": {"text": "bad"}}),
    "block": ("before\n", {"block": {"text": GOOD}}, {"block": {"text": BAD}}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_changes_nothing(
    file_module: ModuleType, path: Path, validate: dict[str, Any], kind: str
) -> None:
    """First with nothing of ours there, then with an earlier spec in the file."""
    before, good, bad = KINDS[kind]
    if before is not None:
        path.write_text(before)
    good_cob, bad_cob = _cob(path, validate, **good), _cob(path, validate, **bad)
    seen = _digest(path)
    with pytest.raises(file_module.Failed, match=r"(?s)is as it was.*exit status 3.*bad word"):
        file_module.write(bad_cob)
    assert _digest(path) == seen
    assert file_module.check(bad_cob)["state"] == ("outdated" if kind == "content" else "down")
    file_module.write(good_cob)
    active = path.read_text()
    with pytest.raises(file_module.Failed, match="is as it was"):
        file_module.write({**bad_cob, "applied": good_cob["spec"]})
    assert path.read_text() == active
    assert file_module.check(good_cob) == {"state": "up"}
    file_module.remove(good_cob)
    assert (path.read_text() if path.exists() else None) == before


def _digest(path: Path) -> str:
    return path.read_text() if path.exists() else digest_of(path.parent / "nothing")


@pytest.mark.full("a crash at each step")
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_on_trial_is_taken_back(
    file_module: ModuleType,
    path: Path,
    validate: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Crash around each step of a change that will be refused: the next step finds it."""
    before, good, bad = KINDS[kind]
    good_cob, bad_cob = _cob(path, validate, **good), _cob(path, validate, **bad)
    bad_cob["applied"] = good_cob["spec"]
    for number in _numbers():
        if before is not None:
            path.write_text(before)
        file_module.write(good_cob)
        try:
            crashed = _crash_in(monkeypatch, number, lambda: file_module.write(bad_cob))
        except file_module.Failed:
            crashed = False
        assert file_module.check(bad_cob)["state"] != "up"
        file_module.write(good_cob)
        assert "bad" not in path.read_text()
        assert file_module.check(good_cob) == {"state": "up"}
        file_module.remove(good_cob)
        assert (path.read_text() if path.exists() else None) == before
        if not crashed:
            return


def _numbers() -> Iterator[int]:
    yield from itertools.count()


COMMANDS: Mapping[str, tuple[object, str]] = {
    "no file named": ("true", "`validate` has no %s"),
    "no such program": ("no-such-program %s", "cannot run `no-such-program`: No such file"),
    "no command": ("'%s", "`'%s` is no command: No closing quotation"),
    "too slow": (
        {"command": "sh -c 'sleep 60' %s", "timeout": 0.2},
        "`sh -c sleep 60 %s` took longer than 0.2 s",
    ),
    "killed": (["sh", "-c", "kill -9 $$", "%s"], "was ended by SIGKILL"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_cannot_judge_is_a_refusal(
    file_module: ModuleType, path: Path, name: str
) -> None:
    """Nothing becomes active that nobody has looked at."""
    command, message = COMMANDS[name]
    with pytest.raises(file_module.Failed) as failed:
        file_module.write(_cob(path, command, content=GOOD))
    assert message in str(failed.value)
    assert list(path.parent.rglob("*")) == [] or not path.exists()


def test_the_staged_file_has_its_mode(file_module: ModuleType, path: Path) -> None:
    """Tools such as visudo look at it."""
    command = ["sh", "-c", 'test "$(stat -c %a "$1")" = 440', "sh", "%s"]
    file_module.write(_cob(path, command, content=GOOD, mode="0440"))
    assert path.stat().st_mode & 0o7777 == 0o440
