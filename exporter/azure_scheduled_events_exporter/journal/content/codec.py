"""Converts values to JSON text and back, by the field names of their classes.

A class needs no code of its own to be stored: every field is stored under its name and read back by
its type hint. A field that is added later needs a default, which is used for older text.

There are two kinds of failure. ``DamagedTextError`` means that the text is not JSON, so something
other than this module wrote to the file. ``CodecError`` means that the text is JSON and does not
fit the class: one of them is wrong. Whoever reads a row decides whether the second kind is damage
too (``journal.tables.store``), or whether the row is left out (:func:`decode_if_fits`).
"""

import json
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError

_Value = TypeVar("_Value")
_LARGEST = 1 << 61
"""The largest whole number that is read.

No count of this program reaches it. It is less than SQLite's largest one, so that a number from a
damaged file can still be increased.
"""


def encode(value: object) -> str:
    """Return a dataclass, or a mapping with texts as keys, as JSON text.

    Raises CodecError: a bug.
    """
    try:
        return json.dumps(value, default=_by_field, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise CodecError(
            f"bug: {type(value).__name__} cannot be written to the journal: {error}"
        ) from error


def _by_field(value: Any) -> dict[str, object]:
    """Return the fields of ``value`` by name.

    A mapping becomes pairs, because its keys may be tuples.
    """
    found = {}
    for field in fields(value):
        content = getattr(value, field.name)
        if isinstance(content, Mapping):
            content = [*content.items()]
        found[field.name] = content
    return found


def decode(kind: type[_Value], text: str) -> _Value:
    """Return the value of class ``kind`` that :func:`encode` wrote as ``text``.

    Raises:
        DamagedTextError: the text is not JSON.
        CodecError: the text is JSON, and does not fit the class.
    """
    try:
        values = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedTextError(f"a row does not hold JSON: {error}") from error
    read = _reader(cast("Any", kind))
    try:
        return cast("_Value", read(values))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise CodecError(f"bug: {kind.__name__} cannot be read from the journal: {why}") from error


def decode_if_fits(kind: type[_Value], text: str) -> _Value | None:
    """Return the value of class ``kind`` that ``text`` holds; None if it does not fit the class.

    Another version of this program may have written it.

    Raises:
        DamagedTextError: the text is not JSON.
    """
    try:
        return decode(kind, text)
    except CodecError:
        return None


_Reader = Callable[[Any], Any]
"""Converts parsed JSON to a value of one type. It raises if the JSON does not fit.

The error is TypeError where a plain value is of another type.
"""


@cache
def _reader(hint: Any) -> _Reader:
    """Return the reader of values of the type ``hint``."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass_reader(hint)
    origin = get_origin(hint) or hint
    arguments = get_args(hint)
    if origin in {Union, UnionType}:
        return _union_reader(arguments)
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is Mapping:
        return _mapping_reader(arguments)
    if issubclass(hint, Enum):
        return cast("_Reader", hint)
    return partial(_plain, hint)


def _dataclass_reader(kind: type) -> _Reader:
    """Return the reader of a class whose JSON is an object with the names of the fields."""
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}

    def read(values: Any) -> Any:
        arguments = {name: readers[name](value) for name, value in values.items()}
        return kind(**arguments)

    return read


def _union_reader(kinds: tuple[Any, ...]) -> _Reader:
    """Return the reader of a value of one of ``kinds``: it tries them in their order."""
    is_optional = NoneType in kinds
    *first_readers, last_reader = [_reader(kind) for kind in kinds if kind is not NoneType]

    def read(value: Any) -> Any:
        if value is None and is_optional:
            return None
        for reader in first_readers:
            with suppress(TypeError):
                return reader(value)
        return last_reader(value)

    return read


def _tuple_reader(kinds: tuple[Any, ...]) -> _Reader:
    """Return the reader of a tuple, whose JSON is a list: ``tuple[X, ...]`` or ``tuple[X, Y]``."""
    readers = [_reader(kind) for kind in kinds if kind is not Ellipsis]
    has_any_length = Ellipsis in kinds

    def read(values: Any) -> tuple[Any, ...]:
        listed = _plain(list, values)
        if has_any_length:
            return tuple(map(readers[0], listed))
        pairs = zip(readers, listed, strict=True)
        return tuple(reader(value) for reader, value in pairs)

    return read


def _mapping_reader(kinds: tuple[Any, ...]) -> _Reader:
    """Return the reader of a mapping, whose JSON is a list of pairs of key and value."""
    read_pair = _tuple_reader(kinds)

    def read(pairs: Any) -> dict[Any, Any]:
        return dict(map(read_pair, pairs))

    return read


def _plain(kind: type, value: Any) -> Any:
    """Return ``value`` if it is of the type ``kind`` and in range; raise TypeError if it is not.

    A damaged file can contain any JSON.
    """
    found = type(value)
    fits = found is kind or (kind is float and found is int)
    if found is int:
        fits = fits and abs(value) <= _LARGEST
    if found is float:
        fits = fits and isfinite(value)
    if not fits:
        raise TypeError(f"expected {kind.__name__}, found {reprlib.repr(value)}")
    return value
