"""When a firing alert is posted again, and how its end is."""

import math
from collections.abc import Iterable
from dataclasses import replace

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


def resolves(outbox: Outbox, wanted: Wanted, times: Iterable[float]) -> list[float]:
    """Post what is due at ``times``; return when a resolve was posted.

    It is one for an Alertmanager too whose clock lags by a few seconds.
    """
    told = []
    for now in times:
        outbox.update(wanted, now)
        due = outbox.due(now, 64)
        told += [now for entry in due if entry.ended_at is not None and entry.ends_in(now) < -5]
        outbox.accepted(due, now)
    return told


def test_end() -> None:
    """An alert is resolved three minutes after the end of its event, three times."""
    outbox = Outbox()
    posts(outbox, Wanted([alert()]), 0.0)
    told = resolves(outbox, NONE, range(40, 1000))
    assert told[0] == 40 + 180
    assert len(told) == 3
    assert told[2] <= 40 + 180 + 62
    assert outbox.next_due() == math.inf


def test_ends_of_two_vms() -> None:
    """Of an event of several VMs, no exporter posts a resolve while another one still posts the
    alert.
    """
    shared = replace(alert(), resolve_after_seconds=300.0)
    first, last = Outbox(), Outbox()
    posts(first, Wanted([shared]), 0.0)
    posts(last, Wanted([shared]), 0.0)
    assert resolves(first, NONE, range(40, 1000))[0] == 40 + 300
    resolves(last, Wanted([shared]), range(1, 115))
    assert resolves(last, NONE, range(115, 1000))[0] == 115 + 300


def test_event_that_returns() -> None:
    """An event that is back is posted at once, and its end is not."""
    outbox, wanted = Outbox(), Wanted([alert()])
    posts(outbox, wanted, 0.0)
    assert posts(outbox, NONE, 40.0) == []
    assert posts(outbox, wanted, 100.0) == [("Reboot", "firing")]
    assert posts(outbox, wanted, 221.0) == [("Reboot", "firing")]


def test_another_alert_takes_over() -> None:
    """When the kind of an event changes, its new alert is posted at once, and the old one is
    resolved three minutes later.
    """
    outbox = Outbox()
    posts(outbox, Wanted([alert("DegradedHost")]), 0.0)
    assert posts(outbox, Wanted([alert("Reboot")]), 40.0) == [("Reboot", "firing")]
    assert ("DegradedHost", "ended") in posts(outbox, Wanted([alert("Reboot")]), 220.0)


def test_end_before_a_restart() -> None:
    """After a restart, a resolve that is due is posted at once, another one when it is."""
    wanted = Wanted([], [(alert("Recent"), 100.0), (alert("Earlier"), 600.0)])
    outbox = Outbox()
    assert posts(outbox, wanted, 0.0) == [("Earlier", "ended")]
    assert ("Recent", "ended") in posts(outbox, wanted, 80.0)


def test_end_that_alertmanager_knows() -> None:
    """After a restart, an alert that has reached its ``endsAt`` is not posted."""
    assert posts(Outbox(), Wanted([], [(alert(), HOLD + 1)]), 0.0) == []


def test_end_that_stays_in_the_journal() -> None:
    """A resolve is posted as often, however long the journal has the end."""
    outbox, wanted = Outbox(), Wanted([alert()])
    posts(outbox, wanted, 0.0)
    told = [
        each
        for now in range(40, 4000, 10)
        for each in posts(outbox, Wanted([], [(alert(), now - 40.0)]), float(now))
    ]
    assert told == [("Reboot", "ended")] * 3


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
