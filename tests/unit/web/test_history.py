"""The history on the status page."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
    Lifecycle,
    Transition,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.web.history import phases
from azure_scheduled_events_exporter.web.rows import (
    DOCUMENT_COLUMNS,
    PAST_COLUMNS,
    document_row,
    past_row,
)
from azure_scheduled_events_exporter.web.status_page import page
from support.events.status_reader import Page
from support.events.status_scene import (
    BUSY,
    NOW,
    QUIET,
    ended,
    freeze,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "less than 0.1s"),
        (0.1, "0.1s"),
        (2.449, "2.4s"),
        (59.9, "59.9s"),
        (85.5, "1m 25s"),
        (7200.0, "2h"),
        (7259.0, "2h 0m 59s"),
        (86_405.0, "1d"),
    ],
)
def test_history_tells_how_long_the_vm_stood_still(seconds: float, words: str) -> None:
    """Beside how long an event was Started stands how long this VM was really paused, if that was
    measured.
    """
    unmeasured, *_ = BUSY.recent
    measured = replace(unmeasured, observed_pause=seconds)
    shown = Page(replace(QUIET, recent=(measured,))).text
    assert f", this VM was paused for {words}." in shown
    assert "was paused" not in Page(replace(QUIET, recent=(unmeasured,))).text


# An event that began at NotBefore, without an approval. The times of ``ended`` are seconds after
# its first sight, which was ``began`` seconds ago.
AT_NOT_BEFORE = ended(
    "Freeze",
    began=5000,
    notice=900,
    started=900,
    lasted=960,
    outcome=Transition.COMPLETED,
    approver=Approver.DEADLINE,
    approved=900,
)
CANCELLED = ended(
    "Freeze", began=5000, notice=900, started=None, lasted=60, outcome=Transition.CANCELLED
)


@pytest.mark.parametrize(
    ("life", "expected"),
    [
        (
            ended(
                "Reboot",
                began=5000,
                notice=900,
                started=300,
                lasted=700,
                outcome=Transition.COMPLETED,
                approver=Approver.OPERATOR,
                approved=130,
            ),
            {"waiting": (0, 130), "approved": (130, 300), "started": (300, 700)},
        ),
        (AT_NOT_BEFORE, {"waiting": (0, 900), "started": (900, 960)}),
        (CANCELLED, {"waiting": (0, 60)}),
        (
            ended(
                "Reboot", began=5000, notice=0, started=0, lasted=60, outcome=Transition.COMPLETED
            ),
            {"started": (0, 60)},
        ),
        # Both were first seen 28 s ago.
        (freeze(), {"waiting": (0, 28)}),
        (
            freeze(approval=Approval(Approver.EXPORTER, Timestamp(NOW - 8))),
            {"waiting": (0, 20), "approved": (20, 28)},
        ),
    ],
)
def test_phases(life: Lifecycle, expected: dict[str, tuple[float, float]]) -> None:
    """A bar has the phases in their order, one ending where the next begins. ``expected`` has the
    begin and the end of each phase, in seconds after the event was first seen.
    """
    assert phases(life, NOW) == expected


@pytest.mark.parametrize(
    ("life", "words"),
    [
        pytest.param(
            AT_NOT_BEFORE, ("notice 15m, Scheduled: 15m, ", ", Started: 1m."), id="it started"
        ),
        pytest.param(CANCELLED, ("notice 15m, Scheduled: 1m.",), id="cancelled"),
    ],
)
def test_the_times_in_each_state(life: Lifecycle, words: tuple[str, ...]) -> None:
    """The text below a bar says how long the event was in each state, by the state's name."""
    shown = Page(replace(QUIET, recent=(life,))).text
    assert [each for each in words if each not in shown] == []


@pytest.mark.parametrize(
    ("waiting_until", "cell", "words"),
    [
        pytest.param(
            899, "not approved", "not approved: it started at NotBefore,", id="to NotBefore"
        ),
        pytest.param(
            800, "not approved here", "not approved from here: ", id="100 s before NotBefore"
        ),
        pytest.param(None, "not approved here", "not approved from here: ", id="in no document"),
    ],
)
def test_an_approval_that_nobody_can_rule_out(
    waiting_until: float | None, cell: str, words: str
) -> None:
    """That nobody approved an event is told only if a document showed it waiting at NotBefore, or
    less than 5 s before it.

    ``waiting_until`` is when the last document showed it so, in seconds after its first sight.
    NotBefore is 900.
    """
    shown_until = None
    if waiting_until is not None:
        shown_until = AT_NOT_BEFORE.first_seen.wall + waiting_until
    life = replace(AT_NOT_BEFORE, pending_until=shown_until)
    assert dict(zip(PAST_COLUMNS, past_row(life, ()), strict=True))["Approved"] == cell
    assert f", {words}" in Page(replace(QUIET, recent=(life,))).text


@pytest.mark.parametrize(
    ("life", "place"),
    [
        pytest.param(
            ended(
                "Freeze",
                began=5000,
                notice=900,
                started=900,
                lasted=1000,
                outcome=Transition.COMPLETED,
            ),
            "90.00%",
            id="after 900 of 1000 s",
        ),
        pytest.param(CANCELLED, "99.50%", id="NotBefore is after the end of the bar"),
    ],
)
def test_the_mark_at_not_before(life: Lifecycle, place: str) -> None:
    """The bar of an event has a mark at NotBefore. If the event ended before that, the mark is just
    before the end of the bar, where it is still visible.
    """
    markup = page(replace(QUIET, recent=(life,)), NOW, "/metrics").decode()
    assert f'<rect class="deadline" x="{place}"' in markup


def test_fractions_of_a_second_in_the_table() -> None:
    """The table of past events cuts off fractions of a second, as the page does."""
    life = ended(
        "Preempt", began=5000, notice=4.8, started=4.9, lasted=9, outcome=Transition.COMPLETED
    )
    assert dict(zip(PAST_COLUMNS, past_row(life, ()), strict=True))["Notice"] == "4s"
    assert "notice 4s," in Page(replace(QUIET, recent=(life,))).text


def test_a_kept_document_in_the_table() -> None:
    """A document that was kept is shown with its incarnation, if it has one; without events, its
    row says so.
    """
    for body, incarnation in (
        (b'{"DocumentIncarnation": 7, "Events": []}', "7"),
        (b'{"Events": []}', ""),
    ):
        cells = document_row(1, RecordedDocument(0.0, body))
        row = dict(zip(DOCUMENT_COLUMNS, cells, strict=True))
        assert (row["Incarnation"], row["Events"]) == (incarnation, "none")
