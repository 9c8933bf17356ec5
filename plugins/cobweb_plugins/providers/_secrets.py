"""Secrets of a provider's fields: where they are, and that they go nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cobweb.errors import CredentialsError, ProviderError
from cobweb.plugin import secret_fields

_VAULT = "__ansible_vault"
_ENV = "env"
_GONE = "__cobweb_secret"
"""Stands for a secret of an earlier generation that the site has not any more."""
_DECRYPT_S = 60.0
_SHORTEST = 3
"""A text shorter than this hides nothing, and blotting it out would spoil a message."""


class Secrets:
    """Finds the values that fields refer to; what was decrypted is kept in memory only."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def fill_in(
        self, schema: Mapping[str, Any], fields: Mapping[str, Any], site_dir: Path
    ) -> tuple[dict[str, Any], frozenset[str]]:
        """Return the fields in the clear, and the texts among them that nobody may see.

        CredentialsError where a secret is not to be had.
        """
        secrets: set[str] = set()
        filled = {}
        for name, value in fields.items():
            found = self._value(name, value, site_dir, secret=name in secret_fields(schema))
            if found is not value:
                secrets.add(str(found))
            filled[name] = found
        return filled, frozenset(secrets)

    def _value(self, name: str, value: Any, site_dir: Path, *, secret: bool) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1:
            return value
        if _VAULT in value:
            return self._decrypted(name, str(value[_VAULT]), site_dir)
        if _GONE in value:
            raise CredentialsError(
                f"the vaulted value of the provider's field `{name}` is not in the site any more",
                hint="write it anywhere in the site again",
            )
        if secret and _ENV in value:
            return _from_environment(name, str(value[_ENV]))
        return value

    def _decrypted(self, name: str, cipher: str, site_dir: Path) -> str:
        with self._lock:
            if cipher not in self._known:
                self._known[cipher] = _decrypt(name, cipher, site_dir)
            return self._known[cipher]


@contextmanager
def hiding(secrets: frozenset[str]) -> Iterator[None]:
    """Let no error out that has one of `secrets` in its text."""
    try:
        yield
    except Exception as error:
        text = str(error)
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= _SHORTEST:
                text = text.replace(secret, "***")
        if text == str(error):
            raise
        kind = CredentialsError if isinstance(error, CredentialsError) else ProviderError
        raise kind(text) from None


def _from_environment(name: str, variable: str) -> str:
    if not os.environ.get(variable):
        raise CredentialsError(
            f"the provider's field `{name}` is in the environment variable {variable},"
            " which is not set",
            hint=f"set {variable} where cobweb runs",
        )
    return os.environ[variable]


def _decrypt(name: str, cipher: str, site_dir: Path) -> str:
    """Ask ansible-vault; the cipher text goes to its stdin, the answer comes from its stdout."""
    beside = Path(sysconfig.get_path("scripts")) / "ansible-vault"
    program = str(beside) if beside.exists() else shutil.which("ansible-vault")
    if program is None:
        raise ProviderError(
            "ansible-vault is not installed", hint="install Cobweb with its extra `ansible`"
        )
    try:
        done = subprocess.run(
            [program, "decrypt"],
            input=cipher,
            capture_output=True,
            text=True,
            cwd=site_dir,
            timeout=_DECRYPT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProviderError(f"ansible-vault did not end within {_DECRYPT_S:.0f} s") from error
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise CredentialsError(
            f"the provider's field `{name}` cannot be decrypted: {said}",
            hint="say where the vault's password is: ANSIBLE_VAULT_PASSWORD_FILE, or ansible.cfg",
        )
    return done.stdout
