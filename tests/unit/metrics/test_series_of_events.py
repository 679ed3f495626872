"""The series of an event: its impact, its pause, when it was seen and when it has ended."""

from collections.abc import Iterable
from dataclasses import replace

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from support.monitoring.exposed import NOON, at, exposition, snapshot_after
from support.programs import Scrape

WEB = Instance(
    vm_name="WEB_0",
    vm_id="ID",
    scale_set="Web",
    zone="1",
    resource_group="RG",
    subscription_id="SUB",
    host_name="WEB000000",
)
LABELS_OF_WEB = {
    "vm_id": "ID",
    "vm_name": "WEB_0",
    "computer_name": "WEB000000",
    "subscription_id": "sub",
    "resource_group": "rg",
    "scale_set": "web",
    "zone": "1",
}


def test_the_impact_of_own_events() -> None:
    """The impact begins at NotBefore, at the approval, or at the start; harmless events, advice and
    peers have none.
    """
    waiting = ScheduledEvent("WAITS", "Redeploy", "Scheduled", "Platform", ("web_0",), NOON + 900)
    events = [
        waiting,
        replace(waiting, event_id="APPROVED"),
        replace(waiting, event_id="RUNS", status="Started", not_before=None),
        replace(waiting, event_id="NEVER", duration_seconds=0.0),
        replace(waiting, event_id="ADVICE", status="Advisory"),
        replace(waiting, event_id="PEER", resources=("web_1",)),
    ]
    snapshot = replace(snapshot_after((0, events), (60, events), vm_name="WEB_0"), identity=WEB)
    scrape = Scrape(exposition(snapshot).render().body.decode())
    approved_after = 2.0  # ``snapshot_after`` approves the event APPROVED then
    expected = {"WAITS": NOON + 900, "APPROVED": NOON + approved_after, "RUNS": NOON}
    assert scrape.series("vm_impact_timestamp_seconds") == [
        ({"event_id": event_id, "event_type": "Redeploy", **LABELS_OF_WEB}, begins)
        for event_id, begins in expected.items()
    ]


def test_when_an_event_was_seen_and_when_its_impact_begins() -> None:
    """The series have when the newest document came that showed the event, and when its impact
    begins, in whole seconds, also if it is harmless. Advice has no time, and so no impact.

    The first document comes at 0.5 s. The second one, at 60.5 s, is partly unreadable and lacks
    WAITS, so WAITS stays seen at 0.5 s.
    """
    waiting = ScheduledEvent("WAITS", "Redeploy", "Scheduled", "User", ("web_0",), NOON + 900)
    runs = replace(waiting, event_id="RUNS", status="Started", not_before=None, source="Platform")
    harmless = replace(waiting, event_id="NEVER", duration_seconds=0.0)
    advice = replace(waiting, event_id="ADVICE", status="Advisory", not_before=None)
    events = (waiting, runs, harmless, advice)
    known, _ = observe(Lifecycles(), Document(1, events), ObservationContext(at(0.5), "web_0"))
    partial = Document(2, events[1:], unreadable=("Events[0] is no object",))
    known, _ = observe(known, partial, ObservationContext(at(60.5), "web_0"))
    scrape = Scrape(exposition(Snapshot().with_events(known, NOON + 60)).render().body.decode())
    seen = scrape.series("event_seen_timestamp_seconds", event_type="Redeploy", scope="self")
    assert {(labels["event_id"], labels["kind"]): value - NOON for labels, value in seen} == {
        ("WAITS", "requested"): 0.5,
        ("RUNS", "without_notice"): 60.5,
        ("NEVER", "harmless"): 60.5,
        ("ADVICE", "advisory"): 60.5,
    }
    impact = scrape.series("event_impact_timestamp_seconds", event_type="Redeploy", scope="self")
    assert {(labels["event_id"], labels["kind"]): value - NOON for labels, value in impact} == {
        ("WAITS", "requested"): 900,
        ("RUNS", "without_notice"): 0,  # it was Started at 0.5 s
        ("NEVER", "harmless"): 900,
    }


def test_the_impact_of_events_of_other_vms() -> None:
    """A VM that died cannot say that its event has started, so its peers do, of ten VMs at most.

    The labels of the place are in lower case, also those of ``event_info``, so that rules can join
    them.
    """
    names = tuple(f"web_{number}" for number in range(1, 13))
    runs = ScheduledEvent("RUNS", "Reboot", "Started", "Platform", names)
    events = [
        runs,
        replace(runs, event_id="WAITS", status="Scheduled", not_before=NOON + 900),
        replace(runs, event_id="NEVER", event_type="Freeze", duration_seconds=5.0),
        replace(runs, event_id="MINE", resources=("web_0",)),
    ]
    snapshot = replace(snapshot_after((0, []), (0.5, events), vm_name="web_0"), identity=WEB)
    scrape = Scrape(exposition(snapshot).render().body.decode())
    place = {"subscription_id": "sub", "resource_group": "rg", "scale_set": "web"}
    assert scrape.series("peer_impact_timestamp_seconds") == [
        ({"event_id": "RUNS", "event_type": "Reboot", "vm_name": name, **place}, NOON + 0.5)
        for name in names[:10]
    ]
    assert {labels["resource_group"] for labels, _ in scrape.series("event_info")} == {"rg"}


DocumentAt = tuple[float, Iterable[ScheduledEvent]]
"""Seconds after noon, and the events of a document that came then."""


def shown_pauses(*documents: DocumentAt) -> dict[str, float]:
    """Return the pause that is shown of each event after ``documents``, by its id."""
    scrape = Scrape(exposition(snapshot_after((0, []), *documents)).render().body.decode())
    series = scrape.series("event_observed_pause_seconds")
    return {labels["event_id"]: value for labels, value in series}


def test_the_pause_of_an_event_for_an_hour_after_its_end() -> None:
    """The longest pause of an own event is shown while it is current, and for an hour after."""
    runs = ScheduledEvent("RUNS", "Freeze", "Started", "Platform", ("vmss_0",))
    peer = replace(runs, event_id="PEER", resources=("vmss_1",))
    both = (runs, peer)
    pause = 0.004  # what ``snapshot_after`` measures at each document
    assert shown_pauses((1, both)) == {"RUNS": pause}
    ended_at = 2
    just_before_an_hour = ended_at + 3598
    just_after_an_hour = ended_at + 3601
    assert shown_pauses((1, both), (ended_at, []), (just_before_an_hour, [])) == {"RUNS": pause}
    assert shown_pauses((1, both), (ended_at, []), (just_after_an_hour, [])) == {}


def after_a_pause(seconds: float) -> Scrape:
    """Return the exposition after a Freeze that was announced as 5 s and paused the VM for so
    long.
    """
    freeze = ScheduledEvent("E", "Freeze", "Scheduled", "Platform", ("web_0",), NOON, "", 5.0)
    started = replace(freeze, status="Started", not_before=None)
    known = Lifecycles()
    for at_second, event, pause in ((0, freeze, 0.0), (1, started, 0.0), (20, started, seconds)):
        context = ObservationContext(at(at_second), "web_0", pause=Pause(pause))
        known, _ = observe(known, Document(7, (event,)), context)
    snapshot = Snapshot(vm_name="web_0", identity=WEB).with_events(known, NOON + 20)
    return Scrape(exposition(snapshot).render().body.decode())


def test_a_pause_that_was_longer_than_announced() -> None:
    """A pause that is longer than announced has a series of its own, and makes the event one that
    is not harmless.
    """
    scrape = after_a_pause(12.0)
    labels = {
        "event_id": "E",
        "event_type": "Freeze",
        "scope": "self",
        "vm_name": "web_0",
        "announced": "5",
    }
    assert scrape.series("event_paused_longer_seconds") == [(labels, 12.0)]
    assert [info["kind"] for info, _ in scrape.series("event_info")] == ["announced"]
    assert scrape.series("vm_impact_timestamp_seconds")


def test_a_pause_as_short_as_announced() -> None:
    """An event whose pause is not longer than announced stays harmless, and has no impact."""
    scrape = after_a_pause(4.0)
    assert scrape.series("event_paused_longer_seconds") == []
    assert [info["kind"] for info, _ in scrape.series("event_info")] == ["harmless"]
    assert scrape.series("vm_impact_timestamp_seconds") == []


ENDED_AT = 60.0
"""When events end in the tests below, in seconds after noon."""


def shown_ends(*documents: DocumentAt) -> list[str]:
    """Return the ids of the events whose end at ``ENDED_AT`` is shown after ``documents``."""
    scrape = Scrape(exposition(snapshot_after(*documents)).render().body.decode())
    series = scrape.series(
        "event_ended_timestamp_seconds", outcome="cancelled", scope="self", event_type="Freeze"
    )
    assert {value for _, value in series} <= {NOON + ENDED_AT}
    return [labels["event_id"] for labels, _ in series]


def freezes(count: int) -> list[ScheduledEvent]:
    """Return so many events of this VM, E0 and so on."""
    return [
        ScheduledEvent(f"E{number}", "Freeze", "Scheduled", "User", ("vmss_0",), NOON + 900)
        for number in range(count)
    ]


def test_an_end_is_shown_for_an_hour() -> None:
    """The end of an event is shown for an hour, unless the event returns."""
    first, second, third = freezes(3)
    begin = (0, [first, second, third])
    assert shown_ends(begin) == []
    first_and_second_end = (ENDED_AT, [third])
    second_returns = (ENDED_AT + 10, [second, third])
    assert shown_ends(begin, first_and_second_end) == ["E0", "E1"]
    assert shown_ends(begin, first_and_second_end, second_returns) == ["E0"]
    assert shown_ends((0, [first]), (ENDED_AT, []), (ENDED_AT + 3599, [])) == ["E0"]
    assert shown_ends((0, [first]), (ENDED_AT, []), (ENDED_AT + 3601, [])) == []


def test_many_ends() -> None:
    """If more than a hundred events end, all ends are shown for five minutes, so that rules know of
    each, and then the newest hundred.
    """
    first, *others = freezes(120)
    begin = (0, [first, *others])
    others_end = (ENDED_AT, [first])
    ids = [each.event_id for each in others]
    assert sorted(shown_ends(begin, others_end)) == sorted(ids)
    five_minutes_later = (ENDED_AT + 301, [first])
    assert shown_ends(begin, others_end, five_minutes_later) == ids[-100:]
