"""Orders are signed with the coordinator's key: who runs a server can lose them, not make them.

A key is the NKEY with which its owner is let in: an Ed25519 key, and its public part as text.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

import nacl.exceptions
import nacl.signing
import nkeys

from cobweb.errors import CobwebError

_LENGTH = 35
"""How many bytes the text of a public key holds: a prefix, the key, two bytes of a checksum."""


def signature(seed: Path, data: bytes) -> str:
    """Return the signature of some bytes with a secret key, as text; CobwebError without one."""
    try:
        made: bytes = nkeys.from_seed(bytearray(seed.read_bytes().strip())).sign(data)
    except (OSError, nkeys.NkeysError, ValueError) as error:
        message = f"{seed}: this is no key to sign orders with: {error}"
        raise CobwebError(message, hint="`cobweb agents up` makes one") from error
    return base64.b64encode(made).decode()


def is_signed(public: str, data: bytes, signature: str) -> bool:
    """Say whether a signature is one of these bytes by the key with this public part."""
    try:
        raw = base64.b32decode(public + "=" * (-len(public) % 8))
        nacl.signing.VerifyKey(raw[1:-2]).verify(data, base64.b64decode(signature))
    except (nacl.exceptions.CryptoError, ValueError, TypeError, binascii.Error):
        return False
    return len(raw) == _LENGTH
