"""Converts values to JSON text and back, by the field names of their classes.

A class needs no code of its own to be stored: every field is stored under its name and read back by its type hint. A
field that is added later needs a default, which is used for older text.

There are two kinds of failure. ``DamagedTextError`` means that the text is not JSON, so something other than this
module wrote to the file. ``CodecError`` means that the text is JSON and does not fit the class: one of them is wrong.
Only ``DamagedTextError`` is a reason to set a journal aside.
"""

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError

_Value = TypeVar("_Value")
_LARGEST = 1 << 62
"""The largest whole number that is read: SQLite still has room to count on from it."""


def encode(value: object) -> str:
    """Return a dataclass, a named tuple or a mapping with texts as keys as JSON text.

    Raises:
        CodecError: it holds something that has no JSON form.
    """
    try:
        if isinstance(value, Mapping):
            return json.dumps(value)
        fields = value._asdict() if hasattr(value, "_asdict") else asdict(value)  # type: ignore[call-overload]
        return json.dumps({name: _plain(each) for name, each in fields.items()}, separators=(",", ":"))
    except (TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"bug: {type(value).__name__} cannot be written to the journal: {error}") from error


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a field holds
    """Return a mapping with tuples as keys as a list of pairs; any other value unchanged."""
    if isinstance(value, dict) and value and isinstance(next(iter(value)), tuple):
        return list(value.items())
    return value


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
        value: _Value = _decoder(cast("Any", kind))(values)
    except Exception as error:
        raise CodecError(
            f"bug: {kind.__name__} cannot be read from the journal: {type(error).__name__}: {error}"
        ) from error
    return value


def decoded(kind: type[_Value], texts: Iterable[str], left_out: list[str]) -> Iterator[_Value]:
    """Yield the values of ``texts``, without those that do not fit the class: they must not hide the others.

    Why they do not fit is added to ``left_out``. Raises DamagedTextError.
    """
    for text in texts:
        try:
            yield decode(kind, text)
        except CodecError as error:
            left_out.append(str(error))


@cache
def _decoder(hint: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - a type hint has no type of its own
    """Return a function that converts parsed JSON to a value of the type ``hint``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        decoders = {name: _decoder(each) for name, each in get_type_hints(hint).items()}
        return lambda values: hint(**{name: decoders[name](value) for name, value in values.items()})
    if origin in {Union, UnionType}:
        return _any_of([_decoder(each) for each in arguments if each is not NoneType], optional=NoneType in arguments)
    if origin is tuple:
        item, length = _decoder(arguments[0]), None if arguments[-1] is Ellipsis else len(arguments)
        return lambda values: tuple(map(item, _checked_list(values, length)))
    if origin is not None and issubclass(origin, Mapping):
        key, each = _decoder(arguments[0]), _decoder(arguments[1])
        return lambda values: {key(k): each(v) for k, v in (values.items() if isinstance(values, dict) else values)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return cast("Callable[[Any], Any]", hint)
    return _plain_decoder(hint)


def _any_of(decoders: list[Callable[[Any], Any]], *, optional: bool) -> Callable[[Any], Any]:
    """Return a function that uses the first of ``decoders`` that accepts a value, the last one's error if none does."""

    def value_of(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
        if value is None and optional:
            return None
        for decoder in decoders[:-1]:
            with suppress(TypeError):
                return decoder(value)
        return decoders[-1](value)

    return value_of


def _checked_list(values: Any, length: int | None) -> list[Any]:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(values, list) or length not in {None, len(values)}:
        raise TypeError(f"expected a list, found {reprlib.repr(values)}")
    return values


def _plain_decoder(hint: type) -> Callable[[Any], Any]:
    """Values that are stored as they are: the type is checked, because any JSON can be in a damaged file."""
    types = {float, int} if hint is float else {hint}

    def checked(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
        kind = type(value)
        if kind not in types or (kind is int and abs(value) > _LARGEST) or (kind is float and not isfinite(value)):
            raise TypeError(f"expected {hint.__name__}, found {reprlib.repr(value)}")
        return value

    return checked
