"""Earlier generations and runs: rollback, reasons, collection, what is given up."""

from __future__ import annotations
