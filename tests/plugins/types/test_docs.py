"""The pages of docs/types: one for each built-in type, complete, with examples that load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cobweb.plugin import load_plugins
from cobweb.site import load_site

FOLDER = Path(__file__).parents[3] / "docs" / "types"
BLOCK = re.compile(r"^```yaml\n(cobs:\n.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))}
TYPES = load_plugins().types
EXAMPLES = [(name, block) for name, text in PAGES.items() for block in BLOCK.findall(text)]
SITE = "cobweb: 1\nname: example\ninventory: {all: {hosts: {app01: }}}\n"


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_an_example_loads(tmp_path: Path, page: str, example: str) -> None:
    """Each block that begins with `cobs:` is that part of a site; what it names is there."""
    known = (TYPES[page].spec_schema or {})["properties"]
    for key, path in re.findall(r"(source|template): ([^\s,}]+)", example):
        kind = known.get(key, {}).get("x-cobweb")
        # Only what the schema says is a path in the site; elsewhere `source` can be a device.
        if kind is not None:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if kind == "tree":
            (tmp_path / path).mkdir()
        elif kind is not None:
            (tmp_path / path).write_text("text")
    (tmp_path / "site.yml").write_text(SITE + example)
    assert load_site(tmp_path, types=TYPES).graph().cobs


@pytest.mark.parametrize("name", [name for name in TYPES if (FOLDER / f"{name}.md").exists()])
def test_every_key_is_documented(name: str) -> None:
    """Each property of the type's schema has its name on the page of the type."""
    schema = TYPES[name].spec_schema
    assert schema is not None
    missing = [key for key in schema["properties"] if f"`{key}`" not in PAGES[name]]
    assert missing == []


def test_every_type_has_a_page_with_an_example() -> None:
    """And each page a type."""
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="cobweb", name="types")
    names = {it.name for it in entry.load().cobweb_register_types()}
    assert names == PAGES.keys() - {"index"}
    assert names <= {name for name, _ in EXAMPLES}
