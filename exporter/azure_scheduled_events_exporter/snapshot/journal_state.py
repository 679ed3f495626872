"""Whether the journal is on disk."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalState:
    """Whether the journal is on disk, for metrics."""

    up: bool = False
    errors: int = 0
