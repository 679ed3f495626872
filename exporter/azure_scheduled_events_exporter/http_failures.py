"""Why an HTTP request failed, in a few words: the message of the system, without the text that libraries add."""

import socket
from collections.abc import Iterator

from .errors import one_line, without_password
from .lean_requests import requests


def failure_reason(error: BaseException) -> str:
    """Return in one line why a request ended with ``error``, without a password."""
    causes = list(causes_of(error))
    for cause in reversed(causes):
        if isinstance(cause, socket.gaierror):
            return "the host name does not resolve"
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, requests.RequestException):
            return one_line(cause.strerror)
    if any(isinstance(cause, TimeoutError | requests.Timeout) for cause in causes):
        return "no answer in time"
    innermost = causes[-1]
    text = one_line(without_password(str(innermost))) or type(innermost).__name__
    return f"TLS failed: {text}" if any(isinstance(cause, requests.exceptions.SSLError) for cause in causes) else text


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first; urllib3 puts some causes into ``reason`` or the arguments."""
    cause: BaseException | None = error
    for _ in range(10):  # the libraries wrap three or four times
        if cause is None:
            return
        yield cause
        inner = [getattr(cause, "reason", None), *cause.args, cause.__cause__, cause.__context__]
        cause = next((each for each in inner if isinstance(each, BaseException)), None)
