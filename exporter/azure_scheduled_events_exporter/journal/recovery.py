"""How two records of one event are joined, after a disk was out of reach and the exporter went on in memory. Pure.

The rules: what the disk knows is older, so it wins: when the event was first seen, the notice it gave, its approval and
its start. A transition that an event makes once is there once. An event ends once, whatever each side calls the end.
What only memory knows is added.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Transition
from azure_scheduled_events_exporter.core.timestamp import iso_time

from .codec import decode_record, encode_record

_ENDS = frozenset({Transition.COMPLETED, Transition.CANCELLED, Transition.LOST})
_REPEATED = frozenset({Transition.RESCHEDULED, Transition.RETURNED})
"""Transitions that an event may make more than once."""

Row = dict[str, Any]
"""One row of ``transitions`` by its columns."""


def merged_life(older: Lifecycle | None, newer: Lifecycle) -> Lifecycle:
    """Return one life out of what the disk (``older``) and memory (``newer``) know of an event."""
    if older is None:
        return newer
    if older.outcome is not None and newer.outcome is not None:
        return older
    known = replace(
        newer,
        first_seen=older.first_seen,
        notice_seconds=older.notice_seconds,
        started_at=older.started_at or newer.started_at,
    )
    if older.approved_by is not None:
        known = replace(known, approved_by=older.approved_by, approved_at=older.approved_at)
    pauses = [life.observed_pause for life in (older, newer) if life.observed_pause is not None]
    return replace(known, observed_pause=max(pauses, default=None))


def written_key(transition: str, wall: float) -> str:
    """Return what tells one transition of an event from another one of the same kind."""
    return f"{transition} {wall!r}"


def merged_row(row: Row, older: Lifecycle | None, have: AbstractSet[str]) -> Row | None:
    """Return the row that memory's ``row`` becomes on disk; None if the disk has that transition already.

    Args:
        row: a transition that was kept in memory.
        older: what the disk knows of the event; None if nothing.
        have: the transitions of the event that are on disk, and their :func:`written_key`.
    """
    transition = row["transition"]
    if transition in _ENDS and have & _ENDS and Transition.RETURNED not in have:
        return None
    if transition in have and transition not in _REPEATED | _ENDS:
        return None
    if written_key(transition, row["wall"]) in have:
        return None
    if older is None:
        return row
    record = decode_record(row["record"])
    record |= {"first_seen": iso_time(older.first_seen.wall), "notice_seconds": older.notice_seconds}
    if row["scheduled"] is not None:
        row = {**row, "scheduled": max(0.0, row["wall"] - older.first_seen.wall)}
    if row["latency"] is not None:
        row = {**row, "latency": max(0.0, row["wall"] - older.first_seen.wall)}
    return {**row, "record": encode_record(record)}
