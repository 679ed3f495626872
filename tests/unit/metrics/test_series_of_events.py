"""The series of an event: its impact, its pause, when it was seen and when it has ended."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from support.monitoring.exposed import NOON, at, exposition, snapshot_after
from support.programs import Scrape

LABELS = (
    "vm_id",
    "vm_name",
    "computer_name",
    "subscription_id",
    "resource_group",
    "scale_set",
    "zone",
)
WEB = Instance(
    "WEB_0",
    "ID",
    "Web",
    zone="1",
    resource_group="RG",
    subscription_id="SUB",
    host_name="WEB000000",
)


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
    series = Scrape(exposition(snapshot).render().body.decode()).series(
        "vm_impact_timestamp_seconds"
    )
    values = ("ID", "WEB_0", "WEB000000", "sub", "rg", "web", "1")
    assert series == [
        (
            {
                "event_id": event_id,
                "event_type": "Redeploy",
                **dict(zip(LABELS, values, strict=True)),
            },
            NOON + seconds,
        )
        # ``snapshot_after`` approves the event APPROVED 2 s after noon.
        for event_id, seconds in (("WAITS", 900), ("APPROVED", 2), ("RUNS", 0))
    ]


def test_when_an_event_was_seen_and_when_its_impact_begins() -> None:
    """Each newest document shows its events anew, with kind and, even if harmless, impact.

    An event that a document does not show because a part of it is unreadable is not seen again.
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
    assert {(have["event_id"], have["kind"]): value - NOON for have, value in seen} == {
        ("WAITS", "requested"): 0.5,
        ("RUNS", "without_notice"): 60.5,
        ("NEVER", "harmless"): 60.5,
        ("ADVICE", "advisory"): 60.5,
    }
    impact = scrape.series("event_impact_timestamp_seconds", event_type="Redeploy", scope="self")
    assert {(have["event_id"], have["kind"]): value - NOON for have, value in impact} == {
        ("WAITS", "requested"): 900,
        ("RUNS", "without_notice"): 0,
        ("NEVER", "harmless"): 900,
    }


def test_the_impact_of_events_of_other_vms() -> None:
    """A VM that died cannot say that its event has started, so its peers do, of ten VMs at most."""
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
    assert {have["resource_group"] for have, _ in scrape.series("event_info")} == {"rg"}


def test_the_pause_of_an_event_for_an_hour_after_its_end() -> None:
    """The longest pause of an own event is shown while it is current, and for an hour after."""
    runs = ScheduledEvent("RUNS", "Freeze", "Started", "Platform", ("vmss_0",))
    peer = replace(runs, event_id="PEER", resources=("vmss_1",))
    events = (runs, peer)

    def shown(*documents: tuple[float, Iterable[ScheduledEvent]]) -> list[float]:
        scrape = Scrape(exposition(snapshot_after((0, []), *documents)).render().body.decode())
        series = scrape.series(
            "event_observed_pause_seconds", event_id="RUNS", event_type="Freeze", scope="self"
        )
        assert len(scrape.series("event_observed_pause_seconds")) == len(series)
        return [value for _, value in series]

    pause = 0.004  # what ``snapshot_after`` measures at each document
    assert shown((1, events)) == [pause]
    assert shown((1, events), (2, []), (3600, [])) == [pause]
    assert shown((1, events), (2, []), (3603, [])) == []


@pytest.mark.parametrize(("pause", "is_longer"), [(4.0, False), (12.0, True)])
def test_a_pause_that_was_longer_than_announced(pause: float, is_longer: bool) -> None:
    """Announced as 5 s and paused for 12 s: a fact of its own, and the event is not harmless."""
    freeze = ScheduledEvent("E", "Freeze", "Scheduled", "Platform", ("web_0",), NOON, "", 5.0)
    started = replace(freeze, status="Started", not_before=None)
    known = Lifecycles()
    for seconds, event in ((0, freeze), (1, started), (20, started)):
        context = ObservationContext(at(seconds), "web_0", pause=Pause(pause if seconds else 0.0))
        known, _ = observe(known, Document(7, (event,)), context)
    snapshot = Snapshot(vm_name="web_0", identity=WEB).with_events(known, NOON + 20)
    scrape = Scrape(exposition(snapshot).render().body.decode())
    labels = {
        "event_id": "E",
        "event_type": "Freeze",
        "scope": "self",
        "vm_name": "web_0",
        "announced": "5",
    }
    assert scrape.series("event_paused_longer_seconds") == ([(labels, 12.0)] if is_longer else [])
    [(info, _)] = scrape.series("event_info")
    assert info["kind"] == ("announced" if is_longer else "harmless")
    assert bool(scrape.series("vm_impact_timestamp_seconds")) is is_longer


def test_ended_events_for_an_hour() -> None:
    """The end of an event is shown for an hour, unless the event returns. If more than a hundred
    end, all are shown for five minutes, so that rules know of each, and then the newest hundred.
    """
    events = [
        ScheduledEvent(f"E{i}", "Freeze", "Scheduled", "User", ("vmss_0",), NOON + 900)
        for i in range(120)
    ]

    def shown(*documents: tuple[float, Iterable[ScheduledEvent]]) -> list[str]:
        scrape = Scrape(exposition(snapshot_after(*documents)).render().body.decode())
        series = scrape.series(
            "event_ended_timestamp_seconds", outcome="cancelled", scope="self", event_type="Freeze"
        )
        assert {value for _, value in series} <= {NOON + 60}
        return [labels["event_id"] for labels, _ in series]

    first, second, *others = events
    assert shown((0, events)) == []
    # All but the first end at 60 s, and are looked at in the same second and 301 s later.
    assert len(shown((0, events), (60, [first]))) == 119
    newest = [f"E{i}" for i in range(20, 120)]
    assert shown((0, events), (60, [first]), (361, [first])) == newest
    # The first two end, and the second one returns.
    assert shown((0, events), (60, others), (70, [second, *others])) == ["E0"]
    # One ends at 60 s, and is looked at just before and just after an hour.
    assert shown((0, [first]), (60, []), (3659, [])) == ["E0"]
    assert shown((0, [first]), (60, []), (3661, [])) == []
