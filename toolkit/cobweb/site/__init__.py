"""From YAML files to an evaluated site: load, merge, validate, expand, explain.

`load_site` reads `site.yml`, what it imports and the inventory, and collects all mistakes with
their places (design, section 3). `Site.graph` evaluates specs per host, for all hosts or for some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb._lazy import on_demand

if TYPE_CHECKING:
    from cobweb.site._documents import Document, read_document, read_text
    from cobweb.site._explain import VAULTED, Explanation
    from cobweb.site._find import find_site, find_state, load_site
    from cobweb.site._load import SectionData, read_sections
    from cobweb.site._site import Site
    from cobweb.site.reading._schemas import unfit_specs
else:
    __getattr__ = on_demand(
        __name__,
        {
            "cobweb.site._documents": "Document read_document read_text",
            "cobweb.site._explain": "VAULTED Explanation",
            "cobweb.site._find": "find_site find_state load_site",
            "cobweb.site._load": "SectionData read_sections",
            "cobweb.site._site": "Site",
            "cobweb.site.reading._schemas": "unfit_specs",
        },
    )

__all__ = [
    "VAULTED",
    "Document",
    "Explanation",
    "SectionData",
    "Site",
    "find_site",
    "find_state",
    "load_site",
    "read_document",
    "read_sections",
    "read_text",
    "unfit_specs",
]
