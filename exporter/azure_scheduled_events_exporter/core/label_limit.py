"""Limits how many values of a label have series of their own.

Pure.
"""

MOST_LABELS = 30
"""How many values of one label have series of their own.

Counters stay when an event is gone, and whoever answers as IMDS can invent event types and sources.
"""

OTHER = "other"
"""The label of all values that have no series of their own."""


def label_for(value: str, labels: set[str]) -> str:
    """Return ``value`` if it has series of its own, or if there is room for them, else OTHER.

    ``labels`` are the values that have series; ``value`` is added to them if there is room.
    """
    if value not in labels and len(labels) >= MOST_LABELS:
        return OTHER
    labels.add(value)
    return value
