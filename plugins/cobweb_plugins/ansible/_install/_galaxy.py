"""Runs ansible-galaxy, by its command line only, so that it writes into one private folder.

It runs under a guard: when Cobweb is killed, galaxy and all that it started is ended and the folder
removed. Until then the lock of the site's edits, which the guard inherits, is held.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cobweb.errors import CobwebError
from cobweb_plugins.ansible._install._requirements import Item, without_passwords
from cobweb_plugins.ansible._results import bounded
from cobweb_plugins.ansible._workspace import SHORT_FOLDER, ansible_config, ansible_tool

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_NOISE = re.compile(
    r"\[(WARNING|ERROR)\]:|- you can use --ignore-errors.*|: \[RequirementInformation.*"
)
"""What helps nobody: labels, the advice to go on without a role, objects of its resolver."""


class Galaxy:
    """ansible-galaxy for one site; everything is below `folder`, and nothing outlives it.

    `held` is the descriptor of the lock of the site's edits; `tell` hears what is begun.
    """

    def __init__(
        self, site_dir: Path, folder: Path, held: int, tell: Callable[[str], None]
    ) -> None:
        self._site_dir = site_dir
        self._folder = folder
        self._held = held
        self._tell = tell

    def roles(self, items: Sequence[Item], into: Path) -> None:
        """Install roles, without what they depend on, into `into`; CobwebError if galaxy fails."""
        self._tell(f"ansible-galaxy fetches {', '.join(str(item['name']) for item in items)}")
        asked = self._asked([{**item} for item in items])
        words = ("role", "install", "--no-deps", "-r", str(asked), "-p", str(into))
        self._run(words, roles=into, collections=into)

    def archives(self, item: Item, into: Path) -> list[Path]:
        """Fetch the archives of a collection, or of several, into `into`, and install nothing."""
        self._tell_of([item])
        asked = self._asked({"collections": [{**item}]})
        words = ("collection", "download", "--no-deps", "-r", str(asked), "-p", str(into))
        self._run(words, roles=into, collections=into)
        return sorted(path for path in into.glob("*") if path.suffix != ".yml")

    def collections(self, items: Sequence[Item], into: Path, *, held: Sequence[Item]) -> None:
        """Install collections below `into`/ansible_collections; CobwebError if galaxy fails.

        It is with all that they depend on, as far as that is not there; `held` are those that are,
        by their versions.
        """
        self._tell_of(items)
        asked = self._asked({"collections": [{**item} for item in (*items, *held)]})
        words = ("collection", "install", "-r", str(asked), "-p", str(into))
        self._run(words, roles=into, collections=into)

    def _tell_of(self, items: Sequence[Item]) -> None:
        names = (str(item.get("name") or item["source"]) for item in items)
        shown = (Path(it).name if it.startswith(f"{self._folder}/") else it for it in names)
        self._tell(without_passwords(f"ansible-galaxy fetches {', '.join(shown)}"))

    def _asked(self, data: object) -> Path:
        path = self._folder / "asked.yml"
        path.write_text(json.dumps(data), encoding="utf-8")  # JSON is YAML
        return path

    def _run(self, words: Sequence[str], *, roles: Path, collections: Path) -> None:
        config = ansible_config(self._site_dir).file
        temporary = self._folder / "tmp"
        temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            **({} if config is None else {"ANSIBLE_CONFIG": str(config.absolute())}),
            "ANSIBLE_NOCOLOR": "True",
            "ANSIBLE_FORCE_COLOR": "False",
            "ANSIBLE_GALAXY_DISPLAY_PROGRESS": "False",
            "ANSIBLE_ROLES_PATH": str(roles),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "False",
            "ANSIBLE_LOCAL_TEMP": str(temporary),
            "TMPDIR": str(temporary),
            "GIT_TERMINAL_PROMPT": "0",
        }
        code, said = self._guarded([ansible_tool("ansible-galaxy"), *words], environment)
        if code:
            message = f"ansible-galaxy failed: {_words(said)}"
            hint = "nothing was changed in the site"
            if "Failed to resolve" in said:
                hint += "; the lock holds versions until `cobweb install --update NAME`"
            raise CobwebError(message, hint=hint)

    def _guarded(self, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        """Return the exit code of a command and what it said of errors, or else at all."""
        with tempfile.TemporaryDirectory(prefix="cobweb-", dir=SHORT_FOLDER) as sockets:
            path = str(Path(sockets) / "s")
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path)
                server.listen(1)  # the guard waits for the end of it; nobody has to answer
                guard = [sys.executable, "-P", "-m", "cobweb_plugins.ansible._guard"]
                process = subprocess.Popen(
                    [*guard, path, str(self._folder), "1", "0", *command],
                    cwd=self._site_dir,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    pass_fds=(self._held,),
                )
                try:
                    out, err = process.communicate()
                except BaseException:
                    server.close()
                    process.wait()
                    raise
        return process.returncode, err if err.strip() else out


def _words(said: str) -> str:
    """Return what galaxy said in a few words, without colours and passwords of URLs."""
    text = _NOISE.sub("", _ANSI.sub("", said))
    return bounded(without_passwords(text)) or "it said nothing"
