"""Lines and blocks that are ours in a file that is not: by the module, crashed at every step."""

from __future__ import annotations

import fcntl
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.plugins.types.test_file import _crash_in
from tests.support.tasks import digest_of

SSHD = "# top\n#Port 22\nUseDNS no\n"
PORT = {"text": "Port 2222", "match": r"^#?Port "}


@dataclass(frozen=True, slots=True)
class Bench:
    """The module of `file`, and the file that the parts are in."""

    module: ModuleType
    file: Path

    def part(self, name: str = "thing", /, **spec: Any) -> dict[str, Any]:
        """Return the variable `cob` of a part of the file."""
        given = {"path": str(self.file), "state_dir": str(self.file.with_name("state")), **spec}
        return {"id": f"h1/{name}", "spec": given, "applied": None}

    def check(self, cob: dict[str, Any]) -> str:
        """Return the state."""
        return str(self.module.check(cob)["state"])

    def write(self, cob: dict[str, Any]) -> dict[str, Any]:
        """Write, and return the answer."""
        return dict(self.module.write(cob))

    def remove(self, cob: dict[str, Any]) -> dict[str, Any]:
        """Remove, and return the answer."""
        return dict(self.module.remove(cob))


@pytest.fixture
def bench(file_module: ModuleType, system: Path) -> Bench:
    """Return what the tests work with."""
    return Bench(file_module, system / "a.conf")


LINES: dict[str, tuple[str, dict[str, str], str]] = {
    "at the end": ("a\n", {"text": "x"}, "a\nx\n"),
    "no newline at the end": ("a", {"text": "x"}, "a\nx"),
    "an empty file": ("", {"text": "x"}, "x\n"),
    "a blank line": ("\n", {"text": "x"}, "\nx\n"),
    "carriage returns": ("a\r\nb\r\n", {"text": "x", "after": "a$"}, "a\r\nx\r\nb\r\n"),
    "in place of another": (SSHD, PORT, "# top\nPort 2222\nUseDNS no\n"),
    "in place of two": ("#Port 1\nb\nPort 2\nc\n", PORT, "Port 2222\nb\nc\n"),
    "in place of two neighbours": ("#Port 1\nPort 2\nc\n", PORT, "Port 2222\nc\n"),
    "after the last": ("a\nb\na\n", {"text": "x", "after": "^a"}, "a\nb\na\nx\n"),
    "before the first": ("b\na\na\n", {"text": "x", "before": "^a"}, "b\nx\na\na\n"),
    "a newline too many in the text": ("a\n", {"text": "x\n"}, "a\nx\n"),
    "bytes that are no text": ("\udcff\n", {"text": "ü"}, "\udcff\nü\n"),
}
BLOCKS: dict[str, tuple[str, dict[str, str], str]] = {
    "at the end": (
        "a\n",
        {"text": "x\ny\n"},
        "a\n# BEGIN cobweb thing\nx\ny\n# END cobweb thing\n",
    ),
    "an own marker": ("a\n", {"text": "x", "marker": ";{mark}"}, "a\n;BEGIN\nx\n;END\n"),
    "no newline at the end": ("a", {"text": "x", "marker": "{mark}"}, "a\nBEGIN\nx\nEND"),
    "carriage returns": (
        "a\r\n",
        {"text": "x", "marker": "{mark}", "before": "^a$"},
        "BEGIN\r\nx\r\nEND\r\na\r\n",
    ),
    "an empty text": ("a\n", {"text": "", "marker": "{mark}"}, "a\nBEGIN\nEND\n"),
}
ROUND = [("line", *case) for case in LINES.values()] + [
    ("block", *case) for case in BLOCKS.values()
]
ROUND_IDS = [f"line: {name}" for name in LINES] + [f"block: {name}" for name in BLOCKS]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(("kind", "before", "given", "after"), ROUND, ids=ROUND_IDS)
def test_there_and_back(
    bench: Bench, kind: str, before: str, given: dict[str, str], after: str
) -> None:
    """Down, up, up again without a change, and to the byte what it was before."""
    bench.file.write_bytes(_bytes(before))
    bench.file.chmod(0o640)
    cob = bench.part(**{kind: given})
    assert bench.check(cob) == "down"
    bench.write(cob)
    assert bench.file.read_bytes() == _bytes(after)
    assert bench.check(cob) == "up"
    seen = digest_of(bench.file.parent)
    assert bench.write(cob) == {"changed": False}
    assert digest_of(bench.file.parent).split() == seen.split()
    bench.remove(cob)
    assert bench.file.read_bytes() == _bytes(before)
    assert bench.file.stat().st_mode & 0o7777 == 0o640
    assert bench.check(cob) == "down"
    assert [found.name for found in (bench.file.parent / "state").rglob("*.json")] == []


@pytest.mark.parametrize("kind", ["line", "block"])
def test_edits_around_it_stay(bench: Bench, kind: str) -> None:
    """Whatever others do around it, before and after."""
    bench.file.write_text("a\n#Port 22\nz\n")
    cob = bench.part(**{kind: PORT if kind == "line" else {"text": "x"}})
    bench.write(cob)
    bench.file.write_text(f"new\n{bench.file.read_text()}more\n")
    assert bench.check(cob) == "up"
    bench.remove(cob)
    assert bench.file.read_text() == "new\na\n#Port 22\nz\nmore\n"


EDITED: dict[str, tuple[str, str, str]] = {
    "another value": ("Port 2222", "Port 99", "outdated"),
    "twice": ("Port 2222", "Port 2222\nPort 2222", "outdated"),
    "one more that it would replace": ("Port 2222", "Port 2222\nPort 3", "outdated"),
    "gone, and so is what was there": ("Port 2222\n", "", "outdated"),
    "put back by hand": ("Port 2222", "#Port 22", "down"),
}


@pytest.mark.parametrize(("old", "new", "state"), EDITED.values(), ids=EDITED)
def test_an_edited_line(bench: Bench, old: str, new: str, state: str) -> None:
    """It is found, and both ways lead to where they should."""
    cob = bench.part(line=PORT)
    for action, wanted in (("write", SSHD.replace("#Port 22", "Port 2222")), ("remove", SSHD)):
        bench.file.write_text(SSHD)
        bench.write(cob)
        bench.file.write_text(bench.file.read_text().replace(old, new))
        assert bench.check(cob) == state
        answer = getattr(bench, action)(cob)
        foreign = "Port 3\n" if action == "remove" and "Port 3" in new else ""
        assert sorted(bench.file.read_text().split("\n")) == sorted((wanted + foreign).split("\n"))
        if new == "Port 99":
            (kept,) = answer["kept"]
            assert Path(kept).read_text() == "Port 99\n"
        bench.remove(cob)


def test_an_edited_block_is_kept_and_put_right(bench: Bench) -> None:
    """So is one that somebody has doubled."""
    bench.file.write_text("a\n")
    cob = bench.part(block={"text": "x\n"})
    bench.write(cob)
    good = bench.file.read_text()
    for edit in (good.replace("x", "mine"), good + good.replace("a\n", "")):
        bench.file.write_text(edit)
        assert bench.check(cob) == "outdated"
        answer = bench.write(cob)
        assert bench.file.read_text() == good
        assert ("mine" in edit) == bool(answer.get("kept"))
    bench.remove(cob)
    assert bench.file.read_text() == "a\n"


@pytest.mark.parametrize("kind", ["line", "block"])
def test_a_changed_text_replaces_the_earlier_one(bench: Bench, kind: str) -> None:
    """In its place; the original still comes back."""
    bench.file.write_text("a\nz\n")
    one = bench.part(**{kind: {"text": "one", "after": "^a"}})
    two = {**bench.part(**{kind: {"text": "two", "before": "^a"}}), "applied": one["spec"]}
    bench.write(one)
    assert bench.check(two) == "outdated"
    assert "kept" not in bench.write(two)
    lines = bench.file.read_text().splitlines()
    assert "one" not in lines
    assert lines.index("a") < lines.index("two") < lines.index("z")
    assert bench.check(two) == "up"
    bench.remove(two)
    assert bench.file.read_text() == "a\nz\n"


KINDS: dict[str, dict[str, Any]] = {
    "line": {"line": {"text": "x", "match": "^y"}},
    "block": {"block": {"text": "x"}},
    "other marker": {"block": {"text": "x", "marker": "<{mark}>"}},
    "content": {"content": "x\n"},
}


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(KINDS, 2)))
def test_another_kind_takes_the_place_of_the_earlier(bench: Bench, old: str, new: str) -> None:
    """Line, block or content: what the applied spec had is put back first."""
    bench.file.write_text("a\ny\n")
    bench.file.chmod(0o644)
    first = bench.part(**KINDS[old])
    bench.write(first)
    second = {**bench.part(**KINDS[new]), "applied": first["spec"]}
    assert bench.check(second) == "outdated"
    bench.write(second)
    assert bench.check(second) == "up"
    bench.remove(second)
    assert bench.file.read_text() == "a\ny\n"


def test_parts_of_one_file_do_not_disturb_each_other(bench: Bench) -> None:
    """Any may change or go; the others' states stay, and so do their lines."""
    bench.file.write_text("#Port 22\n")
    cobs = {
        "line": bench.part("line", line=PORT),
        "second": bench.part("second", line={"text": "Port 3333"}),
        "block": bench.part("block", block={"text": "Port 4444\n"}),
        "other": bench.part("other", block={"text": "Port 5555\n"}),
    }
    for cob in (cobs["second"], cobs["block"], cobs["line"], cobs["other"]):
        bench.write(cob)
    assert {bench.check(cob) for cob in cobs.values()} == {"up"}
    for name in ("block", "line", "second", "other"):
        bench.remove(cobs.pop(name))
        assert {bench.check(cob) for cob in cobs.values()} <= {"up"}
    assert bench.file.read_text() == "#Port 22\n"


def test_a_file_is_made_for_its_parts_and_goes_with_the_last(bench: Bench) -> None:
    """Without `create` a missing file is a failure."""
    with pytest.raises(bench.module.Failed, match=r"a.conf is not there; `create: true` makes it"):
        bench.write(bench.part(line={"text": "x"}))
    path = bench.file.parent / "d" / "a.conf"
    given = {"path": str(path), "create": True, "mode": "0600"}
    one, two = (
        bench.part("one", line={"text": "x"}, **given),
        bench.part("two", line={"text": "y"}, **given),
    )
    assert bench.check(one) == "down"
    bench.write(one)
    bench.write(two)
    assert path.read_text() == "x\ny\n"
    assert path.stat().st_mode & 0o7777 == 0o600
    bench.remove(one)
    assert path.read_text() == "y\n"
    bench.remove(two)
    assert not path.exists()


def test_a_link_is_followed(bench: Bench) -> None:
    """The file that it points to is edited; one that points to nothing is a failure."""
    real = bench.file.parent / "real"
    bench.file.symlink_to(real)
    cob = bench.part(line={"text": "x"}, create=True)
    with pytest.raises(
        bench.module.Failed, match=r"a\.conf is a link to .*real, which is not there"
    ):
        bench.write(cob)
    real.write_text("a\n")
    bench.write(cob)
    assert bench.file.is_symlink()
    assert real.read_text() == "a\nx\n"
    bench.remove(cob)
    assert real.read_text() == "a\n"


@pytest.mark.parametrize("kind", ["line", "block"])
def test_what_was_never_ours_is_not_removed(bench: Bench, kind: str) -> None:
    """It was there before: it is up, left alone on removal, and then down."""
    text = "x\n" if kind == "line" else "BEGIN\nx\nEND\n"
    bench.file.write_text(text)
    cob = bench.part(**{kind: {"text": "x", **({"marker": "{mark}"} if kind == "block" else {})}})
    assert bench.check(cob) == "up"
    for _ in range(2):
        bench.remove(cob)
        assert bench.check(cob) == "down"
        bench.write(cob)
        assert bench.check(cob) == "up"
        bench.remove(cob)
        assert bench.file.read_text() == text


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such line": ("a\n", {"line": {"text": "x", "after": "^b"}}, "no line matches `after`: ^b"),
    "no regular expression": (
        "a\n",
        {"line": {"text": "x", "match": "("}},
        "is no regular",
    ),
    "two lines": ("a\n", {"line": {"text": "x\ny"}}, "more than one line; use a `block`"),
    "no mark": ("a\n", {"block": {"text": "x", "marker": "#"}}, "one line with {mark} in it"),
    "half a block": (
        "a\n# BEGIN cobweb thing\n",
        {"block": {"text": "x"}},
        "line 2: `# BEGIN cobweb thing` without its `# END cobweb thing`",
    ),
    "the other half": ("# END cobweb thing\n", {"block": {"text": "x"}}, "without its other half"),
    "its own marker": (
        "",
        {"block": {"text": "# END cobweb thing"}},
        "marker of its own",
    ),
}


@pytest.mark.parametrize(("before", "given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_changes_nothing(
    bench: Bench, before: str, given: dict[str, Any], message: str
) -> None:
    """The failure says what, and where."""
    bench.file.write_text(before)
    with pytest.raises(bench.module.Failed) as failed:
        bench.write(bench.part(**given))
    assert message in str(failed.value)
    assert bench.file.read_text() == before


def test_two_blocks_with_one_marker_are_refused(bench: Bench) -> None:
    """The second one finds that it is another's."""
    bench.file.write_text("")
    bench.write(bench.part("one", block={"text": "x", "marker": "{mark}"}))
    with pytest.raises(bench.module.Failed, match="another object has a block with the marker"):
        bench.write(bench.part("two", block={"text": "y", "marker": "{mark}"}))


@pytest.mark.parametrize("kind", ["line", "block"])
def test_any_crash_is_survived(bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Crash around each step of each action, check, go on: only our part is ever different."""
    given = PORT if kind == "line" else {"text": "x"}
    one = bench.part(**{kind: given})
    two = {**bench.part(**{kind: {**given, "text": "Port 3"}}), "applied": one["spec"]}
    for number in itertools.count():
        bench.file.write_text(SSHD)
        crashed = [
            _crash_in(monkeypatch, number, lambda: bench.write(one)),
            _crash_in(monkeypatch, number, lambda: bench.write(two)),
            _crash_in(monkeypatch, number, lambda: bench.remove(two)),
        ]
        assert bench.check(two) in ("down", "outdated", "up")
        bench.write(two)
        assert bench.check(two) == "up"
        bench.remove(two)
        assert bench.file.read_text() == SSHD
        assert bench.check(two) == "down"
        if not any(crashed):
            break
    assert number > 10


def test_many_at_once_lose_nothing(bench: Bench) -> None:
    """Each reads, decides and writes under the lock of the host's parts."""
    names = [f"part{number}" for number in range(12)]
    cobs = [bench.part(name, line={"text": name}) for name in names]
    bench.file.write_text("")
    with ThreadPoolExecutor(len(cobs)) as pool:
        for action, left in ((bench.write, names), (bench.remove, [])):
            for done in [pool.submit(action, cob) for cob in cobs]:
                done.result()
            assert sorted(bench.file.read_text().split()) == sorted(left)


def test_a_part_waits_for_the_lock(bench: Bench) -> None:
    """Another COB on the host has it."""
    bench.file.write_text("")
    bench.write(bench.part("first", line={"text": "first"}))
    (lock,) = bench.file.parent.rglob("lock")
    with ThreadPoolExecutor(1) as pool, lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = pool.submit(bench.write, bench.part("second", line={"text": "second"}))
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        assert bench.file.read_text() == "first\n"
        fcntl.flock(held, fcntl.LOCK_UN)
        waiting.result()
    assert bench.file.read_text() == "first\nsecond\n"
