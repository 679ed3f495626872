"""Access control by the web configuration file, which is read at the start and again when it has changed.

If the file is invalid, the last valid one stays in effect, and the error is logged once. Must not know routes or
connections.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.text_file import read
from azure_scheduled_events_exporter.times import iso_time

from .app import Request, Response
from .tls import Tls
from .users import Users
from .web_config import WebConfig, load

EXPIRES_SOON_SECONDS = 7 * 86400.0
"""How long before its expiry a certificate causes a warning."""
_PAUSE = 1.0  # seconds between two checks of the files
_Contents = list[bytes | None]


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
        self._files: tuple[Path, ...] = ()
        self._found: _Contents = []  # by the last look
        self._applied: _Contents = []
        self._config = WebConfig()
        self._users = Users()
        self._apply(self._load(), "web configuration loaded")

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
        return await self._users.refuse(request)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Apply changes of the files until cancelled, and call ``changed`` after each."""
        shown = ""
        while True:
            await asyncio.sleep(self._pause)
            try:
                config = await asyncio.to_thread(self._look)
            except Exception as error:  # noqa: BLE001 - whatever it is, access stays as it was
                reason = str(error) if isinstance(error, UsageError) else repr(error)
                if reason != shown:
                    message = "invalid web configuration, the last valid one stays in effect"
                    self._log.error(message, extra=facts(error=reason))
                shown, self._applied = reason, []  # read again soon: it may be another file that is repaired
            else:
                if config is None:
                    continue
                shown = ""
                self._apply(config, "web configuration reloaded")
                changed()

    def close(self) -> None:
        """End the thread of password checks."""
        self._users.close()

    def _look(self) -> WebConfig | None:
        """Read the files again if they have changed and are stable: a key may be written after its certificate."""
        found = _contents(self._files)
        is_stable, self._found = found == self._found, found
        return self._load() if is_stable and found != self._applied else None

    def _load(self) -> WebConfig:
        config = load(self._path)
        self._files = (self._path, *(config.tls.files if config.tls else ()))
        self._applied = _contents(self._files)
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


def _contents(files: Iterable[Path]) -> _Contents:
    """Return the content of each file; None for one that cannot be read."""
    contents: _Contents = []
    for file in files:
        try:
            contents.append(read(file))
        except UsageError:
            contents.append(None)
    return contents
