"""The fields of an event as the outside sees them: one list for JSON records, log lines and spans.

A new field of IMDS is added to :class:`core.document.ScheduledEvent`, where it is parsed, and to :data:`EVENT_FIELDS`.
"""

from .document import ScheduledEvent

FieldValue = str | float | tuple[str, ...] | None

EVENT_FIELDS: tuple[tuple[str, str], ...] = (
    ("event_id", "event_id"),
    ("event_type", "event_type"),
    ("event_source", "source"),
    ("resource_type", "resource_type"),
    ("resources", "resources"),
    ("description", "description"),
    ("duration_seconds", "duration_seconds"),
)
"""The name of each field in records and log lines, and the attribute of ScheduledEvent that has its value.

Spans name it ``azure.scheduled_event.<name>`` without the prefix ``event_``.
"""


def event_values(event: ScheduledEvent) -> dict[str, FieldValue]:
    """Return the fields of ``event`` by name; an unknown duration is None, other unknown fields are ``""``."""
    return {name: getattr(event, attribute) for name, attribute in EVENT_FIELDS}
