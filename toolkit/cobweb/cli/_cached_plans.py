"""Plans that were printed before, kept by all that went in.

A plan is a pure function of the site's content, of what the journal believes, of the planner and of
the options; so is its text. Only a site that was itself kept is looked up, for only of that the
content is known without reading and evaluating it all.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cobweb._code import code_of
from cobweb._tables import Tone
from cobweb.cli._output import Output
from cobweb.cli._request import Format

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.plugin import LoadedPlugin, Plugins


_PLAN = "plan"
_FORMAT = 1
_LEVEL = 1  # of compression: a text of a hundred megabytes becomes ten in a second


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedPlan:
    """What `cobweb plan` writes: standard output, lines for people, and the file of `--out`."""

    text: str
    summaries: Sequence[tuple[str, Tone]]
    file: str
    is_empty: bool
    is_refused: bool
    is_stuck: bool

    def show(self, output: Output) -> None:
        """Write it, but for the file."""
        output.write(self.text)
        for text, tone in self.summaries:
            output.summary(text, tone)

    def pack(self) -> bytes:
        """Return it as bytes."""
        says = {"is_empty": self.is_empty, "is_refused": self.is_refused, "is_stuck": self.is_stuck}
        head = json.dumps({"summaries": self.summaries, "says": says})
        texts = [head, self.text, self.file]
        parts = [zlib.compress(text.encode(errors="surrogatepass"), _LEVEL) for text in texts]
        sizes = json.dumps([len(part) for part in parts]).encode()
        return b"\n".join([sizes, b"".join(parts)])

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Return what was packed."""
        sizes, _, rest = data.partition(b"\n")
        texts = []
        for size in json.loads(sizes):
            texts.append(zlib.decompress(rest[:size]).decode(errors="surrogatepass"))
            rest = rest[size:]
        head = json.loads(texts[0])
        summaries = [(text, Tone(tone)) for text, tone in head["summaries"]]
        return cls(text=texts[1], file=texts[2], summaries=summaries, **head["says"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer(Output):
    """An output that only remembers what is written to it."""

    texts: list[str] = field(default_factory=list)
    summaries: list[tuple[str, Tone]] = field(default_factory=list)

    @classmethod
    def like(cls, output: Output) -> Self:
        """Return a printer with the format, the width and the colours of an output."""
        return cls(format=output.format, color=output.color, width=output.width)

    def write(self, text: str) -> None:
        """Remember text for standard output."""
        self.texts.append(text)

    def summary(self, text: str, tone: Tone = Tone.NONE) -> None:
        """Remember a line for people."""
        self.summaries.append((text, tone))


def find_plan(session: Site, key: str | None) -> PrintedPlan | None:
    """Return the plan that was printed under a key, None if there is none."""
    data = session.cache.get(_PLAN, key) if key else None
    return None if data is None else PrintedPlan.unpack(data)


def keep_plan(session: Site, key: str, plan: PrintedPlan) -> None:
    """Keep what was printed."""
    session.cache.put(_PLAN, key, plan.pack())


def plan_key(session: Site, output: Output, options: Mapping[str, Any]) -> str | None:
    """Return the digest of all that a printed plan is made of; None for what is never kept.

    `options` are those of the command. Reads every record of the state database.
    """
    site = session.evaluated.content_key() if session.cache else None
    if site is None:
        return None
    is_text = output.format is Format.TEXT
    form = [output.format, output.width, output.color] if is_text else [output.format]
    plugins = list(_plugin_files(session.plugins))
    store = session.store()
    last = store.last_run()  # which a plan names
    run = last.info.id if last else ""
    parts = [_FORMAT, site, store.revision(), run, dict(options), form, plugins]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _plugin_files(plugins: Plugins) -> Iterator[str]:
    """Yield what tells one version of the plugins from another: one of them is the planner."""
    for plugin in plugins.loaded:
        yield f"{plugin.name} {plugin.distribution} {plugin.version} {plugin.module}"
        yield from _code_of(plugin)


def _code_of(plugin: LoadedPlugin) -> Sequence[str]:
    path = Path(plugin.location)
    if path.name == "__init__.py":
        return code_of(path.parent)
    return code_of(path) if path.is_file() else []
