"""The kind of an event: what people have to be told about it."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.kinds import kind_of
from azure_scheduled_events_exporter.core.lifecycle import Approver, Kind, Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.timestamp import Timestamp

NOW = 1_800_000_000.0
DAY = 86_400.0
EVENT = ScheduledEvent("E", "Reboot", "Scheduled", "Platform", ("vm_0",), NOW + 900)


def seen(known: Lifecycles, event: ScheduledEvent) -> Lifecycles:
    """Return the known events after a document with ``event``: the first one at NOW, a later one a
    second after it.
    """
    now = Timestamp(NOW + len(known.current))
    return observe(known, Document(1, (event,)), ObservationContext(now, "vm_0"))[0]


CASES: list[tuple[Kind, dict[str, Any]]] = [
    (Kind.ANNOUNCED, {}),
    # A Freeze is harmless if it is announced as shorter than 9 s, other events if they take 0 s.
    (Kind.ANNOUNCED, {"event_type": "Freeze", "duration_seconds": 9.0}),
    # An eviction restarts no VM, and only of a restart it is said that it came without notice.
    (Kind.ANNOUNCED, {"event_type": "Preempt", "status": "Started"}),
    (
        Kind.ADVISORY,
        {"event_type": "SpotRebalanceRecommendation", "status": "Advisory", "not_before": None},
    ),
    (Kind.ADVISORY, {"status": "Advisory", "source": "User", "duration_seconds": 0.0}),
    (Kind.HARMLESS, {"duration_seconds": 0.0}),
    (Kind.HARMLESS, {"event_type": "Freeze", "duration_seconds": 8.9, "source": "User"}),
    (Kind.HARMLESS, {"event_type": "Teleport", "duration_seconds": 0.0}),
    (
        Kind.FAR_AHEAD,
        {"event_type": "Freeze", "duration_seconds": 5.0, "not_before": NOW + 3 * DAY},
    ),
    (Kind.FAR_AHEAD, {"event_type": "Terminate", "not_before": NOW + 3 * DAY}),
    (Kind.REQUESTED, {"source": "User"}),
    (Kind.REQUESTED, {"source": "User", "status": "Started"}),
    (Kind.REQUESTED, {"source": "User", "event_type": "Teleport", "not_before": NOW + 3 * DAY}),
    (Kind.WITHOUT_NOTICE, {"status": "Started"}),
    (Kind.WITHOUT_NOTICE, {"status": "Started", "event_type": "Redeploy", "source": ""}),
    (Kind.FAR_AHEAD, {"not_before": NOW + DAY + 1}),
    (Kind.FAR_AHEAD, {"not_before": NOW + DAY + 1, "event_type": "Teleport"}),
    # No eviction is announced days ahead: its NotBefore is not believed.
    (Kind.ANNOUNCED, {"not_before": NOW + DAY + 1, "event_type": "Preempt"}),
    (Kind.ANNOUNCED, {"not_before": NOW + DAY}),
    (Kind.UNKNOWN_TYPE, {"event_type": "Teleport"}),
    (Kind.UNKNOWN_TYPE, {"event_type": "", "status": "Started"}),
]


@pytest.mark.parametrize(("kind", "values"), CASES)
def test_each_kind(kind: Kind, values: dict[str, Any]) -> None:
    """Each of these events has the kind of the first rule of ``kind_of`` that applies."""
    [life] = seen(Lifecycles(), replace(EVENT, **values)).current.values()
    assert life.kind is kind


def test_a_kind_changes_while_the_event_goes_on() -> None:
    """An event days ahead becomes near as time passes, and far again if NotBefore moves. Once
    it has started, it is not ahead.
    """
    known = seen(Lifecycles(), replace(EVENT, not_before=NOW + 2 * DAY))
    assert kind_of(known.current["E"], NOW) is Kind.FAR_AHEAD
    assert kind_of(known.current["E"], NOW + DAY) is Kind.ANNOUNCED
    known = seen(known, replace(EVENT, not_before=NOW + 3 * DAY))
    assert kind_of(known.current["E"], NOW + DAY) is Kind.FAR_AHEAD
    known = seen(known, replace(EVENT, status="Started"))
    assert kind_of(known.current["E"], NOW) is Kind.ANNOUNCED


@dataclass(frozen=True)
class Lived:
    """An event that was announced, has started, and may have been measured; all lengths in seconds.

    Attributes:
        kind: what it is now.
        announced: its DurationInSeconds.
        measured: the longest pause of its VM; None: not measured.
        started_for: how long it has been Started.
        harmless_below: the setting ``--freeze.harmless-below``.
        event_type: its type.
    """

    kind: Kind
    announced: float
    measured: float | None
    started_for: float = 10.0
    harmless_below: float = 9.0
    event_type: str = "Freeze"


LIVED = [
    Lived(Kind.HARMLESS, announced=5.0, measured=4.0),
    Lived(Kind.HARMLESS, announced=5.0, measured=9.0),
    Lived(Kind.ANNOUNCED, announced=5.0, measured=12.0),
    Lived(Kind.ANNOUNCED, announced=5.0, measured=None, harmless_below=0.0),
    Lived(Kind.ANNOUNCED, announced=5.0, measured=None, harmless_below=5.0),
    Lived(Kind.HARMLESS, announced=20.0, measured=12.0, harmless_below=30.0),
    # A pause of up to NOISE_SECONDS, 0.1, does not count.
    Lived(Kind.HARMLESS, announced=0.0, measured=0.06, harmless_below=0.0),
    Lived(Kind.ANNOUNCED, announced=0.0, measured=0.3, harmless_below=0.0),
    Lived(Kind.ANNOUNCED, announced=0.0, measured=12.0, event_type="Reboot"),
    # An event that is Started for more than half an hour does not end as announced.
    Lived(Kind.HARMLESS, announced=5.0, measured=None, started_for=1800.0),
    Lived(Kind.ANNOUNCED, announced=5.0, measured=None, started_for=1801.0),
    Lived(
        Kind.UNKNOWN_TYPE, announced=0.0, measured=None, started_for=1801.0, event_type="Teleport"
    ),
]


@pytest.mark.parametrize("lived", LIVED)
def test_what_was_measured_decides_about_harmless(lived: Lived) -> None:
    """An event announced as harmless is reported once it paused its VM for longer, or does not
    end.
    """
    event = replace(EVENT, event_type=lived.event_type, duration_seconds=lived.announced)
    known = seen(seen(Lifecycles(), event), replace(event, status="Started", not_before=None))
    life = replace(known.current["E"], observed_pause=lived.measured)
    assert life.started_at is not None
    now = life.started_at.wall + lived.started_for
    assert kind_of(life, now, lived.harmless_below) is lived.kind


def test_the_setting_decides_what_is_harmless() -> None:
    """With a threshold of 0, the Freeze of 5 s is announced from its first document on."""
    freeze = replace(EVENT, event_type="Freeze", duration_seconds=5.0)
    context = ObservationContext(Timestamp(NOW), "vm_0", harmless_below=0.0)
    known, [change] = observe(Lifecycles(), Document(1, (freeze,)), context)
    assert (known.current["E"].kind, change.lifecycle.kind) == (Kind.ANNOUNCED, Kind.ANNOUNCED)


def test_a_pause_changes_the_kind_of_what_has_ended() -> None:
    """The kind of an ended event takes into account the pause that was measured with the document
    that no longer showed it. A Freeze that is announced as 5 s is harmless by default, but not if
    the VM was paused for 12 s.
    """
    freeze = replace(EVENT, event_type="Freeze", duration_seconds=5.0)
    started = replace(freeze, status="Started", not_before=None)
    known = Lifecycles()
    for second, event, pause in ((0, freeze, 0.0), (1, started, 0.01)):
        context = ObservationContext(Timestamp(NOW + second), "vm_0", pause=Pause(pause))
        known, _ = observe(known, Document(1, (event,)), context)
    last = ObservationContext(Timestamp(NOW + 20), "vm_0", pause=Pause(12.0))
    known, [completed] = observe(known, Document(1), last)
    assert known.ended["E"].kind is Kind.ANNOUNCED
    assert completed.lifecycle.kind is Kind.ANNOUNCED


def test_an_approval_from_here_explains_a_start() -> None:
    """An event that was approved from here did not come without notice, also if no document showed
    it waiting.
    """
    known, _ = mark_approved(seen(Lifecycles(), EVENT), "E", Approver.OPERATOR, Timestamp(NOW))
    approved = known.current["E"]
    first_seen_as_started = replace(approved, started_at=approved.first_seen)
    assert kind_of(first_seen_as_started, NOW) is Kind.ANNOUNCED
