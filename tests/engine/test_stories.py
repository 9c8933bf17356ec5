"""P1 to P4 hold whatever an engine is told, and only what does not fit is refused."""

from __future__ import annotations

from hypothesis import given

from tests.support.stories import Story, stories

EVENTS = 60


@given(stories())
def test_no_input_and_no_mishap_breaks_a_promise(story: Story) -> None:
    """Never: mail is lost, doubled and late, old locks are made up, checks find anything."""
    for _ in range(EVENTS):
        story.happen()
    assert story.broken() == []


@given(stories(forges=True))
def test_forged_mail_starts_nothing_that_the_own_engine_knows_to_be_wrong(story: Story) -> None:
    """Never: who believes a false word breaks P1 and P3 at most, where it holds or needs a lock."""
    for _ in range(EVENTS):
        story.happen()
    assert [line for line in story.broken() if line.startswith(("P2", "P4"))] == []
