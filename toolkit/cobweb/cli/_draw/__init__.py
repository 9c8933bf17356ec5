"""Drawings of the graph: Graphviz source, Mermaid source, and SVG by a layout of our own.

All needs of one COB on another are one arrow, from the COB to what it needs; the arrow's text says
which needs these are.
"""

from __future__ import annotations

from cobweb.cli._draw._arrows import Arrow, arrows_of
from cobweb.cli._draw._sources import dot_source, mermaid_source
from cobweb.cli._draw._svg import MOST_BOXES, svg_source

__all__ = ["MOST_BOXES", "Arrow", "arrows_of", "dot_source", "mermaid_source", "svg_source"]
