"""Merges two records of one event, after the disk failed and the exporter continued in memory. Pure.

The rules: the record on disk is older, so its values take precedence: first seen, notice, approval and start. A
transition that an event makes once appears once. An event has one end more than it has returns, even if both records
name different ends. Values that only memory has are added.

The record in memory either continues the one on disk or began without it. In the second case, memory detects an event
that is already on disk; if it had ended there and is still in the document, it has returned.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Move, Transition
from azure_scheduled_events_exporter.times import iso_time

from .codec import decode_record, encode_record

_ENDS = frozenset({Transition.COMPLETED, Transition.CANCELLED, Transition.LOST, Transition.WITHDRAWN})

_MEASURED_BY: Mapping[Transition | None, tuple[str, ...]] = {
    Transition.CANCELLED: ("scheduled",),
    Transition.COMPLETED: ("scheduled", "started", "latency", "pause", "pauses"),
}
"""The durations that are counted with an end. If the event returns and ends again, they are not counted again."""

Row = dict[str, Any]
"""One row of ``transitions`` by its columns."""

Written = tuple[str, float]
"""A transition on disk, and its wall-clock time."""


def merged_life(older: Lifecycle | None, newer: Lifecycle) -> Lifecycle:
    """Return one lifecycle, merged from that on disk (``older``) and that in memory (``newer``)."""
    if older is None:
        return newer
    went_on = older.first_seen == newer.first_seen
    if older.outcome is not None and newer.outcome is not None and not went_on and newer.wrong_end is None:
        return older
    known = newer if went_on else _begun_before(newer, older)
    if older.approved_by is not None:
        until = known.approved_not_before if known.approved_not_before is not None else older.approved_not_before
        known = replace(known, approved_by=older.approved_by, approved_at=older.approved_at, approved_not_before=until)
    pauses = [life.observed_pause for life in (older, newer) if life.observed_pause is not None]
    return replace(known, observed_pause=max(pauses, default=None))


def _begun_before(newer: Lifecycle, older: Lifecycle) -> Lifecycle:
    """Return ``newer``, which began without ``older``, as its continuation."""
    known = replace(
        newer,
        first_seen=older.first_seen,
        notice_seconds=older.notice_seconds,
        started_at=(None if older.proven_by_boot else older.started_at) or newer.started_at,
        not_before=older.not_before if newer.not_before is None else newer.not_before,
        own_name=older.own_name or newer.own_name,
        most_resources=max(older.most_resources, newer.most_resources),
    )
    if newer.requested_by is None and newer.approved_by is None:
        known = replace(known, requested_by=older.requested_by, requested_at=older.requested_at)
    if older.outcome is None:
        return replace(known, wrong_end=newer.wrong_end or older.wrong_end, moves=(*older.moves, *newer.moves))
    back = Move(Transition.RETURNED, newer.first_seen, newer.not_before, older.not_before)
    return replace(known, wrong_end=older.counted_end, moves=(*older.moves, back, *newer.moves))


def merged_rows(
    rows: Sequence[Row], older: Lifecycle | None, newer: Lifecycle | None, written: Collection[Written]
) -> Iterator[Row]:
    """Yield those of memory's ``rows`` of one event that are missing on disk, adapted to the older record.

    Args:
        rows: transitions that were kept in memory, in order.
        older: the lifecycle on disk; None if there is none.
        newer: the lifecycle in memory.
        written: the transitions of the event that are on disk.
    """
    # A record that continues the one on disk has measured its durations from first seen, by the monotonic clock.
    went_on = older is not None and newer is not None and older.first_seen == newer.first_seen
    have = {transition for transition, _ in written}
    ends = sum(transition in _ENDS for transition, _ in written)
    has_ended = ends > sum(transition == Transition.RETURNED for transition, _ in written)
    has_ended = has_ended or (older is not None and older.outcome is not None)
    ends_here = any(row["transition"] in _ENDS for row in rows)
    for row in rows:
        transition = row["transition"]
        if (transition, row["wall"]) in written:
            continue
        if transition == Transition.DETECTED and has_ended and not ends_here:
            transition = Transition.RETURNED
            row = {**row, "transition": str(transition), "notice": None}  # noqa: PLW2901 - the same row, corrected
        if transition in _ENDS:
            is_new = not has_ended
        elif transition == Transition.RETURNED:
            is_new = has_ended
        else:
            is_new = transition == Transition.RESCHEDULED or transition not in have
        if not is_new:
            continue
        has_ended = transition in _ENDS or (has_ended and transition != Transition.RETURNED)
        have.add(transition)
        yield row if older is None or went_on else _dated(row, older)


def _dated(row: Row, older: Lifecycle) -> Row:
    """Return the row with its durations measured from the first-seen time on disk."""
    record = decode_record(row["record"])
    record |= {"first_seen": iso_time(older.first_seen.wall), "notice_seconds": older.notice_seconds}
    record["transition"] = row["transition"]
    since = max(0.0, row["wall"] - older.first_seen.wall)
    lengths: Row = {name: since for name in ("scheduled", "latency") if row[name] is not None}
    if row["notice"] is not None and row["transition"] != Transition.DETECTED:
        lengths["notice"] = None  # it is counted on disk
    lengths |= dict.fromkeys(_MEASURED_BY.get(older.counted_end, ()))
    return {**row, **lengths, "record": encode_record(record)}
