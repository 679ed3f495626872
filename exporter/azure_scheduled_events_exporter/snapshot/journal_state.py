"""What a snapshot has about the journal."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalState:
    """Whether the journal is on disk.

    Attributes:
        up: whether entries reach the disk, and none was lost lately; None if the settings keep the
            journal in memory.
        errors: how often it could not be written.
    """

    up: bool | None = False
    errors: int = 0
