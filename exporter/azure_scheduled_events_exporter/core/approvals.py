"""Updates events when an approval is requested from here, and when IMDS refuses or accepts it.

From here means: by the exporter's policy, or by an operator or a hook on this VM. Pure. Sends
nothing (``approval.sender``) and does not decide what to approve (``approval.policy``).
"""

from dataclasses import replace

from .lifecycle import Approval, Approver, Change, Lifecycle, Lifecycles, Transition
from .timestamp import Timestamp


def mark_requested(
    known: Lifecycles, event_id: str, approver: Approver, now: Timestamp, *, who: str = ""
) -> Lifecycles:
    """Return the known events with an approval by ``approver`` marked as requested.

    Call it before the request is sent. If an approval would not start the event, nothing changes.
    ``who``: the name of the policy's rule, of the operator or of the hook's script.
    """
    life = _waiting(known, event_id)
    if life is None:
        return known
    first_sent_at = now
    if life.request is not None:  # an earlier request had no result, so it is sent again
        first_sent_at = life.request.at
    request = Approval(approver, first_sent_at, who=who)
    return known.updated([replace(life, request=request)])


def mark_refused(known: Lifecycles, event_id: str) -> Lifecycles:
    """Return the known events after IMDS refused to approve this one: its request is removed."""
    life = _waiting(known, event_id)
    if life is None:
        return known
    return known.updated([replace(life, request=None)])


def mark_approved(
    known: Lifecycles,
    event_id: str,
    approver: Approver,
    now: Timestamp,
    *,
    as_sent: Lifecycle | None = None,
    who: str = "",
) -> tuple[Lifecycles, tuple[Change, ...]]:
    """Return the known events after IMDS accepted an approval of this one, and the change.

    The first approval of an event is a transition. A second one, after NotBefore moved further
    away, is not: the event keeps time and approver of the first, with the new NotBefore.

    ``as_sent`` is the event as it was when the request was sent, if NotBefore may have moved since.
    """
    before = _waiting(known, event_id)
    if before is None:
        return known, ()
    sent_for = before.not_before
    if as_sent is not None:
        sent_for = as_sent.not_before
    if before.approval is not None:
        approval = replace(before.approval, not_before=sent_for)
        return known.updated([replace(before, request=None, approval=approval)]), ()
    approval = Approval(approver, now, not_before=sent_for, who=who)
    life = replace(before, request=None, approval=approval)
    return known.updated([life]), (Change(Transition.APPROVED, life, now),)


def _waiting(known: Lifecycles, event_id: str) -> Lifecycle | None:
    """Return the current event if an approval would start it; None if it would not."""
    life = known.current.get(event_id)
    if life is None or not life.is_open_to_approval:
        return None
    return life
