"""The README says what the code does."""

import re

from azure_scheduled_events_exporter.config import SETTINGS
from azure_scheduled_events_exporter.metrics import SPECS
from programs import TESTS

README = (TESTS.parent / "README.md").read_text()


def rows(columns: int, first: str) -> list[tuple[str, ...]]:
    """The rows of all tables with so many columns whose first cell matches ``first``."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in README.splitlines() if "|" in line]
    stripped = [tuple(cell.strip("|").strip() for cell in row) for row in cells]
    return [row for row in stripped if len(row) == columns and re.fullmatch(first, row[0])]


def test_every_metric_is_documented_as_it_is() -> None:
    """The table of metrics has exactly the names, types, labels and meanings that are scraped."""
    expected = [(f"`{spec.name}`", spec.type, ", ".join(spec.labels), spec.help) for spec in SPECS.values()]
    assert rows(4, r"`[a-z_]+`") == expected


def test_every_flag_is_documented_as_it_is() -> None:
    """The table of flags has exactly the flags, defaults and meanings of --help."""
    expected = [
        (f"`--{setting.flag}`", f"`{setting.default}`" if setting.default else "", setting.help) for setting in SETTINGS
    ]
    assert rows(3, r"`--[a-z.-]+`") == expected


def test_the_first_screen_says_how_to_try_and_to_test() -> None:
    """A newcomer finds the two commands before scrolling."""
    first_screen = README.splitlines()[:25]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)
