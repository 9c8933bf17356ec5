"""A provider that is not as its plugin says is refused with its place, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobweb.cli import main

CASES = {
    "kind": (
        "type: namespaces",
        "type: namespace",
        "catalog/machines.yml:6:13: there is no kind of provider `namespace` (there is metal",
    ),
    "field": (
        "packages:",
        "package:",
        "catalog/machines.yml:9:9: Additional properties are not allowed ('package' was",
    ),
    "value": (
        "[apache2, libdbd-mariadb-perl, mariadb-server]",
        "all",
        "catalog/machines.yml:9:19: 'all' is not of type 'array'",
    ),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_it_is_refused_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    old, new, said = CASES[case]
    site = tmp_path / "site"
    assert main(["init", "--example", "namespaces", "--ci", "none", str(site)]) == 0
    file = site / "catalog" / "machines.yml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    before = (site / "site.yml").read_text(encoding="utf-8")
    capsys.readouterr()
    arguments = ["create", "web1", "--template", "lamp", "--nodes", "3", "--yes"]
    assert main(["-C", str(site), "cluster", *arguments]) == 3
    assert said in " ".join(capsys.readouterr().err.split())
    assert (site / "site.yml").read_text(encoding="utf-8") == before
    assert not (site / "site.lock").exists()
