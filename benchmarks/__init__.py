"""Measurements of Cobweb beside peers and limits; `python -m benchmarks` runs them all."""
