"""Fakes and the conformance kit for plugins; shipped, so that a plugin's own CI can run them."""

from __future__ import annotations

from cobweb.testing._fake_executor import Answer, FakeExecutor

__all__ = ["Answer", "FakeExecutor"]
