"""Whether the journal is on disk."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalState:
    """Whether the journal is on disk, for metrics.

    Attributes:
        up: whether it can be written; None if it was asked to be in memory.
        errors: failed attempts to write it.
    """

    up: bool | None = False
    errors: int = 0
