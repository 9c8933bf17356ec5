"""What reads an inventory where nobody has said that its programs may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.errors import CobwebError

if TYPE_CHECKING:
    from cobweb.model import Host
    from cobweb.plugin import Adapter


def distrusted(adapter: Adapter) -> Adapter:
    """Return an adapter that tells no hosts: what it reads may be a program, or start one.

    Nor does it open vaulted files: where the password is may be said by a program, too.
    """

    class Distrusted:
        name: ClassVar[str] = adapter.name
        reads = staticmethod(adapter.reads)

        def hosts(self, source: Path) -> Iterable[Host]:
            raise CobwebError(
                f"`{source.name}` may run programs, which this command lets no inventory do",
                hint="`--trust-inventory` if you trust all who write this site, or write YAML",
            )

    class DistrustedOpener(Distrusted):
        def unvaulted(self, _path: Path, _site_dir: Path) -> Mapping[str, Any]:
            raise CobwebError(
                "the whole file is vaulted, and what tells its password may be a program",
                hint="`--trust-inventory` if you trust all who write this site, or vault single"
                " values, as `ansible-vault encrypt_string` does",
            )

    made = DistrustedOpener() if hasattr(adapter, "unvaulted") else Distrusted()
    for name in ("look_at", "source"):  # it runs nothing of the site
        if hasattr(adapter, name):
            setattr(made, name, getattr(adapter, name))
    return made
