"""Build the images that are missing: `python -m tests.support.fabric.images [IMAGE...]`."""

from __future__ import annotations

import sys

from tests.support.fabric._layers import IMAGES, build_images

__all__: list[str] = []

if __name__ == "__main__":
    build_images(sys.argv[1:] or IMAGES)
