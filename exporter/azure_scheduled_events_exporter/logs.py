"""The log: one line per record on standard error, as logfmt or JSON.

A record's facts come as ``extra={"facts": {...}}``; the message is a fixed sentence, so that one can grep for it.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

LOGGER = "azure-scheduled-events-exporter"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("logfmt", "json")


def set_up(level: str, form: str, stream: TextIO | None = None) -> logging.Logger:
    """Return the exporter's logger, writing records of ``level`` and above to ``stream`` (standard error)."""
    log = logging.getLogger(LOGGER)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(json_lines=form == "json"))
    log.handlers = [handler]
    log.setLevel(level.upper())
    log.propagate = False
    return log


def facts(**values: object) -> dict[str, Mapping[str, object]]:
    """Return ``values`` as the ``extra`` of a log call."""
    return {"facts": values}


class _Formatter(logging.Formatter):
    def __init__(self, *, json_lines: bool) -> None:
        super().__init__()
        self._json = json_lines

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, Any] = {
            "ts": f"{moment}.{int(record.msecs):03d}Z",
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
    """A value as logfmt takes it; whatever could end a line or forge a field stands in quotes, escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    if text and text.isprintable() and not any(c in ' ="\\' for c in text):
        return text
    return json.dumps(text)
