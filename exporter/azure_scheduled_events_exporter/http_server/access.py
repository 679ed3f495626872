"""Who may come in, as the web configuration file says it now: read at the start and again whenever it has changed.

A file that has become wrong changes nothing: the last good one holds, and the log says once what is wrong. ClockSample
takes place in a thread of its own, which also checks passwords; everything else here runs on the event loop.
It knows nothing of what is served, nor of a connection's life (``http_server.server``, ``http_server.connection``).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.core.timestamp import iso_time
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.logs import facts

from . import web_config
from .connection import Request, plain
from .web_config import RateLimit, WebConfig

if TYPE_CHECKING:
    from .basic_auth import BasicAuth, Refusal
    from .tls import Tls

_PAUSE = 1.0  # seconds between two looks at the files
_SOON = 7 * 86400.0  # seconds before its end in which a certificate is worth a warning
_Stamps = Mapping[Path, tuple[int, int, int] | None]


class Bucket:
    """A token bucket, as the toolkit's: one request every ``interval``, and ``burst`` of them at once after a rest."""

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
    """What was read: the file's content, TLS made from it, and how the files looked just before."""

    config: WebConfig
    tls: "Tls | None"
    stamps: _Stamps


class WebAccess:
    """What the file at ``path`` says now; ``open_paths`` are answered to everybody and at any rate.

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
        self._wrong = ""
        self._warned: float | None = None
        self._users: BasicAuth | None = None
        self._bucket: Bucket | None = None
        self._reading = self._read()
        self.tls = self._reading.tls
        self._take(self._reading.config, WebConfig())
        self._tell("web configuration read")
        self._warn_of_end()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of every answer."""
        return self._reading.config.headers

    def admit(self, request: Request, client: str) -> "Refusal | asyncio.Future[Refusal]":
        """Return None for a request to let in, else the refusal; a future of it if that takes time."""
        if request.path in self._open_paths:
            return None
        if self._bucket is not None and not self._bucket.take():
            return plain(429, ("Retry-After", "1"))
        if self._users is None:
            return None
        return self._users.judge(request.headers.get("authorization", ""), client)

    async def watch(self, retire: Callable[[], None]) -> None:
        """Follow the file for ever; call ``retire`` when connections of before speak a TLS that no longer holds."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._pause)
            try:
                reading = await loop.run_in_executor(self._pool, self._look)
                if reading is not None and self._renew(reading):
                    retire()
            except UsageError as error:
                if self._wrong != str(error):
                    self._wrong = str(error)
                    self._log.error("web configuration is wrong, the last good one holds", extra=facts(error=error))
            except Exception:  # noqa: BLE001 - whatever it is, the door stays as it was
                self._log.exception("reading the web configuration failed, the last good one holds")

    def close(self) -> None:
        """End the thread; a check that runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _look(self) -> _Reading | None:
        """Read the files if they have changed, but not while they change: a key may come a moment after its pair."""
        now = _stamps(self._files)
        if now == self._seen:
            return None
        if now != self._settling:
            self._settling = now
            return None
        return self._read()

    def _read(self) -> _Reading:
        """Read file and certificates; whatever comes of it, it is not tried again until one of them changes."""
        self._seen = stamps = _stamps((self._path,))
        self._files = (self._path,)
        config = web_config.load(self._path)
        if config.tls is None:
            return _Reading(config, None, stamps)
        self._files = (self._path, *config.tls.files)
        self._seen = stamps = {**stamps, **_stamps(config.tls.files)}
        from .tls import server_tls  # noqa: PLC0415 - who serves in plain does not load it

        return _Reading(config, server_tls(config.tls), stamps)

    def _renew(self, reading: _Reading) -> bool:
        """Let ``reading`` hold from now on; return whether TLS is another than before."""
        before = self._reading
        same_tls = _tls_of(before) == _tls_of(reading)
        self._take(reading.config, before.config)  # it alone can fail, and then nothing has changed
        if not same_tls:
            self.tls = reading.tls
        self._reading = reading
        if not same_tls or reading.config != before.config:
            opened = [
                what
                for what, was, now in (
                    ("TLS", before.config.tls, reading.config.tls),
                    ("users", before.config.users, reading.config.users),
                )
                if was and not now
            ]
            if opened:
                self._log.warning("web configuration asks for less than before", extra=facts(off=" and ".join(opened)))
            self._tell("web configuration read again")
        elif self._wrong:
            self._tell("web configuration is good again")
        self._warn_of_end()
        self._wrong = ""
        return not same_tls

    def _take(self, config: WebConfig, before: WebConfig) -> None:
        """Follow ``config`` where it differs from what held ``before``: who is known is not forgotten for a header."""
        if config.users != before.users:
            self._users = self._basic_auth(config) if config.users else None  # the import may fail, as after an upgrade
        if config.rate_limit != before.rate_limit:
            self._bucket = Bucket(config.rate_limit) if config.rate_limit else None

    def _basic_auth(self, config: WebConfig) -> "BasicAuth":
        import bcrypt  # noqa: PLC0415 - only who has users pays for it

        from .basic_auth import BasicAuth  # noqa: PLC0415 - the same

        return BasicAuth(config.users, bcrypt.checkpw, self._pool, self._log)

    def _tell(self, message: str) -> None:
        config = self._reading.config
        client_auth = config.tls.client_auth.value if config.tls else None
        self._log.info(
            message,
            extra=facts(
                file=str(self._path), tls=config.tls is not None, client_auth=client_auth, users=len(config.users)
            ),
        )

    def _warn_of_end(self) -> None:
        """Warn of a certificate that clients refuse, or soon will: once, until another one holds."""
        settings, ends = self._reading.config.tls, self.tls.ends if self.tls else None
        left = ends - time.time() if ends is not None else _SOON
        if settings is None or ends is None or left >= _SOON:
            self._warned = None
        elif ends != self._warned:
            self._warned = ends
            message = "the certificate has expired: clients refuse it" if left <= 0 else "the certificate expires soon"
            file = settings.certificate.path or self._path
            self._log.warning(message, extra=facts(file=str(file), expires=iso_time(ends)))


def check(path: Path) -> None:
    """Check the file and the certificates that it names, as a start by this user would.

    Raises:
        UsageError: they cannot be used.
    """
    config = web_config.load(path)
    if config.tls is not None:
        from .tls import server_tls  # noqa: PLC0415 - who serves in plain does not load it

        server_tls(config.tls)


def _tls_of(reading: _Reading) -> object:
    """What makes two readings the same TLS: the settings, and the files as they looked."""
    tls = reading.config.tls
    return tls and (tls, [reading.stamps.get(file) for file in tls.files])


def _stamps(files: Iterable[Path]) -> _Stamps:
    """How each file looks from outside; None for one that is not there."""
    stamps: dict[Path, tuple[int, int, int] | None] = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            stamps[file] = None
        else:
            stamps[file] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return stamps
