"""Updates events when this exporter requests an approval, and when IMDS refuses or accepts it.

Pure. Sends nothing (``approval.sender``) and does not decide what to approve (``approval.policy``).
"""

from dataclasses import replace

from .lifecycle import Approval, Approver, Change, Lifecycle, Lifecycles, Transition
from .timestamp import Timestamp


def mark_requested(
    known: Lifecycles, event_id: str, approver: Approver, now: Timestamp, *, who: str = ""
) -> Lifecycles:
    """Return the known events with an approval by ``approver`` marked as requested.

    Call it before the request. If an approval would not start the event, nothing changes. ``who``:
    the name of the rule, the operator or the hook's script.
    """
    life = _waiting(known, event_id)
    if life is None:
        return known
    first_sent_at = now
    if life.request is not None:  # it is sent again
        first_sent_at = life.request.at
    request = Approval(approver, first_sent_at, who=who)
    return known.updated([replace(life, request=request)])


def mark_refused(known: Lifecycles, event_id: str) -> Lifecycles:
    """Return the known events after IMDS refused to approve this one: no request is under way."""
    life = _waiting(known, event_id)
    if life is None:
        return known
    return known.updated([replace(life, request=None)])


def mark_approved(
    known: Lifecycles,
    event_id: str,
    approver: Approver,
    now: Timestamp,
    sent: Lifecycle | None = None,
    *,
    who: str = "",
) -> tuple[Lifecycles, tuple[Change, ...]]:
    """Return the known events after IMDS accepted an approval of this one, and the change.

    The first approval of an event is a transition. A second one, after NotBefore moved further
    away, is not. ``sent`` is the event as it was when the request was sent, if NotBefore may have
    moved since.
    """
    before = _waiting(known, event_id)
    if before is None:
        return known, ()
    first = before.approval or Approval(approver, now, who=who)
    approval = replace(first, not_before=(sent or before).not_before)
    life = replace(before, request=None, approval=approval)
    known = known.updated([life])
    if before.approval is not None:
        return known, ()
    return known, (Change(Transition.APPROVED, life, now),)


def _waiting(known: Lifecycles, event_id: str) -> Lifecycle | None:
    """Return the event if an approval would start it."""
    life = known.current.get(event_id)
    if life is None or not life.is_open_to_approval:
        return None
    return life
