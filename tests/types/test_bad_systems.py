"""What goes wrong on a host: each object fails in its tool's words, only what needs it waits.

One site has all of it at once: a service that dies, a package that there is not, a merge conflict,
a disk that is full. What has nothing to do with these comes up.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full(
        "each type on a broken system, and what waits for it; the gate has each type once"
    ),
]

SITE = """\
cobweb: 1
name: bad-systems
inventory: hosts.yml
cobs:
  etc:
    type: tree
    on: all
    spec: {path: /srv/bad/etc, source: files/etc}
"""
TROUBLE = """\
  crash:
    type: service
    on: all
    spec:
      unit: bad-crash
      unit_file: |
        [Service]
        ExecStart=/bin/sh -c 'echo cannot open the ledger >&2; exit 3'
  ghost:
    type: package
    on: all
    spec: {name: no-such-package-anywhere}
  full:
    type: file
    on: all
    spec: {path: /srv/full/large, content: "{{ 'x' * 200000 }}"}
  full-tree:
    type: tree
    on: all
    spec: {path: /srv/full/tree, source: files/large, state_dir: /srv/bad/state}
  bystander:
    type: file
    on: all
    spec: {path: /srv/bad/bystander, content: "went on\\n"}
"""
WAITS = """\
  after-{cob}:
    type: file
    on: all
    spec: {{path: /srv/bad/after-{cob}, content: "never\\n"}}
    after: [{cob}]
"""
WORDS = {
    "crash": "cannot open the ledger",
    "ghost": "no-such-package-anywhere",
    "etc": "conflict in /srv/bad/etc, nothing was changed: app.ini",
    "full": "No space left on device",
    "full-tree": "No space left on device: 200000 bytes are needed",
}
"""What the message of each object that fails has in it."""

BASE, OURS, THEIRS = "port = 1\n", "port = 1000\n", "port = 2\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The host after an apply that met all of it."""

    operator: Operator
    host: FabricHost
    root: Path
    run: Run
    before: frozenset[str]

    def name(self, cob: str) -> str:
        return f"{self.host.name}/{cob}"


@pytest.fixture(scope="module")
def scene(
    fabric: Fabric, systemd_host: FabricHost, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """Apply a tree, edit it on the host, and apply a site with all of the trouble."""
    folder = tmp_path_factory.mktemp("bad-systems")
    operator = Operator(fabric, folder)
    operator.write_inventory({"hosts": [systemd_host]})
    for name, text in (("etc/app.ini", BASE), ("large/part", "x" * 200_000)):
        (folder / "files" / name).parent.mkdir(parents=True)
        (folder / "files" / name).write_text(text)
    site = folder / "site.yml"
    site.write_text(SITE)
    first = operator.apply()
    assert first.code == 0, first.out + first.err
    root = fabric.root(systemd_host)
    (root / "srv/bad/etc/app.ini").write_text(OURS)
    (folder / "files/etc/app.ini").write_text(THEIRS)
    fabric.run(systemd_host, "mkdir", "/srv/full")
    fabric.run(systemd_host, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/srv/full")
    site.write_text(SITE + TROUBLE + "".join(WAITS.format(cob=cob) for cob in WORDS))
    before = files_of(root)
    try:
        run = operator.apply("--parallel", "4")
        yield Scene(operator=operator, host=systemd_host, root=root, run=run, before=before)
    finally:
        fabric.run(systemd_host, "umount", "/srv/full")
        site.write_text(SITE.partition("cobs:")[0] + "cobs: {}\n")
        (root / "srv/bad/etc/app.ini").write_text(BASE)
        gone = operator.apply()
        fabric.run(systemd_host, "rm", "-rf", "/srv/full", "/srv/bad")
        assert gone.code == 0, gone.out + gone.err


def files_of(root: Path) -> frozenset[str]:
    """Return the names of all files where objects write, but for what Cobweb remembers."""
    places = [root / "srv/bad", root / "srv/full", root / "etc/systemd/system"]
    found = {it.relative_to(root) for place in places for it in place.rglob("*") if it.is_file()}
    return frozenset(str(it) for it in found if not it.is_relative_to("srv/bad/state"))


def told_below(run: Run, name: str) -> str:
    """Return what the end of a run tells of an object that did not come up: indented lines."""
    lines = [*run.out.splitlines(), *run.err.splitlines(), ""]
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"{name} is "))
    end = next(n for n, line in enumerate(lines) if n > begin and not line.startswith(" "))
    return " ".join(" ".join(lines[begin + 1 : end]).split())


def test_each_object_fails_in_the_words_of_its_tool(scene: Scene) -> None:
    assert scene.run.code == 1, scene.run.out + scene.run.err
    failed = {
        event["cob"]: event["message"]
        for event in scene.run.events
        if event["type"] == "transition.end" and event["result"] == "failed"
    }
    assert failed.keys() == {scene.name(cob) for cob in WORDS}
    for cob, words in WORDS.items():
        assert words in failed[scene.name(cob)]
        assert words in " ".join((scene.run.out + scene.run.err).split())


def test_what_needs_them_waits_and_says_for_what(scene: Scene) -> None:
    for cob in WORDS:
        assert scene.name(cob) in told_below(scene.run, scene.name(f"after-{cob}"))
    waiting = scene.operator.cobweb("why", scene.name("after-etc")).out
    assert scene.name("etc") in waiting
    assert WORDS["etc"] in " ".join(waiting.split())
    moved = {cob for cob, _ in scene.run.transitions()}
    assert moved == {scene.name("bystander")}


def test_the_rest_goes_on_and_nothing_is_left_half_written(scene: Scene) -> None:
    assert (scene.root / "srv/bad/bystander").read_text() == "went on\n"
    assert (scene.root / "srv/bad/etc/app.ini").read_text() == OURS
    assert files_of(scene.root) - scene.before == {"srv/bad/bystander"}


@pytest.mark.parametrize("form", ["text", "html", "junit"])
def test_the_report_has_the_words_of_each_tool(scene: Scene, form: str) -> None:
    run = next(event["run"] for event in scene.run.events if event["type"] == "run.start")
    report = scene.operator.cobweb("report", run, "-o", form)
    text = report.out
    if form == "junit":
        cases = ET.fromstring(text).iter("testcase")  # noqa: S314  our own
        text = " ".join(ET.tostring(case, encoding="unicode") for case in cases)
    for words in WORDS.values():
        assert words in " ".join(text.split())


def test_once_mended_one_apply_does_the_rest(scene: Scene) -> None:
    """The conflict is merged into the site, the others are taken out of it."""
    (scene.operator.folder / "files/etc/app.ini").write_text(OURS)
    site = scene.operator.folder / "site.yml"
    whole = site.read_text()
    site.write_text(SITE + WAITS.format(cob="etc"))
    mended = scene.operator.apply()
    site.write_text(whole)
    assert mended.code == 0, mended.out + mended.err
    assert (scene.root / "srv/bad/etc/app.ini").read_text() == OURS
    assert (scene.root / "srv/bad/after-etc").read_text() == "never\n"
