"""The HTTP client of the Instance Metadata Service.

A request returns a body, or raises :class:`ImdsError`. Must not decide what happens next: a request
is repeated here only with another api-version, or if the server was just closing the connection.
Each request has one deadline in total, so that a server that sends byte by byte cannot block a
poll, and each body has a size limit.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urlsplit

import requests
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, Timeout
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, OutdatedError, Stopped
from azure_scheduled_events_exporter.http_client.deadline import IDLE_SECONDS, DeadlineAdapter
from azure_scheduled_events_exporter.http_client.failures import causes_of, failure_reason
from azure_scheduled_events_exporter.http_client.web_page import is_web_page

from .answer import Answer
from .api_versions import INSTANCE_API_VERSIONS, UNSPECIFIED, ApiVersions
from .foreign import who_answers_instead
from .guest_proxy_agent import EVENTS_PATH, INSTANCE_PATH
from .rate_limiter import RateLimiter
from .refusal import API_VERSION_FLAG, INSTANCE_NAME_FLAG, refusal

LARGEST_BODY = 1 << 20  # bytes
OLDEST_DOCUMENT_SECONDS = 3.0
"""An approval is sent only while its document was asked for at most so long ago.

The event may have become another since then: more VMs, or one that deletes them.
"""

_CHUNK = 1 << 16  # bytes that are read at once, at most
_HEADERS: Mapping[str, str] = {
    "Metadata": "true",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"azure-scheduled-events-exporter/{__version__}",
}
_POST_HEADERS = {**_HEADERS, "Content-Type": "application/json"}
_UNKNOWN_VERSION = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
"""The statuses that an IMDS may answer with if it does not know the api-version."""


@dataclass(eq=False)
class ImdsClient:
    """Sends requests to one endpoint over one connection, which is kept between them.

    One thread uses it; any thread may :meth:`stop` it.

    Attributes:
        endpoint: base address, such as ``http://169.254.169.254``.
        versions: the api-versions of the Scheduled Events document, shared by all clients of this
            process.
        rate_limiter: shared in the same way.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        connect_seconds: limit for connecting. It is much shorter than the limit of the first
            request, which is two minutes.
        idle_seconds: a connection that was idle for longer is not used again.
        headers: those of the last answer.
        reached: whether any request has had an answer, of any status.
    """

    endpoint: str
    versions: ApiVersions
    rate_limiter: RateLimiter
    wait: Callable[[float], bool]
    connect_seconds: float
    idle_seconds: float = IDLE_SECONDS

    def __post_init__(self) -> None:
        self.endpoint = self.endpoint.rstrip("/")
        self._instance_versions = ApiVersions(*INSTANCE_API_VERSIONS)
        self._adapter = DeadlineAdapter(self.idle_seconds)
        # The connections of the adapter, so that its deadlines hold. What else the library
        # ``requests`` does (proxies, redirects, cookies) is left out: it would take a fifth of the
        # CPU time of a poll.
        self._pool: HTTPConnectionPool = self._adapter.get_connection_with_tls_context(
            requests.Request("GET", self.endpoint).prepare(), verify=True
        )
        self._base_path = urlsplit(self.endpoint).path  # usually ""
        self._date = ""  # the header Date of the last answer
        self._date_at = 0.0  # when it came, by time.monotonic()
        self.headers: Mapping[str, str] = {}
        self.reached = False

    def scheduled_events(self, timeout: float) -> bytes | None:
        """Return the body of a 200, or None for a 304 (unchanged).

        Raises:
            ImdsError: any other result, at the latest shortly after ``timeout`` seconds.
            Stopped: :meth:`stop` was called.
        """
        return self._get(EVENTS_PATH, self.versions, timeout)

    def instance(self, timeout: float) -> bytes:
        """Return the instance metadata of this VM. Raises as :meth:`scheduled_events` does."""
        body = self._get(INSTANCE_PATH, self._instance_versions, timeout)
        if body is None:
            message = (
                f"{self.endpoint} answered 304 (unchanged) to a first request: check for a cache on"
                " the way"
            )
            raise ImdsError(Outcome.HTTP_ERROR, message)
        return body

    def approve(
        self, event_ids: Sequence[str], timeout: float, document_age: Callable[[], float]
    ) -> None:
        """Approve these events, so that they begin now on all VMs in their Resources.

        IMDS accepts all or none.

        Args:
            event_ids: the events.
            timeout: limit of the request, in seconds.
            document_age: returns how many seconds ago the document was asked for on which this
                approval was decided. It is called when the request is about to be sent: after the
                wait for the rate limiter, and over an open connection.

        Raises:
            OutdatedError: the document is older than :data:`OLDEST_DOCUMENT_SECONDS`, so nothing
                was sent.
            ImdsError: IMDS did not accept, or it is not known whether the request has arrived; see
                ``is_refusal`` and ``may_have_arrived``.
            Stopped: :meth:`stop` was called.
        """

        def check_age() -> None:
            """Raise OutdatedError if the document has become too old."""
            age = document_age()
            if age > OLDEST_DOCUMENT_SECONDS:
                raise OutdatedError(age, OLDEST_DOCUMENT_SECONDS)

        start = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
        target = self._target(EVENTS_PATH, self.versions.usable)
        # A new connection: the server may close the old one at this moment, and nobody would know
        # whether the approval has arrived.
        self._adapter.drop()
        answer = self._exchange(target, timeout, json.dumps(start).encode(), check_age)
        if answer.status != HTTPStatus.OK:
            raise refusal(self.endpoint, EVENTS_PATH, answer)
        _body_of(answer, self.endpoint)  # raises for what IMDS does not send

    def server_time(self) -> float | None:
        """Return the time by IMDS' own clock now, Unix seconds.

        It is the Date of the last answer plus the time that has passed since; None without a Date.
        """
        try:
            return parsedate_to_datetime(self._date).timestamp() + time.monotonic() - self._date_at
        except (ValueError, TypeError, OverflowError):
            return None

    def stop(self) -> None:
        """Cancel the current request, and refuse every later one."""
        self._adapter.stop()

    def _target(self, path: str, version: str) -> str:
        """Return what the request line names: path and query."""
        if version == UNSPECIFIED:
            return f"{self._base_path}{path}"
        return f"{self._base_path}{path}?api-version={version}"

    def _get(self, path: str, versions: ApiVersions, timeout: float) -> bytes | None:
        """Return the body at ``path``, None for a 304; ask until IMDS answers one of ``versions``.

        A request without a version (:data:`UNSPECIFIED`) only asks which versions there are: IMDS
        refuses it, and names those that it offers. ``versions`` then has them as the next ones.

        Raises:
            ImdsError: IMDS refuses all of them, or a request fails for another reason.
        """
        ends = time.monotonic() + timeout
        left = timeout
        while True:
            version = versions.current
            try:
                body = self._get_version(path, version, left)
            except ImdsError as error:
                # Without a version, every failure counts as the refusal: the next request has one.
                may_be_unknown = error.status in _UNKNOWN_VERSION or version == UNSPECIFIED
                if not may_be_unknown:
                    raise
                has_another = versions.refused(error.offered)
                if not has_another:
                    raise
            else:
                if version != UNSPECIFIED:
                    versions.answered()
                    return body
                # Only a server that ignores versions answers a request without one. Ask with one
                # all the same, so that later requests have one.
                versions.refused()
            left = max(0.0, ends - time.monotonic())

    def _get_version(self, path: str, version: str, timeout: float) -> bytes | None:
        """Return the body at ``path`` by one version, None for a 304.

        Raises:
            ImdsError: any other answer, or none.
        """
        answer = self._send(self._target(path, version), timeout)
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return None
        asked = self.endpoint  # as messages name what was asked
        flag = API_VERSION_FLAG
        if path != EVENTS_PATH:
            asked = f"{self.endpoint}{path}"
            flag = INSTANCE_NAME_FLAG
        if answer.status != HTTPStatus.OK:
            raise refusal(asked, path, answer, version=version, flag=flag)
        return _body_of(answer, asked)

    def _send(self, target: str, timeout: float) -> Answer:
        """Send a GET; send it again if the server was just closing the connection."""
        ends = time.monotonic() + timeout
        try:
            return self._exchange(target, timeout)
        except ImdsError as error:
            is_broken = error.outcome is Outcome.CONNECTION_ERROR
            if not is_broken or not self._adapter.met_a_closing_server:
                raise
        self._adapter.drop()
        return self._exchange(target, max(0.0, ends - time.monotonic()))

    def _exchange(
        self,
        target: str,
        timeout: float,
        content: bytes | None = None,
        before_sending: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request when the rate limiter permits it: a GET, or a POST of ``content``.

        A connection is kept as long as its answers are 200. The Guest Proxy Agent in front of IMDS
        redirects new connections only, so after a refusal the next request opens one.

        ``before_sending``: see :meth:`.DeadlineAdapter.begin`.
        """
        now = time.monotonic()
        slot = self.rate_limiter.reserve(now)
        is_to_end = self.wait(slot - now)
        if is_to_end:
            raise Stopped
        self._adapter.begin(timeout, before_sending)
        connect = min(timeout, self.connect_seconds)
        method = "GET"
        headers = _HEADERS
        if content is not None:
            method = "POST"
            headers = _POST_HEADERS
        try:
            with self._pool.urlopen(
                method,
                target,
                content,
                headers,
                retries=False,
                redirect=False,
                timeout=Timeout(connect=connect, read=timeout),
                preload_content=False,
            ) as response:
                body = self._read(response)
        except (OSError, ValueError, HTTPError) as error:
            raise self._failure(error, connect, timeout) from None
        finally:
            self.rate_limiter.arrived(slot, time.monotonic())
        if response.status != HTTPStatus.OK:
            self._adapter.drop()
        self.headers = response.headers
        return Answer(response.status, response.reason or "", response.headers, body)

    def _read(self, response: BaseHTTPResponse) -> bytes | None:
        """Return the whole body, or None if it is larger than :data:`LARGEST_BODY`.

        Notes that there was an answer, and its time.

        Raises:
            ImdsError: the answer was cut off in a way that the libraries treat as complete.
        """
        cut_off = ImdsError(
            Outcome.CONNECTION_ERROR, f"cannot talk to {self.endpoint}", "the answer was cut off"
        )
        if self._adapter.peer_closed:
            # http.client treats end of file inside the headers as their end, so a truncated 200
            # looks like one with an empty body.
            raise cut_off
        self.reached = True
        self._date = response.headers.get("Date", "")
        self._date_at = time.monotonic()
        if response.status < HTTPStatus.OK:
            # An interim answer. Leaving the body unread closes the connection, so that the final
            # answer is not taken for that to the next request.
            return b""
        body = b""
        for chunk in response.stream(_CHUNK):
            body += chunk
            if len(body) > LARGEST_BODY:
                return None  # leaving it half read closes the connection
        if response.status == HTTPStatus.OK and not body and "Content-Encoding" in response.headers:
            # A compressed body that ends before its first byte does not mean "no events".
            raise cut_off
        return body

    def _failure(self, error: Exception, connect: float, timeout: float) -> ImdsError | Stopped:
        """Return what to raise for a request that ended with ``error``.

        ``connect`` and ``timeout`` are its limits, in seconds.
        """
        if self._adapter.stopped:
            return Stopped()
        causes = list(causes_of(error))
        # NewConnectionError, such as for a refused connection, is a ConnectTimeoutError too.
        is_refused = any(isinstance(cause, NewConnectionError) for cause in causes)
        is_slow = any(isinstance(cause, ConnectTimeoutError) for cause in causes)
        if is_slow and not is_refused:
            reason = f"no connection to {self.endpoint} within {connect:g} s"
            return ImdsError(Outcome.TIMEOUT, reason, may_have_arrived=False)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            return ImdsError(
                Outcome.TIMEOUT, f"no whole answer from {self.endpoint} within {timeout:g} s"
            )
        return ImdsError(
            Outcome.CONNECTION_ERROR,
            f"cannot talk to {self.endpoint}",
            failure_reason(error),
            may_have_arrived=not is_refused,
        )


def _body_of(answer: Answer, asked: str) -> bytes:
    """Return the body of a 200; ``asked`` is the address that messages name.

    Raises:
        ImdsError: IMDS sends no such body, so somebody else may have answered.
    """
    if answer.body is None:
        reason = f"{asked} sent more than 1 MiB"
        raise ImdsError(Outcome.INVALID_DOCUMENT, reason, status=answer.status)
    if is_web_page(answer.headers, answer.body):
        reason = f"{asked} answered with a web page"
        hint = who_answers_instead(answer)
        raise ImdsError(Outcome.INVALID_DOCUMENT, reason, status=answer.status, hint=hint)
    return answer.body
