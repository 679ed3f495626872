"""The HTTP client of the Instance Metadata Service: a request returns a body or raises :class:`ImdsError`.

Must not interpret a body or decide what happens next. Every request has one deadline in total, so that a server that
sends byte by byte cannot block a poll, and every body has a size limit.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, Stopped, one_line
from azure_scheduled_events_exporter.http_client.failures import causes_of, failure_reason
from azure_scheduled_events_exporter.http_client.lean_requests import requests

from .rate_limiter import RateLimiter

LARGEST_BODY = 1 << 20
INSTANCE_API_VERSION = "2021-02-01"
_CHUNK = 1 << 16
_CONNECT_SECONDS = 5.0  # IMDS is on the VM's own host; only its first answer takes long
_HEADERS: Mapping[str, str] = {
    "Metadata": "true",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"azure-scheduled-events-exporter/{__version__}",
}
_HINTS: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "check --imds.api-version, and that no proxy on the way adds X-Forwarded-For",
    HTTPStatus.FORBIDDEN: "the guest proxy agent or a firewall rule keeps this process from IMDS",
    HTTPStatus.NOT_FOUND: "the service may be moving; else check --imds.endpoint",
    HTTPStatus.METHOD_NOT_ALLOWED: "the service may be moving; else check --imds.endpoint",
    HTTPStatus.GONE: "the service is moving, which takes up to 70 s",
    HTTPStatus.TOO_MANY_REQUESTS: "over 5 requests a second from this VM, all its programs together",
}
_APPROVAL_HINTS: Mapping[int, str] = {
    **_HINTS,
    HTTPStatus.BAD_REQUEST: "an event may be over: compare the EventIds with azure-scheduled-events-exporter events",
}


class ImdsClient:
    """Requests to one endpoint over one kept-alive connection. One thread uses it; any thread may :meth:`stop` it.

    Args:
        endpoint: base address, such as ``http://169.254.169.254``.
        api_version: of the Scheduled Events document.
        rate_limiter: shared by all clients of this process.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
    """

    def __init__(
        self, endpoint: str, api_version: str, rate_limiter: RateLimiter, wait: Callable[[float], bool]
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._rate_limiter = rate_limiter
        self._wait = wait
        self._deadline = _Deadline()
        # Not a requests.Session, so that there are no proxies of the environment, no redirects, and no cookies.
        self._adapter = _DeadlineAdapter(self._deadline)
        self._date = ""  # the Date header of the last answer, and the monotonic time at which it came
        self._date_at = 0.0
        self.headers: Mapping[str, str] = {}  # of the last answer
        self.reached = False  # whether any request has had an answer, of any status
        self._events_url = f"{self._endpoint}/metadata/scheduledevents?api-version={api_version}"
        instance_url = f"{self._endpoint}/metadata/instance?api-version={INSTANCE_API_VERSION}"
        # Prepared once, because this takes a third of the CPU time of a poll.
        self._get_events = requests.Request("GET", self._events_url, _HEADERS).prepare()
        self._get_instance = requests.Request("GET", instance_url, _HEADERS).prepare()

    def scheduled_events(self, timeout: float) -> bytes | None:
        """Return the body of a 200, or None for a 304 (unchanged).

        Raises:
            ImdsError: any other result, at the latest shortly after ``timeout`` seconds.
            Stopped: :meth:`stop` was called.
        """
        return self._send(self._get_events, timeout)

    def instance(self, timeout: float) -> bytes:
        """Return the instance metadata of this VM. Raises as :meth:`scheduled_events` does."""
        body = self._send(self._get_instance, timeout)
        if body is None:
            raise ImdsError(Outcome.HTTP_ERROR, f"{self._endpoint} answered 304 (unchanged) to the first request")
        return body

    def approve(self, event_ids: Sequence[str], timeout: float) -> None:
        """Approve these events, so that they begin now on all VMs in their Resources. IMDS accepts all or none.

        Raises:
            ImdsError: IMDS did not accept; ``status`` is 0 when it did not answer either.
            Stopped: :meth:`stop` was called.
        """
        start = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
        post = requests.Request("POST", self._events_url, _HEADERS, json=start).prepare()
        if self._send(post, timeout, _APPROVAL_HINTS) is None:
            raise ImdsError(Outcome.HTTP_ERROR, f"{self._endpoint} answered 304 to an approval", status=304)

    def server_time(self) -> float | None:
        """Return the time by IMDS' own clock, Unix seconds, from the Date header of its last answer, or None."""
        try:
            return parsedate_to_datetime(self._date).timestamp() + time.monotonic() - self._date_at
        except (ValueError, TypeError, OverflowError):
            return None

    def stop(self) -> None:
        """Cancel the current request, and refuse every later one."""
        self._deadline.stop()

    def _send(
        self, request: requests.PreparedRequest, timeout: float, hints: Mapping[int, str] = _HINTS
    ) -> bytes | None:
        now = time.monotonic()
        slot = self._rate_limiter.reserve(now)
        if self._wait(slot - now):
            raise Stopped
        self._deadline.set(timeout)
        try:
            limits = (min(timeout, _CONNECT_SECONDS), timeout)
            with self._adapter.send(request, timeout=limits, stream=True) as response:
                body = self._read(response)
                self.headers = response.headers
        except (OSError, ValueError) as error:  # requests raises subclasses of both of them
            raise self._failure(error, timeout) from None
        finally:
            self._rate_limiter.arrived(slot, time.monotonic())
        return self._judge(response.status_code, body, hints)

    def _read(self, response: requests.Response) -> bytes | None:
        """Return the whole body, or None if it is larger than the limit.

        Raises:
            ImdsError: the answer was cut off in a way that the libraries treat as complete.
        """
        cut_off = ImdsError(Outcome.CONNECTION_ERROR, f"cannot talk to {self._endpoint}", "the answer was cut off")
        if self._deadline.peer_closed:
            # http.client treats end of file inside the headers as their end, so a truncated 200 looks empty.
            raise cut_off
        self.reached = True
        self._date, self._date_at = response.headers.get("Date", ""), time.monotonic()
        if response.status_code < HTTPStatus.OK:
            return b""  # an interim answer; leaving the body unread closes the connection, and the final answer with it
        body = _whole_body(response)
        if response.status_code == HTTPStatus.OK and body == b"" and "Content-Encoding" in response.headers:
            raise cut_off  # a compressed body that ends before its first byte does not mean "no events"
        return body

    def _failure(self, error: Exception, timeout: float) -> ImdsError | Stopped:
        if self._deadline.stopped:
            return Stopped()
        causes = list(causes_of(error))
        connected = not any(isinstance(cause, NewConnectionError) for cause in causes)
        if connected and any(isinstance(cause, ConnectTimeoutError) for cause in causes):
            reason = f"no connection to {self._endpoint} within {min(timeout, _CONNECT_SECONDS):g} s"
            return ImdsError(Outcome.TIMEOUT, reason, may_have_arrived=False)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            return ImdsError(Outcome.TIMEOUT, f"no whole answer from {self._endpoint} within {timeout:g} s")
        reason = f"cannot talk to {self._endpoint}"
        return ImdsError(Outcome.CONNECTION_ERROR, reason, failure_reason(error), may_have_arrived=connected)

    def _judge(self, status: int, body: bytes | None, hints: Mapping[int, str]) -> bytes | None:
        if status == HTTPStatus.NOT_MODIFIED:
            return None
        if status == HTTPStatus.OK:
            if body is None:
                raise ImdsError(Outcome.INVALID_DOCUMENT, f"{self._endpoint} sent more than 1 MiB")
            return body
        outcome = Outcome.THROTTLED if status == HTTPStatus.TOO_MANY_REQUESTS else Outcome.HTTP_ERROR
        hint = hints.get(status)
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            hint = "a redirect is never followed; check --imds.endpoint"
        detail = "; ".join(part for part in (_error_text(body or b""), hint) if part)
        raise ImdsError(outcome, f"{self._endpoint} answered {status}", detail, status)


def _whole_body(response: requests.Response) -> bytes | None:
    chunks, size = [], 0
    for chunk in response.iter_content(_CHUNK):
        size += len(chunk)
        if size > LARGEST_BODY:
            return None  # leaving it half read closes the connection
        chunks.append(chunk)
    return b"".join(chunks)


def _error_text(body: bytes) -> str:
    """Return the message of an error body: the ``error`` of a JSON object, or the beginning of any other text."""
    text = body[:4096].decode("utf-8", "replace")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and isinstance(content.get("error"), str):
        text = content["error"]
    return one_line(text)


class _Deadline:
    """The time by which the current request must end, and a way to end it from another thread."""

    def __init__(self) -> None:
        self.stopped = False
        self.peer_closed = False  # whether the server has closed the connection during this request
        self._at = 0.0
        self._socket: socket.socket | None = None

    def set(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self.peer_closed = False

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
    """A socket whose receives end by the deadline. A plain socket's timeout starts again with each byte."""

    def __init__(self, plain: socket.socket, deadline: _Deadline) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self._deadline = deadline
        deadline.watch(self)

    def recv_into(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - passed on unchanged
        self.settimeout(self._deadline.remaining())
        count = super().recv_into(*args, **kwargs)
        self._deadline.peer_closed = count == 0
        if count == 0 and self._deadline.stopped:
            raise TimeoutError("stopped")  # this process closed the connection, not the server
        return count


class _DeadlineAdapter(requests.adapters.HTTPAdapter):
    """A requests transport adapter to one endpoint, whose connections enforce the deadline for the whole request."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self._deadline = deadline
        self._pool: Any = None

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on unchanged
        if self._pool is None:
            self._pool = super().get_connection_with_tls_context(*args, **kwargs)
            self._pool.ConnectionCls = _with_deadline(self._pool.ConnectionCls, self._deadline)
        return self._pool


def _with_deadline(connection_class: Any, deadline: _Deadline) -> Any:  # noqa: ANN401 - a class that requests chose
    """Return ``connection_class``, a kind of ``http.client.HTTPConnection``, whose sockets enforce ``deadline``."""

    class Connection(connection_class):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            self.sock: socket.socket = _DeadlineSocket(self.sock, deadline)

    return Connection
