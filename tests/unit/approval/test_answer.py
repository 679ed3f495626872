"""What becomes of events when IMDS accepts a request to approve them, refuses it, or does not answer."""

import pytest

from azure_scheduled_events_exporter.approval.answer import Answer, answered, requested
from azure_scheduled_events_exporter.approval.scheduler import Due
from azure_scheduled_events_exporter.core.document import Document, EventStatus, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycles, Transition
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome

NOW = Timestamp(1_700_000_000.0, 1000.0, "boot")
REFUSED = Answer(ImdsError(Outcome.HTTP_ERROR, "400", status=400))
UNSENT = Answer(ImdsError(Outcome.CONNECTION_ERROR, "refused", may_have_arrived=False))
SILENT = Answer(ImdsError(Outcome.TIMEOUT, "no answer"))


@pytest.fixture
def known() -> Lifecycles:
    """Return two events, one for each approver."""
    events = tuple(ScheduledEvent(name, "Reboot", EventStatus.SCHEDULED, "Platform", ("vm",), None) for name in "AB")
    return observe(Lifecycles(), Document(1, events), ObservationContext(NOW, "vm"))[0]


def due(known: Lifecycles) -> list[Due]:
    """Return what a rule and an operator approve now."""
    first, second = known.current.values()
    return [Due(first, Approver.EXPORTER, "rule"), Due(second, Approver.OPERATOR, "ada", 7)]


def approvers(known: Lifecycles) -> list[Approver | None]:
    """Return by whom an approval of each event is under way."""
    return [life.request.by if life.request else None for life in known.current.values()]


def test_accepted(known: Lifecycles) -> None:
    """Each event is approved by the one who wanted it, and nothing is under way any more."""
    sent = due(known)
    after, changes = answered(requested(known, sent, NOW), sent, Answer(), NOW)
    approved = [(change.transition, change.lifecycle.approved_by) for change in changes]
    assert approved == [(Transition.APPROVED, Approver.EXPORTER), (Transition.APPROVED, Approver.OPERATOR)]
    assert approvers(after) == [None, None]
    assert Answer().result(sent[1]) == "accepted"


@pytest.mark.parametrize(
    ("answer", "result"), [(REFUSED, "approval refused: 400"), (UNSENT, "approval not sent: refused")]
)
def test_refused(answer: Answer, result: str, known: Lifecycles) -> None:
    """A refusal leaves the events as they were, and so does a request that never left this machine."""
    sent = due(known)
    assert answered(requested(known, sent, NOW), sent, answer, NOW) == (known, ())
    assert answer.result(sent[1]) == result


def test_no_answer(known: Lifecycles) -> None:
    """Without an answer the approval stays under way, also if IMDS refuses another request later."""
    sent = due(known)
    silent, _ = answered(requested(known, sent, NOW), sent, SILENT, NOW)
    assert approvers(silent) == [Approver.EXPORTER, Approver.OPERATOR]
    again = due(silent)
    refused, _ = answered(requested(silent, again, NOW), again, REFUSED, NOW)
    assert approvers(refused) == [Approver.EXPORTER, Approver.OPERATOR]
    assert REFUSED.result(again[1]) == "approval without an answer earlier, then refused: 400"
