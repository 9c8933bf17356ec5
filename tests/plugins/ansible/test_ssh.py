"""Hosts over SSH: a real sshd, spoken to through a pipe, so that no port is needed."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Host, Outcome, Tasks
from cobweb.plugin import Executor, data_dir
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor
from cobweb_plugins.ansible._processes import descendants
from tests.plugins.ansible.conftest import BOTH

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = [
    pytest.mark.full(
        "over a real sshd one by one; tests on hosts of namespaces go over SSH in the gate"
    ),
    pytest.mark.skipif(not SSHD, reason="apt install openssh-server openssh-client"),
]
SCRIPT = Path(str(data_dir("playbooks"))) / "script"
Make = Callable[..., Any]
AllEnd = Callable[[Sequence[int]], bool]
CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PidFile none
"""


@pytest.fixture
def ssh_host(tmp_path: Path) -> Host:
    """Give a host that is this machine behind an sshd of its own."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for key in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / key)]
        subprocess.run(command, check=True)
    config = tmp_path / "sshd_config"
    config.write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    proxy = tmp_path / "proxy"
    proxy.write_text(
        f"echo $$ >> {tmp_path}/servers\n"
        f"test -e {tmp_path}/frozen && exec sleep 3604\n"
        f"exec {SSHD} -i -f {config}\n"
    )
    options = (
        f"-F none -o ProxyCommand='sh {proxy}' -o UserKnownHostsFile=/dev/null"
        " -o StrictHostKeyChecking=no"
    )
    return Host(
        name="remote",
        variables={
            "ansible_python_interpreter": sys.executable,
            "ansible_user": getpass.getuser(),
            "ansible_ssh_private_key_file": str(tmp_path / "user_key"),
            "ansible_ssh_common_args": options,
        },
    )


@pytest.fixture
def bench(make_bench: Make, ssh_host: Host) -> Any:
    """Give a bench whose host is spoken to over SSH."""
    return make_bench(AnsibleExecutor, inventory={"remote": ssh_host})


@pytest.mark.gate("a real sshd, without root")
def test_connection_is_shared_and_ends_with_the_run(bench: Any, all_end: AllEnd) -> None:
    """Jobs of one host use one connection, whatever the lane; none is left after the run."""
    state = bench.tasks("state.yml", "- set_fact: {cob_state: up}\n- command: 'true'\n")
    first, *jobs = [bench.job(state, host="remote", check=True) for _ in range(4)]
    reports = [*bench.run(first), *bench.run(*jobs)]
    assert [report.state for report in reports] == ["up"] * 4
    (master,) = _masters(bench)
    server = int((bench.folder / "servers").read_text(encoding="utf-8"))
    bench.executor.close()
    assert all_end([master, server])
    assert _masters(bench) == []


@BOTH
@pytest.mark.parametrize("shared", ["by the executor", "by the host's variables"])
def test_a_fresh_job_makes_a_connection_of_its_own(
    make_bench: Make, ssh_host: Host, tmp_path: Path, kind: type[Executor], shared: str
) -> None:
    """It shares none that is there, also not where the user asks for that, and leaves none."""
    variables = dict(ssh_host.variables)
    if shared != "by the executor":
        own = f"-o ControlMaster=auto -o ControlPersist=90s -o ControlPath={tmp_path}/%n"
        variables["ansible_ssh_args"] = own
    host = Host(name="remote", variables=variables)
    bench = make_bench(kind, inventory={"remote": host})
    action = bench.tasks("quick.yml", "- command: 'true'\n")
    connections = []
    for fresh in (False, True, True, False):
        (report,) = bench.run(bench.job(action, host="remote", fresh=fresh))
        assert report.outcome is Outcome.OK, report
        connections.append((tmp_path / "servers").read_text(encoding="utf-8").count("\n"))
    assert connections == [1, 2, 3, 3]


LINGERS = """
from multiprocessing.util import Finalize
from time import sleep

class FilterModule:
    def filters(self):
        return {"lingers": lambda text: Finalize(None, sleep, args=(0.5,), exitpriority=1) and text}
"""


def test_the_end_of_a_job_leaves_the_shared_connection(
    make_bench: Make, ssh_host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Ansible's worker ends after its job: the way to the host is in its group."""
    monkeypatch.setenv("ANSIBLE_FILTER_PLUGINS", str(tmp_path / "filters"))
    bench = make_bench(AnsiblePlainExecutor, inventory={"remote": ssh_host})
    bench.write("filters/lingers.py", LINGERS)
    action = bench.tasks("quick.yml", "- command: \"{{ 'true' | lingers }}\"\n")
    for _ in range(2):
        (report,) = bench.run(bench.job(action, host="remote"))
        assert report.outcome is Outcome.OK, report
    assert (tmp_path / "servers").read_text(encoding="utf-8").count("\n") == 1


@pytest.fixture
def machines(ssh_host: Host, tmp_path: Path) -> Iterator[Mapping[str, int]]:
    """Give two sshd, each at a port of this machine, whose sessions tell them apart."""
    del ssh_host  # which has made the keys
    with ExitStack() as stack:
        yield {name: stack.enter_context(_machine(tmp_path, name)) for name in ("old", "new")}


@contextlib.contextmanager
def _machine(folder: Path, name: str) -> Iterator[int]:
    config = folder / f"{name}_config"
    text = CONFIG.format(folder=folder)
    config.write_text(f"{text}SetEnv COBWEB_MACHINE={name}\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        threads = threading.Thread(target=_serve, args=(server, config), daemon=True)
        threads.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    threads.join()


def _serve(server: socket.socket, config: Path) -> None:
    """Give each connection to an sshd of its own."""
    sessions = []
    with contextlib.suppress(OSError):
        while True:
            connection = server.accept()[0]
            command = [str(SSHD), "-i", "-f", str(config)]
            with connection:
                end = connection.fileno()
                sessions.append(subprocess.Popen(command, stdin=end, stdout=end))
    for session in sessions:
        session.kill()
        session.wait()


@BOTH
def test_a_host_with_another_address_is_another_machine(
    make_bench: Make, ssh_host: Host, machines: Mapping[str, int], kind: type[Executor]
) -> None:
    """Neither a shared connection nor a module server of the old address is used."""
    options = "-F none -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no"
    variables = {
        **ssh_host.variables,
        "ansible_ssh_common_args": options,
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
    }
    host = Host(name="remote", variables=variables)
    bench = make_bench(kind, inventory={"remote": host}, parallel=1)
    which = bench.tasks(
        "which.yml",
        "- command: printenv COBWEB_MACHINE\n  register: it\n"
        "- set_fact: {cob_state: '{{ it.stdout }}', cob_results: {port: '{{ ansible_port }}'}}\n",
    )
    found = []
    for name in ("old", "old", "new", "old"):
        mine = {"ansible_port": machines[name]}
        (report,) = bench.run(bench.job(which, host="remote", check=True, host_vars=mine))
        found.append((report.state, report.results))
    (report,) = bench.run(bench.job(which, host="remote", check=True))
    assert found == [(name, {"port": machines[name]}) for name in ("old", "old", "new", "old")]
    assert report.outcome is Outcome.UNREACHABLE


@pytest.mark.timeout(120)
def test_host_that_hangs_is_unreachable(bench: Any) -> None:
    """A host that answers no more, on a connection that is open, is found out by keepalives."""
    quick = bench.tasks("quick.yml", "- command: 'true'\n")
    assert bench.run(bench.job(quick, host="remote"))[0].outcome is Outcome.OK
    server = int((bench.folder / "servers").read_text(encoding="utf-8"))
    servers = [server, *descendants(server)]
    (bench.folder / "frozen").touch()
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    bench.executor.submit(bench.job(quick, host="remote"))
    (report,) = bench.collect(1)
    for pid in servers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert report.outcome is Outcome.UNREACHABLE, report


@pytest.mark.parametrize("job_host", ["remote", "here"])
def test_what_a_job_started_on_a_host_ends_with_it(  # noqa: PLR0913, PLR0917  # fixtures
    make_bench: Make,
    ssh_host: Host,
    local: dict[str, str],
    fifo: tuple[Path, int],
    all_end: AllEnd,
    job_host: str,
) -> None:
    """Also where the task was delegated to it by a job of another host."""
    here = Host(name="here", variables=local)
    bench = make_bench(AnsibleExecutor, inventory={"remote": ssh_host, "here": here})
    text = f"- shell: 'echo $$ > {fifo[0]}; sleep 3605 & sleep 3606'\n  delegate_to: remote\n"
    bench.executor.submit(bench.job(bench.tasks("hang.yml", text), host=job_host))
    shell = int(bench.until_written(fifo[1]))
    pids = [shell, *descendants(shell)]
    bench.executor.close(kill=True)
    assert all_end(pids)
    (report,) = bench.executor.wait(0)
    assert (report.outcome, report.message) == (Outcome.CANCELLED, "stopped")


def test_a_sweep_goes_to_the_machine_that_the_job_was_at(
    make_bench: Make, ssh_host: Host, fifo: tuple[Path, int], all_end: AllEnd
) -> None:
    """By the variables that came with the job: those of the inventory lead nowhere."""
    lost = {**ssh_host.variables, "ansible_ssh_common_args": "-F none -o ProxyCommand=false"}
    host = Host(name="remote", variables=lost)
    bench = make_bench(AnsibleExecutor, inventory={"remote": host})
    tasks = bench.tasks("hang.yml", f"- shell: 'echo $$ > {fifo[0]}; sleep 3610 & sleep 3611'\n")
    bench.executor.submit(bench.job(tasks, host="remote", host_vars=dict(ssh_host.variables)))
    shell = int(bench.until_written(fifo[1]))
    pids = [shell, *descendants(shell)]
    bench.executor.close(kill=True)
    assert all_end(pids)
    (report,) = bench.executor.wait(0)
    assert (report.outcome, report.message) == (Outcome.CANCELLED, "stopped")


def test_what_a_lane_that_dies_started_on_a_host_ends(
    bench: Any, fifo: tuple[Path, int], all_end: AllEnd
) -> None:
    """Its job has failed, and does not go on where nobody waits for it any more."""
    tasks = bench.tasks("hang.yml", f"- shell: 'echo $$ > {fifo[0]}; sleep 3608 & sleep 3609'\n")
    bench.executor.submit(bench.job(tasks, host="remote"))
    shell = int(bench.until_written(fifo[1]))
    pids = [shell, *descendants(shell)]
    (lane,) = [lane for lane in bench.executor._lanes.values() if lane.job is not None]
    os.kill(lane.pid, signal.SIGKILL)
    (report,) = bench.collect(1)
    assert (report.outcome, report.message) == (Outcome.FAILED, "the process that ran it died")
    assert all_end(pids)


@pytest.fixture
def hanging(bench: Any, fifo: tuple[Path, int]) -> list[int]:
    """Return the processes of a direct job that never ends, at work on a host that was met."""
    done = {"creates": "/nowhere", "do": f"echo $$ > {fifo[0]}; sleep 3612 & exec sleep 3613"}
    check, do = (Tasks(path=str(SCRIPT / f"{name}.yml")) for name in ("check", "do"))
    (report,) = bench.run(bench.job(check, host="remote", check=True, spec=done))
    assert (report.outcome, report.state) == (Outcome.OK, "down")
    assert bench.executor._met["remote"][1]["way"]
    bench.executor.submit(bench.job(do, host="remote", spec=done, timeout_s=2.0))
    shell = int(bench.until_written(fifo[1]))
    return [shell, *descendants(shell)]


@pytest.mark.gate("over a real sshd: the way past Ansible leaves nothing behind either, 4 s")
def test_a_direct_job_that_takes_too_long_ends_on_its_host(
    bench: Any, hanging: list[int], all_end: AllEnd
) -> None:
    (report,) = bench.collect(1)
    assert report.outcome is Outcome.TIMEOUT
    assert "may still run" not in report.message
    assert all_end(hanging)


def test_a_direct_job_ends_with_its_run(bench: Any, hanging: list[int], all_end: AllEnd) -> None:
    bench.executor.close(kill=True)
    assert all_end(hanging)
    (report,) = bench.executor.wait(0)
    assert (report.outcome, report.message) == (Outcome.CANCELLED, "stopped")


def test_a_direct_job_whose_lane_dies_ends(bench: Any, hanging: list[int], all_end: AllEnd) -> None:
    (lane,) = [lane for lane in bench.executor._lanes.values() if lane.job is not None]
    os.kill(lane.pid, signal.SIGKILL)
    (report,) = bench.collect(1)
    assert (report.outcome, report.message) == (Outcome.FAILED, "the process that ran it died")
    assert all_end(hanging)


def test_a_direct_job_whose_connection_is_cut_leaves_its_host_unreachable(
    bench: Any, hanging: list[int]
) -> None:
    """What it left there is told to be at work, and so is ended before the next job."""
    (bench.folder / "frozen").touch()
    server = int((bench.folder / "servers").read_text(encoding="utf-8").split()[0])
    for pid in (server, *set(descendants(server)) - set(hanging)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    (report,) = bench.collect(1)
    for pid in hanging:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert (report.outcome, report.at_work) == (Outcome.UNREACHABLE, True), report


def test_a_raw_command_ends_as_well(bench: Any, fifo: tuple[Path, int], all_end: AllEnd) -> None:
    """Ansible gives raw commands no environment; the guard that they start through does."""
    raw = bench.tasks("raw.yml", f"- raw: 'echo $$ > {fifo[0]}; exec sleep 3607'\n")
    bench.executor.submit(bench.job(raw, host="remote"))
    pid = int(bench.until_written(fifo[1]))
    bench.executor.close(kill=True)
    (report,) = bench.executor.wait(0)
    assert "may still run" not in report.message
    assert all_end([pid])


def _masters(bench: Any) -> list[int]:
    """Return the ssh processes that hold the connections of this run."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_text(encoding="utf-8")
            if command.startswith("ssh:") and str(bench.executor._workspace.sockets) in command:
                found.append(int(process.name))
    return found
