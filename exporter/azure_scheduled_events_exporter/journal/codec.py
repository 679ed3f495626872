"""Converts values to JSON text and back, by the field names of their classes.

A class needs no code of its own to be stored: every field is stored under its name and read back by its type hint. A
field that is added later needs a default, which is used for older text.

There are two kinds of failure. ``DamagedTextError`` means that the text is not JSON, so something other than this
module wrote to the file. ``CodecError`` means that the text is JSON and does not fit the class: one of them is wrong.
Only ``DamagedTextError`` is a reason to set a journal aside.
"""

import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError

_Value = TypeVar("_Value")


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
    """Return a mapping with tuples as keys as a list of ``[*key, value]``; any other value unchanged."""
    if isinstance(value, dict) and value and isinstance(next(iter(value)), tuple):
        return [[*key, each] for key, each in value.items()]
    return value


def decode(kind: type[_Value], text: str) -> _Value:
    """Return the value of class ``kind`` that :func:`encode` wrote as ``text``.

    Raises:
        DamagedTextError: the text is not JSON.
        CodecError: the text is JSON, and does not fit the class.
    """
    values = _parsed(text)
    try:
        value: _Value = _decoder(cast("Any", kind))(values)
    except Exception as error:
        raise CodecError(
            f"bug: {kind.__name__} cannot be read from the journal: {type(error).__name__}: {error}"
        ) from error
    return value


def decode_record(text: str) -> dict[str, object]:
    """Return the mapping that :func:`encode` wrote as ``text``.

    Raises:
        DamagedTextError: the text is not a JSON object.
    """
    record = _parsed(text)
    if not isinstance(record, dict):
        raise DamagedTextError("a transition is not a JSON object")
    return record


def _parsed(text: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedTextError(f"a row does not hold JSON: {error}") from error


@cache
def _decoder(hint: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - a type hint has no type of its own
    """Return a function that converts parsed JSON to a value of the type ``hint``."""
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _fields_decoder(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return _union_decoder([argument for argument in arguments if argument is not NoneType])
    if origin is tuple:
        item = _decoder(arguments[0])
        return lambda values: tuple(map(item, values))
    if origin is not None and issubclass(origin, Mapping):
        value = _decoder(arguments[1])
        length = len(get_args(arguments[0]))
        return _entries_decoder(length, value) if length else _texts_decoder(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    return _plain_decoder([hint])


def _texts_decoder(value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: {key: value(each) for key, each in values.items()}


def _entries_decoder(length: int, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A mapping from tuples of ``length`` texts, which is written as a list (or empty)."""
    word = _plain_decoder([str])

    def entry(row: list[Any]) -> tuple[Any, Any]:
        *key, each = row
        if len(key) != length:
            raise ValueError(f"{reprlib.repr(key)} is no key of {length} texts")
        return tuple(map(word, key)), value(each)

    return lambda rows: dict(map(entry, rows))


def _fields_decoder(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - a dataclass or named tuple
    decoders = {name: _decoder(hint) for name, hint in get_type_hints(kind).items()}
    return lambda values: kind(**{name: decoders[name](value) for name, value in values.items()})


def _union_decoder(kinds: list[Any]) -> Callable[[Any], Any]:
    """``X | None``, or plain values, among which a list stands for a tuple of texts."""
    if len(kinds) == 1:
        only = _decoder(kinds[0])
        return lambda value: None if value is None else only(value)
    plain = _plain_decoder([kind for kind in kinds if get_origin(kind) is not tuple])
    texts = _decoder(tuple[str, ...])
    return lambda value: texts(value) if isinstance(value, list) else plain(value)


_JSON_TYPES: Mapping[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (float, int)}
"""The types that values of a type hint can have in parsed JSON."""


_LARGEST = (1 << 63) - 1
"""The largest whole number that SQLite stores."""


def _plain_decoder(hints: list[type]) -> Callable[[Any], Any]:
    """Values that are stored as they are: the type is checked, because any JSON can be in a damaged file."""
    types = {found for hint in hints for found in _JSON_TYPES[hint]}

    def checked(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
        kind = type(value)
        if kind not in types or (kind is int and abs(value) > _LARGEST) or (kind is float and not isfinite(value)):
            raise TypeError(f"{reprlib.repr(value)} stands where {' or '.join(hint.__name__ for hint in hints)} is due")
        return value

    return checked
