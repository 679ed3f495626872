"""Why an HTTP request failed, in a few words.

Where the system has a message, it is that one, without the text that libraries add.
"""

import errno
import os
import socket
from collections.abc import Iterator

import requests
import urllib3.exceptions

from azure_scheduled_events_exporter.errors import one_line, without_password

NO_ANSWER_IN_TIME = "no answer in time"
"""The reason of every request that took too long, whichever time limit ended it."""

REQUEST_FAILURES = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
    ValueError,
)
"""What a request may raise: requests passes on some errors of what it uses."""

_NO_PROXY = (
    requests.exceptions.InvalidProxyURL,
    urllib3.exceptions.LocationParseError,
    urllib3.exceptions.ProxySchemeUnknown,
)
"""The errors about the address of a proxy; that of a server is checked before it is asked."""

CERTIFICATE_REFUSED = "certificate verify failed"
"""Part of the reason, in OpenSSL's words, where this side does not trust the server."""

CLOSED = ("closed", "EOF", "alert", os.strerror(errno.ECONNRESET), os.strerror(errno.EPIPE))
"""Parts of the reason, one of which is there if a server ended a connection that was open.

Which one depends on the versions of TLS, OpenSSL and Python, and on who was faster.
"""


def failure_reason(error: BaseException) -> str:
    """Return in one line why a request ended with ``error``, without a password."""
    causes = list(causes_of(error))
    for cause in reversed(causes):
        if isinstance(cause, socket.gaierror):
            return "the host name does not resolve"
        message = _message_of_system(cause)
        if message:
            return one_line(message)
    if any(isinstance(cause, TimeoutError | requests.Timeout) for cause in causes):
        return NO_ANSWER_IN_TIME
    about_secret = next(filter(None, map(_about_secret, causes)), "")
    if about_secret:
        return about_secret
    innermost = causes[-1]
    text = one_line(without_password(str(innermost))) or type(innermost).__name__
    # Most failures of TLS have OpenSSL's message, which was returned above.
    if any(isinstance(cause, requests.exceptions.SSLError) for cause in causes):
        return f"TLS failed: {text}"
    return text


def _message_of_system(error: BaseException) -> str:
    """Return the message about ``error`` by the operating system, or by OpenSSL.

    It is ``""`` if neither has one.
    """
    if not isinstance(error, OSError):
        return ""
    if isinstance(error, requests.RequestException):
        return ""  # an OSError by its class, but not the system's
    return error.strerror or ""


def _about_secret(error: BaseException) -> str:
    """Return what ``error`` says, if its own text may quote a secret; otherwise ``""``."""
    if _is_about_header(error):  # the libraries quote the whole header
        return "a header of the request has a character that HTTP cannot carry"
    if isinstance(error, _NO_PROXY):  # they quote a part of the address, perhaps of a password
        return "the proxy of the environment has an invalid address"
    return ""


def _is_about_header(error: BaseException) -> bool:
    """Return whether ``error`` was raised because a header of the request is invalid."""
    if isinstance(error, UnicodeEncodeError):
        return error.encoding == "latin-1"  # as http.client writes headers
    if isinstance(error, requests.exceptions.InvalidHeader):
        return True
    return str(error).startswith("Invalid header")  # the ValueErrors of http.client


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first.

    urllib3 puts some causes into ``reason`` or the arguments.
    """
    cause: BaseException | None = error
    for _ in range(10):  # the libraries wrap three or four times
        if cause is None:
            return
        yield cause
        inner = [getattr(cause, "reason", None), *cause.args, cause.__cause__, cause.__context__]
        cause = next((each for each in inner if isinstance(each, BaseException)), None)
