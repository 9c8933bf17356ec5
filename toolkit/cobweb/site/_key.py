"""The key of an evaluated site: a digest of everything that it was made from."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from array import array
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import cobweb
from cobweb._code import code_of
from cobweb.site.reading._files import Notes, repository_of

if TYPE_CHECKING:
    from cobweb.site._find import Foreign

_LIBRARIES = ("jinja2", "jsonschema", "PyYAML", "regex")


def place_key(site_file: Path) -> str:
    """Return the digest of where a site is: its file as it is called, and the folder that is in.

    The file may be a link that several sites share; variables, roles and the state are looked for
    beside the link.
    """
    return _digest([str(site_file.absolute()), str(site_file.parent.resolve())])


_OF_ANSIBLE = ("ANSIBLE_CONFIG", "ANSIBLE_ROLES_PATH", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_HOME")


def base_key(site_file: Path, foreign: Foreign) -> str:
    """Return the digest of what is known before a file of the site is read.

    That is where the site is, which files it may use, what plugins add and their code that expands
    sections or looks at actions, whose home it is and what the environment says of Ansible (roles
    are looked for there), the versions of Python and of the libraries that evaluate, the contents
    of Cobweb's own modules, and how this machine writes the numbers of a packed graph.
    """
    lookers = [it for it in foreign.adapters if hasattr(it, "look_at")]
    sources = [it.source for it in (*foreign.expanders, *lookers) if hasattr(it, "source")]
    sources += [
        getattr(it, "source", Path(inspect.getfile(it)).parent) for it in foreign.extensions
    ]
    parts = [
        place_key(site_file),
        [str(repository_of(site_file.parent.resolve())), foreign.allow_outside],
        os.path.expanduser("~"),  # noqa: PTH111  # Path.home raises where there is none
        [os.environ.get(name, "") for name in _OF_ANSIBLE],
        repr(sorted(foreign.types.items())),
        repr(sorted((name, dict(schema)) for name, schema in foreign.sections.items())),
        [it.name for it in lookers],
        *(said for source in dict.fromkeys(sources) for said in code_of(source)),
        sys.version,
        sys.byteorder,
        array("I").itemsize,
        cobweb.__version__,
        *_own_code(),
        *(version(name) for name in _LIBRARIES),
    ]
    return _digest(parts)


def site_key(base: str, notes: Notes) -> str:
    """Return the digest of a site: its base key and what the disk said."""
    return _digest([base, sorted((*question, said) for question, said in notes.items())])


def _own_code() -> list[str]:
    """Return the package's code; where it is compiled, most of that is in a library beside it."""
    package = Path(cobweb.__file__).parent
    libraries = sorted(package.parent.glob("cobweb_*.so"))
    return [said for path in (package, *libraries) for said in code_of(path)]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
