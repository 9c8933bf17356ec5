"""A module server that says what none says ends alone; what others run goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cobweb_plugins.ansible._warm import ERROR_BYTES, LINE_BYTES, RESULT_BYTES, Lost, Servers
from tests.plugins.ansible.test_warm import HERE, NEAR, WHO, make_call, opened_desk, run

pytestmark = [pytest.mark.full("hosts that say rubbish, byte by byte; the gate has hosts that lie")]

LIAR = r"""
import json, os, sys
begins, lie = sys.argv[1:3]
os.write(1, b"cobweb module server 1\n")
for line in sys.stdin.buffer:
    if line.startswith(b'{"module"'):
        break
number = json.loads(line)["id"]
if begins == "begins":
    os.write(1, json.dumps({"id": number, "op": "begun"}).encode() + b"\n")
data = eval(lie)
while data:
    data = data[os.write(1, data):]
sys.stdin.buffer.read()
"""
ENDED = '{"id": %d, "op": "ended", "code": 0, "out": 0, "err": 0}\\n'
LIES = {
    "a stray line": (r"b'debug: hello\n'", "no message: b'debug: hello'"),
    "a list": (r"b'[1]\n'", "no message"),
    "a number": (r"b'1e999\n'", "no message"),
    "an empty line": (r"b'\n'", "no message"),
    "no op": (r"b'{\"id\": %d}\n' % number", "no message"),
    "no id": (r"b'{\"op\": \"begun\"}\n'", "no message"),
    "an id that is text": (r"b'{\"op\": \"begun\", \"id\": \"1\"}\n'", "no message"),
    "an id that is a truth": (r"b'{\"op\": \"begun\", \"id\": true}\n'", "no message"),
    "an op of its own": (r"b'{\"op\": \"own\", \"id\": %d}\n' % number", "no message"),
    "an op that is a list": (r"b'{\"op\": [], \"id\": %d}\n' % number", "no message"),
    "an end without sizes": (r"b'{\"op\": \"ended\", \"id\": %d}\n' % number", "without code and"),
    "a size that is text": (rf"b'{ENDED}'.replace(b'0}}', b'\"0\"}}') % number", "code and sizes"),
    "a size below nothing": (rf"b'{ENDED}'.replace(b'0}}', b'-1}}') % number", "code and sizes"),
    "a size of digits": (rf"b'{ENDED}'.replace(b'0}}', b'9' * 5000 + b'}}') % number", "a line of"),
    "a result that is too large": (
        rf"b'{ENDED}'.replace(b'0}}', b'{RESULT_BYTES + 1}}}') % number",
        f"a result of {RESULT_BYTES + 1} bytes",
    ),
    "an unknown id": (rf"b'{ENDED}' % (number + 7)", "of a call of which it cannot"),
    "a second begin": (r"b'{\"op\": \"begun\", \"id\": %d}\n' % number", "`begun` of a call of"),
    "an end of what was cancelled": (
        r"b'{\"op\": \"cancelled\", \"id\": %d}\n' % number",
        "`cancelled` of a call",
    ),
    "lists in lists": (r"b'[' * 4000 + b'\n'", "no message"),
    "many lists in lists": (r"b'[' * 200000 + b'\n'", f"more than {LINE_BYTES} bytes"),
    "no text": (r"b'\xff\xfe{}\n'", "no message"),
    "an endless line": (r"b'x' * 100000000", f"more than {LINE_BYTES} bytes"),
}


@pytest.fixture
def lanes(tmp_path: Path) -> Iterator[tuple[Servers, Servers]]:
    """Return two lanes at a broker, which is still there after the test."""
    with opened_desk(tmp_path) as desk:
        yield desk.lanes
    assert desk.process.returncode == 0


def liar(lie: str, begins: str = "begins") -> list[str]:
    """Return the way to a host whose module server tells a lie, once a call has begun or before."""
    return [sys.executable, "-c", LIAR, begins, lie]


@pytest.mark.parametrize("name", LIES)
def test_a_server_that_says_rubbish_is_lost_alone(
    lanes: tuple[Servers, Servers], tmp_path: Path, name: str
) -> None:
    """Its host's next modules run as Ansible runs them; a good server's work is not disturbed."""
    lie, said = LIES[name]
    arrived, gate = (tmp_path / name for name in ("arrived", "gate"))
    os.mkfifo(arrived)
    os.mkfifo(gate)
    good = run(lanes[1], make_call(WHO), way=NEAR)
    with ThreadPoolExecutor() as pool:
        text = f"open({str(arrived)!r}, 'w').close(); print(open({str(gate)!r}).read())"
        other = pool.submit(run, lanes[1], make_call(text), way=NEAR)
        arrived.read_bytes()
        with pytest.raises(Lost) as lost:
            lanes[0].run(make_call(WHO), HERE, way=liar(lie))
        gate.write_text("5", encoding="utf-8")
        assert other.result() == 5
    assert lost.value.said.startswith(b"the module server there said ")
    assert said in lost.value.said.decode()
    assert lanes[0].run(make_call(WHO), HERE, way=liar(lie)) is None
    assert run(lanes[0], make_call(WHO), way=NEAR) == good
    assert not lanes[0].in_doubt


@pytest.mark.parametrize("name", [name for name in LIES if name != "a second begin"])
def test_where_nothing_had_begun_ansible_does_it(lanes: tuple[Servers, Servers], name: str) -> None:
    assert lanes[0].run(make_call(WHO), HERE, way=liar(LIES[name][0], begins="no")) is None
    assert run(lanes[1], make_call("print(7)"), way=NEAR) == 7


def test_of_endless_complaints_the_end_is_kept(lanes: tuple[Servers, Servers]) -> None:
    """They fill neither the memory nor a disk."""
    way = ["sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 255"]
    with pytest.raises(Lost) as lost:
        lanes[0].run(make_call(WHO), HERE, way=way)
    assert lost.value.said.endswith(b"xlast\n")
    assert len(lost.value.said) == ERROR_BYTES


def test_a_result_of_some_size_comes_as_a_whole(lanes: tuple[Servers, Servers]) -> None:
    answer = lanes[0].run(make_call("print('y' * 12_000_000)"), HERE, way=NEAR)
    assert answer is not None
    assert answer[1] == b"y" * 12_000_000 + b"\n"
    with pytest.raises(Lost, match="a result of"):
        lanes[0].run(make_call(f"print('y' * {RESULT_BYTES})"), HERE, way=NEAR)
