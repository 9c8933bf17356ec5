"""The page for people with playbooks: its example is a sound site, as soon as the role is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import Shell, examples, write_site

TEXT = (Path(__file__).parents[2] / "docs/coming-from-ansible.md").read_text(encoding="utf-8")


def test_the_example_is_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says so where the role lacks, before anything runs."""
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    (example,) = examples(TEXT)
    write_site(example.files, tmp_path / "site")
    shell = Shell(folder=tmp_path / "site", capsys=capsys)
    assert shell.check("validate") == 3
    (tmp_path / "site/roles/geerlingguy.nginx").mkdir(parents=True)
    assert shell.check("validate") == 0
