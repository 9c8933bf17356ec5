"""A demo: a story that says what it expects from outside, step by step, and ends where it fails."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.fabric import IMAGES, build_images, what_is_missing

__all__ = ["DemoError", "Story", "play"]


class DemoError(Exception):
    """Something is not as promised."""


class Story:
    """What is told, with the seconds since it began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def tell(self, text: str) -> None:
        """Begin a step."""
        at_s = time.monotonic() - self._began
        print(f"\n{text}  [{at_s:.0f} s]\n{'=' * len(text)}", flush=True)

    def expect(self, good: object, what: str) -> None:
        """Say that a promise holds; DemoError where it does not."""
        if not good:
            raise DemoError(f"expected: {what}")
        self.hold(what)

    def hold(self, what: str) -> None:
        """Say that a promise holds."""
        print(f"  as promised: {what}", flush=True)


def play(name: str, story: Callable[[Path], None]) -> int:
    """Play a story on hosts of a fabric, in a folder that is gone afterwards; return exit code."""
    missing = what_is_missing()
    if missing is not None:
        print(f"the {name} demo cannot run here: {missing}", file=sys.stderr)
        return 1
    began = time.monotonic()
    build_images(IMAGES)
    print(f"Images of the hosts are there after {time.monotonic() - began:.0f} s.", flush=True)
    with tempfile.TemporaryDirectory(prefix=f"cobweb-{name}-") as folder:
        try:
            story(Path(folder))
        except (DemoError, AssertionError) as error:
            print(f"\nThe {name} demo failed: {error}", file=sys.stderr)
            return 1
    print(f"\nAll as promised, in {time.monotonic() - began:.0f} s.")
    return 0
