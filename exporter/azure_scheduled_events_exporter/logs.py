"""The log: one line per record on standard error, as logfmt or JSON.

A record's fields are passed as ``extra={"facts": {...}}``; the message is a fixed text that can be
found with grep. The log may be a pipe whose reader has stopped: a line waits for the reader for at
most 0.2 seconds, and the next lines do not wait. Lines that the reader does not take are lost, and
the log then says how many were.
"""

import json
import logging
import select
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from .log_limits import LibraryLimit, MessageLimit

LOGGER = "azure-scheduled-events-exporter"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("logfmt", "json")
LONGEST_TEXT = 1000
"""The characters that a line has of one text from outside, at most."""

_READ_SECONDS = 0.2  # for which a line, however long, waits until the log's reader has made space
_CHUNK = 1024
"""Characters that are written at once: at most 4096 bytes of UTF-8.

Linux calls a pipe writable only while it takes 4096 bytes (PIPE_BUF) without waiting.
"""


def set_up(level: str, form: str, stream: TextIO | None = None) -> logging.Logger:
    """Return the exporter's logger, which writes records of ``level`` and above to ``stream``.

    The libraries that log what HTTP clients cause write there too, at least at level warning.

    Args:
        level: one of :data:`LEVELS`.
        form: one of :data:`FORMATS`.
        stream: where lines go; None for standard error.
    """
    log = logging.getLogger(LOGGER)
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(_Formatter(json_lines=form == "json"))
    log.handlers = [handler]
    log.filters = [MessageLimit()]
    log.setLevel(level.upper())  # as logging spells its levels
    log.propagate = False
    for name in ("asyncio", "uvicorn.error"):
        library = logging.getLogger(name)
        library.handlers = [handler]
        library.filters = [LibraryLimit()]
        library.setLevel(max(log.level, logging.WARNING))
        library.propagate = False
    return log


def facts(**values: object) -> dict[str, Mapping[str, object]]:
    """Return ``values`` as the ``extra`` of a log call."""
    return {"facts": values}


def shortened(text: str) -> str:
    """Return a text from outside for a line of the log; an ellipsis says that it was cut."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


class _Handler(logging.StreamHandler[TextIO]):
    """Writes records as lines; a line that the reader of the stream does not take soon is lost."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lost = 0  # lines since the last that was written
        self._is_cut = False  # whether the last line was written only in part
        self._wait_for_space = _waiter_for_space(stream)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of ``record``, after one that says how many were lost before it."""
        try:
            if self._lost and not self._write(_loss(self._lost), patience=0.0):
                self._lost += 1  # the reader has still not come back
                return
            self._lost = 0
            if not self._write(record, patience=_READ_SECONDS):
                self._lost = 1
        except Exception:  # noqa: BLE001 - as in the base class: the log must not fail who logs
            self.handleError(record)

    def _write(self, record: logging.LogRecord, patience: float) -> bool:
        """Write the line of ``record``; return whether all of it was written.

        It waits for at most ``patience`` seconds for the reader of the stream.
        """
        text = self.format(record) + self.terminator
        if self._is_cut:
            text = f"\n{text}"  # ends the line that is cut
        deadline = time.monotonic() + patience
        for start in range(0, len(text), _CHUNK):
            seconds_left = max(0.0, deadline - time.monotonic())
            if not self._wait_for_space(seconds_left):
                if start > 0:
                    self._is_cut = True
                return False
            self.stream.write(text[start : start + _CHUNK])
            self.stream.flush()
        self._is_cut = False
        return True


def _loss(lines: int) -> logging.LogRecord:
    """Return a record that says how many lines were lost."""
    text = "lines of this log were lost: nobody read it"
    record = logging.LogRecord(LOGGER, logging.WARNING, __file__, 0, text, None, None)
    record.facts = {"lines": lines}
    return record


def _waiter_for_space(stream: TextIO) -> Callable[[float], bool]:
    """Return a function that waits for space in ``stream``, and returns whether there is.

    Its argument is the longest wait in seconds. It returns True at once for a stream in memory, and
    on Windows, which has no poll.
    """
    if sys.platform == "win32":
        return lambda _: True
    ready = select.poll()
    try:
        ready.register(stream.fileno(), select.POLLOUT)
    except OSError:  # a stream in memory
        return lambda _: True
    return lambda seconds: bool(ready.poll(round(seconds * 1000)))


class _Formatter(logging.Formatter):
    """Writes a record as one line: time, level, message, its fields, and a traceback."""

    def __init__(self, *, json_lines: bool) -> None:
        super().__init__()
        self._json = json_lines

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of ``record``, without the line break at its end."""
        seconds, milliseconds = divmod(round(record.created * 1000), 1000)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        fields: dict[str, Any] = {
            "ts": f"{moment}.{milliseconds:03d}Z",
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        if self._json:
            return json.dumps(fields, default=str)
        return " ".join(f"{key}={_logfmt(value)}" for key, value in fields.items())


_FORGING = frozenset(' ="\\')
"""Characters with which a value could look like another field."""


def _logfmt(value: object) -> str:
    """Return a value in logfmt.

    Text that could end a line or forge a field is quoted and escaped, as in JSON.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    is_plain = text.isprintable() and _FORGING.isdisjoint(text)
    if text and is_plain:
        return text
    return json.dumps(text)
