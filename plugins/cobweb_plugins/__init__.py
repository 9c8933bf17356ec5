"""The built-in plugins, on the same public interface as a third party's."""

from __future__ import annotations
