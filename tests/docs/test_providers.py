"""The pages about providers say what the code says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb_plugins.namespaces._provider import Namespaces
from cobweb_plugins.providers._static import Static

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "providers.md"
HOST = Static.fields["properties"]["hosts"]["additionalProperties"]
SCHEMAS = {"static": Static.fields, "hosts of static": HOST, "namespaces": Namespaces.fields}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_tables_of_fields_are_those_of_the_schemas(name: str) -> None:
    assert table(SCHEMAS[name]) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "tutorial"),
    [("_folders.py", "write-a-provider.md"), ("_lamps.py", "write-a-section.md")],
)
def test_the_code_of_a_tutorial_is_that_of_the_example_package(file: str, tutorial: str) -> None:
    package = ROOT / "tests" / "fixtures" / "cobweb-example-plugin" / "src" / "cobweb_example"
    code = (package / file).read_text(encoding="utf-8").strip()
    page = (ROOT / "docs" / "plugins" / tutorial).read_text(encoding="utf-8")
    assert f"```python\n{code}\n```" in page


def table(schema: Mapping[str, Any]) -> str:
    """Return a schema as the page has it."""
    needed = schema.get("required", ())
    rows = ["| field | needed | |", "|---|---|---|"]
    for name, it in schema["properties"].items():
        rows.append(f"| `{name}` | {'yes' if name in needed else 'no'} | {it['description']} |")
    return "\n".join(rows)
