"""When a firing alert is posted again, and how its end is."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from azure_scheduled_events_exporter.alertmanager.alert import EventAlert
from azure_scheduled_events_exporter.alertmanager.outbox import MOST_ENDED, Outbox, Wanted
from azure_scheduled_events_exporter.core.timestamp import Timestamp

HOLD = 1800.0
"""Seconds for which Alertmanager keeps an alert that is not posted again."""
NO_ALERTS = Wanted()
MOST = 64
"""How many alerts one post may have; the tests never have so many."""
RESOLVE_AFTER = 180
"""Seconds from the end of an event to the resolve of its alert."""


def alert(name: str = "Reboot") -> EventAlert:
    """Return an alert."""
    return EventAlert({"alertname": name, "event_id": "1"}, {"summary": "s"}, Timestamp(0.0), HOLD)


def posts(outbox: Outbox, wanted: Wanted, now: float) -> list[tuple[str, str]]:
    """Update ``outbox``, and post what is due; return the names of the alerts, and whether their
    events ended.
    """
    outbox.update(wanted, now)
    due = outbox.due(now, MOST)
    outbox.accepted(due, now)
    return [(each.alert.name, "firing" if each.ended_at is None else "ended") for each in due]


def test_firing_alert() -> None:
    """An alert is posted at once and again every 15 to 30 s."""
    outbox = Outbox()
    wanted = Wanted([alert()])
    assert posts(outbox, wanted, 0.0) == [("Reboot", "firing")]
    assert posts(outbox, wanted, 14.0) == []
    assert 15.0 <= outbox.next_due() <= 30.0
    assert posts(outbox, wanted, 31.0) == [("Reboot", "firing")]


def resolves(outbox: Outbox, wanted: Wanted, times: Iterable[float]) -> list[float]:
    """Post what is due at ``times``; return when a resolve was posted.

    A post counts only if its ``endsAt`` is more than 5 s in the past, so that it is a resolve also
    to an Alertmanager whose clock lags by so much.
    """
    posted_at = []
    for now in times:
        outbox.update(wanted, now)
        due = outbox.due(now, MOST)
        posted_at += [
            now for entry in due if entry.ended_at is not None and entry.ends_in(now) < -5
        ]
        outbox.accepted(due, now)
    return posted_at


def test_end() -> None:
    """An alert is resolved three minutes after the end of its event, three times."""
    outbox = Outbox()
    posts(outbox, Wanted([alert()]), 0.0)
    ended = 40  # the first moment at which the alert is not wanted any more
    first, _, third = resolves(outbox, NO_ALERTS, range(ended, 1000))
    assert first == ended + RESOLVE_AFTER
    assert third <= first + 62, "two pauses of at most 30 s, each rounded up to a second"
    assert outbox.next_due() == math.inf


def test_ends_of_two_vms() -> None:
    """Of an event of several VMs, no exporter posts a resolve while another one still posts the
    alert.

    The exporters see its end at different times, here 40 s and 115 s. Each waits for 300 s, so the
    first one resolves long after the other one has stopped posting.
    """
    shared = replace(alert(), resolve_after_seconds=300.0)
    first = Outbox()
    last = Outbox()
    posts(first, Wanted([shared]), 0.0)
    posts(last, Wanted([shared]), 0.0)
    assert min(resolves(first, NO_ALERTS, range(40, 1000))) == 40 + 300
    resolves(last, Wanted([shared]), range(1, 115))
    assert min(resolves(last, NO_ALERTS, range(115, 1000))) == 115 + 300


def test_event_that_returns() -> None:
    """The alert of an event that is back is posted at once, and never as ended."""
    outbox = Outbox()
    wanted = Wanted([alert()])
    posts(outbox, wanted, 0.0)
    assert posts(outbox, NO_ALERTS, 40.0) == []
    assert posts(outbox, wanted, 100.0) == [("Reboot", "firing")]
    # The resolve of the end at 40 s would be due now.
    assert posts(outbox, wanted, 40.0 + RESOLVE_AFTER + 1) == [("Reboot", "firing")]


def test_another_alert_takes_over() -> None:
    """When the kind of an event changes, its new alert is posted at once, and the old one is
    resolved three minutes later.
    """
    outbox = Outbox()
    posts(outbox, Wanted([alert("DegradedHost")]), 0.0)
    assert posts(outbox, Wanted([alert("Reboot")]), 40.0) == [("Reboot", "firing")]
    assert ("DegradedHost", "ended") in posts(
        outbox, Wanted([alert("Reboot")]), 40.0 + RESOLVE_AFTER
    )


def test_end_before_a_restart() -> None:
    """After a restart, a resolve that is due already is posted at once, and any other when it is
    due.
    """

    def in_the_journal(now: float) -> Wanted:
        """Return two events that ended 100 s and 600 s before the restart, which is at 0."""
        return Wanted([], [(alert("Recent"), now + 100.0), (alert("Earlier"), now + 600.0)])

    outbox = Outbox()
    assert posts(outbox, in_the_journal(0.0), 0.0) == [("Earlier", "ended")]
    recent_is_due = RESOLVE_AFTER - 100.0
    just_before = in_the_journal(recent_is_due - 1)
    assert ("Recent", "ended") not in posts(outbox, just_before, recent_is_due - 1)
    assert ("Recent", "ended") in posts(outbox, in_the_journal(recent_is_due), recent_is_due)


def test_end_that_alertmanager_knows() -> None:
    """After a restart, no resolve is posted for an event that ended longer ago than its alert is
    kept: Alertmanager has ended the alert by itself.
    """
    ended_seconds_ago = HOLD + 1
    assert posts(Outbox(), Wanted([], [(alert(), ended_seconds_ago)]), 0.0) == []


def test_end_that_stays_in_the_journal() -> None:
    """A resolve is posted three times and no more, however long the journal keeps the end."""
    outbox = Outbox()
    wanted = Wanted([alert()])
    posts(outbox, wanted, 0.0)
    ended = 40.0
    posted = []
    for now in range(40, 4000, 10):
        seconds_since_the_end = now - ended
        in_the_journal = Wanted([], [(alert(), seconds_since_the_end)])
        posted += posts(outbox, in_the_journal, float(now))
    assert posted == [("Reboot", "ended")] * 3


def test_refused() -> None:
    """What is refused is due again at the given time, and does not hold up a new alert."""
    outbox = Outbox()
    outbox.update(Wanted([alert("Bad")]), 0.0)
    outbox.refused(outbox.due(0.0, MOST), 8.0)
    outbox.update(Wanted([alert("Bad"), alert("New")]), 1.0)
    assert [each.alert.name for each in outbox.due(1.0, MOST)] == ["New"]
    assert [each.alert.name for each in outbox.due(8.0, MOST)] == ["Bad", "New"]


def test_new_text() -> None:
    """The next post of an alert has the newest text, and does not count as a new alert."""
    outbox = Outbox()
    changed = EventAlert(alert().labels, {"summary": "new"}, Timestamp(0.0), HOLD)
    posts(outbox, Wanted([alert()]), 0.0)
    outbox.update(Wanted([changed]), 31.0)
    (entry,) = outbox.due(31.0, MOST)
    assert entry.alert is changed
    assert outbox.accepted([entry], 31.0) == [], "Alertmanager had accepted it as firing before"


def test_invented_events_are_bounded() -> None:
    """Of very many ends, the newest are kept for their resolve, and a firing alert stays.

    In each of five seconds, 400 other alerts fire. They end as the next second begins.
    """
    alerts_of_a_second = 400
    outbox = Outbox()
    real = EventAlert({"alertname": "Real"}, {}, Timestamp(0.0), HOLD)
    for second in range(5):
        flood = [
            EventAlert(
                {"alertname": f"of second {second}", "event_id": f"{number}"},
                {},
                Timestamp(0.0),
                HOLD,
            )
            for number in range(alerts_of_a_second)
        ]
        outbox.update(Wanted([real, *flood]), float(second))
    outbox.update(Wanted([real]), 5.0)
    when_all_are_due = 5.0 + RESOLVE_AFTER + 1
    due = outbox.due(when_all_are_due, most=2 * MOST_ENDED)
    assert Counter(each.alert.name for each in due if each.ended_at is not None) == {
        "of second 4": alerts_of_a_second,
        "of second 3": alerts_of_a_second,
        "of second 2": MOST_ENDED - 2 * alerts_of_a_second,
    }
    assert [each.alert.name for each in due if each.ended_at is None] == ["Real"]
