"""Converts values to JSON text and back, by the field names of their classes.

A class needs no code of its own to be stored: every field is stored under its name and read back by
its type hint. A field that is added later needs a default, which is used for older text.

There are two kinds of failure. ``DamagedTextError`` means that the text is not JSON, so something
other than this module wrote to the file. ``CodecError`` means that the text is JSON and does not
fit the class: one of them is wrong. Only ``DamagedTextError`` is a reason to set a journal aside.
"""

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from itertools import repeat
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError

_Value = TypeVar("_Value")
_LARGEST = 1 << 61
"""The largest whole number that is read: nothing counts so far, and SQLite can count on from it."""


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
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {
        name: [*each.items()] if isinstance(each, Mapping) else each for name, each in found.items()
    }


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
    try:
        return cast("_Value", _reader(cast("Any", kind))(values))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise CodecError(f"bug: {kind.__name__} cannot be read from the journal: {why}") from error


def decoded(kind: type[_Value], texts: Iterable[str]) -> Iterator[_Value]:
    """Yield the values of those ``texts`` that fit the class ``kind``.

    Another version of this program may have written the others.
    """
    for text in texts:
        with suppress(CodecError):
            yield decode(kind, text)


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return a function that converts parsed JSON to a value of the type ``hint``.

    It raises TypeError if the JSON does not fit.
    """
    if isinstance(hint, type) and is_dataclass(hint):
        by_name = {name: _reader(each) for name, each in get_type_hints(hint).items()}
        return lambda values: hint(**{name: by_name[name](value) for name, value in values.items()})
    origin = get_origin(hint) or hint
    arguments = get_args(hint)
    inner = [_reader(each) for each in arguments if each not in {Ellipsis, NoneType}]
    if origin in {Union, UnionType}:
        return partial(_any_of, inner, is_optional=NoneType in arguments)
    if origin is tuple:
        return lambda values: tuple(
            _each(repeat(inner[0], len(values)) if Ellipsis in arguments else inner, values)
        )
    if origin is Mapping:
        return lambda pairs: dict(tuple(_each(inner, pair)) for pair in pairs)
    return hint if issubclass(hint, Enum) else partial(_plain, hint)


def _any_of(readers: list[Callable[[Any], Any]], value: Any, *, is_optional: bool) -> Any:
    """Return the result of the first of ``readers`` that accepts ``value``.

    If none does, the error of the last one is raised.
    """
    if value is None and is_optional:
        return None
    for reader in readers[:-1]:
        with suppress(TypeError):
            return reader(value)
    return readers[-1](value)


def _each(readers: Iterable[Callable[[Any], Any]], values: Any) -> Iterator[Any]:
    """Yield what ``readers`` make of a list of as many ``values``."""
    return (reader(value) for reader, value in zip(readers, _plain(list, values), strict=True))


def _plain(kind: type, value: Any) -> Any:
    """Return ``value`` if it is of the type ``kind`` and in range.

    A damaged file can contain any JSON.
    """
    found = type(value)
    fits = found is kind or (kind is float and found is int)
    if (
        not fits
        or (found is int and abs(value) > _LARGEST)
        or (found is float and not isfinite(value))
    ):
        raise TypeError(f"expected {kind.__name__}, found {reprlib.repr(value)}")
    return value
