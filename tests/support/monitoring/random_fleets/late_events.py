"""The oracle of events that are late: overdue ones, and those that started long ago and have not ended.

It reads what exporters show, and knows no rule.
"""

from collections.abc import Iterator

from support.monitoring.random_fleets.knowledge import Knowledge, Scrapes
from support.monitoring.random_fleets.limits import Limits
from support.monitoring.random_fleets.lives import Life
from support.monitoring.random_fleets.pages import RESOLVED_WITHIN, Page, lasting

SLACK = 60  # seconds that scrapes, and recordings of recordings, may take from a period or add to it


def overdue_pages(scrapes: Scrapes, life: Life, limits: Limits, evaluation: int) -> dict[int, Page]:
    """Return whether the event must be reported as overdue, for each evaluation."""
    return dict(lasting(_overdue(scrapes, life, limits, evaluation)))


def _overdue(scrapes: Scrapes, life: Life, limits: Limits, evaluation: int) -> Iterator[tuple[int, bool, bool]]:
    """Only an exporter with IMDS access can tell that an event has still not started; what it told lasts a minute."""
    known, has_started = Knowledge(scrapes, life, limits, evaluation), False
    last: dict[int, int] = {}
    for now in scrapes.moments:
        current, _ = known.read(now)
        shows = scrapes.of(life, now)
        starts = any(found.started for _, found in shows)
        has_started |= starts
        seen = [found.not_before for each, found in shows if each.sees(now)]
        # Rules learn at evaluations which exporters have access, and look back at what these showed between two.
        may_be_seen = [found.not_before for each, found in shows if each.sees(now) or now % evaluation]
        last |= {now: min(may_be_seen)} if may_be_seen else {}
        if now % evaluation == 0:
            late = [now - planned - limits.overdue for at, planned in last.items() if now - at <= SLACK]
            certain = bool(seen) and current and not has_started and now - min(seen) - limits.overdue >= evaluation
            yield now, certain, not starts and any(each > 0 for each in late)


def endless_pages(scrapes: Scrapes, life: Life, limits: Limits, evaluation: int) -> dict[int, Page]:
    """Return whether the event must be reported as Started for too long, for each evaluation."""
    return dict(lasting(_endless(scrapes, life, limits, evaluation)))


def _endless(scrapes: Scrapes, life: Life, limits: Limits, evaluation: int) -> Iterator[tuple[int, bool, bool]]:
    """That an event has started is known for certain for ``longest`` after an exporter last showed it as Started."""
    known = Knowledge(scrapes, life, limits, evaluation)
    recorded = shown = False
    since: int | None = None
    since_perhaps: int | None = None
    last_perhaps: int | None = None
    started_at = 0
    for now in scrapes.moments:
        current, perhaps = known.read(now)
        starts = [each for each, found in scrapes.of(life, now) if found.started]
        shown |= bool(starts)
        started_at = now if starts else started_at
        known_place = any(each.named(now) for each in starts)
        recorded |= known_place and current and now % evaluation == 0
        since = (now if since is None else since) if current and recorded else None
        if perhaps and shown:
            last_perhaps = now
            since_perhaps = now if since_perhaps is None else since_perhaps
        elif last_perhaps is None or now - last_perhaps >= RESOLVED_WITHIN:
            since_perhaps = None
        if now % evaluation == 0:
            known_started = now - started_at <= limits.longest - SLACK
            certain = since is not None and known_started and now - since >= limits.started + SLACK
            yield now, certain, since_perhaps is not None and now - since_perhaps >= limits.started - SLACK
