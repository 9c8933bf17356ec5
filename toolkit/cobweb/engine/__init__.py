"""The COB state machine and the state-lock protocol; pure (COB paper, sections 5.1 to 5.4)."""

from __future__ import annotations
