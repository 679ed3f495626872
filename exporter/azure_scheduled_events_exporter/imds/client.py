"""The wire to the Azure Instance Metadata Service: one request in, one body or one named failure out.

Knows HTTP and its limits; knows nothing of what a body means and decides nothing. Every request has one deadline for
all of it, so that a server that drips cannot hold a poll, and every body is read up to a cap.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus

from urllib3 import BaseHTTPResponse, HTTPConnectionPool
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ExporterError

from .rate_limiter import RateLimiter

LARGEST_BODY = 1 << 20
INSTANCE_API_VERSION = "2021-02-01"
_CHUNK = 1 << 16
_HEADERS: Mapping[str, str] = {
    "Metadata": "true",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"azure-scheduled-events-exporter/{__version__}",
}


class Outcome(StrEnum):
    """How a poll ended."""

    OK = "ok"
    TIMEOUT = "timeout"
    CONNECTION_ERROR = "connection_error"
    THROTTLED = "throttled"
    HTTP_ERROR = "http_error"
    INVALID_DOCUMENT = "invalid_document"


class ImdsError(ExporterError):
    """A request that gave no usable answer.

    Attributes:
        reason: what is the same as long as the failure is.
        status: the HTTP status that came, 0 if none did.
    """

    def __init__(self, outcome: Outcome, reason: str, detail: str = "", status: int = 0) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.outcome = outcome
        self.reason = reason
        self.status = status


class Stopped(ExporterError):  # noqa: N818 - not an error of anybody: the process is to end
    """The request was given up because the process is to end."""


_HINTS: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "check --imds.api-version, and that no proxy on the way adds X-Forwarded-For",
    HTTPStatus.FORBIDDEN: "the guest proxy agent or a firewall rule keeps this process from IMDS",
    HTTPStatus.NOT_FOUND: "the service may be moving; else check --imds.endpoint",
    HTTPStatus.METHOD_NOT_ALLOWED: "the service may be moving; else check --imds.endpoint",
    HTTPStatus.GONE: "the service is moving, which takes up to 70 s",
    HTTPStatus.TOO_MANY_REQUESTS: "over 5 requests a second from this VM, all its programs together; polling slower",
}


class ImdsClient:
    """Requests to one endpoint over one kept-alive connection. One thread uses it; any thread may :meth:`stop` it.

    Args:
        endpoint: base address, such as ``http://169.254.169.254``.
        api_version: of the Scheduled Events document.
        budget: shared by all clients of this process.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
    """

    def __init__(self, endpoint: str, api_version: str, budget: RateLimiter, wait: Callable[[float], bool]) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._budget = budget
        self._wait = wait
        self._deadline = _Deadline()
        self._pool = _pool(endpoint, self._deadline)
        self.reached = False  # whether any request has had an answer, whatever it said
        path = (parse_url(endpoint).path or "").rstrip("/")
        self._events = f"{path}/metadata/scheduledevents?api-version={api_version}"
        self._instance = f"{path}/metadata/instance?api-version={INSTANCE_API_VERSION}"

    def scheduled_events(self, timeout: float) -> bytes | None:
        """Return the body of a 200, or None for a 304 (unchanged).

        Raises:
            ImdsError: anything else, within ``timeout`` seconds and a moment.
            Stopped: :meth:`stop` was called.
        """
        return self._ask("GET", self._events, timeout)

    def instance(self, timeout: float) -> bytes:
        """Return the instance metadata of this VM. Raises as :meth:`scheduled_events` does."""
        body = self._ask("GET", self._instance, timeout)
        if body is None:
            raise ImdsError(Outcome.HTTP_ERROR, f"{self._endpoint} answered 304 to a first question")
        return body

    def approve(self, event_ids: Sequence[str], timeout: float) -> None:
        """Let these events begin before NotBefore, for all VMs in their Resources. IMDS takes all of them or none.

        Raises:
            ImdsError: IMDS did not say that it accepts; ``status`` tells whether it said anything.
            Stopped: :meth:`stop` was called.
        """
        start = json.dumps({"StartRequests": [{"EventId": name} for name in event_ids]}).encode()
        if self._ask("POST", self._events, timeout, start) is None:
            raise ImdsError(Outcome.HTTP_ERROR, f"{self._endpoint} answered 304 to an approval", status=304)

    def stop(self) -> None:
        """Give up the request that is under way, and every later one."""
        self._deadline.stop()

    def _ask(self, method: str, target: str, timeout: float, body: bytes | None = None) -> bytes | None:
        headers = dict(_HEADERS) if body is None else {**_HEADERS, "Content-Type": "application/json"}
        now = time.monotonic()
        place = self._budget.reserve(now)
        if self._wait(place - now):
            raise Stopped("the exporter is ending")
        self._deadline.set(timeout)
        try:
            with self._pool.urlopen(
                method, target, body, headers, retries=False, redirect=False, timeout=timeout, preload_content=False
            ) as response:
                if self._deadline.broken_off:
                    # Python takes the end of a connection for the end of the head, and so a 200 that lost its body
                    # for one with an empty body, which would mean that there are no events.
                    raise ImdsError(Outcome.CONNECTION_ERROR, f"cannot talk to {self._endpoint}", "half an answer")
                self.reached = True
                if response.status < HTTPStatus.OK:
                    response.close()  # its last answer is still to come, and none to the next request
                answer = _read(response)
                if response.status == HTTPStatus.OK and answer == b"" and "Content-Encoding" in response.headers:
                    # Nothing came out of what was packed: cut, and no word of no events either.
                    raise ImdsError(Outcome.CONNECTION_ERROR, f"cannot talk to {self._endpoint}", "half an answer")
        except (HTTPError, OSError, ValueError) as error:
            raise self._failure(error, timeout) from None
        finally:
            self._budget.arrived(place, time.monotonic())
        return self._judge(response.status, answer)

    def _failure(self, error: Exception, timeout: float) -> ExporterError:
        if self._deadline.stopped:
            return Stopped("the exporter is ending")
        causes = list(_causes(error))
        if any(isinstance(cause, TimeoutError) for cause in causes):
            return ImdsError(Outcome.TIMEOUT, f"no whole answer from {self._endpoint} within {timeout:g} s")
        told = [cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror]
        detail = told[-1] if told else f"{type(error).__name__}: {error}"
        return ImdsError(Outcome.CONNECTION_ERROR, f"cannot talk to {self._endpoint}", _one_line(detail))

    def _judge(self, status: int, body: bytes | None) -> bytes | None:
        if status == HTTPStatus.NOT_MODIFIED:
            return None
        if status == HTTPStatus.OK:
            if body is None:
                raise ImdsError(Outcome.INVALID_DOCUMENT, f"{self._endpoint} sent more than 1 MiB")
            return body
        outcome = Outcome.THROTTLED if status == HTTPStatus.TOO_MANY_REQUESTS else Outcome.HTTP_ERROR
        said = _error_text(body or b"")
        hint = _HINTS.get(status)
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            hint = "a redirect is never followed; check --imds.endpoint"
        detail = "; ".join(part for part in (said, hint) if part)
        raise ImdsError(outcome, f"{self._endpoint} answered {status}", detail, status)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it, outermost first."""
    for _ in range(10):  # the libraries wrap three or four times
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _read(response: BaseHTTPResponse) -> bytes | None:
    """The whole body, or None when it is larger than the cap; the connection is then closed."""
    chunks, size = [], 0
    while chunk := response.read(_CHUNK, decode_content=True):
        size += len(chunk)
        if size > LARGEST_BODY:
            response.close()
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _error_text(body: bytes) -> str:
    """What an error body says: the ``error`` of a JSON object, or the beginning of any other text."""
    text = body[:4096].decode("utf-8", "replace")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and isinstance(content.get("error"), str):
        text = content["error"]
    return _one_line(text)


def _one_line(text: str, length: int = 160) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= length else line[: length - 3] + "..."


class _Deadline:
    """The time by which the request under way must be over, and the way to end it from another thread."""

    def __init__(self) -> None:
        self.stopped = False
        self.broken_off = False  # whether the other side has ended the connection under way
        self._at = 0.0
        self._socket: socket.socket | None = None

    def set(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self.broken_off = False

    def remaining(self) -> float:
        left = self._at - time.monotonic()
        if self.stopped or left <= 0:
            raise TimeoutError("the request took too long")
        return left

    def watch(self, opened: socket.socket) -> None:
        self._socket = opened
        if self.stopped:
            self.stop()

    def stop(self) -> None:
        self.stopped = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)


class _DeadlineSocket(socket.socket):
    """A socket of which every receive ends by the deadline: its own timeout starts anew with each byte."""

    deadline: _Deadline

    def recv_into(self, *args: object, **kwargs: object) -> int:
        self.settimeout(self.deadline.remaining())
        count = super().recv_into(*args, **kwargs)  # type: ignore[arg-type] # handed on as it comes
        self.deadline.broken_off = count == 0
        if count == 0 and self.deadline.stopped:
            raise TimeoutError("stopped")  # it was not the other side that ended the answer here
        return count


def _pool(endpoint: str, deadline: _Deadline) -> HTTPConnectionPool:
    """A pool of one connection, whose socket keeps ``deadline``. It knows no proxy, no cookie and no netrc."""

    class Connection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            plain = super()._new_conn()
            guarded = _DeadlineSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
            guarded.deadline = deadline
            deadline.watch(guarded)
            return guarded

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    address = parse_url(endpoint)
    # Of an IPv6 address without a port, Python would take the last group for one.
    return Pool(address.host or "", address.port or HTTPConnection.default_port)
