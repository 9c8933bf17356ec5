"""Secrets of a provider's fields come from outside of the site, and go nowhere but to it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import CredentialsError, ProviderError
from cobweb.plugin import NodeRequest, field_problems
from cobweb_plugins.providers._node import Node
from cobweb_plugins.providers._secrets import Secrets, hiding
from tests.plugins.providers.test_node import context
from tests.support.cloud import Cloud

TOKEN = "t0ken-of-the-lab"  # noqa: S105 - made up, and looked for where it must not be
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string"},
        "token": {"type": "string", "x-cobweb": "secret"},
    },
    "required": ["token"],
    "additionalProperties": False,
}

GOOD: dict[str, Mapping[str, Any]] = {
    "environment": {"token": {"env": "LAB_TOKEN"}},
    "vault": {"token": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n00"}, "region": "north"},
}
BAD: dict[str, tuple[Mapping[str, Any], tuple[str | int, ...], str]] = {
    "in the clear": ({"token": TOKEN}, ("token",), "is a secret"),
    "two ways": ({"token": {"env": "A", "__ansible_vault": "x"}}, ("token",), "is a secret"),
    "empty": ({"token": {"env": ""}}, ("token",), "is a secret"),
    "missing": ({}, (), "'token' is a required property"),
    "unknown": ({"token": {"env": "A"}, "regoin": "x"}, (), "'regoin' was unexpected"),
    "wrong": ({"token": {"env": "A"}, "region": 4}, ("region",), "4 is not of type"),
}


@pytest.mark.parametrize("case", sorted(GOOD))
def test_fields_that_refer_to_their_secrets_are_good(case: str) -> None:
    assert field_problems(SCHEMA, GOOD[case]) == ()


@pytest.mark.parametrize("case", sorted(BAD))
def test_fields_that_are_not_as_the_provider_says_are_named(case: str) -> None:
    fields, path, message = BAD[case]
    ((found_path, found, _),) = field_problems(SCHEMA, fields)
    assert found_path == path
    assert message in found
    assert TOKEN not in found


def test_a_secret_of_the_environment_is_read_when_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAB_TOKEN", TOKEN)
    filled, secrets = Secrets().fill_in(SCHEMA, GOOD["environment"], tmp_path)
    assert (filled, secrets) == ({"token": TOKEN}, frozenset({TOKEN}))
    monkeypatch.delenv("LAB_TOKEN")
    with pytest.raises(CredentialsError, match=r"LAB_TOKEN, which is not set \(set LAB_TOKEN"):
        Secrets().fill_in(SCHEMA, GOOD["environment"], tmp_path)


def test_a_mapping_that_is_no_secret_stays_one(tmp_path: Path) -> None:
    fields = {"region": {"env": "HOME"}}
    assert Secrets().fill_in(SCHEMA, fields, tmp_path) == (fields, frozenset())


@pytest.mark.gate("secrets by Ansible itself")
def test_a_vaulted_secret_is_decrypted_by_ansible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text("sesame")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    fields = {"token": {"__ansible_vault": _encrypted(TOKEN)}}
    secrets = Secrets()
    assert secrets.fill_in(SCHEMA, fields, tmp_path) == ({"token": TOKEN}, frozenset({TOKEN}))
    password.write_text("wrong")
    assert secrets.fill_in(SCHEMA, fields, tmp_path)[0] == {"token": TOKEN}
    with pytest.raises(CredentialsError, match="`token` cannot be decrypted") as raised:
        Secrets().fill_in(SCHEMA, fields, tmp_path)
    assert TOKEN not in str(raised.value)


def test_an_error_that_holds_a_secret_comes_out_without_it() -> None:
    with pytest.raises(ProviderError) as raised, hiding(frozenset({TOKEN})):
        raise RuntimeError(f"401 for {TOKEN}")
    assert str(raised.value) == "401 for ***"
    with pytest.raises(CredentialsError, match=r"no \*\*\*"), hiding(frozenset({TOKEN})):
        raise CredentialsError(f"no {TOKEN}")
    with pytest.raises(RuntimeError, match="other"), hiding(frozenset({TOKEN})):
        raise RuntimeError("other")


def test_the_provider_gets_the_secret_and_no_result_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    class Guarded(Cloud):
        fields = SCHEMA

        def find(self, request: NodeRequest) -> Any:
            seen.append(request.fields["token"])
            return super().find(request)

    monkeypatch.setenv("LAB_TOKEN", TOKEN)
    asked = context(Guarded(), {}, fields={"token": {"env": "LAB_TOKEN"}})
    node = Node()
    results = {**node.create(asked), **node.confirm(asked)}
    assert set(seen) == {TOKEN}
    assert TOKEN not in repr(results)


def _encrypted(text: str) -> str:
    program = Path(sys.executable).with_name("ansible-vault")
    done = subprocess.run(
        [str(program), "encrypt"], input=text, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_no_command_line_has_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "ansible-vault"
    tool.write_text(
        '#!/bin/sh\necho "$0 $*" > "$(dirname "$0")/said"\ncat >/dev/null\necho -n ok\n'
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    fields = {"token": {"__ansible_vault": f"cipher of {TOKEN}"}}
    assert Secrets().fill_in(SCHEMA, fields, tmp_path)[0] == {"token": "ok"}
    assert (tmp_path / "said").read_text() == f"{tool} decrypt\n"
    assert TOKEN not in os.environ.values()
