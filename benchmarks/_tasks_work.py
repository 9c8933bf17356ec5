"""The work itself, said to each tool in its own words, and how to see that it was done.

Plain: one file, one command and one service per host (on this machine as many hosts: one of the
three each, and a small init script in place of systemd). Stragglers: commands in a row on each
host, which take 0.2 to 1 s, but 2 s on one other host each time.
"""

from __future__ import annotations

import os
import random  # the generator is made from a seed
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._tasks_places import Place
from benchmarks._tasks_tools import write_json

KINDS = ("files", "commands", "services")
SEED = 3
INIT = """#!/bin/sh
# A small init script: svc start|status PIDFILE
case $1 in
start) setsid sleep 86400 </dev/null >/dev/null 2>&1 & echo $! >"$2" ;;
status) kill -0 "$(cat "$2" 2>/dev/null)" 2>/dev/null || exit 1 ;;
esac
"""
UNIT = "[Service]\nExecStart=/bin/sleep 86400\n[Install]\nWantedBy=default.target\n"


def write_plain(place: Place, folder: Path, tag: str) -> None:
    """Write site, playbook, deploy and shell script of the plain work into `folder`."""
    root = place.root / tag
    groups = _groups(place)
    _prepare(place, root)
    write_json(folder / "hosts.yml", place.inventory(groups))
    service, task = _local_service(root) if place.is_local else _systemd_service(tag)
    text = "host {{ inventory_hostname }}\n"
    conf, done = (
        f"{root}/conf-{{{{ inventory_hostname }}}}",
        f"{root}/done-{{{{ inventory_hostname }}}}",
    )
    command = {"creates": done, "do": f"touch {done}"}
    file = {"path": conf, "content": text, "state_dir": f"{root}/state"}
    _write_site(
        folder,
        {
            "conf": {"type": "file", "on": "files", "spec": file},
            "command": {"type": "script", "on": "commands", "spec": command},
            "service": {"on": "services", **service},
        },
    )
    tasks = [
        {"ansible.builtin.copy": {"dest": conf, "content": text, "mode": "0644"}},
        {"ansible.builtin.command": {"cmd": f"touch {done}", "creates": done}},
        task,
    ]
    if place.is_local:
        plays = [_play(group, [task]) for group, task in zip(KINDS, tasks, strict=True)]
    else:
        plays = [_play("all", tasks)]
    write_json(folder / "play.yml", plays)
    (folder / "deploy.py").write_text(_deploy(root, tag), encoding="utf-8")
    (folder / "work.sh").write_text(_shell(place, root, tag), encoding="utf-8")


def write_chain(place: Place, folder: Path, tag: str, *, steps: int, slow_s: float) -> None:
    """Write site and playbook of commands in a row, one slow host for each, into `folder`."""
    root = place.root / tag
    _prepare(place, root)
    inventory = place.inventory({})
    names = sorted(place.hosts)
    generator = random.Random(SEED)  # noqa: S311  # no secret
    for name in names:
        sleeps = [round(generator.uniform(slow_s / 10, slow_s / 2), 2) for _ in range(steps)]
        inventory["all"]["hosts"][name]["sleeps"] = sleeps
    for step in range(steps):
        slow = names[step * 7 % len(names)]
        inventory["all"]["hosts"][slow]["sleeps"][step] = slow_s
    write_json(folder / "hosts.yml", inventory)
    cobs: dict[str, Any] = {}
    tasks = []
    for step in range(steps):
        done = f"{root}/step{step}-{{{{ inventory_hostname }}}}"
        work = f"sleep {{{{ sleeps[{step}] }}}} && touch {done}"
        cobs[f"step{step}"] = {"type": "script", "on": "all", "spec": {"creates": done, "do": work}}
        if step:
            cobs[f"step{step}"]["after"] = [f"step{step - 1}"]
        tasks.append({"ansible.builtin.shell": {"cmd": work, "creates": done}})
    _write_site(folder, cobs)
    write_json(folder / "play.yml", [_play("all", tasks)])


def task_count(place: Place) -> int:
    """Return how many tasks of the plain work change something."""
    return len(place.hosts) * (1 if place.is_local else len(KINDS))


def undone(place: Place, tag: str, *, steps: int = 0) -> list[str]:
    """Return what is not as it should be on the hosts after the plain work, or after `steps`."""
    if place.is_local:
        return [text for host in place.hosts for text in _undone_here(place, host, tag, steps)]
    wanted = "".join(f"test -e step{step}-$(hostname) && " for step in range(steps))
    plain = (
        'test "$(cat conf-$(hostname))" = "host $(hostname)" && test -e done-$(hostname) && '
        f"systemctl is-active -q bench@{tag} && systemctl is-enabled -q bench@{tag} && "
    )
    script = f"cd {place.root}/{tag} && {wanted or plain} echo good"
    return [host for host in place.hosts if place.on_host(host, script).strip() != "good"]


def end_services(root: Path) -> None:
    """End what the small init script has started on this machine."""
    for file in root.glob("*/pid-*"):
        os.kill(int(file.read_text(encoding="ascii")), signal.SIGKILL)


def _groups(place: Place) -> dict[str, Sequence[str]]:
    names = sorted(place.hosts)
    if place.is_local:
        return {kind: names[number :: len(KINDS)] for number, kind in enumerate(KINDS)}
    return dict.fromkeys(KINDS, names)


def _prepare(place: Place, root: Path) -> None:
    """Make the folder and the unit that all tools find; that is no part of the work."""
    if place.is_local:
        root.mkdir()
        (root / "svc").write_text(INIT, encoding="utf-8")
        (root / "svc").chmod(0o755)
        return
    for host in place.hosts:
        unit = "/etc/systemd/system/bench@.service"
        place.on_host(host, f"mkdir -p {root}; cat >{unit} <<'END'\n{UNIT}END\n")


def _local_service(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    pid = f"{root}/pid-{{{{ inventory_hostname }}}}"
    spec = {"check": f"{root}/svc status {pid}", "do": f"{root}/svc start {pid}"}
    task = {"ansible.builtin.command": {"cmd": f"{root}/svc start {pid}", "creates": pid}}
    return {"type": "script", "spec": spec}, task


def _systemd_service(tag: str) -> tuple[dict[str, Any], dict[str, Any]]:
    unit = f"bench@{tag}"
    task = {"ansible.builtin.systemd_service": {"name": unit, "state": "started", "enabled": True}}
    return {"type": "service", "spec": {"unit": unit}}, task


def _play(hosts: str, tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"hosts": hosts, "gather_facts": False, "tasks": list(tasks)}


def _write_site(folder: Path, cobs: Mapping[str, Any]) -> None:
    write_json(
        folder / "site.yml",
        {"cobweb": 1, "name": "bench", "inventory": "hosts.yml", "cobs": cobs},
    )


def _deploy(root: Path, tag: str) -> str:
    """Return the same for pyinfra; its hosts are addresses, so the name comes from the host."""
    return f"""from io import StringIO
from pyinfra import host
from pyinfra.facts.server import Hostname
from pyinfra.operations import files, server, systemd
name = host.get_fact(Hostname)
files.put(src=StringIO(f"host {{name}}\\n"), dest=f"{root}/conf-{{name}}", mode="644")
server.shell(commands=[f"test -e {root}/done-{{name}} || touch {root}/done-{{name}}"])
systemd.service(service="bench@{tag}", running=True, enabled=True)
"""


def _shell(place: Place, root: Path, tag: str) -> str:
    """Return the same as one shell script; on this machine a host does what its group does."""
    conf = 'echo "host $N" >conf-$N.new && mv conf-$N.new conf-$N'
    done = "test -e done-$N || touch done-$N"
    if not place.is_local:
        work = f"{conf}; {done}; systemctl -q enable --now bench@{tag}"
        return f"N=$(hostname); cd {root}; {work}"
    start = "./svc status pid-$N || ./svc start pid-$N"
    number = "$(( (1${N#n} - 1001) %% 3 ))"
    return f"N=%host; cd {root}; case {number} in 0) {conf};; 1) {done};; *) {start};; esac"


def _undone_here(place: Place, host: str, tag: str, steps: int) -> list[str]:
    root = place.root / tag
    if steps:
        return [host for step in range(steps) if not (root / f"step{step}-{host}").exists()]
    (kind,) = [kind for kind, row in _groups(place).items() if host in row]
    if kind == "files":
        conf = root / f"conf-{host}"
        good = conf.exists() and conf.read_text(encoding="utf-8") == f"host {host}\n"
    elif kind == "commands":
        good = (root / f"done-{host}").exists()
    else:
        pid = root / f"pid-{host}"
        good = pid.exists() and Path("/proc", pid.read_text(encoding="ascii").strip()).exists()
    return [] if good else [host]
