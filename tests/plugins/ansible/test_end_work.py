"""What a coordinator has left at work when all of it was killed: the next one ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Host, Nothing, Outcome
from cobweb.plugin import Executor, SiteMark
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._processes import descendants
from tests.plugins.ansible.conftest import BOTH

AllEnd = Callable[[Sequence[int]], bool]
SCRIPT = """
import sys
from pathlib import Path
from cobweb.model import Host, Job, JobKind, Tasks, cob_id
from cobweb.plugin import ExecutorSetting, SiteMark
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor
kind, folder, tasks, site = sys.argv[1:]
local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
executor = {"ansible": AnsibleExecutor, "ansible-plain": AnsiblePlainExecutor}[kind]()
work = Path(folder) / "first"
work.mkdir()
executor.open(ExecutorSetting(hosts={"h1": Host(name="h1", variables=local)},
    site_dir=Path(folder), work_dir=work, parallel=4, timeout_s=600,
    mark=SiteMark(site=site, name="s", run="r", who="me@here", time=1.0, epoch=4)))
executor.submit(Job(number=7, kind=JobKind.TRANSITION, cob=cob_id("h1", "a"), host="h1",
    type_name="x", action=Tasks(path=tasks), cob_vars={}))
executor.wait(None)
"""


@pytest.mark.full("P11 by both executors; the gate has a sweep, and a real host")
@BOTH
def test_what_is_left_of_a_job_on_this_machine_is_ended(  # noqa: PLR0913, PLR0917  # fixtures
    make_bench: Callable[..., Any],
    kind: type[Executor],
    fifo: tuple[Path, int],
    all_end: AllEnd,
    site: str,
    tmp_path: Path,
) -> None:
    """All that could have ended it was killed at once, so it runs on; it ignores SIGTERM."""
    tasks = tmp_path / "hang.yml"
    tasks.write_text(
        f"- shell: \"trap '' TERM; echo $$ > {fifo[0]}; while :; do sleep 1; done\"\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-c", SCRIPT, kind.name, str(tmp_path), str(tasks), site]
    with subprocess.Popen(command, start_new_session=True) as coordinator:
        os.set_blocking(fifo[1], True)  # the interface of os
        shell = int(os.read(fifo[1], 100))
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in [coordinator.pid, *_ours_below(coordinator.pid)]:
                os.kill(pid, number)
    assert Path(f"/proc/{shell}").exists()
    mark = SiteMark(site=site, name="s", run="r2", who="me@here", time=2.0, epoch=5)
    bench = make_bench(kind, mark=mark)
    bench.executor.end_work(bench.job(Nothing()), ())
    (report,) = bench.collect(1)
    assert report.outcome is Outcome.OK, report
    assert all_end([shell])


def _ours_below(root: int) -> list[int]:
    """Return what Cobweb and Ansible are made of; what works for the host carries a mark."""
    ours = []
    for pid in descendants(root):
        with suppress(OSError):
            if b"COBWEB_JOB=" not in Path(f"/proc/{pid}/environ").read_bytes():
                ours.append(pid)
    return ours


@pytest.mark.full("P11 by Ansible itself once more")
def test_an_older_run_can_begin_nothing_any_more(
    make_bench: Callable[..., Any], site: str, tmp_path: Path
) -> None:
    """Neither by a module, nor by a raw command; it is told why."""
    mark = SiteMark(site=site, name="s", run="r", who="me@here", time=1.0, epoch=4)
    old = make_bench(AnsibleExecutor, mark=mark)
    module = old.tasks("module.yml", f"- file: {{path: {tmp_path}/made, state: touch}}\n")
    raw = old.tasks("raw.yml", f"- raw: touch {tmp_path}/made\n")
    (before,) = old.run(old.job(old.tasks("nothing.yml", "- raw: 'true'\n")))
    assert before.outcome is Outcome.OK
    new = make_bench(AnsibleExecutor, mark=SiteMark(**{**_fields(mark), "epoch": 5}))
    new.executor.end_work(new.job(Nothing()), ())
    assert new.collect(1)[0].outcome is Outcome.OK
    for report in old.run(old.job(module), old.job(raw)):
        assert report.outcome is Outcome.FAILED
        assert "this host works for a newer run of the site" in report.message
    old.executor.end_work(old.job(Nothing()), ())
    (refused,) = old.collect(1)
    assert refused.outcome is Outcome.FAILED
    assert "this host works for a newer run of the site" in refused.message
    assert not (tmp_path / "made").exists()


def _fields(mark: SiteMark) -> dict[str, Any]:
    return {name: getattr(mark, name) for name in mark.__dataclass_fields__}


WINDOWS = {"ansible_connection": "ssh", "ansible_shell_type": "powershell"}


@pytest.mark.parametrize(
    ("variables", "outcome"),
    [
        ({"ansible_connection": "winrm"}, Outcome.FAILED),
        ({"ansible_connection": "psrp"}, Outcome.FAILED),
        (WINDOWS, Outcome.FAILED),
        (WINDOWS | {"cobweb_unguarded": "yes"}, Outcome.FAILED),
        (WINDOWS | {"cobweb_unguarded": True}, Outcome.OK),
        ({"ansible_connection": "network_cli"}, Outcome.OK),
    ],
)
def test_where_nothing_can_be_ended_that_is_said_unless_the_site_vouches(
    make_bench: Callable[..., Any], variables: dict[str, Any], outcome: Outcome
) -> None:
    """Such a host is not even connected to; what works for a device is on this machine."""
    other = Host(name="h1", variables=variables)
    bench = make_bench(AnsibleExecutor, inventory={"h1": other})
    bench.executor.end_work(bench.job(Nothing()), ())
    (report,) = bench.collect(1)
    assert report.outcome is outcome
    says = "set `cobweb_unguarded: true` for this host" in report.message
    assert says is (outcome is Outcome.FAILED)
