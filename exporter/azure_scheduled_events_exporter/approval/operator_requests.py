"""Operators' requests to approve events: which are still to be sent, and their results. Pure.

Requests of hooks are treated like those of operators, apart from the events that a hook may not
approve. The journal holds the requests (``journal.content.inbox``); ``approval.sender`` sends them
and writes the results.
"""

from collections.abc import Mapping, Sequence

from azure_scheduled_events_exporter.core.document import Scope, comparable_name
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State
from azure_scheduled_events_exporter.errors import ExporterError, ImdsError, printable
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.times import format_duration, iso_time

from .by_hook import obstacle

UNKNOWN_RESULT = "sent, but no result came: it may have been approved"
"""The result of a request of which nobody saw how it ended."""

NOTHING_SCHEDULED = "it is advice: nothing is scheduled, so there is nothing to approve"
# Texts of results, or their beginnings. Readers of a result compare it with these.
_ACCEPTED = "accepted"
_REFUSED = "approval refused"
_NOT_SENT = "approval not sent"  # such as without a connection to IMDS
_NO_ANSWER = "approval without an answer"  # IMDS may have accepted it
# A server failed, or answered as IMDS does not.
_UNCERTAIN_ANSWER = "approval without a certain answer"
_STARTED = "it has started already"
_APPROVED = "it is approved already, by "
_OTHER_REQUEST = "it may be approved, because another request for it had no certain answer"
_LOOK = "look at it and approve again"


def to_approve(current: Mapping[str, Lifecycle], event_ids: Sequence[str]) -> list[Lifecycle]:
    """Return the events that an operator's command is to approve.

    These are the given events. If none is given, they are all Scheduled events of this VM that are
    open to approval. If there is no such event, this VM's events that are not open to approval are
    returned: their results say why nothing is to be approved.

    An event whose status is not known is open to approval, but not Scheduled. So it is returned
    only if it is given.

    Args:
        current: the current events, by EventId.
        event_ids: those to approve, in upper or lower case; none means all of this VM.

    Raises:
        ExporterError: there is no such event, or this VM's name is unknown.
    """
    if event_ids:
        missing = [event_id for event_id in event_ids if event_id.upper() not in current]
        if missing:
            raise ExporterError(
                f"no current event has the id {missing[0]}: see azure-scheduled-events-exporter"
                " events"
            )
        without_repetition = dict.fromkeys(event_id.upper() for event_id in event_ids)
        return [current[event_id] for event_id in without_repetition]
    mine = [life for life in current.values() if life.scope is Scope.SELF]
    if not mine and any(life.scope is Scope.UNKNOWN for life in current.values()):
        raise ExporterError(
            "this VM's name is unknown, because IMDS has not answered it yet, so --all-mine cannot"
            " select its events: try again, give EventIds, or set --instance.name"
        )
    waiting = [life for life in mine if life.state is State.SCHEDULED and life.is_open_to_approval]
    chosen = waiting or [life for life in mine if not life.is_open_to_approval]
    if not chosen:
        raise ExporterError("no event of this VM waits for an approval")
    return chosen


def is_approved(result: str) -> bool:
    """Return whether ``result`` means that the event is approved or has started."""
    return result in {_ACCEPTED, _STARTED} or result.startswith(_APPROVED)


def may_be_approved(result: str) -> bool:
    """Return whether it is uncertain if IMDS accepted the request that has this ``result``."""
    uncertain = (UNKNOWN_RESULT, _NO_ANSWER, _UNCERTAIN_ANSWER, _OTHER_REQUEST)
    return result.startswith(uncertain)


def had_no_effect(error: ImdsError) -> bool:
    """Return whether IMDS certainly did not accept the request that failed with ``error``.

    IMDS may have accepted a request that arrived, and that it did not answer with a refusal.
    """
    return error.is_refusal or not error.may_have_arrived


def summary(error: ImdsError) -> str:
    """Return how a request ended that IMDS did not accept, in a few words."""
    if had_no_effect(error):
        return _REFUSED if error.status else _NOT_SENT
    return _UNCERTAIN_ANSWER if error.status else _NO_ANSWER


def result_of(life: Lifecycle, error: ImdsError | None) -> str:
    """Return the result of a request that was sent.

    Args:
        life: the event, as it was before the request was sent.
        error: why the request failed; None if IMDS accepted it.
    """
    if error is None:
        return _ACCEPTED
    # `life.request` is an earlier request of this exporter whose result is still not known.
    had_no_answer_earlier = life.request is not None
    if had_no_effect(error) and had_no_answer_earlier:
        return f"{_NO_ANSWER} earlier, then {summary(error).removeprefix('approval ')}: {error}"
    return f"{summary(error)}: {error}"


def expired_unsent(throttled: int, *, is_outdated: bool) -> str:
    """Return the result of a request that has expired: it was never sent, or only throttled.

    Args:
        throttled: how often IMDS answered it with a 429.
        is_outdated: whether it was once about to be sent, and its document was too old for that.
    """
    if throttled:
        tries = "the only try" if throttled == 1 else f"all {throttled} tries"
        return f"not approved: it was sent, and IMDS throttled {tries} (429): try again"
    if is_outdated:
        return (
            "not approved: it was not sent before it expired: IMDS, the journal's disk or this VM"
            " is slow, so the document was too old"
        )
    return "not approved: it was not sent before it expired"


def result_without_sending(life: Lifecycle | None, request: ApprovalRequest) -> str:
    """Return the result of a request that is not to be sent: why not; ``""`` if it is to be sent.

    ``life`` is the event of the request as it is now; None if it is not current.
    """
    if life is None:
        return "not current: IMDS shows no such event"
    if reason := _nothing_to_approve(life):
        return reason
    if request.approver is Approver.HOOK and (reason := obstacle(life)):
        return f"not approved: {reason}"
    return _difference(life, request)


def result_at_the_end(result: str, life: Lifecycle | None) -> str:
    """Return the result of a request by what is known of its event when its command ends.

    A request that was not accepted need not be the only one: that of a rule, or of another command,
    may have started the event, or may still be under way.

    ``life`` is the event as it is now; None if it is not current.
    """
    if life is None or is_approved(result) or may_be_approved(result):
        return result
    if reason := _nothing_to_approve(life):
        return reason
    if life.request is not None:
        return f"{_OTHER_REQUEST}; this one: {result}"
    return result


def _nothing_to_approve(life: Lifecycle) -> str:
    """Return a result that says why no approval would start an event; ``""`` if one would."""
    if life.state is State.STARTED:
        return _STARTED
    if life.is_open_to_approval:
        return ""
    if life.state is State.ADVISORY:
        return f"not approved: {NOTHING_SCHEDULED}"
    return f"{_APPROVED}{life.approved_by}"


def _difference(life: Lifecycle, request: ApprovalRequest) -> str:
    """Return a result that says what has changed since the operator looked; ``""`` if nothing has.

    A VM that has left Resources is no such change: fewer VMs are affected.
    """
    now = _confirmed_fields(life)
    for name, seen in _confirmed_fields(request.life).items():
        if seen != now[name]:
            return (
                f"not approved: {name} was {seen} when you confirmed and is {now[name]} now;"
                f" {_LOOK}"
            )
    known = set(map(comparable_name, request.life.event.resources))
    added = [name for name in life.event.resources if comparable_name(name) not in known]
    if not added:
        return ""
    return f"not approved: Resources also has {printable(', '.join(added))} now; {_LOOK}"


def _confirmed_fields(life: Lifecycle) -> dict[str, str]:
    """Return what an operator confirms, as text, by the names of fields; without Resources."""
    duration = life.event.duration_seconds
    return {
        "NotBefore": "unknown" if life.not_before is None else iso_time(life.not_before),
        "EventType": printable(life.event.event_type) or "unknown",
        "DurationInSeconds": "unknown" if duration is None else format_duration(duration),
    }
