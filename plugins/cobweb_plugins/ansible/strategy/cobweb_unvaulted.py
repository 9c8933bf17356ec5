# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of variables that are vaulted as a whole: opened, and each value vaulted for itself.

It imports ansible-core, which is under the GNU General Public License v3 or later, and so stands
under the same licence. `python -m cobweb_plugins.ansible.strategy.cobweb_unvaulted FILE` writes
what is in a file as JSON: `{"data": ...}`, or `{"problem": ..., "hint": ...}`. So no value is ever
in the clear in a process of Cobweb's own; nor is any in a problem.

Theory of operation. A value is vaulted with the secret and the vault id of its file. Its salt
follows from the secret, the keys that lead to it and the value itself: what has not changed has the
cipher text of before, though the file is vaulted anew, and is no change to Cobweb. The key of the
salts is derived from the secret as slowly as Ansible derives its own, so that a salt is no quicker
way to guess the secret. A salt also says whether the text is a template. Ansible takes no vaulted
value for one; what stands in a vaulted file may be one (`let_templates_be`).
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import hmac
import json
import os
import re
import signal
import sys
from binascii import Error as HexError
from binascii import hexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.vault import VaultLib, parse_vaulttext_envelope

__all__ = ["UnvaultError", "is_template", "is_whole", "let_templates_be", "unvaulted"]

HEADER = b"$ANSIBLE_VAULT;"
_PR_SET_PDEATHSIG = 1
VAULT_MARK = "__ansible_vault"
TEMPLATE_SALT = b"cobweb: template"
_BEGIN_OF_TEMPLATE = hexlify(hexlify(TEMPLATE_SALT)).decode()
_SIGN = re.compile(r"\{[{%#]")
_ITERATIONS = 10_000
MOST_VALUES = 20_000
"""Each takes some 4 ms; aliases may stand for any number of them."""
_PROMPTS = ("prompt", "prompt_ask_vault_pass")
_CORE = "tag:yaml.org,2002:"
_TEXTS = {_CORE + it for it in ("str", "int", "float", "timestamp")}
_OTHERS = {"binary", "map", "omap", "pairs", "seq", "set"}
_VAULTS = ("!vault", "!vault-encrypted")
_UNSAFE = "!unsafe"

_Path = tuple[str | int, ...]


class UnvaultError(Exception):
    """Why a file cannot be opened or read, without anything of its content."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_whole(path: str) -> bool:
    """Say whether a file is vaulted as a whole."""
    with Path(path).open("rb") as file:
        return file.read(len(HEADER)) == HEADER


def unvaulted(path: str, secrets: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the variables of a file, each text and number as a vault mark of its own."""
    vault = VaultLib(secrets)
    data = Path(path).read_bytes()
    try:
        plain, _, secret = vault.decrypt_and_get_vault_id(data)
        vault_id = parse_vaulttext_envelope(data)[3]
        text = bytes(plain).decode()
    except (AnsibleError, HexError, UnicodeDecodeError, ValueError) as error:
        cause = (
            getattr(error, "message", "") if isinstance(error, AnsibleError) else "it is damaged"
        )
        hint = "say where its password is, by ANSIBLE_VAULT_PASSWORD_FILE or in ansible.cfg"
        raise UnvaultError(f"the vaulted file cannot be opened: {cause}", hint) from None
    key = hashlib.pbkdf2_hmac("sha256", secret.bytes, b"cobweb: salts", _ITERATIONS)

    def mark(where: _Path, value: str, *, template: bool) -> dict[str, str]:
        salt = hmac.digest(key, json.dumps([where, value]).encode(), "sha256")
        salt = TEMPLATE_SALT + salt if template else salt
        made = vault.encrypt(value, secret=secret, vault_id=vault_id, salt=salt)
        return {VAULT_MARK: made.decode()}

    return _Reader(mark).read(text)


class _Reader:
    """Reads YAML as Ansible does, but numbers and dates as the texts that they are written as."""

    def __init__(self, mark: Callable[..., dict[str, str]]) -> None:
        self._mark = mark

    def read(self, text: str) -> dict[str, Any]:
        try:
            self._loader = yaml.SafeLoader(text)
            node = self._loader.get_single_node()
        except yaml.YAMLError as error:  # whose text may show some of the file
            mark = getattr(error, "problem_mark", None)
            line = f" (line {mark.line + 1} of its text)" if mark else ""
            raise UnvaultError(f"what is vaulted in the file is no YAML{line}") from None
        if node is None or node.tag == _CORE + "null":
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise UnvaultError("what is vaulted in the file is no mapping", "write `key: value`")
        if next(islice(_values(node), MOST_VALUES, None), None) is not None:
            raise UnvaultError(f"more than {MOST_VALUES:,} values are vaulted in the file")
        found: dict[str, Any] = self._value(node, (), unsafe=False)
        return found

    def _value(self, node: yaml.Node, where: _Path, *, unsafe: bool) -> Any:
        tag, unsafe = node.tag, unsafe or node.tag == _UNSAFE
        if isinstance(node, yaml.MappingNode) and tag in {_CORE + "map", _UNSAFE}:
            return {
                key: self._value(value, (*where, key), unsafe=unsafe)
                for key, value in self._entries(node).items()
            }
        if isinstance(node, yaml.SequenceNode) and tag in {_CORE + "seq", _UNSAFE}:
            items = enumerate(node.value)
            return [self._value(item, (*where, at), unsafe=unsafe) for at, item in items]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, where, unsafe=unsafe)
        raise _unfit(node)

    def _scalar(self, node: yaml.ScalarNode, where: _Path, *, unsafe: bool) -> Any:
        loader: Any = self._loader
        tag = node.tag
        if tag == _UNSAFE:
            tag = loader.resolve(yaml.ScalarNode, node.value, (True, False))
        if tag in _VAULTS:
            if not node.value.startswith(HEADER.decode()):
                raise UnvaultError(f"a value with `!vault` is not vaulted{_line(node)}")
            return {VAULT_MARK: node.value}
        if tag == _CORE + "null":
            return None
        if tag == _CORE + "bool" and node.value.lower() in loader.bool_values:
            return loader.bool_values[node.value.lower()]
        if tag not in _TEXTS:
            raise _unfit(node)
        is_template = not unsafe and _SIGN.search(node.value) is not None
        return self._mark(where, node.value, template=is_template)

    def _entries(self, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        """Return the values of a mapping by their keys, those of `<<` too."""
        own = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if own == [VAULT_MARK]:
            raise UnvaultError(f"a mapping has the key `{VAULT_MARK}` alone{_line(node)}")
        if len(own) < len(node.value):
            raise UnvaultError(f"a key is no text{_line(node)}", "put quotes round a template")
        twice = next((key for key in own if own.count(key) > 1 and key != "<<"), None)
        if twice is not None:
            raise UnvaultError(f"`{twice}` is written twice in one mapping{_line(node)}")
        try:
            self._loader.flatten_mapping(node)
        except yaml.YAMLError:
            raise UnvaultError(f"`<<` takes mappings{_line(node)}") from None
        return {key.value: value for key, value in node.value}


def _values(node: yaml.Node) -> Iterator[yaml.Node]:
    """Yield a node and all in it, keys left out; what aliases name comes each time."""
    yield node
    for item in () if isinstance(node, yaml.ScalarNode) else node.value:
        yield from _values(item[1] if isinstance(node, yaml.MappingNode) else item)


def _unfit(node: yaml.Node) -> UnvaultError:
    tag = node.tag.removeprefix(_CORE)
    named = f"the tag `!!{tag}`" if tag in _OTHERS else "a tag"  # which may be a password with `!`
    return UnvaultError(f"a value has {named}{_line(node)}", "put quotes round it, or leave it out")


def _line(node: yaml.Node) -> str:
    return f" (line {node.start_mark.line + 1} of what is vaulted)"


def is_template(ciphertext: str) -> bool:
    """Say whether a vaulted value is a template, as its salt has it."""
    _, _, body = ciphertext.partition("\n")
    return "".join(body[: 2 * len(_BEGIN_OF_TEMPLATE)].split()).startswith(_BEGIN_OF_TEMPLATE)


def let_templates_be() -> None:
    """Have Ansible template those vaulted values that are templates; may be called again.

    Nothing happens where this version of Ansible has no such values (before 2.19).
    """
    with contextlib.suppress(ImportError):
        from ansible.parsing.vault import EncryptedString
        from ansible.template import trust_as_template

        usual = EncryptedString._decrypt
        if getattr(usual, "trusts", False):
            return

        def decrypted(value: Any) -> str:
            text: str = usual(value)
            return trust_as_template(text) if _is_template(value._ciphertext) else text

        decrypted.trusts = True  # type: ignore[attr-defined]  # a mark of our own
        EncryptedString._decrypt = decrypted


_is_template = cache(is_template)


def _secrets() -> Sequence[tuple[str, Any]]:
    """Return the secrets that Ansible finds, without asking anybody."""
    from ansible import constants
    from ansible.cli import CLI
    from ansible.parsing.dataloader import DataLoader

    named = constants.DEFAULT_VAULT_IDENTITY_LIST
    silent = [it for it in named if CLI.split_vault_id(it)[1] not in _PROMPTS]
    found: Sequence[tuple[str, Any]] = CLI.setup_vault_secrets(
        DataLoader(), vault_ids=silent, auto_prompt=False
    )
    return found


def _answer(path: str) -> Mapping[str, Any]:
    try:
        return {"data": unvaulted(path, _secrets())}
    except UnvaultError as error:
        return {"problem": error.message, "hint": error.hint}
    except AnsibleError as error:
        cause = getattr(error, "message", type(error).__name__)
        return {"problem": f"no password of a vault can be had: {cause}", "hint": ""}
    except Exception as error:  # noqa: BLE001  # its text, and a traceback, may show a value
        return {"problem": f"the vaulted file cannot be read: {type(error).__name__}", "hint": ""}


def _end_with_parent() -> None:
    """Be killed with the process that asks: this one has a session of its own, and secrets."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit(1)


def main() -> None:
    """Write what is in the file that is named on the command line."""
    _end_with_parent()
    stdout, sys.stdout = sys.stdout, sys.stderr  # Ansible writes there when it is verbose
    json.dump(_answer(sys.argv[1]), stdout)


if __name__ == "__main__":
    main()
