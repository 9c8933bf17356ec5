"""The examples of docs/types.md are sites that load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cobweb.inventory import load_site
from cobweb.plugin import load_plugins

TEXT = (Path(__file__).parents[3] / "docs" / "types.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
SITE = "cobweb: 1\nname: example\ninventory: {all: {hosts: {app01: }}}\n"


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_loads(tmp_path: Path, example: str) -> None:
    """Each block is the `cobs:` of a site."""
    (tmp_path / "site.yml").write_text(SITE + example)
    graph = load_site(tmp_path, types=load_plugins().types).graph()
    assert graph.cobs


def test_every_key_is_documented() -> None:
    """Each property of each schema has its name in the text of its type."""
    for name, made in load_plugins().types.items():
        if f"\n## {name}\n" not in TEXT:
            continue
        section = TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert made.spec_schema is not None
        missing = [key for key in made.spec_schema["properties"] if f"`{key}`" not in section]
        assert missing == []
    assert TEXT.count("\n## ") == 4
