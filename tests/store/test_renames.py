"""A renamed object keeps all that the journal knows of it; its old names stay known."""

from __future__ import annotations

from cobweb.model import CobId
from cobweb.store import CobRenamed, GrantWritten, SlotWritten, StateWritten, Store

OLD, NEW, OTHER = CobId("h/old"), CobId("h/new"), CobId("h/other")


def test_a_rename_takes_all_with_it(store: Store) -> None:
    for cob in (OLD, OTHER):
        store.write([StateWritten(cob=cob, state="up", reason="check", time=1.0, content="c")])
    store.write(
        [
            GrantWritten(cob=OLD, holder=OTHER, state="up"),
            GrantWritten(cob=OTHER, holder=OLD, state="up"),
            SlotWritten(limit="rolling", unit=OLD, time=1.0),
        ]
    )
    before = store.states()[OLD]
    store.write([CobRenamed(old=OLD, new=NEW, generation=2)])
    records = store.states()
    assert list(records) == [NEW, OTHER]
    assert (records[NEW].state, records[NEW].content) == (before.state, before.content)
    assert store.locks() == ((NEW, OTHER, "up"), (OTHER, NEW, "up"))
    assert store.slots() == {("rolling", NEW)}
    store.write([CobRenamed(old=NEW, new=OLD, generation=3)])
    assert store.renames() == (
        CobRenamed(old=OLD, new=NEW, generation=2),
        CobRenamed(old=NEW, new=OLD, generation=3),
    )
