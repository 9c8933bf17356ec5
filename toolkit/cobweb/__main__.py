"""`python -m cobweb` is `cobweb`."""

from __future__ import annotations

import sys

from cobweb.cli import main

sys.exit(main())
