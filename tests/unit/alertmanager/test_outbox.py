"""What an Alertmanager is sent, and when: alerts that hold, ends, and what is known after a restart."""

from dataclasses import replace

from azure_scheduled_events_exporter.alertmanager.event_alert import EventAlert
from azure_scheduled_events_exporter.alertmanager.outbox import (
    NOT_ACTIVE,
    REFUSED,
    RESOLVED_SECONDS,
    Ended,
    Holding,
    Outbox,
)

REBOOT = EventAlert({"alertname": "Reboot", "event_id": "1"}, {}, starts_at=1000.0, hold=900.0)
STARTED = EventAlert(REBOOT.labels, {"description": "The event has started."}, starts_at=1000.0, hold=3600.0)
SHARED = replace(REBOOT, is_shared=True)


def sent(outbox: Outbox, now: float, settling: float = 0.0) -> list[float]:
    """Send what is due at ``now``; return when each alert is to end, in seconds from then."""
    due = outbox.due(now, lambda ended_at: ended_at + settling)
    ends = [entry.ends_in(now) for entry in due]
    outbox.sent(due, now, accepted=True)
    return ends


def holding(outbox: Outbox, now: float, *alerts: EventAlert, confirmed: bool = True) -> None:
    """Let ``alerts`` hold from ``now`` on."""
    outbox.refresh([Holding(alert, confirmed) for alert in alerts], now)


def ended(now: float, alert: EventAlert = REBOOT) -> Outbox:
    """Return an outbox whose one alert was sent at 0 and is over at ``now``."""
    outbox = Outbox()
    holding(outbox, 0.0, alert)
    sent(outbox, 0.0)
    holding(outbox, now)
    return outbox


def test_life_of_an_alert() -> None:
    """An alert is sent at once, again every 15 s, at once when it is to be held for longer, and at its end."""
    outbox = Outbox()
    holding(outbox, 0.0, REBOOT)
    assert sent(outbox, 0.0) == [900.0]
    assert sent(outbox, 11.0) == []
    assert sent(outbox, 15.0) == [900.0]
    holding(outbox, 16.0, STARTED)
    assert sent(outbox, 16.0) == [3600.0]
    holding(outbox, 17.0)
    assert sent(outbox, 17.0) == [-3.0], "in the past, also by a clock that differs a little"


def test_short_memory() -> None:
    """An alert that is held for a few seconds only is sent so often that it never lapses."""
    outbox = Outbox()
    holding(outbox, 0.0, EventAlert(REBOOT.labels, {}, starts_at=1000.0, hold=6.0))
    sent(outbox, 0.0)
    assert sent(outbox, 2.0) == [6.0]


def test_end_is_repeated_and_forgotten() -> None:
    """An end is repeated for a quarter of an hour, and then nothing is left."""
    outbox = ended(10.0)
    assert len(sent(outbox, 10.0)) == 1
    assert len(sent(outbox, RESOLVED_SECONDS)) == 1
    assert sent(outbox, RESOLVED_SECONDS + 20.0) == []
    assert outbox.wait(RESOLVED_SECONDS + 20.0) is None


def test_end_waits_for_prometheus() -> None:
    """An end is sent only when a Prometheus has had the time to see it; meanwhile the alert is not sent either."""
    outbox = ended(20.0)
    assert sent(outbox, 49.0, settling=30.0) == []
    assert sent(outbox, 50.0, settling=30.0) == [-33.0]


def test_end_waits_for_a_late_prometheus() -> None:
    """While Prometheus has not scraped the end, it is looked for again each second, and what it may do later counts."""
    outbox = ended(20.0)
    assert outbox.due(20.0, lambda _: None) == []
    assert outbox.wait(20.0) == 1.0
    assert outbox.due(70.0, lambda _: None) == []
    assert outbox.due(71.0, lambda _: 71.5) == []
    assert outbox.wait(71.0) == 0.5
    assert len(outbox.due(71.5, lambda _: None)) == 1, "what is known is not asked for again"


def test_end_is_postponed() -> None:
    """An end that has not been sent is postponed, and one that has is repeated."""
    outbox = ended(20.0)
    assert outbox.due(21.0, lambda _: 30.0) == []
    outbox.postpone()
    assert outbox.due(31.0, lambda _: 50.0) == []
    assert sent(outbox, 50.0) == [-33.0]
    outbox.postpone()
    assert sent(outbox, 51.0) == []
    assert (outbox.wait(51.0) or 0.0) > 10.0
    assert len(sent(outbox, 65.0)) == 1


def test_end_that_waited_is_repeated_as_long() -> None:
    """An end is repeated for a quarter of an hour from when it was sent first, however late that was."""
    outbox = ended(20.0)
    assert len(sent(outbox, 620.0, settling=600.0)) == 1
    assert len(sent(outbox, 1500.0)) == 1
    assert sent(outbox, 1530.0) == []
    assert outbox.wait(1530.0) is None


def test_end_is_tried_while_alertmanager_would_hold_the_alert() -> None:
    """An end that Alertmanager has not accepted is tried for as long as Alertmanager keeps the alert."""
    outbox = Outbox()
    holding(outbox, 0.0, STARTED)
    sent(outbox, 0.0)
    holding(outbox, 10.0)
    assert len(outbox.due(3600.0, float)) == 1
    assert outbox.due(3611.0, float) == []


def test_event_returns_and_ends_again() -> None:
    """The second end of an event waits as the first one did."""
    outbox = ended(5.0)
    assert outbox.due(5.0, lambda _: 30.0) == []
    holding(outbox, 6.0, REBOOT)
    holding(outbox, 40.0)
    assert outbox.due(40.0, lambda _: 65.0) == []
    assert len(outbox.due(65.0, lambda _: None)) == 1


def test_event_returns() -> None:
    """An event that comes back after its end holds again, at once."""
    outbox = ended(5.0)
    sent(outbox, 5.0)
    holding(outbox, 6.0, REBOOT)
    assert sent(outbox, 6.0) == [900.0]


def test_ends_before_a_restart() -> None:
    """After a restart, events that ended lately are sent as over, and those that Alertmanager has forgotten are not."""
    outbox = Outbox()
    old = EventAlert({"alertname": "Reboot", "event_id": "0"}, {}, starts_at=0.0, hold=900.0)
    holding(outbox, 0.0)
    outbox.add_ended([Ended(REBOOT, 100.0), Ended(old, 901.0)], 0.0)
    assert sent(outbox, 0.0) == [-103.0]
    assert [entry.alert for entry in outbox.due(16.0, float)] == [REBOOT]


def test_journal_of_another_vm() -> None:
    """An event that no document has shown is neither ended nor prolonged unasked: it may be another VM's."""
    outbox = Outbox()
    holding(outbox, 0.0, REBOOT, confirmed=False)
    (entry,) = outbox.due(0.0, float)
    assert entry.was_accepted
    assert not entry.confirmed
    holding(outbox, 1.0)
    assert outbox.wait(1.0) is None


def asked(outbox: Outbox, now: float, answer: float | None) -> int:
    """Return how many ends are sent at ``now`` by an Alertmanager that gives ``answer``, for example the last post."""
    due = [entry for entry in outbox.due(now, float) if outbox.may_end(entry, now, answer)]
    outbox.sent(due, now, accepted=True)
    return len(due)


def test_end_of_an_event_of_one_vm() -> None:
    """The end of an event that names this VM alone is sent at once."""
    outbox = ended(20.0)
    assert asked(outbox, 20.0, 19.0) == 1


def test_end_that_all_vms_see() -> None:
    """The end of an event of several VMs is sent once no VM has posted its alert for more than the resend interval."""
    outbox = ended(20.0, SHARED)
    assert asked(outbox, 20.0, 19.0) == 0
    assert asked(outbox, 37.0, 19.0) == 0
    assert asked(outbox, 38.0, 19.1) == 1, "the clocks of two replicas differ a little"


def test_end_that_another_vm_does_not_see() -> None:
    """An end waits while another VM goes on posting the alert, and one that another VM has sent is sent, too."""
    outbox = ended(20.0, SHARED)
    assert asked(outbox, 20.0, 19.0) == 0
    assert asked(outbox, 38.0, 32.5) == 0
    assert asked(outbox, 56.0, 47.5) == 0
    assert asked(outbox, 73.0, 47.5) == 0
    assert asked(outbox, 74.0, 47.5) == 1
    outbox = ended(20.0, SHARED)
    assert asked(outbox, 20.0, NOT_ACTIVE) == 0, "Alertmanager may have just started"
    assert asked(outbox, 38.0, NOT_ACTIVE) == 1


def test_end_after_a_question_without_an_answer() -> None:
    """While another VM posts the alert, neither a failed question nor a restart of Alertmanager ends it."""
    outbox = ended(20.0, SHARED)
    assert asked(outbox, 20.0, None) == 0, "the network may have just come up"
    assert asked(outbox, 38.0, 31.0) == 0
    assert asked(outbox, 56.0, 31.0) == 1
    outbox = ended(20.0, SHARED)
    assert asked(outbox, 20.0, 19.0) == 0
    assert asked(outbox, 38.0, None) == 0
    assert asked(outbox, 56.0, 19.0) == 0, "nobody could post it"
    assert asked(outbox, 74.0, NOT_ACTIVE) == 0, "Alertmanager may have just started"
    assert asked(outbox, 92.0, 91.0) == 0
    assert asked(outbox, 110.0, NOT_ACTIVE) == 0
    assert asked(outbox, 128.0, None) == 0
    assert asked(outbox, 146.0, NOT_ACTIVE) == 0
    assert asked(outbox, 164.0, NOT_ACTIVE) == 1


def test_end_while_alertmanager_does_not_answer() -> None:
    """While Alertmanager is away, the end of an event of several VMs waits, and that of this VM alone is tried."""
    outbox = ended(20.0, SHARED)
    assert [asked(outbox, 20.0 + 18.0 * number, None) for number in range(10)] == [0] * 10
    outbox = ended(20.0)
    assert [asked(outbox, now, None) for now in (20.0, 35.0)] == [1, 1]


def test_end_that_cannot_be_asked_about() -> None:
    """Behind a proxy that takes posts only, an end is sent once: others may go on posting the alert."""
    outbox = ended(20.0, SHARED)
    assert [asked(outbox, now, REFUSED) for now in (20.0, 38.0)] == [0, 1]
    assert [asked(outbox, now, REFUSED) for now in (53.0, 71.0, 89.0)] == [0, 0, 0]
    assert asked(outbox, 107.0, NOT_ACTIVE) == 1, "now it says that nobody does"


def test_alert_that_fires_again_after_its_end() -> None:
    """An end is not repeated if Alertmanager shows the alert again: another client posts it."""
    outbox = ended(20.0)
    assert asked(outbox, 20.0, 19.0) == 1
    assert asked(outbox, 35.0, NOT_ACTIVE) == 1
    assert asked(outbox, 50.0, 49.0) == 0
    assert outbox.wait(50.0) is None


def test_alert_of_the_journal_that_a_document_shows() -> None:
    """After a restart, an alert that Alertmanager does not have is sent as soon as a document shows its event."""
    outbox = Outbox()
    holding(outbox, 0.0, REBOOT, confirmed=False)
    outbox.sent(outbox.due(0.0, float), 0.0, accepted=False)
    holding(outbox, 1.0, REBOOT)
    assert sent(outbox, 1.0) == [900.0]
