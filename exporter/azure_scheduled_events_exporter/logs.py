"""The log: one line per record on standard error, as logfmt or JSON.

A record's fields are passed as ``extra={"facts": {...}}``; the message is a fixed text that can be
found with grep. The log may be a pipe whose reader has stopped: a line waits for it for at most 0.2
seconds, and the next ones not at all. They are lost instead, and the log says how many were.
"""

import json
import logging
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from typing import Any, TextIO

LOGGER = "azure-scheduled-events-exporter"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("logfmt", "json")
_REPEAT_SECONDS = 60.0  # the period of the next two limits; a library logs a message once in it
_REPEAT_MOST = 10  # different messages of a library in that time
_MOST_LINES = 300  # with one message of the exporter, whatever its fields, in that time
_READ_SECONDS = 0.2  # for which a line, however long, waits until the log's reader has made space
LONGEST_TEXT = 1000  # characters of a text from outside that a line has
_CHUNK = 1024  # characters, at most 4096 bytes: a pipe that is ready takes so many without waiting


def set_up(level: str, form: str, stream: TextIO | None = None) -> logging.Logger:
    """Return the exporter's logger, which writes records of ``level`` and above to ``stream``.

    Without ``stream``, it is standard error.
    """
    log = logging.getLogger(LOGGER)
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(_Formatter(json_lines=form == "json"))
    log.handlers = [handler]
    log.filters = [Repetition()]
    log.setLevel(level.upper())  # as logging spells its levels
    log.propagate = False
    for name in ("asyncio", "uvicorn.error"):
        library = logging.getLogger(name)
        library.handlers = [handler]
        library.filters = [RateLimit()]  # clients can cause these messages
        library.setLevel(max(log.level, logging.WARNING))
        library.propagate = False
    return log


class RateLimit(logging.Filter):
    """Logs each message at most once a minute, and at most :data:`_REPEAT_MOST` different ones.

    Messages are equal if their first lines are.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log ``record``."""
        now = self._clock()
        self._logged = {text: at for text, at in self._logged.items() if now - at < _REPEAT_SECONDS}
        text = record.getMessage().partition("\n")[0]
        if text in self._logged or len(self._logged) >= _REPEAT_MOST:
            return False
        self._logged[text] = now
        return True


class Repetition(logging.Filter):
    """Logs each message at most :data:`_MOST_LINES` times a minute, whatever its fields are.

    Whoever answers as IMDS could fill the disk otherwise. The next line with that message says how
    many were left out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._minute = 0
        self._lines: Counter[str] = Counter()  # by message, in this minute
        self._left_out: Counter[str] = Counter()  # by message, since the last line with it

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log ``record``."""
        minute = int(self._clock() // _REPEAT_SECONDS)
        if minute != self._minute:
            self._minute = minute
            self._lines.clear()
        message = str(record.msg)  # without its arguments
        self._lines[message] += 1
        if self._lines[message] > _MOST_LINES:
            self._left_out[message] += 1
            return False
        left_out = self._left_out.pop(message, 0)
        if left_out:
            record.facts = {**getattr(record, "facts", {}), "lines_left_out": left_out}
        return True


class Changes:
    """The last text for each subject, so that a line is logged only when it changes."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def is_new(self, subject: str, text: str) -> bool:
        """Remember ``text``, and return whether it differs from the last one.

        The text of a new subject was ``""``: a first ``""`` is not new, one after a text is.
        """
        before = self._last.get(subject, "")
        self._last[subject] = text
        return text != before

    def keep(self, subjects: Container[str]) -> None:
        """Forget all other subjects."""
        self._last = {subject: text for subject, text in self._last.items() if subject in subjects}


def facts(**values: object) -> dict[str, Mapping[str, object]]:
    """Return ``values`` as the ``extra`` of a log call."""
    return {"facts": values}


def shortened(text: str) -> str:
    """Return a text from outside for a line of the log; an ellipsis says that it was cut."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


class _Handler(logging.StreamHandler[TextIO]):
    """Writes records as lines.

    A line that the pipe or socket behind the stream does not take soon is lost.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lost = 0  # lines since the last that was written
        self._is_cut = False  # whether the last line was written only in part
        self._has_space = _space_in(stream)

    def emit(self, record: logging.LogRecord) -> None:
        """Write ``record``, after the number of lines that were lost before it."""
        try:
            if self._lost and not self._writes(self._loss()):
                self._lost += 1
                return
            self._lost = 0
            if not self._writes(record):
                self._lost = 1
        except Exception:  # noqa: BLE001 - as in the base class: the log must not fail who logs
            self.handleError(record)

    def _writes(self, record: logging.LogRecord) -> bool:
        """Write the line of ``record``, and return whether there was space for all of it."""
        text = self.format(record) + self.terminator
        if self._is_cut:
            text = f"\n{text}"  # ends the line that is cut
        patience = 0.0 if self._lost else _READ_SECONDS  # a reader that has stopped: no more waits
        deadline = time.monotonic() + patience
        for start in range(0, len(text), _CHUNK):
            milliseconds = round((deadline - time.monotonic()) * 1000)
            if not self._has_space(max(0, milliseconds)):
                self._is_cut = self._is_cut or start > 0
                return False
            self.stream.write(text[start : start + _CHUNK])
            self.stream.flush()
        self._is_cut = False
        return True

    def _loss(self) -> logging.LogRecord:
        """Return a record that says how many lines were lost."""
        text = "lines of this log were lost: nobody read it"
        record = logging.LogRecord(LOGGER, logging.WARNING, __file__, 0, text, None, None)
        record.facts = {"lines": self._lost}
        return record


def _space_in(stream: TextIO) -> Callable[[int], object]:
    """Return a function that waits for space in ``stream``, and returns whether there is.

    Its argument is the longest wait in milliseconds. It always returns True for a stream in memory,
    and on Windows, which has no poll.
    """
    if sys.platform != "win32":
        with suppress(OSError):  # a stream in memory
            ready = select.poll()
            ready.register(stream.fileno(), select.POLLOUT)
            return ready.poll  # returns an empty list if there is none
    return lambda _: True


class _Formatter(logging.Formatter):
    """Writes a record as one line: time, level, message, its fields, and a traceback."""

    def __init__(self, *, json_lines: bool) -> None:
        super().__init__()
        self._json = json_lines

    def format(self, record: logging.LogRecord) -> str:
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

    Text that could end a line or forge a field is quoted and escaped.
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
