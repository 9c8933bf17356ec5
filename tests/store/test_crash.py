"""After `kill -9` a batch is there as a whole or not at all, and what was told is there."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from cobweb.store import open_store

COBS = 40

WRITER = """
import sys
from pathlib import Path
from cobweb.store import EventWritten, GrantGone, GrantWritten, RunInfo, StateWritten, open_store
url, folder, cobs, first = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
info = dict(command="apply", started=1.0, user="ann", host="admin1", pid=1)
with open_store(url, folder) as store:
    store.begin_run(RunInfo(id=f"r{first}", **info))
    batch = first
    while True:
        state, ids = f"s{batch}", [f"h{number}/a" for number in range(cobs)]
        entries = [StateWritten(cob=cob, state=state, reason="check", time=1.0) for cob in ids]
        entries += [GrantWritten(cob=cob, holder="h/x", state=state) for cob in ids[: cobs // 2]]
        entries += [
            EventWritten(seq=batch * cobs + number, time=1.0, type="x", data=f'{{"cob":"{cob}"}}')
            for number, cob in enumerate(ids)
        ]
        store.write(entries)
        print(batch, flush=True)
        batch += 1
"""


@pytest.mark.gate("kill -9 of a writer, on both databases")
@pytest.mark.timeout(300)
def test_killed_writer_never_leaves_half_a_batch(url: str, tmp_path: Path) -> None:
    moments = random.Random(1)
    told, events = 0, 0
    for _ in range(5):
        first, killed_after = told + 1, moments.randrange(1, 60)
        arguments = [url, str(tmp_path), str(COBS), str(first)]
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(killed_after):
                writer.stdout.readline()
            writer.kill()
            rest = writer.stdout.read().split()
        heard = max([first + killed_after - 1, *(int(line) for line in rest)])
        with open_store(url, tmp_path) as store:
            (state,) = {record.state for record in store.states().values()}
            assert len(store.states()) == COBS
            assert {lock[2] for lock in store.locks()} == {state}
            told = int(state[1:])
            assert heard <= told <= heard + 1
            events = sum(1 for _ in store.events(f"r{first}"))
            assert events == (told - first + 1) * COBS
            run = store.last_run()
            assert run is not None
            assert (run.info.id, run.ended) == (f"r{first}", None)
