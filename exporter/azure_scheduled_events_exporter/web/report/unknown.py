"""What a report cannot know about an event, each with the reason. Pure."""

from collections.abc import Iterator

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State, Transition

from . import hooks
from .answer import Answer, unanswered
from .course import approval, end, notice, start
from .measured import announced_duration, clock, interruption, tcp, time_started
from .model import Line, Sources


def unknown(sources: Sources) -> tuple[Line, ...]:
    """Return a line for each reason why something is not known, with the questions left open."""
    return unanswered(_answers(sources))


def _answers(sources: Sources) -> Iterator[Answer]:
    """Yield the answers of the report in the order of their questions, also complete answers.

    :func:`unanswered` takes only those that have a reason why something is not known.
    """
    life = sources.life
    yield start(life)
    yield notice(life)
    yield approval(life)
    yield end(life)
    yield from _of_the_course(life)
    yield interruption(life)
    yield time_started(life)
    yield tcp(life)
    yield clock(life)
    yield announced_duration(life)
    yield from _of_others(life)
    yield from hooks.answers(sources)
    if not life.event.source:
        yield Answer("Who requested it", why="this api-version of IMDS does not say")
    if not sources.transitions:
        yield Answer("Its steps", why="the journal has none of them any more")
    yield Answer("Why Azure did it", why="IMDS tells no more than the description")


def _of_the_course(life: Lifecycle) -> Iterator[Answer]:
    """Yield questions about the course of an event that only some events leave open."""
    is_advice = life.state is State.ADVISORY
    if not is_advice and not life.announced:
        # It was Started when it was first seen, so its start is unknown for the same reason. The
        # report puts questions with the same reason on one line.
        yield Answer("When it was scheduled", why=start(life).why)
    if not is_advice and life.announced and life.not_before is None:
        yield Answer("When it was to begin", why="no document had a NotBefore that could be read")
    if life.outcome is Transition.WITHDRAWN:
        yield Answer("Whether an eviction followed", why="advice has no outcome")
    if life.has_returned:
        why = "it disappeared, and was in a document again"
        yield Answer("When it was over for good", why=why)
    if not is_advice and life.event.event_type not in EVENT_FACTS:
        yield Answer("What the event does", why="Azure documents no such type")


def _of_others(life: Lifecycle) -> Iterator[Answer]:
    """Yield that other VMs may have noticed something else."""
    has_others = len(life.event.resources) > 1
    if life.started_at is None or not life.is_mine or not has_others:
        return
    yield Answer(
        "What the other VMs noticed",
        why="this VM measures only itself",
        hint="An exporter on another VM has its own journal: run report there, with this EventId.",
    )
