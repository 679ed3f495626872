"""When a firing alert is posted again, and how its end is."""

import math
from collections.abc import Iterable

from azure_scheduled_events_exporter.alertmanager.alert import Alert
from azure_scheduled_events_exporter.alertmanager.outbox import Outbox, Wanted
from azure_scheduled_events_exporter.core.timestamp import Timestamp

HOLD = 1800.0
NONE = Wanted()


def alert(name: str = "Reboot") -> Alert:
    """Return an alert."""
    return Alert({"alertname": name, "event_id": "1"}, {"summary": "s"}, Timestamp(0.0), HOLD)


def posts(outbox: Outbox, wanted: Wanted, now: float) -> list[tuple[str, str]]:
    """Update ``outbox``, and post what is due; return the names of the alerts, and whether their
    events ended.
    """
    outbox.update(wanted, now)
    due = outbox.due(now, 64)
    outbox.accepted(due, now)
    return [(each.alert.name, "firing" if each.ended_at is None else "ended") for each in due]


def test_firing_alert() -> None:
    """An alert is posted at once and again every 15 to 30 s."""
    outbox, wanted = Outbox(), Wanted([alert()])
    assert posts(outbox, wanted, 0.0) == [("Reboot", "firing")]
    assert posts(outbox, wanted, 14.0) == []
    assert 15.0 <= outbox.next_due() <= 30.0
    assert posts(outbox, wanted, 31.0) == [("Reboot", "firing")]


def ends(outbox: Outbox, wanted: Wanted, times: Iterable[float]) -> list[tuple[float, float]]:
    """Post what is due at ``times``; return when an end was posted, and which."""
    told = []
    for now in times:
        outbox.update(wanted, now)
        due = outbox.due(now, 64)
        told += [(now, now + entry.ends_in(now)) for entry in due if entry.ended_at is not None]
        outbox.accepted(due, now)
    return told


def test_end() -> None:
    """An end is posted three times at once, with a time three minutes later, and three times when
    that is past.
    """
    outbox = Outbox()
    posts(outbox, Wanted([alert()]), 0.0)
    told = ends(outbox, NONE, range(40, 1000))
    assert [end for _, end in told] == [40.0 + 180.0] * 6
    first, later = [now for now, _ in told[:3]], [now for now, _ in told[3:]]
    assert first[0] == 40
    assert first[2] <= 40 + 62
    assert later[0] == 40 + 300
    assert outbox.next_due() == math.inf


def test_ends_of_two_vms() -> None:
    """The VM that sees the end last has the last word: no exporter contradicts another."""
    first, last = Outbox(), Outbox()
    posts(first, Wanted([alert()]), 0.0)
    posts(last, Wanted([alert()]), 0.0)
    ends(first, NONE, range(40, 300))
    ends(last, Wanted([alert()]), range(1, 115))
    assert ends(last, NONE, range(115, 300))[-1][1] == 115 + 180
    assert first.next_due() == 40 + 300, "what it posts next comes when both are over"


def test_event_that_returns() -> None:
    """An event that is back is posted at once, and its end is not."""
    outbox, wanted = Outbox(), Wanted([alert()])
    posts(outbox, wanted, 0.0)
    assert posts(outbox, NONE, 40.0) == [("Reboot", "ended")]
    assert posts(outbox, wanted, 100.0) == [("Reboot", "firing")]
    assert posts(outbox, wanted, 221.0) == [("Reboot", "firing")]


def test_another_alert_takes_over() -> None:
    """When the kind of an event changes, its new alert is posted at once and the old one ends."""
    outbox = Outbox()
    posts(outbox, Wanted([alert("DegradedHost")]), 0.0)
    assert posts(outbox, Wanted([alert("Reboot")]), 40.0) == [
        ("Reboot", "firing"),
        ("DegradedHost", "ended"),
    ]


def test_end_before_a_restart() -> None:
    """After a restart, an end is posted at once: three minutes after the event's, also if that is
    past.
    """
    outbox, wanted = Outbox(), Wanted([], [(alert("Recent"), 100.0), (alert("Earlier"), 600.0)])
    assert ends(outbox, wanted, [0.0]) == [(0.0, 80.0), (0.0, -420.0)]


def test_end_that_alertmanager_knows() -> None:
    """After a restart, an alert that has reached its ``endsAt`` is not posted."""
    assert posts(Outbox(), Wanted([], [(alert(), HOLD + 1)]), 0.0) == []


def test_end_that_stays_in_the_journal() -> None:
    """An end is posted as often, however long the journal has it."""
    outbox, wanted = Outbox(), Wanted([alert()])
    posts(outbox, wanted, 0.0)
    told = [
        each
        for now in range(40, 4000, 10)
        for each in posts(outbox, Wanted([], [(alert(), now - 40.0)]), float(now))
    ]
    assert told == [("Reboot", "ended")] * 6


def test_refused() -> None:
    """What is refused is due again when told, and does not hold up a new alert."""
    outbox = Outbox()
    outbox.update(Wanted([alert("Bad")]), 0.0)
    outbox.refused(outbox.due(0.0, 64), 8.0)
    outbox.update(Wanted([alert("Bad"), alert("New")]), 1.0)
    assert [each.alert.name for each in outbox.due(1.0, 64)] == ["New"]
    assert [each.alert.name for each in outbox.due(8.0, 64)] == ["Bad", "New"]


def test_new_text() -> None:
    """The next post of an alert has the newest text, and is no new alert."""
    outbox, changed = Outbox(), Alert(alert().labels, {"summary": "new"}, Timestamp(0.0), HOLD)
    posts(outbox, Wanted([alert()]), 0.0)
    outbox.update(Wanted([changed]), 31.0)
    (entry,) = outbox.due(31.0, 64)
    assert entry.alert is changed
    assert outbox.accepted([entry], 31.0) == []
