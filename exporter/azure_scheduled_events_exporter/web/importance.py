"""The order of current events in lists, in the status line and in the page's summary: by importance. Pure."""

from collections.abc import Iterable

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State


def in_order(lives: Iterable[Lifecycle]) -> list[Lifecycle]:
    """Return the events by importance: those of this VM, then those that have started, then by NotBefore."""
    never = float("inf")
    return sorted(
        lives,
        key=lambda life: (
            life.scope is Scope.PEER,
            life.state is not State.STARTED,
            never if life.event.not_before is None else life.event.not_before,
            life.event_id,
        ),
    )
