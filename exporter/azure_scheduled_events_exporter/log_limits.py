"""Limits of how often one message is logged, so that nobody can fill a disk with the log.

Must not write or format a line. ``logs`` installs the two filters; :class:`Changes` is for code
that would log the same failure at every attempt.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Container

_PERIOD_SECONDS = 60.0  # of both filters
_MOST_LIBRARY_MESSAGES = 10  # different ones of a library in a period
_MOST_LINES = 300  # with one message of the exporter in a period


class LibraryLimit(logging.Filter):
    """Logs each message of a library once a minute, and at most ten different ones.

    Clients of the HTTP server can cause these messages. Two messages are the same if their first
    lines are equal.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._logged: dict[str, float] = {}  # when each message was logged, for a minute

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log ``record``."""
        now = self._clock()
        self._logged = {text: at for text, at in self._logged.items() if now - at < _PERIOD_SECONDS}
        text = record.getMessage().partition("\n")[0]
        if text in self._logged or len(self._logged) >= _MOST_LIBRARY_MESSAGES:
            return False
        self._logged[text] = now
        return True


class MessageLimit(logging.Filter):
    """Logs each message of the exporter at most 300 times a minute, whatever its fields are.

    A faulty or hostile server that answers as IMDS could fill the disk otherwise. The next line
    with that message has the number of those left out, as the field ``lines_left_out``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._minute = 0
        self._lines: Counter[str] = Counter()  # by message, in this minute
        self._left_out: Counter[str] = Counter()  # by message, since the last line with it

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log ``record``; add the number of lines left out before it."""
        minute = int(self._clock() // _PERIOD_SECONDS)
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
    """The last text for each subject, so that a caller logs a text only when it has changed.

    A subject is what the text is about, such as one event or one server; an empty text says that
    nothing is wrong with it.
    """

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def is_new(self, subject: str, text: str) -> bool:
        """Remember ``text``, and return whether it differs from the last one of ``subject``.

        A subject starts with an empty text: ``""`` is new only after another text.
        """
        before = self._last.get(subject, "")
        self._last[subject] = text
        return text != before

    def keep(self, subjects: Container[str]) -> None:
        """Forget all other subjects."""
        self._last = {subject: text for subject, text in self._last.items() if subject in subjects}
