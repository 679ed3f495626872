"""Exact timelines of single events, with simulated time."""

import os
from dataclasses import replace
from uuid import UUID

from azure_scheduled_events_exporter.simulator.scenario import (
    PlannedEvent,
    Scenario,
    Starts,
    VirtualMachine,
)
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage, event_id
from azure_scheduled_events_exporter.simulator.timeline import What

START = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
FREEZE = PlannedEvent("Freeze", ("vm_0",), duration=5, announced_at=30, notice=900, started_for=600)
FREEZE_SECONDS = 30 + 900 + 600
"""How long a scenario of FREEZE alone takes: from its beginning to the end of the event."""
FIRST_ID = event_id("seed", 1, "test", 0)
"""The EventId of the first event that a stage of these tests plays."""


def scenario(*events: PlannedEvent, name: str = "test") -> Scenario:
    """A scenario of two VMs."""
    return Scenario(name, "", (VirtualMachine("vm_0"), VirtualMachine("vm_1")), events)


def stage(*events: PlannedEvent, speed: float = 1.0, loop: bool = False) -> Stage:
    """A stage that plays these events from START on."""
    return Stage(Playlist((scenario(*events),), speed, loop), at=START, seed="seed")


def story(played: Stage) -> list[tuple[float, str]]:
    """What happened, in seconds since START."""
    return [(each.at - START, each.what.value) for each in played.record]


def status(played: Stage) -> list[tuple[object, object]]:
    """EventStatus and NotBefore of the current events."""
    return [(event["EventStatus"], event["NotBefore"]) for event in played.events]


def test_event_goes_through_its_life_at_the_written_moments() -> None:
    """A freeze is announced after 30 s, starts 15 minutes later and leaves the document 10 minutes
    after that.
    """
    played = stage(FREEZE)
    seen = []
    for second in (0, 29.9, 30, 929.9, 930, 1529.9, 1530):
        played.advance(START + second)
        seen.append((second, played.incarnation, status(played)))
    scheduled = [("Scheduled", "Tue, 14 Nov 2023 22:28:50 GMT")]
    assert seen == [
        (0, 1, []),
        (29.9, 1, []),
        (30, 2, scheduled),
        (929.9, 2, scheduled),
        (930, 3, [("Started", "")]),
        (1529.9, 3, [("Started", "")]),
        (1530, 4, []),
    ]


def test_speed_compresses_time_and_not_before_stands_in_real_time() -> None:
    """At speed 60 a notice of 15 minutes lasts 15 real seconds, as NotBefore shows; the duration is
    unchanged.
    """
    played = stage(FREEZE, speed=60)
    played.advance(START + 1)
    assert status(played) == [("Scheduled", "Tue, 14 Nov 2023 22:13:35 GMT")]
    assert played.events[0]["DurationInSeconds"] == 5
    played.advance(START + 60)
    assert story(played) == [(0.5, "announced"), (15.5, "started"), (25.5, "completed")]


def test_approval_starts_an_event_early() -> None:
    """An approved event starts at once, ends as long after that as it would have, and names who
    approved.
    """
    played = stage(FREEZE)
    played.advance(START + 100)
    played.approve(FIRST_ID.lower(), "vm_1", START + 100)
    played.advance(START + 800)
    assert story(played) == [
        (30, "announced"),
        (100, "approved"),
        (100, "started"),
        (700, "completed"),
    ]
    assert [each.vm for each in played.record] == ["", "vm_1", "", ""]


def test_approval_with_a_delay_and_a_second_one() -> None:
    """An approved event starts after its delay, which stands for Azure's wait for the other VMs, or
    at NotBefore if that comes first. Approving again changes nothing, be it before or after the
    start.
    """
    played = stage(replace(FREEZE, approval_delay=20))
    for second in (40, 50, 70):
        played.advance(START + second)
        assert played.knows(FIRST_ID)
        played.approve(FIRST_ID, "vm_0", START + second)
    assert story(played) == [(30, "announced"), (40, "approved"), (60, "started")]
    played.advance(START + 5000)
    assert not played.knows(FIRST_ID)
    # An approval 10 s before NotBefore.
    played = stage(replace(FREEZE, approval_delay=20))
    played.advance(START + 920)
    played.approve(FIRST_ID, "vm_0", START + 920)
    played.advance(START + 930)
    assert story(played) == [(30, "announced"), (920, "approved"), (930, "started")]


def test_event_that_starts_at_once_is_never_scheduled() -> None:
    """A host failure gives no notice: in the first document with the event it is Started."""
    played = stage(replace(FREEZE, event_type="Reboot", starts=Starts.AT_ONCE))
    played.advance(START + 30)
    assert status(played) == [("Started", "")]
    assert (played.incarnation, story(played)) == (2, [(30, "announced"), (30, "started")])
    assert [each.not_before for each in played.record] == [None, None]


def test_rescheduled_event_gets_a_new_not_before() -> None:
    """Rescheduling moves NotBefore and the start with it, and grows the incarnation."""
    played = stage(replace(FREEZE, rescheduled_at=300, new_notice=1200))
    played.advance(START + 300)
    assert played.incarnation == 3
    assert status(played) == [("Scheduled", "Tue, 14 Nov 2023 22:38:20 GMT")]
    played.advance(START + 5000)
    assert story(played) == [
        (30, "announced"),
        (300, "rescheduled"),
        (1500, "started"),
        (2100, "completed"),
    ]


def test_overdue_event_stays_scheduled() -> None:
    """An event that never starts stays Scheduled past NotBefore, even approved, until it is called
    off.
    """
    played = stage(replace(FREEZE, starts=Starts.NEVER, cancelled_at=2000))
    played.advance(START + 1500)
    played.approve(FIRST_ID, "vm_0", START + 1500)
    assert status(played) == [("Scheduled", "Tue, 14 Nov 2023 22:28:50 GMT")]
    played.advance(START + 2000)
    assert story(played) == [(30, "announced"), (1500, "approved"), (2000, "cancelled")]


def test_loop_gives_fresh_event_ids_each_round() -> None:
    """In a loop the scenario begins again when it is over, with new events; the incarnation
    continues.
    """
    played = stage(FREEZE, loop=True)
    played.advance(START + 2 * FREEZE_SECONDS)
    announced = [each for each in played.record if each.what is What.ANNOUNCED]
    assert [each.at - START for each in announced] == [30, FREEZE_SECONDS + 30]
    assert len({each.event_id for each in announced}) == 2
    assert played.incarnation == 1 + 2 * 3, "each of three changes in two rounds is a new one"


def test_scenarios_follow_one_another() -> None:
    """The second scenario begins when the first is over; after the last one, nothing happens."""
    first = scenario(FREEZE, name="first")
    second = scenario(replace(FREEZE, notice=10), name="second")
    played = Stage(Playlist((first, second)), at=START, seed="seed")
    played.advance(START + FREEZE_SECONDS - 1)
    assert played.scenario.name == "first"
    played.advance(START + 99999)
    assert played.scenario.name == "second"
    assert [
        (each.at - START, each.scenario) for each in played.record if each.what is What.STARTED
    ] == [
        (30 + 900, "first"),
        (FREEZE_SECONDS + 30 + 10, "second"),
    ]
    assert played.next_at is None


def test_play_begins_another_scenario_now() -> None:
    """Playing another scenario takes the old events out of the document, and its moments count from
    now.
    """
    played = stage(FREEZE)
    played.advance(START + 100)
    played.play(Playlist((scenario(replace(FREEZE, announced_at=1)),)), START + 100)
    assert (played.events, played.incarnation) == ((), 3)
    played.advance(START + 101)
    assert len(played.events) == 1
    assert played.record[-1].event_id != played.record[0].event_id


def test_any_text_is_a_seed() -> None:
    """A seed that no encoding has, as a command line can give it, makes events as any other."""
    seed = os.fsdecode(b"\xff")
    assert UUID(event_id(seed, 0)).version == 4
    assert event_id(seed, 0) == event_id(seed, 0) != event_id("seed", 0)


def test_placed_document_hides_the_scenario_until_it_is_taken_away() -> None:
    """Events placed by hand replace the scenario's; the incarnation grows if they differ from those
    that were shown before. ``place`` returns the incarnation.
    """
    played = stage(FREEZE)
    mine: list[dict[str, object]] = [{"EventId": "A", "EventType": "Freeze", "Resources": ["vm_0"]}]
    assert played.place(mine, START + 1) == 2
    an_equal_event = dict(mine[0])
    assert played.place([an_equal_event], START + 2) == 2, "the events are the same"
    played.advance(START + 100)
    assert [event["EventId"] for event in played.events] == ["A"]
    played.approve("a", "vm_1", START + 100)
    last = played.record[-1]
    assert (last.what, last.vm) == (What.APPROVED, "vm_1")
    assert played.incarnation == 2, "an approval changes no event that was placed"
    nothing_by_hand = None
    assert played.place(nothing_by_hand, START + 200) == 3
    assert [event["EventId"] for event in played.events] == [FIRST_ID]
