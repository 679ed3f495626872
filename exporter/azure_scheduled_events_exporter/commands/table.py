"""Tables for a terminal."""

import shutil
import sys
from collections.abc import Sequence

from azure_scheduled_events_exporter.errors import printable

_GAP = 2
"""Spaces between two columns."""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return ``rows`` as lines of aligned columns; the first row has the heads of the columns.

    Line breaks and control characters in a cell are escaped, so that it cannot end its row or
    control the terminal. On a terminal that is too narrow, each row after the first one is a block
    of lines, one for each cell.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    width = sum(widths) + _GAP * (len(widths) - 1)
    if sys.stdout.isatty() and width > shutil.get_terminal_size().columns:
        return "\n".join(_block(cells[0], row) for row in cells[1:])
    return "".join(_line(row, widths) for row in cells)


def _block(heads: Sequence[str], row: Sequence[str]) -> str:
    """Return a row as lines, each with the head of its cell; empty cells are left out."""
    return "".join(f"{head}: {cell}\n" for head, cell in zip(heads, row, strict=True) if cell)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row as one line, each cell as wide as its column."""
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    return (" " * _GAP).join(padded).rstrip() + "\n"
