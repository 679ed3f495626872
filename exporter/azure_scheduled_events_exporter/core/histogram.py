"""A histogram with fixed buckets, as Prometheus has them.

Pure, and without a metric library: ``metrics`` exports it.
"""

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of values in each bucket.

    Attributes:
        bounds: the upper bounds of the buckets, ascending.
        counts: the number of values in each bucket alone, and at last that of all larger values.
        total: the sum of all values.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float = 0.0

    def __post_init__(self) -> None:
        """Refuse counts that do not belong to the bounds."""
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"{len(self.counts)} counts for {len(self.bounds)} bounds")

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> "Histogram":
        """Return a histogram over ``bounds`` without values."""
        return cls(bounds, (0,) * (len(bounds) + 1))

    def observe(self, *values: float) -> "Histogram":
        """Return the histogram with ``values`` counted too."""
        counts = list(self.counts)
        for value in values:
            counts[bisect_left(self.bounds, value)] += 1
        return Histogram(self.bounds, tuple(counts), self.total + sum(values))
