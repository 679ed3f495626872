"""What an exporter has to do while it is measured: how many events, scrapes and polls."""

from collections.abc import Mapping
from dataclasses import dataclass

from support.events.imds_bodies import entry


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes:
        runs: how often each figure is measured.
        poll_seconds: for how long processor time is measured, with one poll a second.
        scrapes: how many scrapes are timed in one run; with many clients, a multiple of that.
        changes: how many changes in IMDS are timed until ``/metrics`` shows them.
        transitions: how many transitions one run writes to a journal.
        events: numbers of current events, for the growth of the costs.
    """

    runs: int = 5
    poll_seconds: int = 20
    scrapes: int = 1000
    changes: int = 100
    transitions: int = 2000
    events: tuple[int, ...] = (0, 1, 10, 100, 1000)


QUICK = Effort(
    runs=1,
    poll_seconds=2,
    scrapes=100,
    changes=2,
    transitions=60,
    events=(0, 10),
)


@dataclass(frozen=True)
class Scraping:
    """Scrapes of so many current events by so many clients.

    ``budget``: the milliseconds that the 99th percentile of the scrapes may take.
    """

    what: str
    events: int
    clients: int
    budget: float


SCRAPINGS = (
    Scraping("idle", events=0, clients=1, budget=2),
    Scraping("10 current events", events=10, clients=1, budget=2),
    Scraping("1,000 current events", events=1000, clients=1, budget=10),
    Scraping("50 scrapers at once, 90 current events", events=90, clients=50, budget=30),
)


def event(number: int, minute: int = 0) -> Mapping[str, object]:
    """Return an event as short as IMDS writes it.

    Args:
        number: the end of its EventId.
        minute: that of its NotBefore. Another minute is a change of the event.
    """
    return entry(
        EventId=f"C7061BAC-AFDC-4513-B24B-{number:012X}",
        EventType="Freeze",
        NotBefore=f"Mon, 19 Sep 2050 18:{minute:02}:14 GMT",
        DurationInSeconds=5,
    )


def events(count: int, minute: int = 0) -> list[Mapping[str, object]]:
    """Return ``count`` different events with the same NotBefore."""
    return [event(number, minute) for number in range(count)]
