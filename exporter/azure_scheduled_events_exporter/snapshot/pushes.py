"""The results of pushing, as part of a snapshot.

Imported also without an Alertmanager, so it must stay small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class PushOutcome(StrEnum):
    """The outcomes of posted alerts; all but accepted ones are retried.

    A 3xx and a 4xx except 429 is a rejection.
    """

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    ERROR = "error"


def no_alerts() -> dict[PushOutcome, int]:
    """Return the counts of an exporter that has pushed nothing."""
    return dict.fromkeys(PushOutcome, 0)


@dataclass(frozen=True, slots=True)
class Pushes:
    """Whether pushes succeed, and how many alerts they posted.

    Attributes:
        up: whether every Alertmanager accepted the last push; None without an Alertmanager.
        alerts: number of alerts posted so far, by outcome.
    """

    up: bool | None = None
    alerts: Mapping[PushOutcome, int] = field(default_factory=no_alerts)
