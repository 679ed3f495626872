"""What an oracle says of one alert: at each evaluation it must be there, must not, or may. Knows no fleet."""

from collections.abc import Iterable, Iterator
from enum import Enum, auto

RESOLVED_WITHIN = 120

Truth = tuple[bool, bool]
"""Whether something holds for certain, and whether it may hold."""


class Page(Enum):
    """Whether there is a page."""

    MUST = auto()
    MAY = auto()
    NOT = auto()


def page(truth: Truth) -> Page:
    """Return the page of something that holds for certain, perhaps, or not."""
    certain, possible = truth
    return Page.MUST if certain else Page.MAY if possible else Page.NOT


def lasting(truths: Iterable[tuple[int, bool, bool]]) -> Iterator[tuple[int, Page]]:
    """Yield the pages: one that may be there may stay for two minutes more."""
    last: int | None = None
    for now, certain, possible in truths:
        if possible:
            last = now
        if certain:
            yield now, Page.MUST
        else:
            gone = last is None or now - last >= RESOLVED_WITHIN
            yield now, Page.NOT if gone else Page.MAY


def both(*truths: Truth) -> Truth:
    """Return whether all of ``truths`` hold."""
    return all(certain for certain, _ in truths), all(possible for _, possible in truths)
