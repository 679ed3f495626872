"""The log: one line per record on standard error, as logfmt or JSON.

A record's fields are passed as ``extra={"facts": {...}}``; the message is a fixed text that can be found with grep.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

LOGGER = "azure-scheduled-events-exporter"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("logfmt", "json")
_REPEAT_SECONDS = 60.0  # in which a library's message is logged once
_REPEAT_MOST = 10  # different messages of a library in that time


def set_up(level: str, form: str, stream: TextIO | None = None) -> logging.Logger:
    """Return the exporter's logger, writing records of ``level`` and above to ``stream`` (standard error)."""
    log = logging.getLogger(LOGGER)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(json_lines=form == "json"))
    log.handlers = [handler]
    log.setLevel(level.upper())
    log.propagate = False
    library = logging.getLogger("asyncio")  # messages that clients can cause are limited in rate
    library.handlers, library.filters = [handler], [RateLimit()]
    library.setLevel(max(log.level, logging.WARNING))
    library.propagate = False
    return log


class RateLimit(logging.Filter):
    """Logs each message once a minute, and few different ones; messages are equal if their first lines are."""

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


def facts(**values: object) -> dict[str, Mapping[str, object]]:
    """Return ``values`` as the ``extra`` of a log call."""
    return {"facts": values}


class _Formatter(logging.Formatter):
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


def _logfmt(value: object) -> str:
    """Return a value in logfmt. Text that could end a line or forge a field is quoted and escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    if text and text.isprintable() and not any(c in ' ="\\' for c in text):
        return text
    return json.dumps(text)
