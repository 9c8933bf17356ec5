"""Foreign text for a page: escaped, and with characters that hide or turn around made visible."""

from __future__ import annotations

import re
from html import escape

__all__ = ["html"]

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def html(text: str) -> str:
    r"""Return text for the content or an attribute of an element; a control character is `\x1b`."""
    return escape(_HIDDEN.sub(lambda match: f"\\x{ord(match[0]):02x}", text))
