"""The engine as it was before it was made fast, frozen: the oracle of the engine's tests.

It is the plain form of the rules: one message per word, one record per side of a pair, needs looked
up by id. It is not made faster and not kept in step by hand; it changes only where what the engine
does was found to be wrong, in both. Inputs, effects and settings are those of `cobweb.engine`. It
knows no budgets and no generations, and does not look ahead: an engine that does not own all of its
graph does not do so either.
"""

from __future__ import annotations

from tests.support.reference_engine._engine import Engine

__all__ = ["Engine"]
