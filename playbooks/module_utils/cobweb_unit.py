# SPDX-License-Identifier: GPL-3.0-or-later
"""A systemd unit as a COB: its state, how it comes up, and what is left of it when it is down.

What is remembered, in `STATE_DIR/service/UNIT ID/record.json`: the `files` that we have written
(each also has a record of its own, as any file); `started`, what the unit had read when we last
started or reloaded it; `health`, what it was well by when we last brought it up; `before`, how a
unit was that is held; and that we have unmasked one. No record is left of a unit that is down.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Dict, List

from ansible.module_utils.cobweb_health import CHECK_TRIES, sickness, start_tries
from ansible.module_utils.cobweb_host import Failed, file_name, state_dir
from ansible.module_utils.cobweb_record import Place, forget, read_record, write_record
from ansible.module_utils.cobweb_systemd import (
    ENABLED,
    MASKED,
    Unit,
    full_name,
    journal,
    settle,
    show,
    tell,
)
from ansible.module_utils.cobweb_watched import changed_since, digests
from ansible.module_utils.cobweb_whole import (
    is_ours,
    remove_whole,
    whole_place,
    whole_state,
    write_whole,
)

UNIT_DIR = Path("/etc/systemd/system")
SETTLE_S = 0.5
RESTART = {"state", "files", "definition", "health"}
"""Reasons for a start or restart; the others are mended by less."""


class Service:
    """The unit of one COB, by one spec."""

    def __init__(self, cob_id: str, spec: Dict[str, Any]) -> None:
        self.spec = spec
        self.unit = full_name(spec["unit"])
        home = state_dir(spec) / "service" / file_name(f"{self.unit} {cob_id}")
        self.place = Place(path=Path(self.unit), home=home)
        self.record = read_record(home)

    @property
    def is_held(self) -> bool:
        """Whether the spec wants it masked, or not to run."""
        return bool(self.spec.get("masked")) or not self.spec.get("running", True)

    @property
    def wants_boot(self) -> bool:
        """Whether it is to start at boot."""
        return bool(self.spec.get("enabled", True))

    @property
    def _folder(self) -> Path:
        return UNIT_DIR / f"{self.unit}.d"

    # --- looking

    def state(self) -> str:
        """Find the state; nothing is written."""
        unit = show(self.unit)
        if self.is_held:
            return self._held_state(unit)
        if unit.is_at_rest:
            is_left = self.record or self._has_files() or unit["UnitFileState"] == ENABLED
            return "broken" if is_left else "down"
        is_sick = self._is_sick()
        if not unit.runs or (is_sick and not self._was_well()):
            return "broken"
        is_other = is_sick or "before" in self.record or self._differences(unit)
        return "outdated" if is_other else "up"

    def was_restarted(self) -> bool:
        """Say whether systemd had to start it again since we brought it up."""
        known, now = self.record.get("restarts"), show(self.unit)["NRestarts"]
        return bool(known and now) and int(now) > int(known)

    def is_there(self) -> bool:
        """Say whether anything is left to be taken down."""
        return self._has_files() or "before" in self.record or not show(self.unit).is_at_rest

    def _held_state(self, unit: Unit) -> str:
        if "before" not in self.record:
            if not self.record:
                return "down"
            # An earlier spec has brought it up to run.
            is_well = not sickness(self.record.get("health"), CHECK_TRIES)
            return "outdated" if unit.runs and is_well else "broken"
        if not unit.is_at_rest or (self.spec.get("masked") and unit["UnitFileState"] != MASKED):
            return "broken"
        is_switched = bool(self.spec.get("masked")) or (
            not unit.is_masked and unit.is_enabled(asked=self.wants_boot)
        )
        return "up" if is_switched and self._files_are_right() else "outdated"

    def _is_sick(self) -> bool:
        return bool(sickness(self.spec.get("health"), CHECK_TRIES))

    def _was_well(self) -> bool:
        """Say whether it is well by what an earlier spec asked for, if that was something else."""
        if "health" not in self.record or self.record["health"] == self.spec.get("health"):
            return False
        return not sickness(self.record["health"], CHECK_TRIES)

    def _reasons(self, unit: Unit) -> List[str]:
        """Return why a unit that is not at rest is not up, by what it takes to mend it."""
        reasons = self._differences(unit)
        if not RESTART & set(reasons) and self._is_sick():
            reasons.append("health")
        return reasons

    def _differences(self, unit: Unit) -> List[str]:
        reasons = []
        if not unit.runs or unit.is_masked:
            reasons.append("state")
        if not self._files_are_right():
            reasons.append("files")
        if unit["NeedDaemonReload"] == "yes" or self._has_other_definition(unit):
            reasons.append("definition")
        if not unit.is_enabled(asked=self.wants_boot):
            reasons.append("enabled")
        if self._has_changed(unit):
            reasons.append("watch")
        return reasons

    def _knows_start(self, unit: Unit) -> bool:
        """Say whether the unit runs since we have started it."""
        known = self.record.get("started", {}).get("invocation")
        return bool(known) and known == unit["InvocationID"]

    def _has_other_definition(self, unit: Unit) -> bool:
        started = self.record.get("started", {}).get("definition")
        return self._knows_start(unit) and started != digests(_definition(unit))

    def _has_changed(self, unit: Unit) -> bool:
        """Say whether a watched file has changed after the unit has read it."""
        watch = _watched(self.spec)
        started = self.record.get("started", {})
        # Without a start of ours nobody knows which of the site's files it has read.
        wanted = started.get("wanted", {})
        if any(wanted.get(path, "") != word for path, word in watch.items()):
            return True
        if self._knows_start(unit):
            return bool(started["watch"] != digests(watch))
        began = int(unit["ExecMainStartTimestampMonotonic"] or 0)
        began = began or int(unit["ActiveEnterTimestampMonotonic"] or 0)
        if not began:
            return False
        age_s = time.monotonic() - began / 1e6
        return bool(changed_since(watch, time.time() - age_s))

    # --- files of ours

    def _files(self) -> Dict[str, Dict[str, Any]]:
        """Return the specs of the files that the unit is to have, by path."""
        texts = {}
        if "unit_file" in self.spec:
            texts[UNIT_DIR / self.unit] = self.spec["unit_file"]
        for name, text in self.spec.get("dropins", {}).items():
            texts[self._folder / f"cobweb-{name}.conf"] = text
        return {str(path): self._file(str(path), text) for path, text in texts.items()}

    def _file(self, path: str, text: str = "") -> Dict[str, Any]:
        return {"path": path, "content": text, "state_dir": str(state_dir(self.spec))}

    def _others(self) -> List[str]:
        """Return our files that the spec does not have any more."""
        return [path for path in self.record.get("files", []) if path not in self._files()]

    def _has_files(self) -> bool:
        paths = [*self._files(), *self._others()]
        return any(is_ours(whole_place(self._file(path))) for path in paths)

    def _files_are_right(self) -> bool:
        return not self._others() and all(
            whole_state(whole_place(file), file) == "up" for file in self._files().values()
        )

    def _write_files(self) -> bool:
        """See that our files are right; say whether systemd has read them anew."""
        if self._files_are_right():
            return False
        others = self._others()
        made = self.record.get("made_folder") or not self._folder.exists()
        self._remember(files=[*others, *self._files()], made_folder=made)
        for file in self._files().values():
            write_whole(whole_place(file), file)
        for path in others:
            remove_whole(whole_place(self._file(path)))
        tell("daemon-reload")
        self._remember(files=list(self._files()))
        return True

    def _remember(self, **more: Any) -> None:
        self.record = {**self.record, **more}
        write_record(self.place, self.record)

    # --- up

    def bring_up(self, *, renew: bool = False) -> List[str]:
        """Do what is missing, with `renew` a restart at least; return what that was."""
        if self.is_held:
            return self._hold()
        self._let_go()
        unit = show(self.unit)
        reasons = self._reasons(unit)
        if self._write_files():
            unit = show(self.unit)
        unit = self._loaded(unit)
        watch = _watched(self.spec)
        started = {
            "watch": digests(watch),
            "wanted": watch,
            "definition": digests(_definition(unit)),
        }
        action = self._action(unit, [*reasons, "state"] if renew else reasons)
        began = time.time()
        if action:
            self._start(unit, action, began)
        elif not self._knows_start(unit):
            self._remember(health=self.spec.get("health"), restarts=unit["NRestarts"])
            return self._switch(unit)
        now = show(self.unit)
        started["invocation"] = now["InvocationID"]
        self._remember(started=started, health=self.spec.get("health"), restarts=now["NRestarts"])
        return [*filter(None, [action]), *self._switch(now)]

    def _action(self, unit: Unit, reasons: List[str]) -> str:
        if unit.is_at_rest:
            return "start"
        if RESTART & set(reasons):
            return "restart"
        return str(self.spec.get("on_change", "restart")) if "watch" in reasons else ""

    def _loaded(self, unit: Unit) -> Unit:
        """Return a unit as it is on disk now; Failed if it cannot be started."""
        if unit["NeedDaemonReload"] == "yes" or unit["LoadState"] == "not-found":
            tell("daemon-reload")
            unit = show(self.unit)
        if unit.is_masked:
            if not self.spec.get("unmask"):
                raise Failed(
                    f"{self.unit} is masked on this host, so that it cannot be started; "
                    "`unmask: true` lets Cobweb unmask it"
                )
            self._remember(unmasked=True)
            tell("unmask", self.unit)
            unit = show(self.unit)
        if unit["LoadState"] == "not-found":
            raise Failed(f"there is no unit {self.unit} on this host")
        if unit["LoadState"] != "loaded":
            raise Failed(
                f"systemd cannot load {self.unit}: {unit['LoadError'] or unit['LoadState']}"
            )
        return unit

    def _start(self, unit: Unit, action: str, began: float) -> None:
        if unit["ActiveState"] == "failed":
            tell("reset-failed", self.unit)
        tell(action, self.unit)
        # A reload goes on counting, a start begins anew.
        restarts = {"", "0", *([unit["NRestarts"]] if action.startswith("reload") else [])}
        settle(self.unit, began, float(self.spec.get("settle", SETTLE_S)), restarts)
        health = self.spec.get("health")
        sick = sickness(health, start_tries(health))
        if sick:
            raise Failed(f"{self.unit} is not healthy: {sick}{journal([self.unit], began)}")

    def _switch(self, unit: Unit) -> List[str]:
        """Set whether it starts at boot."""
        if unit.is_enabled(asked=self.wants_boot):
            return []
        action = "enable" if self.wants_boot else "disable"
        tell(action, self.unit)
        return [action]

    # --- held

    def _hold(self) -> List[str]:
        unit = show(self.unit)
        if "before" not in self.record:
            is_ours = "started" in self.record
            before = {
                "active": not is_ours and not unit.is_at_rest,
                "enabled": not is_ours and unit["UnitFileState"] == ENABLED,
                "masked": unit["UnitFileState"] == MASKED,
            }
            self._remember(before=before)
        self._write_files()
        if unit.is_masked and not self.spec.get("masked"):
            unit = self._loaded(show(self.unit))
        if unit.is_known and not unit.is_at_rest:
            tell("stop", self.unit)
        if self.spec.get("masked"):
            tell("mask", self.unit)
            return ["mask"]
        return ["stop", *self._switch(show(self.unit))]

    def _let_go(self) -> None:
        """End that a unit is held, for one that is to run."""
        before = self.record.pop("before", None)
        if before is None:
            return
        if show(self.unit)["UnitFileState"] == MASKED and not before["masked"]:
            tell("unmask", self.unit)
        write_record(self.place, self.record)

    # --- down

    def take_down(self) -> None:
        """Stop it, also at boot, and take away what is ours; one that was held is as before."""
        before = self.record.get("before")
        unit = show(self.unit)
        if before is not None:
            self._restore(before, unit)
        elif unit.is_known:
            self._stop(unit)
        files = list(dict.fromkeys([*self._files(), *self.record.get("files", [])]))
        ours = [path for path in files if is_ours(whole_place(self._file(path)))]
        for path in files:
            remove_whole(whole_place(self._file(path)))
        if self.record.get("made_folder"):
            with contextlib.suppress(OSError):  # somebody else has a drop-in there, or none was
                self._folder.rmdir()
        if ours:
            tell("daemon-reload")
        if self.record.get("unmasked"):
            tell("mask", self.unit)
        if before is not None and before["active"] and show(self.unit).is_at_rest:
            tell("start", self.unit)
        forget(self.place, "record.json")

    def _stop(self, unit: Unit) -> None:
        if unit["UnitFileState"] == ENABLED:
            tell("disable", self.unit)
        if unit.is_at_rest:
            return
        tell("stop", self.unit)
        left = show(self.unit)
        if not left.is_at_rest:
            by = f"; it is started by {left['TriggeredBy']}" if left["TriggeredBy"] else ""
            raise Failed(f"{self.unit} is {left['ActiveState']} after it was stopped{by}")

    def _restore(self, before: Dict[str, Any], unit: Unit) -> None:
        """Set what a unit was before it was held, but for its running."""
        if unit["UnitFileState"] == MASKED and not before["masked"]:
            tell("unmask", self.unit)
            unit = show(self.unit)
        if not self.spec.get("masked") and not unit.is_enabled(asked=before["enabled"]):
            tell("enable" if before["enabled"] else "disable", self.unit)


def _definition(unit: Unit) -> List[str]:
    return [path for path in [unit["FragmentPath"], *unit["DropInPaths"].split()] if path]


def _watched(spec: Dict[str, Any]) -> Dict[str, str]:
    """Return the watched paths, each with a word for what the site has there; none if nothing."""
    watch = spec.get("watch", {})
    return dict(watch) if isinstance(watch, dict) else dict.fromkeys(watch, "")
