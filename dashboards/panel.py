"""What a dashboard is put together from: queries, panels and rows. Nothing here knows how Grafana writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .style import FINE, Json, steps


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel; ``table`` asks for this moment only and for a row per series."""

    expr: str
    legend: str = ""
    instant: bool = False
    table: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what it asks and how it looks. ``at`` is x, y, width and height on the grid of 24 columns."""

    kind: str
    title: str
    description: str
    at: tuple[int, int, int, int]
    queries: Sequence[Query]
    unit: str
    thresholds: Json = field(default_factory=lambda: steps(FINE))
    mappings: Sequence[Json] = ()
    overrides: Sequence[Json] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    custom: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    transformations: Sequence[Json] = ()
    links: Sequence[Json] = ()
    time_from: str | None = None
    interval: str | None = None
    points: int | None = None

    def below(self, y: int) -> "Panel":
        """Return the panel moved down by ``y``."""
        return replace(self, at=(self.at[0], self.at[1] + y, *self.at[2:]))


@dataclass(frozen=True, slots=True)
class Row:
    """A heading over the panels that follow, at height ``y``."""

    title: str
    y: int
