"""Access control by the web configuration file, which is read at the start and again whenever it has changed.

If the file is invalid, the last valid one stays in effect, and the error is logged once. A separate thread reads files
and checks passwords; everything else here runs on the event loop. Must not depend on routes or on the phases of a
connection (``http_server.server``, ``http_server.connection``).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.times import iso_time

from . import web_config
from .messages import Request, plain
from .web_config import RateLimit, WebConfig

if TYPE_CHECKING:
    from .basic_auth import BasicAuth, Refusal
    from .tls import Tls

_PAUSE = 1.0  # seconds between two checks of the files
EXPIRES_SOON_SECONDS = 7 * 86400.0
"""How long before its expiry a certificate causes a warning."""
_Stamps = Mapping[Path, tuple[int, ...] | None]


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
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass(frozen=True, slots=True)
class _Reading:
    """The result of reading: the file's content, the TLS context made from it, and the files' stamps just before."""

    config: WebConfig
    tls: "Tls | None"
    stamps: _Stamps


class WebAccess:
    """Applies the file at ``path``; ``open_paths`` need no password and have no rate limit.

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
        self._pool = ThreadPoolExecutor(1, "web-access")
        self._files: tuple[Path, ...] = ()
        self._seen: _Stamps = {}
        self._settling: _Stamps = {}
        self._error = ""
        self._warned: float | None = None
        self._users: BasicAuth | None = None
        self._bucket: Bucket | None = None
        self._reading = self._read()
        self.tls = self._reading.tls
        self._replace(self._reading.config, WebConfig())
        self._log_settings("web configuration loaded")
        self._warn_of_expiry()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers added to every response."""
        return self._reading.config.headers

    def admit(self, request: Request, client: str) -> "Refusal | asyncio.Future[Refusal]":
        """Return None to allow the request, or the refusal; a future of either if checking takes time."""
        if request.path in self._open_paths:
            return None
        if self._bucket is not None and not self._bucket.take():
            return plain(429, ("Retry-After", "1"))
        if self._users is None:
            return None
        return self._users.judge(request.headers.get("authorization", ""), client)

    async def watch(self, retire: Callable[[bool], None]) -> None:
        """Watch the file until cancelled; call ``retire`` if open connections use previous TLS settings.

        Its argument is True if clients that were trusted before may not be trusted now.
        """
        loop = asyncio.get_running_loop()
        failure = ""  # the unexpected error of the last check
        while True:
            await asyncio.sleep(self._pause)
            try:
                reading = await loop.run_in_executor(self._pool, self._look)
                if reading is not None:
                    before = self._reading
                    if self._apply(reading):
                        retire(_trust(before) != _trust(reading))
            except UsageError as error:
                if self._error != str(error):
                    self._error = str(error)
                    self._log.error(
                        "invalid web configuration, the last valid one stays in effect", extra=facts(error=error)
                    )
            except Exception as error:  # noqa: BLE001 - whatever it is, access stays as it was
                if failure != repr(error):
                    self._log.exception("cannot read the web configuration, the last valid one stays in effect")
                failure = repr(error)
            else:
                failure = ""

    def close(self) -> None:
        """End the thread without waiting for a running check."""
        self._pool.shutdown(wait=False, cancel_futures=True)

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
        self._seen = stamps = _stamps((self._path,))
        self._files = (self._path,)
        config = web_config.load(self._path)
        if config.tls is None:
            return _Reading(config, None, stamps)
        self._files = (self._path, *config.tls.files)
        self._seen = stamps = {**stamps, **_stamps(config.tls.files)}
        from .tls import server_tls  # noqa: PLC0415 - not loaded without TLS

        return _Reading(config, server_tls(config.tls), stamps)

    def _apply(self, reading: _Reading) -> bool:
        """Apply ``reading``; return whether TLS has changed."""
        before = self._reading
        same_tls = _tls_settings(before) == _tls_settings(reading)
        self._replace(reading.config, before.config)  # only this can fail, and then nothing has changed
        if not same_tls:
            self.tls = reading.tls
        self._reading = reading
        if not same_tls or reading.config != before.config:
            disabled = [
                what
                for what, was, now in (
                    ("TLS", before.config.tls, reading.config.tls),
                    ("authentication", before.config.users, reading.config.users),
                )
                if was and not now
            ]
            if disabled:
                message = "TLS or authentication was disabled by the reloaded web configuration"
                self._log.warning(message, extra=facts(disabled=" and ".join(disabled)))
            self._log_settings("web configuration reloaded")
        elif self._error:
            self._log_settings("web configuration is valid again")
        self._warn_of_expiry()
        self._error = ""
        return not same_tls

    def _replace(self, config: WebConfig, before: WebConfig) -> None:
        """Replace what differs from ``before``: verified passwords are kept when only a header has changed."""
        if config.users != before.users:
            self._users = self._basic_auth(config) if config.users else None  # the import can fail after an upgrade
        if config.rate_limit != before.rate_limit:
            self._bucket = Bucket(config.rate_limit) if config.rate_limit else None

    def _basic_auth(self, config: WebConfig) -> "BasicAuth":
        import bcrypt  # noqa: PLC0415 - not loaded without users

        from .basic_auth import BasicAuth  # noqa: PLC0415 - the same

        return BasicAuth(config.users, bcrypt.checkpw, self._pool, self._log)

    def _log_settings(self, message: str) -> None:
        config = self._reading.config
        client_auth = config.tls.client_auth.value if config.tls else None
        self._log.info(
            message,
            extra=facts(
                file=str(self._path), tls=config.tls is not None, client_auth=client_auth, users=len(config.users)
            ),
        )

    def _warn_of_expiry(self) -> None:
        """Log a warning once about a certificate that has expired or expires soon."""
        settings, ends = self._reading.config.tls, self.tls.ends if self.tls else None
        left = ends - time.time() if ends is not None else EXPIRES_SOON_SECONDS
        if settings is None or ends is None or left >= EXPIRES_SOON_SECONDS:
            self._warned = None
        elif ends != self._warned:
            self._warned = ends
            state = "has expired: clients refuse it" if left <= 0 else "expires soon"
            file = settings.certificate.path or self._path
            self._log.warning("the TLS certificate %s", state, extra=facts(file=str(file), expires=iso_time(ends)))


def check(path: Path) -> None:
    """Check the file and its certificates in the same way as the start of the exporter by this user.

    Raises:
        UsageError: they cannot be used.
    """
    config = web_config.load(path)
    if config.tls is not None:
        from .tls import server_tls  # noqa: PLC0415 - not loaded without TLS

        server_tls(config.tls)


def _tls_settings(reading: _Reading) -> object:
    """Return the values that change if TLS must be replaced: the settings, and the stamps of the files."""
    tls = reading.config.tls
    return tls and (tls, [reading.stamps.get(file) for file in tls.files])


def _trust(reading: _Reading) -> object:
    """Return the settings that decide which clients are trusted: all but the server's own certificate and key."""
    tls = reading.config.tls
    if tls is None:
        return None
    files = [tls.client_ca.path] if tls.client_ca and tls.client_ca.path else []
    return tls.client_auth, tls.client_ca, tls.client_names, [reading.stamps.get(file) for file in files]


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
