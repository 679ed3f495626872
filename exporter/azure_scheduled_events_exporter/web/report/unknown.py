"""What a report cannot know about an event, each with the reason. Pure."""

from collections.abc import Iterator

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import (
    Approver,
    Lifecycle,
    State,
    Transition,
)

from .model import Line, Sources


def unknown(sources: Sources) -> tuple[Line, ...]:
    """Return a sentence for each thing that is not known."""
    life = sources.life
    found = [*_of_its_beginning(life), *_of_its_end(life), *_of_its_impact(life)]
    if not life.event.source:
        found.append("Who requested it: this api-version of IMDS does not say.")
    if not sources.transitions:
        found.append("Its steps: the journal has none of them any more.")
    if any(run.outcome is None for run in sources.runs):
        found.append("How a run of a hook ended: it still runs, or it was interrupted.")
    found.append("Why Azure did it: IMDS tells no more than the description.")
    return tuple((text,) for text in found)


def _of_its_beginning(life: Lifecycle) -> Iterator[str]:
    if life.approved_by is Approver.EXTERNAL:
        yield (
            "Who approved it: IMDS does not say. It may have been another VM, a program on this"
            " one, Azure's API or a policy of Azure."
        )
    if life.state is State.ADVISORY:
        return
    if not life.announced:
        yield (
            "When it was scheduled, when it started, and who approved it: the first document that"
            " showed the event had it Started already."
        )
    if life.proven_by_boot:
        yield "When exactly it started: nobody watched, and only a boot of this VM proves it."
    if life.not_before is None and life.announced:
        yield "When it was to begin: no document had a NotBefore that could be read."


def _of_its_end(life: Lifecycle) -> Iterator[str]:
    if life.outcome is None:
        yield "How it ends: it is still current."
    if life.outcome is Transition.LOST:
        yield "Whether it happened: it disappeared while nobody could see whether it started."
    if life.outcome is Transition.WITHDRAWN:
        yield "Whether an eviction followed: advice has no outcome."
    if life.has_returned:
        yield "When it was over for good: it disappeared, and was in a document again."


def _of_its_impact(life: Lifecycle) -> Iterator[str]:
    has_begun = life.started_at is not None
    if has_begun and not life.is_mine:
        yield "What the affected VMs noticed: this VM is not one of them, and measures only itself."
        return
    if has_begun and len(life.event.resources) > 1:
        yield (
            "What the other VMs noticed: this VM measures only itself. Each has a report of its"
            " own."
        )
    if has_begun and life.observed_pause is None:
        yield (
            "How long the VM was interrupted: no exporter measured on it from the start of the"
            " event on."
        )
    if has_begun and life.tcp is None:
        yield "What happened to TCP connections: it was not measured."
    if life.event.duration_seconds is None and life.state is not State.ADVISORY:
        yield "How long Azure expected the interruption to be: it announced no duration."
    if life.event.event_type not in EVENT_FACTS and life.state is not State.ADVISORY:
        yield "What the event does: Azure documents no such type."
