"""Runs a direct job (`_direct`) in a lane, once the way to the host's module server is known."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cobweb_plugins.ansible._hidden import Hidden
from cobweb_plugins.ansible._results import MARK_TASK, TOO_MUCH, Collector, TaskEnd, facts_of
from cobweb_plugins.ansible._warm import SSH_FAILED, Answer, Call, Lost, Place, Servers

FOREIGN = ("rc", "skipped", "unreachable")
"""What Ansible knows in an answer, and no module of Cobweb says: it is a host's own word."""
DIRECT, SCRIPT = "direct", "script"
"""What stands in the place of a profile of Ansible where the call is none of its modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectRun:
    """One direct job: what the lane was told of its tasks, `met` the way to its host."""

    direct: Mapping[str, Any]
    met: Mapping[str, Any]
    mark: str

    def run(
        self, call: Call, first: str, servers: Servers, collector: Collector, hidden: Hidden
    ) -> bool | None:
        """Make the call, after the script `first` if it is not empty.

        Say whether it came to a good end, or None where Ansible has to do it.
        """
        if first:
            script = Call(module="", profile=SCRIPT, params=first, code=b"", digest="")
            ended = self._end(MARK_TASK, self._ask(servers, script), _of_script)
            if ended is None or not _collect(collector, hidden, ended):
                return None if ended is None else False
        ended = self._end(self.direct["name"], self._ask(servers, call), _of_module)
        if ended is None:
            return None
        good = _collect(collector, hidden, ended)
        if not good or not self.direct["says"]:
            return good
        return _collect(collector, hidden, self._say(ended.result))

    def _ask(self, servers: Servers, call: Call) -> Answer | Lost | MemoryError | None:
        place = Place(python=self.met["python"], mark=self.mark)
        try:
            return servers.run(call, place, way=self.met["way"], cwd=self.met["cwd"])
        except (Lost, MemoryError) as problem:
            return problem

    def _end(
        self,
        name: str,
        answer: Answer | Lost | MemoryError | None,
        read: Callable[[Answer], Mapping[str, Any]],
    ) -> TaskEnd | None:
        match answer:
            case None:
                return None
            case MemoryError():
                result: Mapping[str, Any] = {"failed": True, "msg": TOO_MUCH}
            case Lost() if self.met["way"] and answer.code == SSH_FAILED:
                said = answer.said.decode(errors="replace")
                result = {
                    "unreachable": True,
                    "msg": f"Failed to connect to the host via ssh: {said}",
                }
                return _task_end("unreachable", name, result)
            case Lost():
                result = read((answer.code, b"", answer.said))
            case _:
                result = read(answer)
        return _task_end("failed" if result.get("failed") else "ok", name, result)

    def _say(self, result: Mapping[str, Any]) -> TaskEnd:
        """Return the end of the task that says what the module has found."""
        name, says = self.direct["says_name"], self.direct["says"]
        missing = [
            key for key, is_optional in says.values() if key not in result and not is_optional
        ]
        if missing:
            said = f"the module {self.direct['module']} has said no `{missing[0]}`"
            return _task_end("failed", name, {"failed": True, "msg": said})
        facts = {fact: result.get(key, "") for fact, (key, _) in says.items()}
        return TaskEnd(
            event="ok",
            name=name,
            result={"ansible_facts": facts},
            changed=False,
            ignored=False,
            facts=facts,
            says=True,
        )


def direct_call(direct: Mapping[str, Any], code: bytes, cob: Mapping[str, Any]) -> Call:
    """Return the call of the module of a direct job."""
    return Call(
        module=direct["module"],
        profile=DIRECT,
        params=json.dumps({"action": direct["action"], "cob": cob}),
        code=code,
        digest=direct["digest"],
    )


def _task_end(event: str, name: str, result: Mapping[str, Any]) -> TaskEnd:
    return TaskEnd(
        event=event,
        name=name,
        result=result,
        changed=bool(result.get("changed")),
        ignored=False,
        facts=facts_of(result),
    )


def _of_script(answer: Answer) -> Mapping[str, Any]:
    """Return the result of a script, in the words of Ansible's `raw`."""
    code, out, err = answer
    said = {
        "rc": code,
        "stdout": out.decode(errors="replace"),
        "stderr": err.decode(errors="replace"),
    }
    return {**said, "failed": True, "msg": "non-zero return code"} if code else said


def _of_module(answer: Answer) -> Mapping[str, Any]:
    """Return what a module of Cobweb said; one that said nothing has failed."""
    code, out, err = answer
    result = _read(out)
    if isinstance(result, dict) and (code == 0 or result.get("failed")):
        lies = [word for word in FOREIGN if word in result]
        if lies:
            return {"failed": True, "msg": f"the module said `{lies[0]}`, which none of ours does"}
        if result.get("failed") and not result.get("msg"):
            return {**result, "msg": "the module has failed, and does not say why"}
        return result
    said = (err or out).decode(errors="replace").strip()
    lines = said.splitlines()
    why = f": {lines[-1]}" if lines else ""
    message = f"the module ended with exit status {code} and no answer{why}"
    return {"failed": True, "msg": message, "rc": code}


def _read(out: bytes) -> object:
    """Return the answer in what a module wrote, perhaps among other lines; None for none."""
    for text in (out, out[out.find(b"{") : out.rfind(b"}") + 1]):
        with contextlib.suppress(ValueError, RecursionError):  # also what is no UTF-8 in the end
            result = json.loads(text)
            json.dumps(result, ensure_ascii=False).encode()
            return result
    return None


def _collect(collector: Collector, hidden: Hidden, end: TaskEnd) -> bool:
    collector.add(replace(end, result=hidden.data(end.result)))
    return end.event == "ok"
