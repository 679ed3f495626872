"""Checks the types of the values in a row: SQLite takes any value in any column, and a damaged file has any."""

from collections.abc import Collection, Iterable
from types import NoneType

from azure_scheduled_events_exporter.errors import DamagedTextError

TEXT = frozenset({str})
OPTIONAL_TEXT = TEXT | {NoneType}
BYTES = frozenset({bytes})
INTEGER = frozenset({int})
NUMBER = INTEGER | {float}
OPTIONAL_NUMBER = NUMBER | {NoneType}


def check_types(types: Iterable[type], expected: Iterable[Collection[type]], table: str) -> None:
    """Compare the types of a row of ``table`` with those that each column may have.

    Raises:
        DamagedTextError: a value has another type, so it is not what was written.
    """
    for found, allowed in zip(types, expected, strict=True):
        if found not in allowed:
            raise DamagedTextError(f"a row of {table} has a value of the type {found.__name__}")
