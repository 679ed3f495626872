"""How an input becomes another one: by bytes, by lines, or as JSON. Deterministic: random values are arguments."""

import json
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fuzz.target import SEPARATOR, Form

_BYTES = (0, 9, 10, 13, 27, 32, 34, 38, 39, 58, 60, 92, 123, 127, 128, 255)

# Each has broken a reader of JSON, an exposition, a page, a log or a database somewhere.
_TEXTS = (
    *("", " ", "\n", "\r\n", "\t", "\0", "\x1b[2J", "\x7f", "\x9b", "\ud800", "\u2028", "\u202e", "\ufeff", "\ufffd"),
    *('"', "'", "\\", "\\n", '\\"', "{", "}", ",", "=", "#", "# EOF", "</script><script>", "<!--", "]]>", "&lt;", "%s"),
    *("ß", "İ", "ﬀ", "\U0001f4a5", "e\u0301", "a" * 300, "é" * 2000, "_web_0", "__WEB_0", "web_0", "NaN", "+Inf"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 9, -0.0, 0.5, 1e17, 1e18, 1e400, -1e400, 5e-324, 2**31, 2**53 + 1, 2**63, 10**99),
    *([], {}, [[]], [None], [0, "x"], {"": ""}, ["web_0", "web_0", "WEB_0", 7], float("nan"), float("-inf")),
    *("Scheduled", "started", "STARTED", "Freeze", "Reboot", "Preempt", "Unknown", "User", "Platform", "Completed"),
    *("Mon, 19 Sep 2016 18:29:47 GMT", "2020-01-01T00:00:00Z", "0001-01-01T00:00:00", "9999-12-31T23:59:59-23:59"),
    *("Fri, 31 Dec 9999 23:59:59 -2359", "Thu, 01 Jan 1970 00:00:00 +2359", "30 Feb 2030 25:61:61 GMT", "1 1 1 1 1"),
)
_ENCODINGS = ("utf-8", "utf-8-sig", "utf-16-le")
_KEYS = (
    *("Events", "DocumentIncarnation", "EventId", "EventType", "ResourceType", "Resources", "EventStatus", "NotBefore"),
    *("Description", "EventSource", "DurationInSeconds", "compute", "name", "osProfile", "computerName", "vmId"),
)


def mutated(data: bytes, form: Form, words: Sequence[bytes], chance: Random) -> bytes:
    """Return another input: one to four steps away from ``data``."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        parts = data.split(SEPARATOR)
        if len(parts) > 1 and chance.random() < 0.25:
            data = SEPARATOR.join(_rearranged(parts, chance))
            continue
        at = chance.randrange(len(parts))
        step: Callable[[bytes, Random], bytes] | None = None
        if chance.random() < 0.75:
            step = {Form.JSON: _of_json, Form.LINES: _of_lines, Form.BYTES: None}[form]
        parts[at] = step(parts[at], chance) if step else _of_bytes(parts[at], words, chance)
        data = SEPARATOR.join(parts)
    return data


def _rearranged(parts: list[bytes], chance: Random) -> list[bytes]:
    one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    match chance.randrange(3):
        case 0:
            return [*parts[:one], *parts[one + 1 :]]
        case 1:
            return [*parts, parts[one]]
        case _:
            parts[one], parts[other] = parts[other], parts[one]
            return parts


def _of_bytes(data: bytes, words: Sequence[bytes], chance: Random) -> bytes:
    start = chance.randint(0, len(data))
    end = min(len(data), start + chance.choice((0, 1, 1, 2, 4, 16, 64)))
    match chance.randrange(5):
        case 0:
            new = bytes((chance.choice(_BYTES) if chance.random() < 0.7 else chance.randrange(256),))
        case 1:
            new = b""
        case 2:
            new = data[start:end] * chance.choice((2, 2, 3, 50))
        case 3:
            source = chance.randint(0, len(data))
            new = data[source : source + chance.choice((1, 4, 16, 64))]
        case _:
            new = chance.choice(words) if words else b"0"
    return data[:start] + new + data[end:]


def _of_lines(data: bytes, chance: Random) -> bytes:
    lines = data.split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            lines[one] = b"  " * chance.randrange(4) + lines[one].lstrip()
        case _:  # what stands behind the first blank or colon, from one line into another
            head, _, _ = lines[one].partition(b": ")
            _, _, tail = lines[other].partition(b": ")
            lines[one] = head + b": " + tail
    return b"\n".join(lines)


def _of_json(data: bytes, chance: Random) -> bytes:
    start = max(0, data.find(b"{"))  # a target may have a byte of its own before the body
    try:
        content = json.loads(data[start:])
    except (ValueError, RecursionError):
        return _of_bytes(data, (), chance)
    if chance.random() < 0.02:
        return _nested(data, chance)
    holders = list(_holders([content]))
    holder = chance.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    read = [key for key in keys if key in _KEYS]
    key = chance.choice(read if read and chance.random() < 0.7 else keys)
    match chance.randrange(8):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice(_KEYS)] = _value(holders, chance)
        case 2 if isinstance(holder, list):
            holder.insert(chance.randint(0, len(holder)), _value(holders, chance))
        case 3 | 4 | 5 if isinstance(holder[key], str):
            at = chance.randint(0, len(holder[key]))
            holder[key] = f"{holder[key][:at]}{chance.choice(_TEXTS)}{holder[key][at + chance.randrange(2) :]}"
        case 6 if isinstance(holder[key], str):
            holder[key] = chance.choice((str.upper, str.lower, str.title, str.swapcase))(holder[key])
        case _:
            holder[key] = _value(holders, chance)
    try:
        text = json.dumps(content, ensure_ascii=chance.random() < 0.7)
    except (ValueError, RecursionError):  # a copy of what it stands in
        return data
    return data[:start] + text.encode(chance.choices(_ENCODINGS, (20, 1, 1))[0], "surrogatepass")


def _holders(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON
    """Every non-empty list and object of a value, itself included."""
    found, left = [], [value]
    while left:
        one = left.pop()
        if isinstance(one, dict | list) and one:
            found.append(one)
            left += one.values() if isinstance(one, dict) else one
    return found


def _value(holders: list[Any], chance: Random) -> Any:  # noqa: ANN401 - any JSON
    if chance.random() < 0.8:
        return chance.choice(chance.choice((_TEXTS, _VALUES)))
    holder = chance.choice(holders)
    values = list(holder.values()) if isinstance(holder, dict) else holder
    return json.loads(json.dumps(chance.choice(values)))


def _nested(data: bytes, chance: Random) -> bytes:
    """Put a value about as deep as Python's readers and writers go in the place of another."""
    depth = sys.getrecursionlimit() - chance.randrange(120)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"":', b"}")))
    value = opening * depth + chance.choice((b"0", b'""', b"null")) + closing * depth
    colons = [at for at, byte in enumerate(data) if byte in b":,["]
    at = chance.choice(colons) + 1 if colons else 0
    return data[:at] + value + (b"," if data[at - 1 : at] in {b"[", b","} else b', "x": ') + data[at:].lstrip()
