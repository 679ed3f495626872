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
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError

_Value = TypeVar("_Value")


def encode(value: object) -> str:
    """Return a dataclass or named tuple as JSON text.

    Raises:
        CodecError: it holds something that has no JSON form.
    """
    try:
        fields = value._asdict() if hasattr(value, "_asdict") else asdict(value)  # type: ignore[call-overload]
        return _text(fields)
    except (TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"bug: {type(value).__name__} cannot be written to the journal: {error}") from error


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


def encode_statistics(statistics: Statistics) -> str:
    """Return counters and histograms as JSON text. Their keys are tuples, so each entry is ``[*key, value]``.

    Raises:
        CodecError: they hold something that has no JSON form.
    """
    try:
        sums = asdict(statistics).items()
        return _text({name: [[*key, value] for key, value in entries.items()] for name, entries in sums})
    except (TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"bug: statistics cannot be written to the journal: {error}") from error


def decode_statistics(text: str) -> Statistics:
    """Return what :func:`encode_statistics` wrote.

    Raises:
        DamagedTextError: the text is not JSON.
        CodecError: the text is JSON, and does not fit.
    """
    values = _parsed(text)
    try:
        hints = get_type_hints(Statistics).items()
        sums: dict[str, Any] = {name: dict(_entries(values[name], hint)) for name, hint in hints}
        return Statistics(**sums)
    except Exception as error:
        raise CodecError(f"bug: statistics cannot be read from the journal: {type(error).__name__}: {error}") from error


def _entries(rows: Iterable[list[Any]], hint: Any) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - as above
    """Yield the keys and values of counters or histograms, whose type is ``hint``: a mapping from tuples of texts."""
    key_hint, value_hint = get_args(hint)
    words, decoded = _decoder(tuple[str, ...]), _decoder(value_hint)
    for *key, value in rows:
        if len(key) != len(get_args(key_hint)):
            raise ValueError(f"{reprlib.repr(key)} is no key of {len(get_args(key_hint))} texts")
        yield words(key), decoded(value)


def encode_record(record: Mapping[str, object]) -> str:
    """Return a record of ``core.records`` as JSON text.

    Raises:
        CodecError: it holds something that has no JSON form.
    """
    try:
        return json.dumps(record)
    except (TypeError, ValueError) as error:
        raise CodecError(f"bug: a transition cannot be written to the journal: {error}") from error


def decode_record(text: str) -> dict[str, object]:
    """Return what :func:`encode_record` wrote.

    Raises:
        DamagedTextError: the text is not a JSON object.
    """
    record = _parsed(text)
    if not isinstance(record, dict):
        raise DamagedTextError("a transition is not a JSON object")
    return record


def _text(values: object) -> str:
    return json.dumps(values, separators=(",", ":"))


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
        return lambda values: {key: value(each) for key, each in values.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    return _plain_decoder([hint])


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
