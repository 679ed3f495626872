"""Updates events when this exporter requests an approval, and when IMDS refuses or accepts it.

Pure. Sends nothing (``approval.sender``) and does not decide what to approve (``approval.policy``).
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from .lifecycle import Approval, Approver, Change, Lifecycle, Lifecycles, Transition
from .timestamp import Timestamp


def mark_requested(known: Lifecycles, event_ids: Collection[str], approver: Approver, now: Timestamp) -> Lifecycles:
    """Return the known events with an approval by ``approver`` marked as requested. Call it before the request."""
    return known.updated(
        replace(life, request=Approval(approver, life.request.at if life.request else now))
        for life in _open_to_approval(known, event_ids)
    )


def mark_refused(known: Lifecycles, event_ids: Collection[str]) -> Lifecycles:
    """Return the known events after IMDS refused to approve these: no request is under way."""
    return known.updated(replace(life, request=None) for life in _open_to_approval(known, event_ids))


def mark_approved(
    known: Lifecycles,
    event_ids: Collection[str],
    approver: Approver,
    now: Timestamp,
    sent_for: Mapping[str, float | None] = MappingProxyType({}),
) -> tuple[Lifecycles, tuple[Change, ...]]:
    """Return the known events after IMDS accepted an approval of these, and the changes.

    The first approval of an event is a transition. A second one, after NotBefore moved further away, is not.
    ``sent_for`` has NotBefore by EventId as it was when the request was sent, for events in which it may have moved.
    """
    lives, changes = [], []
    for before in _open_to_approval(known, event_ids):
        not_before = sent_for.get(before.event_id, before.not_before)
        approval = replace(before.approval or Approval(approver, now), not_before=not_before)
        life = replace(before, request=None, approval=approval)
        if before.approval is None:
            changes.append(Change(Transition.APPROVED, life, now))
        lives.append(life)
    return known.updated(lives), tuple(changes)


def _open_to_approval(known: Lifecycles, event_ids: Collection[str]) -> list[Lifecycle]:
    lives = map(known.current.get, dict.fromkeys(event_id.upper() for event_id in event_ids))
    return [life for life in lives if life and life.is_open_to_approval]
