"""Access control by the web configuration file, which is read at the start and again when it has changed.

If the file is invalid, the last valid one stays in effect, and the error is logged once. Must not know routes or
connections.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.times import iso_time

from .app import Request, Response, plain
from .tls import Tls
from .users import Users
from .web_config import WebConfig, load

EXPIRES_SOON_SECONDS = 7 * 86400.0
"""How long before its expiry a certificate causes a warning."""
_PAUSE = 1.0  # seconds between two checks of the files
_REALM = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'  # without a realm some browsers do not ask
_Stamps = Mapping[Path, tuple[int, ...] | None]


class WebAccess:
    """Applies the file at ``path``; ``open_paths`` need no password.

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
        self._config = WebConfig()
        self._users = Users()
        self._apply(self._read(), "web configuration loaded")

    @property
    def tls(self) -> Tls | None:
        """For new connections; None without TLS."""
        return self._config.tls

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of every response."""
        return self._config.headers

    async def refuse(self, request: Request) -> Response | None:
        """Return the response that refuses ``request``, or None to answer it."""
        if request.path in self._open_paths or not self._config.users:
            return None
        match await self._users.refuse(request.headers.get("authorization", ""), request.client):
            case 0:
                return None
            case 401:
                return plain(401, ("WWW-Authenticate", _REALM))
            case status:
                return plain(status, ("Retry-After", "1"))

    async def watch(self, changed: Callable[[], None]) -> None:
        """Apply changes of the files until cancelled, and call ``changed`` after each."""
        shown = ""
        while True:
            await asyncio.sleep(self._pause)
            if not self._has_changed():
                continue
            try:
                self._apply(await asyncio.to_thread(self._read), "web configuration reloaded")
            except Exception as error:  # noqa: BLE001 - whatever it is, access stays as it was
                reason = str(error) if isinstance(error, UsageError) else repr(error)
                if reason != shown:
                    message = "invalid web configuration, the last valid one stays in effect"
                    self._log.error(message, extra=facts(error=reason))
                shown, self._seen = reason, {}  # read again soon: it may be another file that is repaired
            else:
                shown = ""
                changed()

    def close(self) -> None:
        """End the thread of password checks."""
        self._users.close()

    def _has_changed(self) -> bool:
        """Return whether the files have changed and are stable: a key may be written after its certificate."""
        now = _stamps(self._files)
        is_stable, self._settling = now == self._settling, now
        return is_stable and now != self._seen

    def _read(self) -> WebConfig:
        """Read file and certificates."""
        self._seen = _stamps(self._files)
        config = load(self._path)
        files = (self._path, *(config.tls.files if config.tls else ()))
        if files != self._files:  # read again, so that no change since then is missed
            self._files = files
            return self._read()
        return config

    def _apply(self, config: WebConfig, message: str) -> None:
        warned = self.tls and self.tls.ends
        self._config, self._users.hashes = config, config.users
        self._log.info(message, extra=facts(file=str(self._path), tls=bool(config.tls), users=len(config.users)))
        ends = config.tls and config.tls.ends
        if config.tls and ends and ends != warned and ends - time.time() < EXPIRES_SOON_SECONDS:
            state = "has expired: clients refuse it" if ends <= time.time() else "expires soon"
            file = str(config.tls.files[0])
            self._log.warning("the TLS certificate %s", state, extra=facts(file=file, expires=iso_time(ends)))


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
