"""`cobweb generate`: files of a site from a model, written, checked, removed; bad models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import ModelError
from cobweb.site import load_site
from cobweb.site.reading._nodes import plain
from cobweb.site.reading._yaml import read_yaml
from cobweb_plugins.models._made_files import _yaml
from tests.support.tasks import built_in

Run = Callable[..., Any]

SITE = """\
cobweb: 1
name: made
generate:
  model.yml: {adapter: shelf}
inventory: generated/hosts.yml
imports: [generated/objects.yml, more.yml]
"""
MORE = "cobs:\n  by-hand: {type: file, on: all, spec: {path: /b, content: b}}\n"


class Shelf:
    """Makes a file for each book."""

    name: ClassVar[str] = "shelf"
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["hosts", "books"],
        "properties": {
            "hosts": {"type": "array", "items": {"type": "string"}},
            "books": {"type": "object", "additionalProperties": {"type": "string"}},
            "extra": {"type": "boolean"},
        },
    }

    def generate(self, model: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        wrong = [name for name in model["books"] if name.startswith("x")]
        if wrong:
            raise ModelError([(("books", name), f"{name} is no book", "write") for name in wrong])
        spec = {name: {"path": f"/{name}", "content": it} for name, it in model["books"].items()}
        cobs = {name: {"type": "file", "on": "all", "spec": it} for name, it in spec.items()}
        extra: dict[str, Any] = {"extra.yml": {"cobs": {}}} if model.get("extra") else {}
        hosts = {"all": {"hosts": dict.fromkeys(model["hosts"])}}
        return {"hosts.yml": hosts, "objects.yml": {"cobs": cobs}, **extra}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a site with a model whose files were not made yet; `shelf` is a plugin's adapter."""
    from cobweb.plugin import load_plugins

    loaded = load_plugins()
    plugins = replace(loaded, generators=MappingProxyType({"shelf": Shelf()}))
    monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_: plugins)
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE)
    (folder / "more.yml").write_text(MORE)
    (folder / "model.yml").write_text("hosts: [h1]\nbooks: {emma: one}\n")
    return folder


def test_generated_and_hand_written_objects_mix(run: Run, site: Path) -> None:
    """The site loads with what was made and what stands beside it."""
    made = run("-C", str(site), "generate")
    assert made.code == 0
    assert made.out == "new      generated/hosts.yml\nnew      generated/objects.yml\n"
    shown = run("-C", str(site), "show", "-o", "json")
    (host,) = json.loads(shown.out)["hosts"]
    names = {it["name"] for it in host["cobs"]}
    assert names == {"emma", "by-hand"}


def test_what_was_made_is_made_again_without_a_change(run: Run, site: Path) -> None:
    """The second time nothing is written."""
    run("-C", str(site), "generate")
    before = {path: path.stat().st_mtime_ns for path in (site / "generated").iterdir()}
    assert run("-C", str(site), "generate", "--check").code == 0
    again = run("-C", str(site), "generate", "-o", "json")
    assert {it["change"] for it in json.loads(again.out)["files"]} == {"same"}
    assert before == {path: path.stat().st_mtime_ns for path in (site / "generated").iterdir()}


def test_check_writes_nothing_and_says_so_by_its_exit_code(run: Run, site: Path) -> None:
    checked = run("-C", str(site), "generate", "--check", "--diff")
    assert checked.code == 2
    assert "+  emma:" in checked.out
    assert not (site / "generated").exists()


def test_a_file_that_is_made_no_more_is_removed(run: Run, site: Path) -> None:
    """Only if it was made; what somebody has put beside it stays."""
    model = site / "model.yml"
    text = model.read_text()
    model.write_text(text + "extra: true\n")
    run("-C", str(site), "generate")
    assert (site / "generated" / "extra.yml").exists()
    (site / "generated" / "mine.yml").write_text("cobs: {}\n")
    model.write_text(text)
    made = run("-C", str(site), "generate")
    assert "gone     generated/extra.yml" in made.out
    assert sorted(path.name for path in (site / "generated").iterdir()) == [
        "hosts.yml",
        "mine.yml",
        "objects.yml",
    ]


@pytest.mark.parametrize("words", [("generate",), ("generate", "--check"), ("validate",)])
def test_a_link_among_the_made_files_is_not_followed(
    run: Run, site: Path, words: tuple[str, ...]
) -> None:
    run("-C", str(site), "generate")
    (site / "generated" / "more.yml").symlink_to("/proc/version")
    ran = run("-C", str(site), *words)
    assert ran.code == 1
    assert "more.yml is a symbolic link, and so not a made file" in ran.err


def test_nothing_is_written_through_a_link(run: Run, site: Path) -> None:
    precious = site.parent / "precious"
    precious.write_text("mine", encoding="utf-8")
    (site / "generated").mkdir()
    (site / "generated" / "hosts.yml.cobweb-draft").symlink_to(precious)
    assert run("-C", str(site), "generate").code == 0
    assert precious.read_text(encoding="utf-8") == "mine"
    assert not (site / "generated" / "hosts.yml").is_symlink()


def test_a_file_of_somebody_else_is_in_the_way(run: Run, site: Path) -> None:
    """Nothing is written then, of no file."""
    (site / "generated").mkdir()
    (site / "generated" / "objects.yml").write_text("cobs: {}\n")
    made = run("-C", str(site), "generate")
    assert made.code == 1
    assert "it was not made by `cobweb generate`" in made.err
    assert [path.name for path in (site / "generated").iterdir()] == ["objects.yml"]


def test_files_that_are_not_made_yet_are_told(run: Run, site: Path) -> None:
    """What is missing from the folder of a model is not looked for among other names."""
    run("-C", str(site), "generate")
    (site / "generated" / "objects.yml").unlink()
    told = run("-C", str(site), "validate")
    assert told.code == 3
    assert "`generated/objects.yml` does not exist (run `cobweb generate`, which" in told.err
    (site / "generated" / "hosts.yml").unlink()
    note = "note: model.yml was not used yet: generated/ is to be made; run `cobweb generate`"
    assert note in run("-C", str(site), "validate").err


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_model_that_has_changed_since_is_noted(run: Run, site: Path, command: str) -> None:
    """The command goes on with the files that there are."""
    run("-C", str(site), "generate")
    assert "note:" not in run("-C", str(site), command).err
    (site / "model.yml").write_text("hosts: [h1]\nbooks: {}\n")
    noted = run("-C", str(site), command)
    assert noted.code == 0
    assert "note: model.yml has changed since generated/ was made" in noted.err


def test_a_model_that_was_never_used_is_noted_before_what_is_missing(run: Run, site: Path) -> None:
    """The import of what was not made yet is the finding; the note says what to do."""
    checked = run("-C", str(site), "validate")
    assert checked.code == 3
    assert "run `cobweb generate`" in checked.err.splitlines()[0]
    assert "generated/objects.yml" in checked.err


BAD = {
    "unknown adapter": ("site.yml", SITE.replace("shelf", "self"), "there is no adapter self"),
    "no adapter": ("site.yml", SITE.replace("adapter: shelf", "into: x"), "lacks `adapter`"),
    "unknown key": ("site.yml", SITE.replace("shelf}", "shelf, ino: x}"), "did you mean `into`"),
    "outside": ("site.yml", SITE.replace("shelf}", "shelf, into: ../x}"), "not a folder below"),
    "the site itself": ("site.yml", SITE.replace("shelf}", "shelf, into: .}"), "not a folder"),
    "no model": ("site.yml", SITE.replace("model.yml:", "modl.yml:"), "there is no file modl.yml"),
    "nothing": ("site.yml", SITE.replace("{adapter: shelf}", ""), "model `model.yml` is empty"),
    "empty model": ("model.yml", "", "the file is empty"),
    "no mapping": ("model.yml", "[1]\n", "must be a mapping"),
    "misspelt": ("model.yml", "hosts: [h1]\nboks: {}\nbooks: {}\n", "did you mean `books`"),
    "key twice": ("model.yml", "hosts: [h1]\nbooks: {}\nbooks: {}\n", "twice"),
    "wrong kind": ("model.yml", "hosts: h1\nbooks: {}\n", "must be a list"),
    "impossible": ("model.yml", "hosts: [h1]\nbooks:\n  xenia: a\n", "model.yml:3:10: xenia is no"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_with_its_place(run: Run, site: Path, case: str) -> None:
    """Exit code 3, and nothing is written."""
    name, text, message = BAD[case]
    (site / name).write_text(text)
    made = run("-C", str(site), "generate")
    assert made.code == 3, made.err
    assert message in made.err
    assert not (site / "generated").exists()


def test_a_model_that_is_no_text_is_told_with_its_place(run: Run, site: Path) -> None:
    run("-C", str(site), "generate")
    (site / "model.yml").write_bytes(b"hosts: [h1]\nbooks: {emma: \xff}\n")
    made = run("-C", str(site), "generate")
    assert (made.code, "model.yml:2:" in made.err) == (3, True), made.err
    assert "note: model.yml has changed" in run("-C", str(site), "validate").err


def test_a_site_without_models_is_wrong_usage(run: Run, site: Path) -> None:
    (site / "site.yml").write_text("cobweb: 1\ninventory: {all: {hosts: {h1: }}}\n")
    made = run("-C", str(site), "generate")
    assert made.code == 64
    assert "has no data model" in made.err


def test_a_disk_without_room_leaves_the_old_files(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts are whole before the first file is replaced; none is left."""
    run("-C", str(site), "generate")
    before = {path.name: path.read_text() for path in (site / "generated").iterdir()}
    (site / "model.yml").write_text("hosts: [h1, h2]\nbooks: {emma: two}\n")
    write = Path.write_text

    def full(path: Path, *args: Any, **kwargs: Any) -> int:
        if "objects" in path.name:
            raise OSError(28, "No space left on device", str(path))
        return write(path, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", full)
    made = run("-C", str(site), "generate")
    assert made.code == 1
    assert "No space left on device" in made.err
    assert before == {path.name: path.read_text() for path in (site / "generated").iterdir()}


def test_two_models_do_not_make_one_file(run: Run, site: Path) -> None:
    """The second would replace what the first has made, at each run; a file may change hands."""
    one, two = "  model.yml: {adapter: shelf}\n", "  two.yml: {adapter: shelf}\n"
    (site / "two.yml").write_text("hosts: [h2]\nbooks: {anna: two}\n")
    (site / "site.yml").write_text(SITE.replace(one, one + two))
    refused = run("-C", str(site), "generate")
    assert refused.code == 3
    assert "generated/hosts.yml is made from model.yml already" in refused.err
    assert not (site / "generated").exists()
    (site / "site.yml").write_text(SITE)
    assert run("-C", str(site), "generate").code == 0
    elsewhere = "  model.yml: {adapter: shelf, into: other}\n"
    (site / "site.yml").write_text(SITE.replace(one, two + elsewhere))
    assert run("-C", str(site), "generate").code == 0
    assert "anna" in (site / "generated" / "objects.yml").read_text()
    assert "emma" in (site / "other" / "objects.yml").read_text()
    assert run("-C", str(site), "generate", "--check").code == 0


def test_a_vaulted_value_stays_one(run: Run, site: Path) -> None:
    """Its ciphertext passes through, marked as in the model."""
    vaulted = "!vault |\n    $ANSIBLE_VAULT;1.1;AES256\n    3135\n"
    (site / "model.yml").write_text(f"hosts: [h1]\nbooks:\n  emma: {vaulted}")
    assert run("-C", str(site), "generate").code == 0
    text = (site / "generated" / "objects.yml").read_text()
    assert "content: !vault |" in text
    spec = load_site(site, types={"file": built_in("file")}, sections={"generate": {}})
    (cob,) = (it for it in spec.graph().cobs.values() if it.name == "emma")
    assert list(cob.spec["content"]) == ["__ansible_vault"]


_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)
_WORDS = st.sampled_from(
    [*("NO", "on", "0644", "22:22", "1_000", "1.10", "0x10", "~", "null", "2020-01-01"), "a\nb\n"]
)
_VALUES = st.recursive(
    st.one_of(_TEXTS, _WORDS, st.integers(-(10**9), 10**9), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS | _WORDS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.gate("a property over random models")
@given(data=st.dictionaries(_TEXTS, _VALUES, min_size=1, max_size=4))
def test_what_is_written_is_read_back_as_it_was(data: dict[str, Any]) -> None:
    """By the site's own strict reader, whatever the words are."""
    node, found = read_yaml(_yaml(data).encode(), "made.yml")
    assert not list(found)
    assert node is not None
    assert plain(node) == data
