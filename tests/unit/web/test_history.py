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
from azure_scheduled_events_exporter.web.rows import PAST_COLUMNS, document_row, past_row
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


@pytest.mark.parametrize(
    ("life", "expected"),
    [
        (
            ended("Reboot", 5000, 900, 300, 700, Transition.COMPLETED, Approver.OPERATOR, 130),
            {"waiting": (0, 130), "approved": (130, 300), "started": (300, 700)},
        ),
        (
            ended("Freeze", 5000, 900, 900, 960, Transition.COMPLETED, Approver.DEADLINE, 900),
            {"waiting": (0, 900), "started": (900, 960)},
        ),
        (ended("Freeze", 5000, 900, None, 60, Transition.CANCELLED), {"waiting": (0, 60)}),
        (ended("Reboot", 5000, 0, 0, 60, Transition.COMPLETED), {"started": (0, 60)}),
        (freeze(), {"waiting": (0, 28)}),
        (
            freeze(approval=Approval(Approver.EXPORTER, Timestamp(NOW - 8))),
            {"waiting": (0, 20), "approved": (20, 28)},
        ),
    ],
)
def test_phases(life: Lifecycle, expected: dict[str, tuple[float, float]]) -> None:
    """A bar has the phases in their order, one ending where the next begins, in seconds after the
    event was first seen.
    """
    assert phases(life, NOW) == expected


@pytest.mark.parametrize(
    ("waiting_until", "cell", "words"),
    [
        (899, "not approved", "not approved: it started at NotBefore,"),
        (800, "not approved here", "not approved from here: "),
        (None, "not approved here", "not approved from here: "),
    ],
)
def test_an_approval_that_nobody_can_rule_out(
    waiting_until: float | None, cell: str, words: str
) -> None:
    """That nobody approved an event is told only if a document showed it waiting at NotBefore."""
    life = ended("Freeze", 5000, 900, 900, 960, Transition.COMPLETED, Approver.DEADLINE, 900)
    shown_until = None if waiting_until is None else NOW - 5000 + waiting_until
    life = replace(life, pending_until=shown_until)
    assert dict(zip(PAST_COLUMNS, past_row(life, ()), strict=True))["Approved"] == cell
    assert f", {words}" in Page(replace(QUIET, recent=(life,))).text


@pytest.mark.parametrize(
    ("life", "place"),
    [
        (ended("Freeze", 5000, 900, 900, 1000, Transition.COMPLETED), "90.00%"),
        (ended("Freeze", 5000, 900, None, 60, Transition.CANCELLED), "99.50%"),
    ],
)
def test_the_mark_at_not_before(life: Lifecycle, place: str) -> None:
    """The bar has a mark at NotBefore, which is visible also at its end."""
    markup = page(replace(QUIET, recent=(life,)), NOW, "/metrics").decode()
    assert f'<rect class="deadline" x="{place}"' in markup


def test_a_kept_document_in_the_table() -> None:
    """A document that was kept is shown with its incarnation, if it has one, and its events."""
    known = RecordedDocument(0.0, b'{"DocumentIncarnation": 7, "Events": []}')
    assert document_row(1, known)[2:4] == ("7", "none")
    without = RecordedDocument(0.0, b'{"Events": []}')
    assert document_row(2, without)[2:4] == ("", "none")
