"""What becomes of an event when IMDS accepts a request to approve it, refuses it, or does not
answer.
"""

import pytest

from azure_scheduled_events_exporter.approval.operator_requests import (
    is_approved,
    may_be_approved,
    result_at_the_end,
    result_of,
)
from azure_scheduled_events_exporter.approval.scheduler import Due
from azure_scheduled_events_exporter.approval.sender import answered
from azure_scheduled_events_exporter.core.approvals import mark_requested
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycles, State, Transition
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome

NOW = Timestamp(1_700_000_000.0, 1000.0, "boot")
REFUSED = ImdsError(Outcome.HTTP_ERROR, "400", status=400)
UNSENT = ImdsError(Outcome.CONNECTION_ERROR, "refused", may_have_arrived=False)
SILENT = ImdsError(Outcome.TIMEOUT, "no answer")


ACCEPTED = None
"""No error: IMDS has accepted the request."""


@pytest.fixture
def known() -> Lifecycles:
    """Return the known events: one, which waits for its start."""
    event = ScheduledEvent("A", "Reboot", State.SCHEDULED, "Platform", ("vm",), None)
    context = ObservationContext(NOW, "vm")
    after, _changes = observe(Lifecycles(), Document(1, (event,)), context)
    return after


def due(known: Lifecycles) -> Due:
    """Return the event, which an operator wants to approve now."""
    return Due(known.current["A"], Approver.OPERATOR, who="ada", request=7)


def requested(known: Lifecycles) -> Lifecycles:
    """Return the event while the request is under way."""
    return mark_requested(known, "A", Approver.OPERATOR, NOW)


def test_accepted(known: Lifecycles) -> None:
    """The event is approved by the one who wanted it, and nothing is under way any more."""
    after, [change] = answered(requested(known), due(known), ACCEPTED, NOW)
    assert (change.transition, change.lifecycle.approved_by) == (
        Transition.APPROVED,
        Approver.OPERATOR,
    )
    assert after.current["A"].request is None
    assert result_of(known.current["A"], ACCEPTED) == "accepted"


@pytest.mark.parametrize(
    ("error", "result"),
    [(REFUSED, "approval refused: 400"), (UNSENT, "approval not sent: refused")],
)
def test_refused(error: ImdsError, result: str, known: Lifecycles) -> None:
    """A refusal leaves the event as it was, and so does a request that never left this machine."""
    assert answered(requested(known), due(known), error, NOW) == (known, ())
    assert result_of(known.current["A"], error) == result


def test_no_answer(known: Lifecycles) -> None:
    """Without an answer, the approval stays under way, also after a later refusal."""
    silent, _ = answered(requested(known), due(known), SILENT, NOW)
    refused, _ = answered(requested(silent), due(silent), REFUSED, NOW)
    for after in (silent, refused):
        assert after.current["A"].request is not None
    result = result_of(silent.current["A"], REFUSED)
    assert result == "approval without an answer earlier, then refused: 400"


def test_another_request_for_the_event(known: Lifecycles) -> None:
    """A request that was not sent is no failure if another request has had the event approved.
    While the other request is still under way, the result says that the event may be approved.
    """
    not_sent = "not approved: it was not sent before it expired"
    assert result_at_the_end(not_sent, known.current["A"]) == not_sent
    under_way = requested(known)
    result = result_at_the_end(not_sent, under_way.current["A"])
    assert may_be_approved(result)
    assert result.endswith(not_sent)
    accepted, _ = answered(under_way, due(known), ACCEPTED, NOW)
    assert is_approved(result_at_the_end(not_sent, accepted.current["A"]))
