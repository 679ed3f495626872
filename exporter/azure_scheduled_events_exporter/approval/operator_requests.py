"""Operators' requests to approve events: which are still to be sent, and the texts of their results. Pure.

The journal holds them (``journal.requests``); ``approval.sender`` sends them and writes the results.
"""

from collections.abc import Callable

from azure_scheduled_events_exporter.core.document import comparable_name
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.errors import ImdsError, printable
from azure_scheduled_events_exporter.journal.requests import ApprovalRequest
from azure_scheduled_events_exporter.times import format_duration, iso_time

ACCEPTED = "accepted"
"""The result of a request that IMDS has accepted."""

REFUSED = "approval refused"
"""How the result of a request begins that IMDS refused."""

NOT_SENT = "approval not sent"
"""How the result of a request begins if there was no connection to IMDS."""

NO_ANSWER = "approval without an answer"
"""How the result of a request begins that IMDS did not answer: IMDS may have accepted it."""

UNCERTAIN_ANSWER = "approval without a certain answer"
"""The same if a server has answered that it failed, or with an unknown status."""

UNKNOWN_RESULT = "sent, but no result came: it may have been approved"
"""The result of a request of which nobody saw how it ended."""

NOTHING_SCHEDULED = "it is advice: nothing is scheduled, so there is nothing to approve"
_STARTED = "it has started already"
_APPROVED = "it is approved already, by "
_LOOK = "look at it and approve again"


def is_approved(result: str) -> bool:
    """Return whether ``result`` means that the event is approved or has started."""
    return result in {ACCEPTED, _STARTED} or result.startswith(_APPROVED)


def may_be_approved(result: str) -> bool:
    """Return whether IMDS may have accepted the request with this ``result`` without anybody seeing it."""
    return result == UNKNOWN_RESULT or result.startswith((NO_ANSWER, UNCERTAIN_ANSWER))


def is_not_accepted(error: ImdsError) -> bool:
    """Return whether IMDS has not accepted for certain. If it got the request and answered neither way, it may have."""
    return error.is_refusal or not error.may_have_arrived


def summary(error: ImdsError) -> str:
    """Return how a request ended that IMDS did not accept, in a few words."""
    if is_not_accepted(error):
        return REFUSED if error.status else NOT_SENT
    return UNCERTAIN_ANSWER if error.status else NO_ANSWER


def result_of(life: Lifecycle, error: ImdsError | None) -> str:
    """Return the result of a request that was sent, when the event was ``life``; ``error`` is why it failed."""
    if error is None:
        return ACCEPTED
    if is_not_accepted(error) and life.request is not None:  # an earlier request had no answer
        return f"{NO_ANSWER} earlier, then {summary(error).removeprefix('approval ')}: {error}"
    return f"{summary(error)}: {error}"


def needs_no_request(life: Lifecycle | None, request: ApprovalRequest) -> str:
    """Return why a request is not sent: its result; ``""`` if it is sent."""
    if life is None:
        return "not current: IMDS shows no such event"
    if life.state is State.STARTED:
        return _STARTED
    if not life.is_open_to_approval:
        return (
            f"not approved: {NOTHING_SCHEDULED}" if life.state is State.ADVISORY else f"{_APPROVED}{life.approved_by}"
        )
    shown, event = request.life, life.event
    for name, seen, now in (
        ("NotBefore", _shown(shown.not_before, iso_time), _shown(life.not_before, iso_time)),
        ("EventType", printable(shown.event.event_type) or "unknown", printable(event.event_type) or "unknown"),
        (
            "DurationInSeconds",
            _shown(shown.event.duration_seconds, format_duration),
            _shown(event.duration_seconds, format_duration),
        ),
    ):
        if seen != now:
            return f"not approved: {name} was {seen} when you confirmed and is {now} now; {_LOOK}"
    known = set(map(comparable_name, shown.event.resources))
    added = [name for name in event.resources if comparable_name(name) not in known]
    return f"not approved: Resources also has {printable(', '.join(added))} now; {_LOOK}" if added else ""


def _shown(value: float | None, write: Callable[[float], str]) -> str:
    return "unknown" if value is None else write(value)
