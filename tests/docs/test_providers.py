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


def test_the_provider_of_the_tutorial_is_that_of_the_example_package() -> None:
    package = ROOT / "tests" / "fixtures" / "cobweb-example-plugin" / "src" / "cobweb_example"
    code = (package / "_folders.py").read_text(encoding="utf-8").strip()
    page = (ROOT / "docs" / "plugins" / "write-a-provider.md").read_text(encoding="utf-8")
    assert f"```python\n{code}\n```" in page


def table(schema: Mapping[str, Any]) -> str:
    """Return a schema as the page has it."""
    needed = schema.get("required", ())
    rows = ["| field | needed | |", "|---|---|---|"]
    for name, it in schema["properties"].items():
        rows.append(f"| `{name}` | {'yes' if name in needed else 'no'} | {it['description']} |")
    return "\n".join(rows)
