"""One file on each host, said to each tool, and how to see that it has its content."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from benchmarks._agents_company import server_folder
from benchmarks._tasks_places import Place
from benchmarks._tasks_tools import write_json

SERVER = "server"
"""The host of the server; nobody's agent is there."""


def section(place: Place) -> dict[str, Any]:
    """Return the section `agents` of a site: all hosts but SERVER, whose server is this machine."""
    return {
        "on": f"all:!{SERVER}",
        "nats": [{"url": f"nats://127.0.0.1:{_free_port()}", "on": SERVER}],
        "folder": str(server_folder(place)),
        "listen": "127.0.0.1",
    }


class Work:
    """One tool's files and words for the work; `tag` names both, `has_agents` is Cobweb's."""

    def __init__(self, place: Place, tag: str, *, has_agents: bool = False) -> None:
        self.folder, self._place, self._root = place.folder / tag, place, place.root / tag
        self._root.mkdir()
        self._agents: dict[str, Any] = {}
        if has_agents:
            self._agents = section(place)

    def write(self, content: str, hosts: int) -> None:
        """Ask for a file with `content` on the first hosts: in site, play and script."""
        few = sorted(self._place.hosts)[:hosts]
        inventory = self._place.inventory({"few": few})
        inventory["all"]["hosts"][SERVER] = {}
        write_json(self.folder / "hosts.yml", inventory)
        path, text = f"{self._root}/conf-{{{{ inventory_hostname }}}}", f"{content}\n"
        spec = {"path": path, "content": text, "state_dir": f"{self._root}/state"}
        site: dict[str, Any] = {"cobweb": 1, "name": "bench", "inventory": "hosts.yml"}
        if self._agents:
            site["agents"] = self._agents
        site["cobs"] = {"conf": {"type": "file", "on": "few", "spec": spec}}
        write_json(self.folder / "site.yml", site)
        copy = {"ansible.builtin.copy": {"dest": path, "content": text, "mode": "0644"}}
        play = {"hosts": "few", "gather_facts": False, "tasks": [copy]}
        write_json(self.folder / "play.yml", [play])
        conf = f"{self._root}/conf-%host"
        script = f'[ "$(cat {conf} 2>/dev/null)" = "{content}" ] || '
        script += f'{{ echo "{content}" >{conf}.new && mv {conf}.new {conf}; }}'
        (self.folder / "work.sh").write_text(script, encoding="utf-8")

    def hold(self, content: str, hosts: int) -> None:
        """Raise RuntimeError where one of the first hosts has another content."""
        paths = {host: self._root / f"conf-{host}" for host in sorted(self._place.hosts)[:hosts]}
        bad = [host for host, path in paths.items() if _text(path) != f"{content}\n"]
        if bad:
            raise RuntimeError(f"{self.folder.name}: not as asked: {bad[:5]}")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
