"""What an operation sets out with: what is wanted, what is known, what is to be removed."""

from __future__ import annotations
