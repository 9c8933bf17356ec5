"""Where a site keeps its state, also of a site that is not valid (any more).

What happened can be looked up when the site of today is broken, its inventory cannot be read or a
plugin is gone: only the modules are read, and of their keys only `state`.
"""

from __future__ import annotations

from pathlib import Path

from cobweb.site._load import site_file_of, state_url_of
from cobweb.site._modules import load_modules
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import Findings, bounded


def find_state(path: Path, *, allow_outside: bool = False) -> tuple[str, Path]:
    """Return the URL of the state database of the site at `path`, and the site's folder.

    SiteError where there is no site, it cannot be read at all, or `state` itself is wrong.
    """
    site_file = site_file_of(path)
    whole = Findings()
    files = Files(site_file, whole, allow_outside=allow_outside)
    with bounded(site_file):
        root = load_modules(site_file, files)
    if root is None:
        whole.raise_if_any()
        raise AssertionError("a site without a mapping has findings")
    of_state = Findings()
    url = state_url_of(root, of_state)
    of_state.raise_if_any()
    return url, files.site_dir
