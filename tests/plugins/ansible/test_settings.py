"""Versions, configuration, files and what one job may leave to the next."""

from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import ExecutorError
from cobweb.model import Host, Outcome, Role
from cobweb.plugin import ExecutorSetting
from cobweb_plugins.ansible import _lanes, _plain, _playbooks, cobweb_register_adapters
from cobweb_plugins.ansible import cobweb_register_executors as registered
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor
from cobweb_plugins.ansible._workspace import Workspace, ansible_config
from tests.plugins.ansible.conftest import BOTH

pytestmark = [
    pytest.mark.full(
        "settings one by one by Ansible itself; the cases of test_jobs.py are in the gate"
    )
]

Make = Callable[..., Any]
SET = "- set_fact: {cob_state: up, leak: 1}\n- command: 'true'\n  register: leak2\n"
READ = '- set_fact: {cob_state: "{{ (leak is defined or leak2 is defined) | string }}"}\n'


def setting(folder: Path, **more: Any) -> ExecutorSetting:
    """Return a setting with folders that exist."""
    for name in ("site", "work"):
        (folder / name).mkdir(exist_ok=True)
    values = {"hosts": {}, "parallel": 1, "timeout_s": 30.0, **more}
    return ExecutorSetting(site_dir=folder / "site", work_dir=folder / "work", **values)


def test_hooks_register_two_executors_and_one_adapter() -> None:
    """The plugin gives what its documentation names."""
    assert [kind.name for kind in registered()] == ["ansible", "ansible-plain"]
    assert [kind.name for kind in cobweb_register_adapters()] == ["ansible-inventory"]


@pytest.mark.parametrize("version", [(2, 18, 9), (2, 20, 0), (3, 0)])
def test_versions_that_were_not_tested_are_refused(
    version: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor `ansible` names its range and the other executor, which takes any version."""
    monkeypatch.setattr(_lanes, "installed_version", lambda: version)
    with pytest.raises(ExecutorError, match=r"2\.19.*ansible-plain"):
        AnsibleExecutor().open(setting(tmp_path))
    monkeypatch.setattr(_plain, "installed_version", lambda: version)
    plain = AnsiblePlainExecutor()
    plain.open(setting(tmp_path))
    plain.close()


@BOTH
def test_nothing_leaks_from_job_to_job(make_bench: Make, kind: type[AnsibleExecutor]) -> None:
    """Facts and registered variables of a job, cob_state above all, are gone with it."""
    bench = make_bench(kind, parallel=1)
    write, read = bench.tasks("set.yml", SET), bench.tasks("read.yml", READ)
    silent = bench.tasks("silent.yml", "- command: 'true'\n")
    first, second, third = bench.run(
        bench.job(write, check=True), bench.job(read, check=True), bench.job(silent, check=True)
    )
    assert (first.state, second.state) == ("up", "False")
    assert third.outcome is Outcome.FAILED
    assert "set no fact" in third.message


def test_added_hosts_and_groups_do_not_leak(make_bench: Make) -> None:
    """What add_host and group_by change is gone with the job."""
    bench = make_bench(AnsibleExecutor, parallel=1)
    add = "- add_host: {name: extra, groups: app}\n- group_by: {key: special}\n"
    count = "- set_fact: {cob_state: \"{{ groups.app | length ~ ' ' ~ group_names | length }}\"}\n"
    action, counted = bench.tasks("add.yml", add), bench.tasks("count.yml", count)
    reports = bench.run(bench.job(action), bench.job(counted, check=True))
    assert reports[0].outcome is Outcome.OK
    assert reports[1].state == "3 1"


@BOTH
def test_ansible_that_cannot_start_is_reported(
    make_bench: Make, kind: type[AnsibleExecutor], tmp_path: Path
) -> None:
    """Where Ansible itself does not start, each job says why, and nothing has begun."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "ansible.cfg").write_text("[defaults]\nvault_password_file = /nowhere\n")
    bench = make_bench(kind)
    quick = bench.tasks("quick.yml", "- command: 'true'\n")
    for report in bench.run(bench.job(quick), bench.job(quick)):
        assert report.outcome is Outcome.FAILED
        assert "/nowhere" in report.message


def test_host_named_like_a_group_is_found(make_bench: Make, local: dict[str, Any]) -> None:
    """A host and a group of one name are common; the job runs on the host alone."""
    names = ("db", "db2")
    hosts = {name: Host(name=name, groups=("db",), variables=local) for name in names}
    bench = make_bench(AnsibleExecutor, inventory=hosts)
    state = bench.tasks("state.yml", "- set_fact: {cob_state: '{{ inventory_hostname }}'}\n")
    jobs = [bench.job(state, host=host, check=True) for host in ("db", "db2", "db")]
    assert [report.state for report in bench.run(*jobs)] == ["db", "db2", "db"]


def test_debugger_of_a_task_is_not_asked(make_bench: Make) -> None:
    """A task that asks for Ansible's debugger just fails: there is no terminal."""
    bench = make_bench(AnsibleExecutor)
    action = bench.tasks("debugger.yml", "- fail: {msg: no way}\n  debugger: on_failed\n")
    (report,) = bench.run(bench.job(action))
    assert (report.outcome, report.message) == (Outcome.FAILED, "fail: no way")


def test_role_by_its_path(make_bench: Make) -> None:
    """A role may be named by an absolute path."""
    bench = make_bench(AnsibleExecutor)
    main = bench.write("elsewhere/r/tasks/main.yml", "- set_fact: {cob_state: up}\n")
    (report,) = bench.run(bench.job(Role(name=str(main.parents[1])), check=True))
    assert report.state == "up"


def test_user_callbacks_and_colours_do_no_harm(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user's environment says of output does not reach the protocol."""
    for name, value in {
        "ANSIBLE_FORCE_COLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
        "ANSIBLE_CALLBACKS_ENABLED": "no.such.callback",
        "ANSIBLE_STRATEGY": "free",
        "ANSIBLE_GATHERING": "implicit",
        "ANSIBLE_VERBOSITY": "4",
    }.items():
        monkeypatch.setenv(name, value)
    bench = make_bench(AnsibleExecutor)
    state = bench.tasks("state.yml", "- set_fact: {cob_state: up}\n")
    (report,) = bench.run(bench.job(state, check=True))
    assert (report.state, len(report.tasks)) == ("up", 1)


@pytest.mark.gate("secrets by Ansible itself")
def test_secrets_are_in_private_files_only(
    make_bench: Make, mark: str, marked: Callable[[str], list[int]], local: dict[str, Any]
) -> None:
    """Host variables and specs are in no argument and no environment, and in no file of others."""
    secret = "plain-text-password-77"  # noqa: S105  # what must not be seen
    hosts = {"h1": Host(name="h1", variables={**local, "ansible_password": secret})}
    for kind in (AnsibleExecutor, AnsiblePlainExecutor):
        bench = make_bench(kind, inventory=hosts)
        look = bench.tasks("look.yml", "- command: 'true'\n")
        bench.executor.submit(bench.job(look, spec={"password": secret}))
        (report,) = bench.collect(1)
        assert report.outcome is Outcome.OK
        for pid in marked(mark):
            process = Path(f"/proc/{pid}")
            for name in ("cmdline", "environ"):
                assert secret.encode() not in (process / name).read_bytes()
        for path in (bench.folder / "work").rglob("*"):
            if path.is_file() and secret in path.read_text(errors="replace"):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
        bench.executor.close()


def test_our_settings_yield_to_ansible_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults of ours are left out where the user's file or environment says something."""
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MINE", "my")
    workspace = Workspace.create(setting(tmp_path))
    try:
        assert "ServerAliveInterval=3" in workspace.environment()["ANSIBLE_SSH_ARGS"]
        assert workspace.environment()["ANSIBLE_PIPELINING"] == "True"
        assert workspace.environment()["ANSIBLE_HOST_KEY_CHECKING"] == "True"
        (tmp_path / "site" / "ansible.cfg").write_text(
            "[defaults]\nhost_key_checking = no ; for now\nroles_path = $MINE/roles\n"
            "[ssh_connection]\nssh_args = -C\npipelining = no\n"
        )
        theirs = workspace.environment()
        assert not {"ANSIBLE_SSH_ARGS", "ANSIBLE_PIPELINING"} & set(theirs)
        assert theirs["ANSIBLE_HOST_KEY_CHECKING"] == "no"
        assert theirs["ANSIBLE_CONFIG"] == str(tmp_path / "site" / "ansible.cfg")
        assert theirs["ANSIBLE_ROLES_PATH"].endswith(f":{tmp_path}/site/my/roles")
        monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
        assert "ANSIBLE_HOST_KEY_CHECKING" not in workspace.environment()
    finally:
        workspace.remove()


def test_unreadable_ansible_cfg_is_an_error(tmp_path: Path) -> None:
    """A configuration file that cannot be parsed is named."""
    (tmp_path / "ansible.cfg").write_text("no section = here\n")
    with pytest.raises(ExecutorError, match=r"ansible\.cfg"):
        ansible_config(tmp_path)


def test_work_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """Without room for its files the executor says so when it is opened."""
    bad = ExecutorSetting(
        hosts={}, site_dir=tmp_path, work_dir=tmp_path / "none", parallel=1, timeout_s=1
    )
    with pytest.raises(ExecutorError, match="cannot make the files"):
        AnsibleExecutor().open(bad)


@pytest.mark.parametrize(("name", "is_short"), [("tmp", True), ("t" * 80, False)])
def test_sockets_stand_where_there_is_room_for_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, is_short: bool
) -> None:
    """A long folder for temporary files holds the rest; no path of a socket may be cut."""
    folder = Path(tempfile.mkdtemp()) / name
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    workspace = Workspace.create(setting(tmp_path))
    assert (workspace.sockets.parent == folder) is is_short
    assert len(os.fsencode(workspace.sockets)) < 75
    workspace.remove()


FORGER = """#!/usr/bin/python
import json, sys
text = TEXT
sys.stdout.write(json.dumps({"msg": text, "warnings": [text], "exception": text, "failed": True}))
"""


@BOTH
def test_what_a_module_prints_is_no_event(make_bench: Make, kind: type) -> None:
    """ansible-runner finds events in what is printed, also in what a host has said."""
    facts = {"cob_state": "up", "cob_results": {"ansible_host": "10.0.0.9"}}
    data = {"task": "forged", "task_action": "set_fact", "res": {"ansible_facts": facts}}
    event = {"uuid": "0", "job_id": 1, "event": "runner_on_ok", "event_data": data}
    code = base64.b64encode(json.dumps(event).encode()).decode()
    text = f"\x1b[K{code}\x1b[{len(code)}D\x1b[K\n"
    bench = make_bench(kind, parallel=1)
    bench.write("site/library/forge.py", FORGER.replace("TEXT", repr(text)))
    tasks = bench.tasks("forge.yml", "- forge:\n  ignore_errors: true\n- debug:\n")
    (report,) = bench.run(bench.job(tasks, check=True))
    assert report.outcome is Outcome.FAILED
    assert report.message == "the check set no fact cob_state"
    assert report.results == {}
    assert [task.name for task in report.tasks] == ["forge", "debug"]


def test_a_plain_job_on_another_host_has_a_bound_of_memory(make_bench: Make) -> None:
    """One on this machine has none: its modules run below it."""
    there = Host(name="far", variables={"ansible_host": "10.9.9.9"})
    here = Host(name="near", variables={"ansible_connection": "local"})
    bench = make_bench(AnsiblePlainExecutor, inventory={"far": there, "near": here})
    tasks = bench.tasks("limit.yml", "- debug: {msg: \"{{ lookup('pipe', 'ulimit -d') }}\"}\n")
    reports = bench.run(*(bench.job(tasks, host=name) for name in ("far", "near")))
    said = [report.tasks[-1].message for report in reports]
    assert said == [str(_playbooks.MEMORY_BYTES // 1024), "unlimited"]
