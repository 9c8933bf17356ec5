"""Module servers: a module runs as it would in a process of its own, and leaves nothing behind.

Other hosts are stood for by `sh -c`, and by scripts that do what may happen on the way to them.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome
from cobweb_plugins.ansible._job_marks import guarded
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._warm import (
    Call,
    Lost,
    Place,
    Servers,
    call_of,
    message_of,
    place_of,
)
from cobweb_plugins.ansible._wire import encode

AllEnd = Callable[[list[int]], bool]
PACKAGES = ("ansible", "ansible/module_utils", "ansible/modules")
INSIDE = "ansible/module_utils/_internal/_ansiballz"
LOADER = """
import json
import runpy
from ansible.module_utils import shared

def run_module(json_params, profile, module_fqn, modlib_path, extensions):
    shared.params = json.loads(json_params)
    runpy.run_module(module_fqn, {"_modlib_path": modlib_path}, "__main__", True)
"""
HERE = Place(python=sys.executable, mark="")


def make_call(module: str, *, shared: str = "", params: object = None, **more: str) -> Call:
    """Make a call of a module, with a library that stands for Ansible's."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for package in (*PACKAGES, str(Path(INSIDE).parent), INSIDE):
            archive.writestr(f"{package}/__init__.py", "")
        archive.writestr(f"{INSIDE}/_loader.py", LOADER)
        archive.writestr("ansible/module_utils/shared.py", shared)
        archive.writestr("ansible/modules/it.py", module)
        for name, text in more.items():
            archive.writestr(f"ansible/module_utils/{name}.py", text)
    (call,) = [call_of(script_of(base64.b64encode(data.getvalue()).decode(), params))]
    assert call is not None
    return call


def script_of(code: str, params: object = None, *, module: str = "ansible.modules.it") -> bytes:
    """Write a script as Ansible's wrapper does."""
    return f"""#!/usr/bin/python3
def _ansiballz_main(): ...


if __name__ == "__main__":
    _ansiballz_main(
ansible_module='it',
module_fqn={module!r},
profile='legacy',
date_time=datetime.datetime(2026, 1, 1),
rlimit_nofile=0,
params={json.dumps(params)!r},
extensions={{}},
zip_data={code!r},
)
""".encode()


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    """Return servers whose files are seen below the test's folder, and gone after it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    servers = Servers()
    yield servers
    servers.close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "code", "out", "err"),
    [
        ("print('well')", 0, "well\n", ""),
        ("import sys; print('a', end=''); sys.exit(3)", 3, "a", ""),
        ("import sys; sys.exit('what')", 1, "", "what\n"),
        ("import os; os.kill(os.getpid(), 9)", 137, "", ""),
        ("import os; os.write(1, b'x'); os._exit(4)", 4, "x", ""),
        ("import sys; print(sys.stdin.read() == '', __name__)", 0, "True __main__\n", ""),
        ("import atexit; atexit.register(print, 'last'); print('first')", 0, "first\nlast\n", ""),
        (
            "import threading\nthreading.Timer(0.01, print, ['late']).start()",
            0,
            "late\n",
            "",
        ),
        ("print('x' * 300000)", 0, "x" * 300000 + "\n", ""),
        ("from ansible.module_utils import shared; print(shared.params)", 0, "{'a': 'é'}\n", ""),
        ("import signal; print(signal.getsignal(15) == signal.SIG_DFL)", 0, "True\n", ""),
        ("import os; print('COBWEB_JOB' in os.environ)", 0, "False\n", ""),
    ],
)
def test_a_module_ends_as_in_a_process_of_its_own(
    servers: Servers, module: str, code: int, out: str, err: str
) -> None:
    call = make_call(module, params={"a": "é"})
    assert servers.run(call, HERE) == (code, out.encode(), err.encode())


def test_an_error_of_a_module_is_told_with_its_traceback(servers: Servers) -> None:
    answer = servers.run(make_call("1 / 0"), HERE)
    assert answer is not None
    assert (answer[0], answer[1]) == (1, b"")
    assert b"ZeroDivisionError" in answer[2]


def test_a_module_leaves_nothing_to_the_next(servers: Servers) -> None:
    module = (
        "import os, signal, sys\nfrom ansible.module_utils import shared\n"
        "print(shared.seen, os.getcwd(), os.environ.get('LEFT'), os.umask(0o77))\n"
        "shared.seen += 1\nos.environ['LEFT'] = 'x'\nsys.path.insert(0, '/nowhere')\n"
    )
    call = make_call(module, shared="seen = 0")
    answers = [servers.run(call, HERE, cwd=folder) for folder in ("/", "/tmp", "/")]  # noqa: S108
    assert [answer[1].split()[:3] for answer in answers if answer] == [
        [b"0", b"/", b"None"],
        [b"0", b"/tmp", b"None"],
        [b"0", b"/", b"None"],
    ]
    assert len({answer[1].split()[3] for answer in answers if answer}) == 1


WHO = "import os; print(os.getppid())"


def test_all_modules_of_a_way_share_one_server(servers: Servers) -> None:
    found = {run(servers, make_call(f"{WHO} # {n}")) for n in range(3)}
    assert len(found) == 1


def run(servers: Servers, call: Call, **more: Any) -> int:
    """Run a module that prints a number."""
    answer = servers.run(call, HERE, **more)
    assert answer is not None
    assert answer[0] == 0, answer
    return int(answer[1])


def test_a_module_finds_the_library_that_came_with_it(servers: Servers) -> None:
    """Also where it differs from what the server has imported, and where it has more."""
    module = "from ansible.module_utils import shared; print(shared.VALUE)"
    for value in (1, 2, 1, 3):
        assert run(servers, make_call(module, shared=f"VALUE = {value}")) == value
    module = "from ansible.module_utils import more; print(more.VALUE)"
    for value in (4, 5):
        call = make_call(module, shared="VALUE = 1", more=f"VALUE = {value}")
        assert run(servers, call) == value


def test_a_module_shows_the_mark_of_its_job(servers: Servers) -> None:
    """In its own environment, where a sweep looks, and in that of what it starts."""
    module = (
        "import subprocess\nlook = ['sh', '-c', 'tr \"\\\\0\" \"\\\\n\" < /proc/$PPID/environ']\n"
        "print(subprocess.run(look, capture_output=True, text=True).stdout)\n"
        "print(subprocess.run(['env'], capture_output=True, text=True).stdout)\n"
    )
    for mark in ("token/4/1", "token/4/234567", "token/5/2"):
        place = Place(python=sys.executable, mark=mark)
        answer = servers.run(make_call(module), place)
        assert answer is not None
        lines = answer[1].decode().splitlines()
        assert [line for line in lines if line.startswith("COBWEB_JOB")] == [
            f"COBWEB_JOB={mark}"
        ] * 2


def test_a_server_is_replaced_when_a_new_process_would_see_more(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that was installed meanwhile is found."""
    library = tmp_path / "library"
    library.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(library))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # that would change the folder once more
    first = run(servers, make_call(WHO))
    (library / "brand_new.py").write_text("", encoding="utf-8")
    second = run(servers, make_call(f"import brand_new\n{WHO}"))
    assert first != second
    assert run(servers, make_call(WHO)) == second


def test_a_server_is_replaced_when_a_new_login_would_read_something_else(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file was changed in its place, or the folder was not there before."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYTHONUSERBASE", raising=False)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/environment").touch()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = tmp_path / ".local/lib" / version / "site-packages"
    found = [run(servers, make_call(WHO))]
    own.mkdir(parents=True)
    found.append(run(servers, make_call(WHO)))
    for name in (".bashrc", ".zshenv", ".pam_environment", ".ssh/environment"):
        (tmp_path / name).write_text("A=b", encoding="utf-8")
        found.append(run(servers, make_call(WHO)))
    assert len(set(found)) == 6
    assert run(servers, make_call(WHO)) == found[-1]


def test_a_server_is_replaced_when_its_files_were_cleaned_away(servers: Servers) -> None:
    call = make_call(WHO)
    first = run(servers, call)
    for file in Path(os.environ["TMPDIR"]).glob("cobweb-modules-*/*"):
        file.unlink()
    assert run(servers, call) != first


def test_a_server_that_has_died_is_replaced(servers: Servers, all_end: AllEnd) -> None:
    first = run(servers, make_call(WHO))
    os.kill(first, signal.SIGKILL)
    assert all_end([first])
    assert run(servers, make_call(WHO)) != first
    for file in Path(os.environ["TMPDIR"]).glob("cobweb-modules-*/*"):
        file.unlink()
    for folder in Path(os.environ["TMPDIR"]).glob("cobweb-modules-*"):
        if not any(folder.iterdir()):
            folder.rmdir()


def test_a_server_that_dies_in_a_call_is_lost(servers: Servers) -> None:
    """What the module did is not known, so it is not run a second time."""
    with pytest.raises(Lost) as lost:
        servers.run(
            make_call("import os; os.kill(os.getppid(), 15); import time; time.sleep(9)"), HERE
        )
    assert lost.value.code == 143


def test_a_call_that_is_broken_off_ends_its_server(servers: Servers, all_end: AllEnd) -> None:
    """As the time of a task does it; the module may end first."""
    fifo = Path(os.environ["TMPDIR"]) / "fifo"
    os.mkfifo(fifo)

    def interrupt() -> None:
        with fifo.open() as lines:
            pids.append(int(lines.readline()))
        signal.raise_signal(signal.SIGUSR1)

    pids: list[int] = []
    before = signal.signal(signal.SIGUSR1, _break_off)
    try:
        threading.Thread(target=interrupt).start()
        module = f"import os, time; print(os.getppid(), file=open('{fifo}', 'w')); time.sleep(0.3)"
        with pytest.raises(TimeoutError):
            servers.run(make_call(module), HERE)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert all_end(pids)
    fifo.unlink()


def _break_off(*_: object) -> None:
    raise TimeoutError


def test_where_there_is_no_such_python_nothing_is_run(servers: Servers) -> None:
    """Also not tried a second time; Ansible says what is missing."""
    missing = Place(python="/nonexistent/python3", mark="")
    assert servers.run(make_call(WHO), missing) is None
    assert servers.run(make_call(WHO), missing) is None


def _shell(line: str) -> str:
    return shlex.join(["/bin/sh", "-c", f"{line} && sleep 0"])


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("/bin/sh -c '/usr/bin/python3 && sleep 0'", Place(python="/usr/bin/python3", mark="")),
        (
            _shell(guarded("/opt/py/bin/python3.11", "ab/4/7", "/bin/sh")),
            Place(python="/opt/py/bin/python3.11", mark="ab/4/7"),
        ),
        (_shell(guarded("/opt/py/bin/python3.11", "ab/4/7", "/bin/bash")), None),
        (_shell(guarded("/opt/py/bin/python3.11", "ab/7", "/bin/sh")), None),
        (_shell(guarded("/usr/bin/python3", f"{'a' * 61}/4/7", "/bin/sh")), None),
        (_shell(guarded("LANG=C /usr/bin/python3", "ab/4/7", "/bin/sh")), None),
        ("/bin/sh -c 'LANG=C /usr/bin/python3 && sleep 0'", None),
        ("/bin/sh -c 'sudo -H -n /usr/bin/python3 && sleep 0'", None),
        ("/bin/sh -c '/usr/bin/python3 /tmp/x.py && sleep 0'", None),
        ("/bin/sh -c 'python3 && sleep 0'", None),
        ("/bin/bash -c '/usr/bin/python3 && sleep 0'", None),
        ("/bin/sh -c '/usr/bin/perl && sleep 0'", None),
        ("/bin/sh -c '", None),
    ],
)
def test_only_a_bare_python_is_replaced(command: str, place: Place | None) -> None:
    assert place_of(command) == place


@pytest.mark.parametrize(
    ("word", "other"),
    [
        (b"rlimit_nofile=0", b"rlimit_nofile=9"),
        (b"extensions={}", b"extensions={'_coverage': {}}"),
        (b"zip_data='", b"zip_data='!"),
        (b"_ansiballz_main(\n", b"_main(\n"),
        (b"\n)\n", b"\n)\nprint(1)\n"),
    ],
)
def test_only_the_usual_call_is_understood(word: bytes, other: bytes) -> None:
    script = script_of("UEs=", {"quotes": "'\"\n\\"})
    call = call_of(script)
    assert call is not None
    assert json.loads(call.params) == {"quotes": "'\"\n\\"}
    assert call_of(script.replace(word, other)) is None


BROKER = """
import socket, sys
from cobweb_plugins.ansible._broker import serve
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("ready", flush=True)
    serve(listener, 0)
"""
NEAR = ["sh", "-c"]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A broker, and two lanes that ask it."""

    process: subprocess.Popen[str]
    lanes: tuple[Servers, Servers]


@contextlib.contextmanager
def opened_desk(folder: Path) -> Iterator[Desk]:
    """Give a broker whose socket is in `folder`; it ends with its lanes."""
    path = str(folder / "m")
    command = [sys.executable, "-c", BROKER, path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        lanes = (Servers(path), Servers(path))
        yield Desk(process=process, lanes=lanes)
        for lane in lanes:
            lane.close()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Return a broker; nothing of it is left after the test."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    with opened_desk(tmp_path) as desk:
        yield desk
    assert desk.process.returncode in (0, -signal.SIGKILL)
    if desk.process.returncode == 0:
        assert list(folder.glob("cobweb-modules-*")) == []


def way_of(tmp_path: Path, text: str) -> list[str]:
    """Return a way to a host that does `text` before it does what it is told."""
    script = tmp_path / "way"
    script.write_text(f'#!/bin/sh\n{text}\nexec sh -c "$1"\n', encoding="utf-8")
    script.chmod(0o755)
    return [str(script)]


def test_lanes_share_the_server_of_a_way(desk: Desk) -> None:
    found = {run(lane, make_call(f"{WHO} # {n}"), way=NEAR) for lane in desk.lanes for n in (1, 2)}
    assert len(found) == 1
    assert run(desk.lanes[0], make_call(WHO), way=["env", "A=b", *NEAR]) not in found


def test_calls_of_lanes_run_side_by_side(desk: Desk, tmp_path: Path) -> None:
    """A host's slow task keeps no other waiting; each gets its own answer."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    calls = (
        f"print(open({str(fifo)!r}).read())",
        f"print(2, file=open({str(fifo)!r}, 'w')); print(1)",
    )
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(run, lane, make_call(text), way=NEAR)
            for lane, text in zip(desk.lanes, calls, strict=True)
        ]
        assert [each.result() for each in asked] == [2, 1]


def test_large_answers_come_as_a_whole(desk: Desk) -> None:
    answer = desk.lanes[0].run(make_call("print('y' * 3000000)"), HERE, way=NEAR)
    assert answer is not None
    assert len(answer[1]) == 3000001


def test_what_a_login_prints_is_passed_over(desk: Desk, tmp_path: Path) -> None:
    way = way_of(tmp_path, 'echo Welcome!\necho "{}"')
    assert run(desk.lanes[0], make_call("print(7)"), way=way) == 7


def test_a_host_that_cannot_be_reached_is_lost(desk: Desk, tmp_path: Path) -> None:
    """Nothing has begun, but a second try of the same would only take time. Later it may answer."""
    fate = tmp_path / "fate"
    fate.write_text("echo no route >&2; exit 255", encoding="utf-8")
    way = way_of(tmp_path, f". {fate}")
    for lane in desk.lanes:
        with pytest.raises(Lost) as lost:
            lane.run(make_call(WHO), HERE, way=way)
        assert (lost.value.code, lost.value.said) == (255, b"no route\n")
    fate.write_text("", encoding="utf-8")
    assert run(desk.lanes[0], make_call("print(7)"), way=way) == 7


def test_where_no_server_can_be_started_ansible_does_it(desk: Desk) -> None:
    missing = Place(python="/nonexistent/python3", mark="")
    for lane in desk.lanes:
        assert lane.run(make_call(WHO), missing, way=NEAR) is None


def test_without_a_broker_ansible_does_it(tmp_path: Path) -> None:
    assert Servers(str(tmp_path / "none")).run(make_call(WHO), HERE, way=NEAR) is None


def test_a_call_without_a_broker_any_more_is_lost(desk: Desk) -> None:
    lane = desk.lanes[0]
    server = run(lane, make_call(WHO), way=NEAR)
    desk.process.kill()
    desk.process.wait()
    with pytest.raises(Lost, match="broker"):
        lane.run(make_call(WHO), HERE, way=NEAR)
    lane.close()
    assert lane.run(make_call(WHO), HERE, way=NEAR) is None
    assert server


def test_a_server_far_away_is_replaced_when_it_has_died_or_is_stale(
    desk: Desk, tmp_path: Path, all_end: AllEnd
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    way = ["env", f"PYTHONPATH={library}", *NEAR]
    first = run(desk.lanes[0], make_call(WHO), way=way)
    (library / "brand_new.py").write_text("", encoding="utf-8")
    second = run(desk.lanes[1], make_call(f"import brand_new\n{WHO}"), way=way)
    os.kill(second, signal.SIGTERM)
    assert all_end([first, second])
    third = run(desk.lanes[0], make_call(WHO), way=way)
    assert len({first, second, third}) == 3


def test_a_stale_server_keeps_nobody_waiting_for_what_it_runs(desk: Desk, tmp_path: Path) -> None:
    """The module that it runs ends only after one that a new server runs."""
    library, arrived, gate = (tmp_path / name for name in ("library", "arrived", "gate"))
    library.mkdir()
    os.mkfifo(arrived)
    os.mkfifo(gate)
    way = ["env", f"PYTHONPATH={library}", *NEAR]
    with ThreadPoolExecutor() as pool:
        text = f"open({str(arrived)!r}, 'w').close(); print(open({str(gate)!r}).read())"
        first = pool.submit(run, desk.lanes[0], make_call(text), way=way)
        arrived.read_bytes()
        (library / "brand_new.py").touch()
        text = f"import brand_new; print(5, file=open({str(gate)!r}, 'w')); print(6)"
        assert run(desk.lanes[1], make_call(text), way=way) == 6
        assert first.result() == 5


@pytest.mark.parametrize("size", [0, 300_000])
def test_a_lane_that_ends_takes_no_module_of_another_with_it(
    desk: Desk, tmp_path: Path, size: int
) -> None:
    """Its own call does not begin, be it on its way or sent in part; what has begun goes on."""
    arrived, gate, trace = (tmp_path / name for name in ("arrived", "gate", "trace"))
    os.mkfifo(arrived)
    os.mkfifo(gate)
    server = run(desk.lanes[1], make_call(WHO), way=NEAR)
    with ThreadPoolExecutor() as pool:
        text = f"open({str(arrived)!r}, 'w').close(); print(open({str(gate)!r}).read())"
        first = pool.submit(run, desk.lanes[0], make_call(text), way=NEAR)
        arrived.read_bytes()
        os.kill(server, signal.SIGSTOP)
        call = make_call(f"open({str(trace)!r}, 'w').close()", params="x" * size)
        message = message_of(call, mark="", cwd="")
        asked = {"way": NEAR, "python": HERE.python, "message": message, "size": len(call.code)}
        with socket.socket(socket.AF_UNIX) as lane:
            lane.connect(str(tmp_path / "m"))
            lane.sendall(encode(asked) + call.code)
        run(desk.lanes[1], make_call(WHO), way=["env", "A=b", *NEAR])  # the broker has heard it
        os.kill(server, signal.SIGCONT)
        gate.write_text("5", encoding="utf-8")
        assert first.result() == 5
    assert (run(desk.lanes[1], make_call(WHO), way=NEAR) == server) is (size == 0)
    assert not trace.exists()


def test_a_way_with_a_name_that_is_no_text_is_passed_on() -> None:
    """Such as the file of a key."""
    warm = pytest.importorskip("cobweb_plugins.ansible.strategy.cobweb_warm")
    ways: list[list[str]] = []

    class Asked:
        def run(self, _call: Call, _place: Place, *, way: list[str]) -> tuple[int, bytes, bytes]:
            ways.append(way)
            return 0, b"", b""

    command = [b"ssh", b"-i", b"/k\xff", b"h", b"/bin/sh -c '/usr/bin/python3 && sleep 0'"]
    warm._run_there(Asked(), None, None, command, script_of("UEs="))
    assert [os.fsencode(part) for part in ways[0]] == command[:-1]


def test_a_server_far_away_that_dies_in_a_call_is_lost(desk: Desk) -> None:
    module = "import os; os.kill(os.getppid(), 15); import time; time.sleep(9)"
    with pytest.raises(Lost) as lost:
        desk.lanes[0].run(make_call(module), HERE, way=NEAR)
    assert lost.value.code == 143
    assert run(desk.lanes[1], make_call("print(7)"), way=NEAR) == 7


BREAKS = """
import os, subprocess, sys
gate, *command = sys.argv[1:]
server = subprocess.Popen(["sh", "-c", *command], stdout=subprocess.PIPE)
while data := os.read(server.stdout.fileno(), 65536):
    if os.path.exists(gate):
        os.unlink(gate)
        os._exit(255)
    os.write(1, data)
"""


def test_what_may_have_begun_when_the_connection_broke_is_not_repeated(
    desk: Desk, tmp_path: Path
) -> None:
    gate, trace = tmp_path / "gate", tmp_path / "trace"
    way = [sys.executable, "-c", BREAKS, str(gate)]
    run(desk.lanes[0], make_call(WHO), way=way)
    gate.touch()
    with pytest.raises(Lost) as lost:
        desk.lanes[0].run(make_call(f"open({str(trace)!r}, 'x').close()"), HERE, way=way)
    assert lost.value.code == 255
    assert not gate.exists()
    assert run(desk.lanes[1], make_call("print(7)"), way=way) == 7


def test_what_has_not_begun_when_its_lane_ends_never_begins(desk: Desk, tmp_path: Path) -> None:
    """The job was reported as stopped; others that wait for the same host go on."""
    gate, arrived, trace = (tmp_path / name for name in ("gate", "arrived", "trace"))
    os.mkfifo(gate)
    os.mkfifo(arrived)
    way = way_of(
        tmp_path, f"test -p {arrived} && echo >{arrived}; test -p {gate} && read x <{gate}"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", LANE, str(tmp_path / "m"), str(trace), *way], cwd=Path.cwd()
    )
    with arrived.open() as lines:
        lines.readline()
    arrived.unlink()
    with ThreadPoolExecutor() as pool:
        second = pool.submit(run, desk.lanes[1], make_call("print(7)"), way=way)
        first.kill()
        first.wait()
        run(desk.lanes[0], make_call(WHO), way=["env", "A=b", *NEAR])  # the broker has heard it
        end = os.open(gate, os.O_RDWR)
        gate.unlink()
        os.write(end, b"go\n" * 9)
        assert second.result() == 7
        os.close(end)
    assert not trace.exists()


LANE = """
import sys
from cobweb_plugins.ansible._warm import Place, Servers
from tests.plugins.ansible.test_warm import make_call
path, trace, *way = sys.argv[1:]
call = make_call(f"open({trace!r}, 'w').close()")
Servers(path).run(call, Place(python=sys.executable, mark=""), way=way)
"""


def test_the_servers_end_with_the_broker(desk: Desk, all_end: AllEnd) -> None:
    pids = [run(desk.lanes[0], make_call(WHO), way=["env", f"A={n}", *NEAR]) for n in range(3)]
    assert desk.process.stdin is not None
    desk.process.stdin.close()
    assert desk.process.wait() == 0
    assert all_end(pids)


LIBRARY = """#!/usr/bin/python
import os
import shlex
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"text": {"type": "str"}})
module.exit_json(msg=f"{os.getppid()} {module.params['text']}")
"""


@pytest.mark.full("by Ansible itself; the rest of the module is in the gate")
def test_jobs_of_a_lane_share_a_server_but_for_those_with_an_environment(
    make_bench: Callable[..., Any], mark: str, marked: Callable[[str], list[int]]
) -> None:
    """The form of Ansible's calls is the one that is looked for."""
    bench = make_bench(AnsibleExecutor, parallel=1)
    bench.write("site/library/who.py", LIBRARY)
    plain = bench.tasks("plain.yml", "- who: {text: '{{ cob.spec.text }}'}\n")
    other = bench.tasks("other.yml", "- who: {text: c}\n  environment: {LANG: C}\n")
    jobs = [
        bench.job(plain, spec={"text": text}, host=host)
        for text, host in (("a", "h1"), ("ü", "h2"))
    ]
    reports = bench.run(*jobs, bench.job(other))
    assert [report.outcome for report in reports] == [Outcome.OK] * 3
    said = [report.tasks[-1].message.split() for report in reports]
    assert [text for _, text in said] == ["a", "ü", "c"]
    assert said[0][0] == said[1][0] != said[2][0]
    assert int(said[0][0]) in marked(mark)
    bench.executor.close()
    assert marked(mark) == []
