"""A fleet's last 30 days and its present, for pictures of the dashboards and for tests of their
texts.

:class:`StoryPrometheus` serves the samples of a story.
"""

import math
import subprocess
from collections.abc import Iterator
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Kind
from support.monitoring.board_fleet import BLIND_FOR, FLEET, HOUR, MINUTE, MOVE, NOW, PAST, Event
from support.monitoring.board_samples import STEP, Samples
from support.monitoring.latency import SERIES
from support.programs import ConfiguredPrometheus, debian

_FIRST_NUMBER = 0xC7061BAC
"""The EventIds of a story begin with this number and those after it, in hexadecimal digits."""


def id_in_story(number: int) -> str:
    """Return how the EventId of an event of a story begins; the events of the past are counted
    first, from 0, then the current ones.
    """
    return f"{_FIRST_NUMBER + number:08X}"


def story(
    now: float, *, current: tuple[Event, ...] = NOW, states: dict[str, str] | None = None
) -> str:
    """Return the story with its ``current`` events; ``states`` of exporters are ``down`` and
    ``blind``.
    """
    return _samples(now, current, states).text()


def _samples(
    now: float, current: tuple[Event, ...], states: dict[str, str] | None = None
) -> Samples:
    samples = Samples(now)
    states = dict(states or {})
    for event in current:
        states |= dict.fromkeys(event.vms if event.unseen is not None else (), "down")
    unseen = {vm for event in current if event.unseen is not None for vm in event.vms}
    down = tuple(name for name, state in states.items() if state == "down" and name not in unseen)
    blind = tuple(name for name, state in states.items() if state == "blind")
    for number, event in enumerate((*PAST, *current), _FIRST_NUMBER):
        if event in current:
            samples.event(number, event, down, blind)
        else:
            samples.event(number, event, ())
    for vm in FLEET:
        samples.exporter(
            vm, states.get(vm.name, "ok"), 3 * MINUTE if vm.name in unseen else BLIND_FOR
        )
    return samples


def _slow_checkout(now: float) -> str:
    """Return a quiet hour in which a Freeze of web_1 made a service slow."""
    freeze = Event(
        "Freeze",
        ("web_1",),
        -40 * MINUTE,
        -25 * MINUTE,
        -25 * MINUTE,
        -18 * MINUTE,
        kind=Kind.HARMLESS,
        duration=5.0,
        description=MOVE,
    )
    samples = _samples(now, (freeze,))
    for index in range(int(HOUR / STEP)):
        at = -HOUR + index * STEP
        usual = 0.18 + 0.03 * math.sin(index * 1.7) + 0.02 * math.sin(index * 0.6)
        slow = 11.0 * math.exp(-(at + 25 * MINUTE) / 45) if at >= -25 * MINUTE else 0.0
        samples.series(SERIES, {}, usual + slow, at, at)
    return samples.text()


class StoryPrometheus(ConfiguredPrometheus):
    """A Prometheus that has the samples of a story and scrapes nothing."""

    def __init__(self, folder: Path, text: str) -> None:
        (folder / "story.txt").write_text(text)
        made = [debian("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
        subprocess.run(
            [*made, folder / "story.txt", folder / "tsdb"], check=True, capture_output=True
        )
        (folder / "prometheus.yml").write_text("{}")
        flags = ("--storage.tsdb.retention.time=60d", "--query.lookback-delta=45s")
        super().__init__(folder / "prometheus.yml", folder, *flags)


def moments(now: float) -> Iterator[tuple[str, str]]:
    """Yield the moments of the story that there are pictures of: their names and their samples."""
    yield "event", story(now)
    yield "quiet", story(now, current=())
    seen = tuple(event for event in NOW if event.unseen is None)
    yield "blind", story(now, current=seen, states={"web_3": "down", "batch_0": "blind"})
    yield "slow", _slow_checkout(now)
