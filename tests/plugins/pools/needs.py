"""A site whose hosts move by need, under `cobweb serve` or by `pool balance`, seen from outside.

A test says which resources there are and what services need, and writes the site. Each command is
a process of its own. The service `liar` says of itself what stands in a file.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from tests.plugins.pools.hands import LOOK_EVERY_S, PATIENCE_S, Hands, Ran

ROUNDS = 12
"""After so many rounds by hand a site is at rest, or never."""

AT_ONCE: Mapping[str, Any] = {"grow_after": "0s", "shrink_after": "0s", "immunity": "0s"}

LIAR = """\
description: Says of itself what stands in a file.
holds: [host]
schema: {type: object, required: [folder], properties: {folder: {type: string}}}
member: {type: pool-process, host: resource}
observe: {tasks: liar-observe.yml, timeout: 30}
"""
LIAR_OBSERVE = """\
- name: Say what stands in the file
  ansible.builtin.set_fact:
    cob_state: running
    cob_results: "{{ lookup('ansible.builtin.file', file) | from_json }}"
  vars:
    file: "{{ cob.spec.with.folder }}/answer"
"""


class Bounds:
    """Counts the members of services as often as it can; `broken` is what was out of bounds.

    What two looks, one after the other, have found is so: one alone may miss a host that came
    while it was looked for.
    """

    def __init__(self, base: Path, bounds: Mapping[str, tuple[int, int]]) -> None:
        self._base, self._bounds = base, bounds
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.looks = 0
        self.broken: set[tuple[str, int]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        last: set[tuple[str, int]] = set()
        while not self._ends.wait(LOOK_EVERY_S):
            now = {
                (name, count)
                for name, (low, high) in self._bounds.items()
                if not low <= (count := len(members(self._base, name))) <= high
            }
            self.broken |= now & last
            last = now
            self.looks += 1


def members(base: Path, service: str) -> list[str]:
    """Return which resources a service has, by its files."""
    try:
        names = [it.name for it in (base / service / "members").iterdir()]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if not name.startswith("."))


@dataclass
class Needs(Hands):
    """The site: `resources`, `slos` and more of services by name, `settings` of pools, `policy`."""

    resources: dict[str, Mapping[str, Any]] = field(default_factory=lambda: {"n[01:03]": {}})
    slos: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    more: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=lambda: dict(AT_ONCE))
    policy: dict[str, Any] = field(default_factory=lambda: {"outages": {"pools": "auto"}})
    used: tuple[str, ...] = ("batch", "hpc")

    def make(self) -> None:
        """Write the site, and the hook of its services."""
        Hands.make(self)
        (self.site / "liar.yml").write_text(LIAR, encoding="utf-8")
        (self.site / "liar-observe.yml").write_text(LIAR_OBSERVE, encoding="utf-8")
        self.write()

    def write(self) -> None:
        """Write the site as it is said now."""
        hosts: dict[str, Any] = {"head": {}, "n[01:04]": {}}
        local = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }
        site: dict[str, Any] = {
            "cobweb": 1,
            "name": "needs",
            "inventory": {"all": {"hosts": hosts, "vars": local}},
            "pools": {
                "adapters": {"liar": "liar.yml"},
                "resources": self.resources,
                "services": {name: self._service(name) for name in self.used},
                **self.settings,
            },
        }
        if self.policy:
            site["serve"] = self.policy
        (self.site / "site.yml").write_text(json.dumps(site, indent=1), encoding="utf-8")

    def _service(self, name: str) -> Mapping[str, Any]:
        about = {"slos": self.slos.get(name, []), **self.more.get(name, {})}
        if name == "spare":
            return {"adapter": "spare", **about}
        given = {"folder": str(self.base / name)}
        if name in ("design", "research"):
            return {"adapter": "counter", "on": "head", "with": given, **about}
        if name == "liar":
            return {"adapter": "liar", "on": "head", "with": given, **about}
        scripts = {it: f"step={it}; . {self.base}/hook" for it in ("prologue", "epilogue")}
        return {"adapter": "processes", "on": "head", "with": {**given, **scripts}, **about}

    # --- commands

    def run(self, *arguments: str) -> Ran:
        """Run `cobweb` in a process of its own."""
        ran = self.end(self.start(*arguments))
        assert "Traceback" not in ran.err, ran.err
        return ran

    def data(self, *arguments: str) -> Any:
        """Return the JSON of a command that ends well."""
        ran = self.run(*arguments, "-o", "json")
        assert ran.code == 0, ran
        return json.loads(ran.out)

    def once(self, code: int = 0) -> Ran:
        """Have a controller take one round."""
        ran = self.run("serve", "--once")
        assert ran.code == code, ran
        return ran

    def admit(self) -> None:
        """Have a controller admit the files, and take a turn of the decider after that."""
        self.once()
        self.once()
        assert self.decider()["state"] == "well"

    def balance(self, *words: str, code: int = 0) -> Any:
        """Take a round by hand, which ends with this exit code; return its JSON."""
        ran = self.run("pool", "balance", "--yes", "-o", "json", *words)
        assert ran.code == code, ran
        found = json.loads(ran.out)
        assert found["format"] == 1
        return found

    def settle(self, *words: str) -> int:
        """Take rounds by hand until one has nothing to do; return how many had."""
        for number in range(ROUNDS):
            ran = self.run("pool", "balance", "--yes", "-o", "json", *words)
            assert ran.code in (0, 2), ran
            if ran.code == 0 and not json.loads(ran.out)["writes"]:
                return number
        raise AssertionError(f"no rest within {ROUNDS} rounds")

    def why(self, subject: str) -> str:
        """Return what `pool why` says of a resource or a service."""
        ran = self.run("pool", "why", subject)
        assert ran.code == 0, ran
        return " ".join(ran.out.split())

    def decider(self) -> Mapping[str, Any]:
        """Return how the decider of pools is."""
        (found,) = [it for it in self.data("deciders")["deciders"] if it["name"] == "pools"]
        return dict(found)

    def history(self) -> list[Mapping[str, Any]]:
        """Return all that was decided, the newest first."""
        data = self.data("decisions", "pools", "--history")
        return list(data["sections"]["pools"]["history"])

    def give_unseen(self, **services: str) -> None:
        """Have resources in services by one run, whose files do not tell it."""
        for id_, service in services.items():
            self.decide(id_, service=service, phase="in", since=1)
        ran = self.run("apply", "--yes")
        assert ran.code == 0, ran

    # --- a controller

    @contextmanager
    def server(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a controller with rounds every second; its lines go to a file."""
        number = len(list(self.base.glob("server-*")))
        with (self.base / f"server-{number}").open("wb") as said:
            words = [sys.executable, "-m", "cobweb", "-C", str(self.site), "serve", "--every", "1s"]
            server = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
            )
        try:
            yield server
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE_S)
        texts = [it.read_text(encoding="utf-8") for it in self.base.glob("server-*")]
        assert "Traceback" not in "".join(texts), texts

    def wait_turns(self, count: int) -> None:
        """Wait until the decider has decided this often from now on."""
        for _ in range(count):
            last = self.decider()["decided"]
            self.wait_for(partial(self._has_turned, last), "a turn")

    def _has_turned(self, last: float | None) -> bool:
        return bool(self.decider()["decided"] != last)

    # --- what can be seen

    def at(self, service: str) -> list[str]:
        """Return which resources a service has, by its files."""
        return members(self.base, service)

    def all_files(self, service: str) -> Mapping[str, tuple[int, int]]:
        """Return identity and time of all files of a service but its locks and logs."""
        folder = self.base / service
        return {
            str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*"))
            if not {"locks", "log"} & set(path.relative_to(folder).parts)
        }

    def forget(self) -> None:
        """Lose the state database: what was decided, and what is known of hosts."""
        for path in (self.site / ".cobweb").rglob("*"):
            if path.is_file():
                path.unlink()

    # --- load

    def load(self, service: str, *names: str) -> None:
        """Put jobs into a queue that last until they are let go."""
        (self.base / service / "queue").mkdir(parents=True, exist_ok=True)
        for name in names:
            self.hold(name)
            self.put(service, name)

    def finish(self, *names: str) -> None:
        """Let jobs end, as they begin."""
        for name in names:
            self.let_go(name)
        self.wait_for(lambda: set(names) <= set(self.ended()), "the jobs end")

    def answers(self, **answer: Any) -> None:
        """Have the service `liar` say this of itself."""
        folder = self.base / "liar"
        folder.mkdir(exist_ok=True)
        draft = folder / ".answer"
        draft.write_text(json.dumps(answer), encoding="utf-8")
        draft.rename(folder / "answer")

    def assert_each_once(self, *names: str) -> None:
        """Fail unless these are the jobs that began, and each has begun and ended exactly once."""
        assert sorted(line.split()[0] for line in self.begun()) == sorted(names)
        assert sorted(self.ended()) == sorted(names)


def pending(urgency: float = 50, quantity: int = 3) -> Mapping[str, Any]:
    """Return an objective: no job waits."""
    need = {"urgency": urgency, "quantity": quantity}
    return {"kind": "pending", "above": 0, "need": need}


def minimum(quantity: int, urgency: float = 50) -> Mapping[str, Any]:
    """Return an objective: so many members."""
    return {"kind": "minimum", "quantity": quantity, "urgency": urgency}


SPARE = {"kind": "permanent", "urgency": 1}
"""The objective of a spare pool."""
