"""Compares a new document with the known events and derives their transitions.

A pure function, :func:`observe`. It uses no clock (the time is an argument), network, disk, metric
or log, and decides nothing about approvals.

Theory of operation. IMDS shows states, never changes. So a change is the difference between what
was known and what the document says. Two tables are the specification: that of ``core.presence``
for an event that is in the document, and that of ``core.absence`` for one that is not.
:class:`.lifecycle.Transition` has the order of an event's transitions. If an event is in the
document again after its end, the end was wrong, and the event becomes current again.
"""

from dataclasses import replace

from .absence import end
from .bounds import weight, within_bounds, without_oldest
from .document import Document, ScheduledEvent
from .kinds import with_kind, with_kinds
from .lifecycle import Change, Lifecycle, Lifecycles
from .measurement import record_impact, record_pause
from .observation_context import ObservationContext
from .presence import apply_present, as_shown, make_current_again


def observe(
    known: Lifecycles, document: Document, context: ObservationContext
) -> tuple[Lifecycles, tuple[Change, ...]]:
    """Return the known events after ``document``, and the changes.

    The changes of the events in the document come first, in its order. The ends of those that have
    left it follow.

    The same document again changes nothing. Never raises, whatever the content of the document.
    Events for which there is no room are left out (``bounds``).
    """
    document = bounded(known, document, context)
    known = record_pause(known, context.pause)
    known = record_impact(known, context.counted)
    current: dict[str, Lifecycle] = {}
    changes: list[Change] = []
    for event in document.events:
        life, new_changes = _in_document(known, event, context)
        current[event.event_id] = life
        changes.extend(new_changes)
    # In the order of their ends, which ``without_oldest`` needs: those that end now follow.
    ended = {event_id: life for event_id, life in known.ended.items() if event_id not in current}
    just_ended = 0  # the sum of the weights of the events that end now
    for event_id, before in known.current.items():
        if event_id in current:
            continue
        if _stays(event_id, known, document, context):
            current[event_id] = before
            continue
        last_changes = _left_document(before, known.seen.get(event_id), context)
        changes.extend(last_changes)
        ended[event_id] = _with_kind(last_changes[-1], context).lifecycle
        just_ended += weight(before.event)
    if just_ended:  # only then can there be too many
        ended = without_oldest(ended, just_ended)
    seen = {event_id: moment for event_id, moment in known.seen.items() if event_id in current}
    seen |= {event.event_id: context.now.wall for event in document.events}
    known = with_kinds(Lifecycles(current, ended, seen), context.now.wall, context.harmless_below)
    return known, tuple(_with_kind(change, context) for change in changes)


def _in_document(
    known: Lifecycles, event: ScheduledEvent, context: ObservationContext
) -> tuple[Lifecycle, list[Change]]:
    """Return the life of an event that is in the document, and its changes."""
    changes: list[Change] = []
    before = known.current.get(event.event_id)
    ended = known.ended.get(event.event_id)
    if before is None and ended is not None:
        before, returned = make_current_again(ended, event, context)
        changes.append(returned)
    last_seen = known.seen.get(event.event_id)
    life, new_changes = apply_present(before, event, context, last_seen)
    return life, [*changes, *new_changes]


def _left_document(
    before: Lifecycle, last_seen: float | None, context: ObservationContext
) -> list[Change]:
    """Return the changes of an event that has left the document; the last one is its end.

    ``last_seen``: when a document of this run had last shown it; None if none had.
    """
    life = as_shown(before, before.event, context)  # this VM's name may be known only now
    return end(
        replace(life, shown_until=last_seen),
        context.now,
        # Nobody watched when an event left that was last shown in an earlier run.
        watched=context.watched and last_seen is not None,
        pause=context.pause,
        counted=context.counted,
    )


def bounded(known: Lifecycles, document: Document, context: ObservationContext) -> Document:
    """Return ``document`` without the events that :func:`observe` leaves out.

    For :func:`observe` itself, and for the poller, which counts those that are left out.
    """
    shown = {event.event_id for event in document.events}
    # At nearly every poll, each event of the document is current already. Then none is left out,
    # and nothing has to be weighed. The exception is a document that is partly unreadable: of that,
    # a current event is left out if it has grown beyond the room. Such a document ends nothing, so
    # the event stays known as it was.
    if shown <= known.current.keys() and not document.unreadable:
        return document
    staying = [
        life
        for event_id, life in known.current.items()
        if event_id not in shown and _stays(event_id, known, document, context)
    ]
    return within_bounds(known, document, staying, context.vm_name)


def _stays(
    event_id: str, known: Lifecycles, document: Document, context: ObservationContext
) -> bool:
    """Return whether a current event stays current although it is not in the document.

    While it is unknown whether the journal is this VM's, its events stay: they may be another VM's.
    """
    if document.unreadable:
        return True  # the entry that cannot be read may be this event
    was_shown = event_id in known.seen  # by a document of this run
    return context.keeps_unshown and not was_shown


def _with_kind(change: Change, context: ObservationContext) -> Change:
    """Return ``change`` with the kind that its event has now."""
    life = with_kind(change.lifecycle, context.now.wall, context.harmless_below)
    return replace(change, lifecycle=life)
