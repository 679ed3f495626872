"""What a snapshot has about pushed alerts.

Every exporter imports it, also one that pushes no alerts, so it must stay small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class PushOutcome(StrEnum):
    """The outcome of a posted alert. One that was not accepted is posted again."""

    # Alertmanager has answered with a 2xx.
    ACCEPTED = "accepted"
    # It has answered with a 3xx or a 4xx, except 429.
    REJECTED = "rejected"
    # Anything else: no answer, a 429 or a 5xx.
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
