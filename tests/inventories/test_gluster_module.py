"""What the storage site's module reads out of glusterd's files and the answers of its tool."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ANSWER = "<cliOutput><opRet>{}</opRet><opErrstr>{}</opErrstr>{}</cliOutput>"
WELL = ANSWER.format(0, "", "")
BRICKS = [(server, f"/bricks/{disk}/brick") for disk in ("d1", "d2") for server in ("st1", "st2")]

OFFLINE = (
    "<cliOutput><node><hostname>st1</hostname><path>/b</path><status>0</status></node></cliOutput>"
)

Answers = Callable[..., list[list[str]]]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Import the module, with a store of its own."""
    _load(monkeypatch, ROOT / "playbooks/module_utils/cobweb_host.py")
    _load(monkeypatch, ROOT / "inventories/storage/module_utils/storage_glusterd.py")
    module = _load(monkeypatch, ROOT / "inventories/storage/library/storage_gluster.py")
    monkeypatch.setattr(module.glusterd, "STORE", tmp_path)
    return module


@pytest.fixture
def answers(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Give the answers of the tool, the last one again and again; each call is in the list."""

    def give(*texts: str) -> list[list[str]]:
        calls: list[list[str]] = []

        def run(argv: Sequence[str], **_: object) -> SimpleNamespace:
            calls.append(list(argv[3:]))
            out = texts[min(len(calls), len(texts)) - 1]
            return SimpleNamespace(stdout=out, stderr="", returncode=0)

        monkeypatch.setattr(module.glusterd.subprocess, "run", run)
        monkeypatch.setattr(module.glusterd, "PAUSE_S", 0)
        return calls

    return give


def _load(monkeypatch: pytest.MonkeyPatch, path: Path) -> ModuleType:
    name = f"ansible.module_utils.{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def store_volume(store: Path, *, status: int = 1, options: str = "") -> None:
    """Write what glusterd keeps of a volume of two sets over two servers."""
    folder = store / "vols/data"
    (folder / "bricks").mkdir(parents=True)
    names = [f"{server}:{path.replace('/', '-')}" for server, path in BRICKS]
    for name, (server, path) in zip(names, BRICKS, strict=True):
        text = f"hostname={server}\npath={path}\nlisten-port=0\n"
        (folder / "bricks" / name).write_text(text, encoding="utf-8")
    lines = "".join(f"brick-{number}={name}\n" for number, name in enumerate(names))
    text = f"type=2\ncount=4\nstatus={status}\nreplica_count=2\nvolume-id=77\n{options}{lines}"
    (folder / "info").write_text(text, encoding="utf-8")


def cob(applied: object = None, **spec: object) -> dict[str, Any]:
    base = {"volume": "data", "server": "st1", "via": "st1", "options": {}, "wait_s": 0}
    return {"spec": {**base, **spec}, "applied": applied}


@pytest.mark.parametrize(
    ("states", "found"),
    [([], "down"), (["3"], "up"), (["3", "3"], "up"), (["3", "6"], "outdated")],
)
def test_a_server_is_in_the_pool_if_all_peers_are_friends(
    module: ModuleType, tmp_path: Path, states: list[str], found: str
) -> None:
    (tmp_path / "peers").mkdir()
    for number, state in enumerate(states):
        text = f"uuid={number}\nstate={state}\nhostname1=st{number}\n"
        (tmp_path / "peers" / str(number)).write_text(text, encoding="utf-8")
    assert module.peer_check({}) == {"state": found}


@pytest.mark.parametrize(
    ("options", "asked", "found"),
    [
        ("", cob(), "started"),
        ("a.time=5\n", cob(options={"a.time": 5}), "started"),
        ("a.time=42\n", cob(options={"a.time": 5}), "outdated"),
        ("", cob(options={"a.time": 5}), "outdated"),
        ("a.time=5\n", cob(), "started"),
        ("a.time=5\n", cob({"options": {"a.time": 5}}), "outdated"),
    ],
)
def test_a_volume_is_outdated_if_options_differ(
    module: ModuleType, tmp_path: Path, options: str, asked: dict[str, Any], found: str
) -> None:
    """Those that nobody of us has set do not count."""
    store_volume(tmp_path, options=options)
    assert module.volume_check(asked) == {"state": found}


def test_a_volume_is_absent_or_stopped_whatever_its_options(
    module: ModuleType, tmp_path: Path
) -> None:
    assert module.volume_check(cob()) == {"state": "absent"}
    store_volume(tmp_path, status=2)
    assert module.volume_check(cob(options={"a.b": 1})) == {"state": "stopped"}


@pytest.mark.parametrize(
    ("server", "paths", "found"),
    [
        ("st1", ["/bricks/d1/brick", "/bricks/d2/brick"], "up"),
        ("st1", ["/bricks/d1/brick"], "outdated"),
        ("st1", ["/bricks/d1/brick", "/bricks/d2/brick", "/bricks/d3/brick"], "outdated"),
        ("st3", ["/bricks/d1/brick", "/bricks/d2/brick"], "down"),
    ],
)
def test_bricks_are_up_if_the_volume_has_just_these(
    module: ModuleType, tmp_path: Path, server: str, paths: list[str], found: str
) -> None:
    store_volume(tmp_path)
    assert module.bricks_check(cob(server=server, paths=paths)) == {"state": found}


def test_without_a_volume_bricks_are_folders(module: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "brick"
    assert module.bricks_check(cob(paths=[str(path)])) == {"state": "down"}
    path.mkdir()
    assert module.bricks_check(cob(paths=[str(path)])) == {"state": "up"}


@pytest.fixture
def marks(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Return the ids of volumes that folders have, in place of what their file system keeps."""
    found: dict[str, bytes] = {}

    def get(path: str, _: str) -> bytes:
        if path not in found:
            raise OSError(path)
        return found[path]

    def remove(path: str, _: str) -> None:
        if found.pop(path, None) is None:
            raise OSError(path)

    monkeypatch.setattr(module.os, "getxattr", get)
    monkeypatch.setattr(module.os, "removexattr", remove)
    return found


@pytest.mark.parametrize(
    ("entries", "known", "kept"),
    [
        ([], False, False),
        ([".glusterfs"], False, False),
        ([".glusterfs", ".glusterfs/00"], False, True),
        (["file"], False, True),
        ([".glusterfs"], True, True),
    ],
)
def test_the_mark_of_an_attempt_that_was_cut_off_goes_and_no_other_one(  # noqa: PLR0913 - fixtures
    module: ModuleType,
    tmp_path: Path,
    answers: Answers,
    marks: dict[str, bytes],
    *,
    entries: list[str],
    known: bool,
    kept: bool,
) -> None:
    """What a volume has served stays, whosever it is, and what belongs to one that is there."""
    answers(WELL)
    (tmp_path / "vols/other").mkdir(parents=True)
    (tmp_path / "vols/other/info").write_text(f"volume-id={'00-' if known else ''}77\n")
    brick = tmp_path / "brick"
    for entry in entries:
        (brick / entry).mkdir(parents=True)
    brick.mkdir(exist_ok=True)
    marks[str(brick)] = bytes.fromhex("0077")
    asked = cob(bricks=[{"server": "st1", "path": str(brick)}], paths=[str(brick)])
    assert module.bricks_check(asked) == {"state": "down" if kept else "up"}
    module.volume_prepare({**asked, "server": "st1"})
    assert (str(brick) in marks) is kept


PEER = "<peer><hostname>{}</hostname><connected>{}</connected><state>{}</state></peer>"


def test_each_server_waits_until_all_others_are_friends(
    module: ModuleType, answers: Answers
) -> None:
    pools = [
        ANSWER.format(0, "", PEER.format("localhost", 1, 3) + "".join(others))
        for others in (
            [PEER.format("st2", 1, 3)],
            [PEER.format("st2", 1, 3), PEER.format("st3", 1, 6)],
            [PEER.format("st2", 1, 3), PEER.format("st3", 0, 3)],
            [PEER.format("st2", 1, 3), PEER.format("st3", 1, 3)],
        )
    ]
    bricks = [{"server": name, "path": "/nowhere"} for name in ("st1", "st2", "st3")]
    answers(*(it for pool in pools for it in (pool, pool)))
    module.volume_prepare({**cob(bricks=bricks, wait_s=60), "server": "st1"})
    answers(pools[0])
    with pytest.raises(module.Failed, match="st3 is not in the pool"):
        module.volume_prepare({**cob(bricks=bricks), "server": "st1"})


def test_a_creation_that_another_server_refuses_is_not_asked_for_again(
    module: ModuleType, answers: Answers
) -> None:
    """The bricks here are marked by then; the lock of somebody else is waited for."""
    refusal = "Staging failed on st2. Error: st3 is not in 'Peer in Cluster' state"
    busy = ANSWER.format(-1, "Another transaction is in progress for data", "")
    calls = answers(busy, ANSWER.format(-1, refusal, ""), WELL)
    bricks = [{"server": name, "path": "/b"} for name in ("st1", "st2", "st3")]
    with pytest.raises(module.Failed, match="gluster volume create: Staging failed on st2"):
        module.volume_create(cob(bricks=bricks, wait_s=60))
    words = "volume create data replica 3 st1:/b st2:/b st3:/b"
    assert calls == [words.split()] * 2


def test_a_brick_does_not_fill_the_disk_of_the_system(module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(module.Failed, match="is not mounted"):
        module.bricks_prepare(cob(paths=[str(tmp_path / "d1/brick")]))
    assert not (tmp_path / "d1").exists()


def test_a_brick_joins_the_set_of_its_disk(
    module: ModuleType, tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_volume(tmp_path)
    monkeypatch.setattr(module, "_until_well", lambda *_: None)
    calls = answers(WELL)
    paths = ["/bricks/d2/brick", "/bricks/d1/brick"]
    module.bricks_join(cob(server="st3", paths=paths))
    words = "volume add-brick data replica 3 st3:/bricks/d1/brick st3:/bricks/d2/brick force"
    assert calls == [words.split()]


def test_a_server_with_other_disks_does_not_join(
    module: ModuleType, tmp_path: Path, answers: Answers
) -> None:
    store_volume(tmp_path)
    calls = answers(WELL)
    with pytest.raises(module.Failed, match=r"data has bricks at .*, st3 at "):
        module.bricks_join(cob(server="st3", paths=["/bricks/d1/brick"]))
    assert calls == []


def test_bricks_leave_all_at_once_and_not_twice(
    module: ModuleType, tmp_path: Path, answers: Answers
) -> None:
    calls = answers(WELL)
    assert module.bricks_leave(cob()) == {"left": False}
    store_volume(tmp_path)
    assert module.bricks_leave(cob(server="st3")) == {"left": False}
    assert module.bricks_leave(cob(server="st2")) == {"left": True}
    words = "volume remove-brick data replica 1 st2:/bricks/d1/brick st2:/bricks/d2/brick force"
    assert calls == [words.split()]


@pytest.mark.parametrize(
    ("first", "code"),
    [("Another transaction is in progress for data", 0), ("Volume data already exists", 1)],
)
def test_a_refusal_that_passes_is_waited_for(
    module: ModuleType, answers: Answers, first: str, code: int
) -> None:
    """Any other one is the operator's, in the tool's own words."""
    calls = answers(ANSWER.format(-1, first, ""), WELL)
    if code:
        with pytest.raises(module.Failed, match=f"gluster volume stop: {first}"):
            module.glusterd.ask(module.glusterd.deadline(60), "volume", "stop", "data")
        assert len(calls) == 1
    else:
        module.glusterd.ask(module.glusterd.deadline(60), "volume", "stop", "data")
        assert len(calls) == 2


def test_a_daemon_that_does_not_run_is_told_in_the_words_of_the_tool(
    module: ModuleType, answers: Answers
) -> None:
    text = "Connection failed. Please check if gluster daemon is operational."
    answers(text)
    with pytest.raises(module.Failed, match="Connection failed"):
        module.glusterd.ask(module.glusterd.deadline(-1), "pool", "list")


def answer(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own


def brick_answer(status: str, total: str, split: str) -> str:
    return (
        f"<brick><name>st1:/b</name><status>{status}</status><totalNumberOfEntries>{total}"
        f"</totalNumberOfEntries><numberOfEntriesInSplitBrain>{split}"
        "</numberOfEntriesInSplitBrain></brick>"
    )


@pytest.mark.parametrize(
    ("brick", "said"),
    [
        (("Connected", "0", "0"), ""),
        (("Connected", "3", "0"), "st1:/b: 3 entries to heal"),
        (("Connected", "3", "1"), "st1:/b: 3 entries to heal, 1 in split-brain"),
        (
            ("Transport endpoint is not connected", "-", "-"),
            "st1:/b: Transport endpoint is not connected",
        ),
        (
            ("Failed to process (gone)totalNumberOfEntries0", "-", "-"),
            "st1:/b: Failed to process (gone)",
        ),
    ],
)
def test_what_is_to_be_healed_is_said_of_each_brick(
    module: ModuleType, answers: Answers, brick: tuple[str, str, str], said: str
) -> None:
    answers(ANSWER.format(0, "", brick_answer(*brick)))
    assert module._heal_info("data", 0) == ([said] if said else [])


def clients_answer(*rows: Sequence[str]) -> str:
    nodes = []
    for (server, path), clients in zip(BRICKS, rows, strict=True):
        names = "".join(f"<client><hostname>{it}</hostname></client>" for it in clients)
        nodes.append(f"<node><hostname>{server}</hostname><path>{path}</path>{names}</node>")
    return ANSWER.format(0, "", "".join(nodes))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((["c1:7", "s1:1"], ["s1:9", "c1:8"], ["c1:1", "s1:2"], ["c1:2", "s1:3"]), ""),
        (
            (["c1:7"], ["c1:8"], ["c1:1"], []),
            "st2:/bricks/d2/brick is not connected to its client c1",
        ),
        (([], [], [], []), ""),
    ],
)
def test_a_client_that_lacks_a_brick_keeps_the_volume_from_being_whole(
    module: ModuleType, tmp_path: Path, answers: Answers, rows: list[list[str]], said: str
) -> None:
    """Nothing may be left to heal, and the next server away would all the same be one too many."""
    store_volume(tmp_path)
    answers(clients_answer(*rows))
    assert module._lost_clients("data", module.glusterd.volume("data"), 0) == said


def test_a_volume_that_does_not_heal_is_told_with_its_reason(
    module: ModuleType, tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_volume(tmp_path)
    answers(ANSWER.format(0, "", brick_answer("Connected", "2", "2")))
    words = "the volume data does not heal: st1:/b: 2 entries to heal, 2 in split-brain"
    with pytest.raises(module.Failed, match=words):
        module.heal_look(cob())
    monkeypatch.setattr(module, "CHECK_S", 0)
    assert module.heal_check(cob()) == {"state": "hurt"}


def test_a_brick_that_cannot_be_started_is_told_in_the_words_of_the_tool(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again and again: what is in its way, such as a disk, may go."""
    store_volume(tmp_path)
    said = {
        "start": (None, "Volume id mismatch for brick st1:/b"),
        "status": (answer(OFFLINE), ""),
        "heal": (answer(ANSWER.format(0, "", brick_answer("gone", "-", "-"))), ""),
    }
    monkeypatch.setattr(module.glusterd, "tool", lambda *words: said[words[1]])
    monkeypatch.setattr(module.glusterd, "PAUSE_S", 0.01)
    words = "does not heal: Volume id mismatch for brick st1:/b; st1:/b: gone"
    with pytest.raises(module.Failed, match=words):
        module.heal_wait(cob(wait_s=0.2))


def test_where_there_is_no_volume_nothing_is_to_be_healed(
    module: ModuleType, tmp_path: Path, answers: Answers
) -> None:
    calls = answers(WELL)
    assert module.heal_check(cob()) == {"state": "healed"}
    store_volume(tmp_path, status=2)
    assert module.heal_check(cob()) == {"state": "healed"}
    assert calls == []


def test_a_tool_that_hangs_or_is_not_there_is_an_error_of_one_line(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles: Iterator[Exception] = iter(
        [FileNotFoundError(), subprocess.TimeoutExpired(["gluster"], 60)]
    )

    def run(*_: object, **__: object) -> None:
        raise next(troubles)

    monkeypatch.setattr(module.glusterd.subprocess, "run", run)
    with pytest.raises(module.Failed, match="this host has no gluster"):
        module.glusterd.tool("pool", "list")
    with pytest.raises(module.Failed, match="gluster pool list did not answer within 60 s"):
        module.glusterd.tool("pool", "list")
