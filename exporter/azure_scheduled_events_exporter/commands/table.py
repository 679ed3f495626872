"""Rows of text as aligned columns, for people at a terminal."""

from collections.abc import Sequence

from azure_scheduled_events_exporter.errors import printable


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return ``rows`` as lines of aligned columns; no cell can end its row or control the terminal."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)
