"""Access control by the web configuration file, which is read at the start and again when it has changed.

If the file is invalid, the last valid one stays in effect, and the error is logged once. Must not know routes or
connections.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.times import iso_time

from . import web_config
from .app import Request, Response, plain
from .tls import Tls, server_tls
from .users import Users
from .web_config import RateLimit, WebConfig

_PAUSE = 1.0  # seconds between two checks of the files
_REALM = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'  # without a realm some browsers do not ask
EXPIRES_SOON_SECONDS = 7 * 86400.0
"""How long before its expiry a certificate causes a warning."""
_Stamps = Mapping[Path, tuple[int, ...] | None]


class Retire(Protocol):
    """Called if open connections use previous TLS settings."""

    def __call__(self, *, distrust: bool) -> None:
        """With ``distrust``, clients that were trusted may not be trusted now."""


class Bucket:
    """A token bucket like the toolkit's: one request every ``interval``, and up to ``burst`` at once after a pause."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens = float(limit.burst)
        self._last = clock()

    def take(self) -> bool:
        """Return whether one more request is within the limit."""
        now = self._clock()
        self._tokens = min(self._limit.burst, self._tokens + (now - self._last) / self._limit.interval)
        self._last = now
        is_within = self._tokens >= 1
        self._tokens -= is_within
        return is_within


@dataclass(frozen=True, slots=True)
class _Reading:
    """The result of reading: the file's content, the TLS context made from it, and the files' stamps just before."""

    config: WebConfig
    tls: Tls | None
    stamps: _Stamps

    @property
    def trust(self) -> object:
        """What decides which clients are trusted."""
        tls = self.config.tls
        return tls and (tls.client_auth, tls.client_ca, tls.client_names, self._stamps_of(tls.client_ca))

    @property
    def identity(self) -> object:
        """All that TLS is made of."""
        tls = self.config.tls
        return tls and (tls, *map(self._stamps_of, (tls.certificate, tls.key, tls.client_ca)))

    def _stamps_of(self, pem: web_config.Pem | None) -> object:
        return self.stamps.get(pem.path) if pem and pem.path else None


class WebAccess:
    """Applies the file at ``path``; ``open_paths`` need no password and have no rate limit.

    Attributes:
        tls: for new connections; None without TLS.

    Raises:
        UsageError: the file, or a certificate that it names, cannot be used.
    """

    def __init__(
        self, path: Path, open_paths: Iterable[str] = (), *, pause: float = _PAUSE, log: logging.Logger
    ) -> None:
        self._path = path
        self._open_paths = frozenset(open_paths)
        self._pause = pause
        self._log = log
        self._files: tuple[Path, ...] = (path,)
        self._seen: _Stamps = {}
        self._settling: _Stamps = {}
        self._error = ""
        self._warned: float | None = None
        self._users: Users | None = None
        self._bucket: Bucket | None = None
        self.tls: Tls | None = None
        self._reading = _Reading(WebConfig(), None, {})
        self._apply(self._read(), "web configuration loaded")

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of every response."""
        return self._reading.config.headers

    async def refuse(self, request: Request) -> Response | None:
        """Return the response that refuses ``request``, or None to answer it."""
        if request.path in self._open_paths:
            return None
        if self._bucket is not None and not self._bucket.take():
            return plain(429, ("Retry-After", "1"))
        if self._users is None:
            return None
        match await self._users.refuse(request.headers.get("authorization", ""), request.client):
            case 0:
                return None
            case 401:
                return plain(401, ("WWW-Authenticate", _REALM))
            case status:
                return plain(status, ("Retry-After", "1"))

    async def watch(self, retire: Retire) -> None:
        """Apply changes of the files until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            try:
                reading = await asyncio.to_thread(self._look)
                if reading is None:
                    continue
                before = self._reading
                changed = reading.identity != before.identity or reading.config != before.config
                if changed or self._error:
                    done = "web configuration reloaded" if changed else "web configuration is valid again"
                    self._apply(reading, done)
                self._error = ""
            except Exception as error:  # noqa: BLE001 - whatever it is, access stays as it was
                reason = str(error) if isinstance(error, UsageError) else repr(error)
                if reason != self._error:
                    message = "invalid web configuration, the last valid one stays in effect"
                    self._log.error(message, extra=facts(error=reason))
                self._error = reason
            else:
                if reading.identity != before.identity:
                    retire(distrust=reading.trust != before.trust)

    def close(self) -> None:
        """End the thread of password checks."""
        if self._users:
            self._users.close()

    def _look(self) -> _Reading | None:
        """Read the files if they have changed and are stable: a key may be written after its certificate."""
        now = _stamps(self._files)
        if now == self._seen:
            return None
        if now != self._settling:
            self._settling = now
            return None
        return self._read()

    def _read(self) -> _Reading:
        """Read file and certificates; if that fails, they are not read again until one of them changes."""
        self._files = (self._path,)
        self._seen = _stamps(self._files)
        config = web_config.load(self._path)
        if config.tls is not None:
            self._files = (self._path, *config.tls.files)
            self._seen = {**self._seen, **_stamps(config.tls.files)}
        return _Reading(config, server_tls(config.tls) if config.tls else None, self._seen)

    def _apply(self, reading: _Reading, message: str) -> None:
        before, config = self._reading.config, reading.config
        if config.users != before.users:
            if self._users and not config.users:
                self._users.close()
            self._users = Users(config.users, self._users) if config.users else None
        if config.rate_limit != before.rate_limit:
            self._bucket = Bucket(config.rate_limit) if config.rate_limit else None
        self._reading, self.tls = reading, reading.tls
        off = [
            what
            for what, was, now in (
                ("TLS", before.tls, config.tls),
                ("authentication", before.users, config.users),
            )
            if was and not now
        ]
        if off:
            warning = "TLS or authentication was disabled by the reloaded web configuration"
            self._log.warning(warning, extra=facts(disabled=" and ".join(off)))
        client_auth = config.tls.client_auth.value if config.tls else None
        settings = facts(
            file=str(self._path), tls=config.tls is not None, client_auth=client_auth, users=len(config.users)
        )
        self._log.info(message, extra=settings)
        self._warn_of_expiry(reading)

    def _warn_of_expiry(self, reading: _Reading) -> None:
        """Log once about a certificate that has expired or expires soon."""
        settings, ends = reading.config.tls, reading.tls.ends if reading.tls else None
        if settings is None or ends is None or ends == self._warned or ends - time.time() >= EXPIRES_SOON_SECONDS:
            return
        self._warned = ends
        state = "has expired: clients refuse it" if ends <= time.time() else "expires soon"
        file = settings.certificate.path or self._path
        self._log.warning("the TLS certificate %s", state, extra=facts(file=str(file), expires=iso_time(ends)))


def check(path: Path) -> None:
    """Check the file and its certificates in the same way as the start of the exporter by this user.

    Raises:
        UsageError: they cannot be used.
    """
    config = web_config.load(path)
    if config.tls is not None:
        server_tls(config.tls)


def _stamps(files: Iterable[Path]) -> _Stamps:
    """Return times of modification and of the last chmod or chown, size and inode of each file; None if missing."""
    stamps: dict[Path, tuple[int, ...] | None] = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            stamps[file] = None
        else:
            stamps[file] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    return stamps
