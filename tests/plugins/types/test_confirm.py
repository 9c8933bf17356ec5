"""The dead-man switch on a real host: this one, by Ansible, with real watchers and shell texts."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cobweb.kernel._dispatch import Dispatcher
from cobweb.model import CobId, CobType, Confirm, Host, Job, JobKind, Outcome, Report, Tasks
from cobweb.plugin import ExecutorSetting
from tests.support.tasks import HOST, Hand, built_in, vaulted

pytestmark = [
    pytest.mark.full(
        "each way of a dead-man switch, in real time; the gate has one confirmed, one not"
    )
]

ID = CobId(f"{HOST}/thing")
WAIT_S = 90.0


class Switch:
    """Changes one object under the dead-man switch, by the real steps."""

    def __init__(self, hand: Hand, system: Path, cob_type: CobType, module: ModuleType) -> None:
        self.type = cob_type
        self.module = module
        self.state_dir = system / "state"
        work = system / "work"
        work.mkdir()
        setting = ExecutorSetting(
            hosts={HOST: Host(name=HOST)},
            site_dir=system,
            work_dir=work,
            parallel=1,
            timeout_s=WAIT_S,
        )
        self._dispatcher = Dispatcher(hand.executor, setting)

    def change(
        self,
        spec: Mapping[str, Any],
        way: tuple[str, str] = ("down", "up"),
        *,
        confirm: Confirm | None = None,
        applied: Mapping[str, Any] | None = None,
    ) -> Report:
        """Carry out one transition."""
        source, dest = way
        step = self.type.transition(source, dest)
        assert step is not None
        job = Job(
            number=self._dispatcher.next_number(),
            kind=JobKind.TRANSITION,
            cob=ID,
            host=HOST,
            type_name=self.type.name,
            action=step.action,
            cob_vars={
                "id": ID,
                "name": "thing",
                "host": HOST,
                "type": self.type.name,
                "spec": {**spec, "state_dir": str(self.state_dir)},
                "applied": applied,
                "state": source,
                "target": dest,
                "generation": 1,
            },
            source=source,
            dest=dest,
            confirm=confirm or self.own(),
        )
        return self._see_through(job)

    def own(self, within_s: float = 20.0) -> Confirm:
        """Return the switch with the type's own way back."""
        return Confirm(within_s=within_s, revert=self.type.revert, prepare=self.type.prepare)

    def check(self, spec: Mapping[str, Any]) -> Report:
        """Check the object; what is armed is taken back first."""
        cob = {"id": ID, "name": "thing", "host": HOST, "applied": None, "state": "unknown"}
        job = Job(
            number=self._dispatcher.next_number(),
            kind=JobKind.CHECK,
            cob=ID,
            host=HOST,
            type_name=self.type.name,
            action=self.type.check,
            cob_vars={**cob, "spec": {**spec, "state_dir": str(self.state_dir)}},
            confirm=Confirm(within_s=20.0),
        )
        return self._see_through(job)

    def _see_through(self, job: Job) -> Report:
        self._dispatcher.add(job)
        self._dispatcher.submit(self._dispatcher.take())
        while True:
            for _, report in self._dispatcher.wait(WAIT_S):
                return report

    def arm(self, spec: Mapping[str, Any], within_s: float = 300.0, **wish: Any) -> ModuleType:
        """Arm a change to the host without a coordinator; return the module."""
        self.module.arm(self.cob(spec, within_s=within_s, **wish))
        return self.module

    def cob(self, spec: Mapping[str, Any], **wish: Any) -> dict[str, Any]:
        """Return the variable `cob` of a change that `arm` has armed."""
        revert = f"cd {spec['cwd']}; {spec['undo']}"
        confirm = {"token": "one", "revert": revert, "revert_s": 20.0, **wish}
        return {"id": ID, "spec": {**spec, "state_dir": str(self.state_dir)}, "confirm": confirm}

    @property
    def home(self) -> Path:
        """The folder of the last change."""
        (home,) = (self.state_dir / "confirm").iterdir()
        return home


Maker = Callable[[CobType], Switch]


@pytest.fixture
def switch(hand: Hand, system: Path, confirm_module: ModuleType) -> Maker:
    """Return the maker of a switch for a type."""
    return lambda cob_type: Switch(hand, system, cob_type, confirm_module)


@pytest.fixture
def script(system: Path) -> dict[str, Any]:
    """Return scripts that keep a file."""
    return {
        "check": "test -e mark",
        "do": "touch mark",
        "undo": "rm -f mark; echo undone >> log",
        "cwd": str(system),
    }


@pytest.mark.gate("a dead-man switch by Ansible itself")
def test_a_confirmed_change_stays_and_nothing_of_the_switch_does(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    it = switch(built_in("script"))
    report = it.change(script)
    assert (report.outcome, report.message) == (Outcome.OK, "")
    assert (system / "mark").exists()
    assert watchers(it.home) == []
    left = {path.name for path in it.home.iterdir()}
    assert left == {"change.json", "confirmed", "lock", "wake", "watcher.py"}
    assert it.home.stat().st_mode & 0o777 == 0o700


def test_a_failing_change_is_taken_back_before_it_is_reported(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    it = switch(built_in("script"))
    report = it.change({**script, "do": "touch mark; exit 3"})
    assert report.outcome is Outcome.FAILED
    assert report.message == (
        "do: `do` of h1/thing ended with exit status 3; the host has taken the change back"
    )
    assert not (system / "mark").exists()
    assert watchers(it.home) == []


@pytest.mark.full("in real time, over a whole job")
def test_a_change_that_takes_too_long_goes_back_by_itself(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    os.mkfifo(system / "never")
    it = switch(built_in("script"))
    report = it.change({**script, "do": "touch mark; read line < never"}, confirm=it.own(8.0))
    assert report.outcome is Outcome.FAILED
    assert "and was stopped" in report.message
    assert (system / "log").read_text() == "undone\n"


def test_the_undoing_is_taken_back_by_doing(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    (system / "mark").touch()
    it = switch(built_in("script"))
    report = it.change({**script, "undo": "rm mark; exit 1"}, ("up", "down"))
    assert report.message.endswith("the host has taken the change back")
    assert (system / "mark").exists()


def test_interpreter_and_environment_of_a_script_hold_for_the_way_back(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    wish = {"env": {"WHAT": vaulted("it's $HOME"), "N": 5}, "interpreter": ["/bin/sh", "-eu"]}
    undo = 'printf "%s " "$WHAT" "$N" > log; rm -f mark'
    it = switch(built_in("script"))
    report = it.change({**script, **wish, "do": "touch mark; exit 1", "undo": undo})
    assert report.message.endswith("the host has taken the change back")
    assert (system / "log").read_text() == "it's $HOME 5 "
    assert not (it.home / "kept").exists()  # where the text with the secret stood
    assert not (it.home / "revert").exists()


def test_a_way_back_that_fails_is_told_and_leaves_what_it_needs(
    switch: Maker, script: dict[str, Any]
) -> None:
    it = switch(built_in("script"))
    report = it.change({**script, "do": "exit 1", "undo": "echo no way >&2; exit 4"})
    assert "could not go back: `revert` ended with exit status 4: no way" in report.message
    assert (it.home / "kept").is_dir()


def test_what_cannot_be_taken_back_is_not_begun(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    del script["undo"]
    it = switch(built_in("script"))
    report = it.change(script)
    assert "nothing says how h1/thing is taken back" in report.message
    assert not (system / "mark").exists()


def test_a_preparation_that_fails_stops_the_change(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    it = switch(built_in("script"))
    wish = Confirm(within_s=20.0, revert="true", prepare="echo no disk; exit 28")
    report = it.change(script, confirm=wish)
    assert "`prepare` ended with exit status 28: no disk; nothing was changed" in report.message
    assert not (system / "mark").exists()
    assert watchers(it.home) == []


def test_a_template_that_cannot_be_filled_in_stops_the_change(
    switch: Maker, system: Path, script: dict[str, Any]
) -> None:
    it = switch(built_in("script"))
    report = it.change(script, confirm=Confirm(within_s=20.0, revert="rm {{ cob.spec.nmae }}"))
    assert report.outcome is Outcome.FAILED
    assert "nmae" in report.message
    assert not (system / "mark").exists()


@pytest.mark.parametrize("before", ["old", None])
def test_a_file_is_as_it_was(switch: Maker, system: Path, before: str | None) -> None:
    path = system / "it's a file"
    if before is not None:
        path.write_text(before)
        path.chmod(0o640)
    spec = {"path": str(path), "content": "new", "mode": "0600"}
    it = switch(_failing_after(built_in("file"), system))
    assert it.change(spec).message.endswith("the host has taken the change back")
    if before is None:
        assert not path.exists()
    else:
        assert path.read_text() == before
        assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_in_the_place_of_a_file_is_a_link_again(switch: Maker, system: Path) -> None:
    path = system / "link"
    path.symlink_to("somewhere")
    it = switch(_failing_after(built_in("file"), system))
    it.change({"path": str(path), "content": "new"})
    assert str(path.readlink()) == "somewhere"


@pytest.mark.parametrize("part", ["line", "block"])
def test_a_file_is_as_it_was_before_a_part_of_it_changed(
    switch: Maker, system: Path, part: str
) -> None:
    path, real = system / "link", system / "real"
    real.write_text("old")
    path.symlink_to(real)
    it = switch(_failing_after(built_in("file"), system))
    report = it.change({"path": str(path), part: {"text": "new"}})
    assert report.message.endswith("the host has taken the change back")
    assert path.is_symlink()
    assert real.read_text() == "old"


def test_a_file_that_moves_is_where_it_was(switch: Maker, system: Path) -> None:
    first, second = system / "first", system / "second"
    whole, failing = built_in("file"), _failing_after(built_in("file"), system)
    it = switch(whole)
    applied = {"path": str(first), "content": "old", "state_dir": str(it.state_dir)}
    assert it.change(applied).outcome is Outcome.OK
    it.type = failing
    it.change({"path": str(second), "content": "new"}, ("outdated", "up"), applied=applied)
    assert first.read_text() == "old"
    assert not second.exists()


def test_a_check_has_taken_back_first_what_nobody_has_confirmed(
    switch: Maker, script: dict[str, Any], system: Path
) -> None:
    """As after the death of the coordinator between the change and its confirmation."""
    it = switch(built_in("script"))
    module = it.arm(script)
    (system / "mark").touch()
    report = it.check(script)
    assert (report.outcome, report.state) == (Outcome.OK, "down")
    assert (system / "log").read_text() == "undone\n"
    assert not module.watcher.is_watched(it.home)


def test_an_earlier_change_that_is_open_is_not_armed_over(
    switch: Maker, script: dict[str, Any]
) -> None:
    it = switch(built_in("script"))
    it.arm(script)
    report = it.change(script)
    assert "an earlier change of h1/thing is neither confirmed nor taken back" in report.message
    assert it.check(script).state == "down"


@pytest.mark.gate("waits for the watcher of a dead-man switch")
def test_a_watcher_goes_back_by_itself_when_the_time_is_over(
    switch: Maker, script: dict[str, Any], system: Path
) -> None:
    it = switch(built_in("script"))
    module = it.arm(script, within_s=3.0)  # it must be seen alive before its time is over
    await_end(it.home)
    assert (system / "log").read_text() == "undone\n"
    assert json.loads((it.home / "result.json").read_text())["by"] == "time"
    assert module.confirm(it.cob(script)) == {"state": "gone-back"}


def test_a_watcher_that_was_killed_is_started_again_to_go_back(
    switch: Maker, script: dict[str, Any], system: Path
) -> None:
    it = switch(built_in("script"))
    module = it.arm(script)
    (pid,) = watchers(it.home)
    os.kill(pid, signal.SIGKILL)
    await_end(it.home)
    assert module.revert(it.cob(script)) == {"state": "taken-back"}
    assert (system / "log").read_text() == "undone\n"


def test_after_a_restart_of_the_host_the_watcher_goes_back_at_once(
    switch: Maker, script: dict[str, Any], system: Path
) -> None:
    it = switch(built_in("script"))
    module = it.arm(script)
    (pid,) = watchers(it.home)
    os.kill(pid, signal.SIGKILL)
    await_end(it.home)
    change = json.loads((it.home / "change.json").read_text())
    module.watcher.store(it.home / "change.json", json.dumps({**change, "boot": "earlier"}))
    module.watcher.watch(it.home)
    assert (system / "log").read_text() == "undone\n"
    assert module.revert(it.cob(script)) == {"state": "gone-back"}


def test_a_way_back_that_was_cut_off_in_the_middle_is_gone_again(
    switch: Maker, script: dict[str, Any], system: Path
) -> None:
    it = switch(built_in("script"))
    module = it.arm(script)
    (pid,) = watchers(it.home)
    os.kill(pid, signal.SIGKILL)
    await_end(it.home)
    assert module.watcher.claim(it.home, module.watcher.REVERTING)
    assert module.confirm(it.cob(script)) == {"state": "taken-back"}
    assert (system / "log").read_text() == "undone\n"


def test_a_way_back_that_takes_too_long_is_ended(
    switch: Maker, script: dict[str, Any], system: Path
) -> None:
    it = switch(built_in("script"))
    os.mkfifo(system / "never")
    text = f"read line < {system}/never"
    module = it.arm(script, revert=text, revert_s=0.2)
    answer = module.revert(it.cob(script))
    assert answer["state"] == "not-reverted"
    assert "`revert` took too long" in answer["msg"]


def test_of_confirming_and_going_back_one_wins(
    switch: Maker, script: dict[str, Any], system: Path
) -> None:
    it = switch(built_in("script"))
    module = it.arm(script)
    cob = it.cob(script)
    assert module.confirm(cob) == {"state": "confirmed"}
    assert module.confirm(cob) == {"state": "confirmed"}
    assert module.revert(cob) == {"state": "confirmed"}
    assert not module.watcher.claim(it.home, module.watcher.REVERTING)
    assert not (system / "log").exists()


def test_a_change_that_is_not_meant_is_left_alone(switch: Maker, script: dict[str, Any]) -> None:
    it = switch(built_in("script"))
    module = it.arm(script)
    other = it.cob(script, token="another")  # noqa: S106  no password
    assert module.confirm(other) == module.revert(other) == {"state": "none"}
    assert module.watcher.is_pending(it.home)
    assert module.confirm(it.cob(script)) == {"state": "confirmed"}


def test_the_built_in_types_know_a_way_back_as_the_page_says() -> None:
    kinds = [built_in(name) for name in ("file", "process", "script", "service")]
    assert [kind.name for kind in kinds if kind.revert] == ["file", "script", "service"]


def watchers(home: Path) -> list[int]:
    """Return the processes that watch over a change."""
    found = subprocess.run(
        ["pgrep", "-f", f"watcher.py .*{home}"], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


def await_end(home: Path) -> None:
    """Wait until nobody watches over a change any more."""
    for pid in watchers(home):
        with contextlib.suppress(ProcessLookupError):
            end = os.pidfd_open(pid)
            assert select.select([end], [], [], WAIT_S)[0]
            os.close(end)


def _failing_after(cob_type: CobType, folder: Path) -> CobType:
    """Return the type with transitions that do their work, and fail."""
    path = folder / "failing.yml"
    step = cob_type.transition("down", "up")
    assert step is not None
    assert isinstance(step.action, Tasks)
    fail = [{"ansible.builtin.include_tasks": step.action.path}, {"ansible.builtin.fail": {}}]
    path.write_text(json.dumps(fail), encoding="utf-8")
    failing = tuple(
        replace(each, action=Tasks(path=str(path))) if each.dest == "up" else each
        for each in cob_type.transitions
    )
    return replace(cob_type, transitions=failing)
