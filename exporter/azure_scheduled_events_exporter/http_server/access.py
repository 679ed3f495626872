"""Access control by the web configuration file, read at the start and when it has changed.

If the file is invalid, the last valid one stays in effect, and the error is logged once. Must not
know routes or connections.
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

from .messages import Request, Response
from .users import Users
from .web_config import WebConfig, load

EXPIRES_SOON_SECONDS = 7 * 86400.0
"""How long before its expiry a certificate causes a warning."""
_PAUSE = 1.0  # seconds between two checks of the files


class WebAccess:
    """Applies the file at ``path``. Nobody needs a password for ``open_paths``.

    The files are looked at every ``pause`` seconds, while :meth:`watch` runs.

    Attributes:
        config: the settings in effect.

    Raises:
        UsageError: the file, or a certificate that it names, cannot be used.
    """

    def __init__(
        self,
        path: Path,
        open_paths: Iterable[str] = (),
        *,
        pause: float = _PAUSE,
        log: logging.Logger,
    ) -> None:
        self._path = path
        self._open_paths = frozenset(open_paths)
        self._pause = pause
        self._log = log
        self._users = Users()
        self.config = WebConfig()
        config, contents = self._load()
        self._applied = contents  # the contents of the files when they were applied
        self._found = contents  # the contents of the files at the last look
        self._apply(config, "web configuration loaded")

    async def refuse(self, request: Request) -> Response | None:
        """Return the response that refuses ``request``, or None to answer it."""
        if request.path in self._open_paths or not self.config.users:
            return None
        return await self._users.refuse(request, self.config.users)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Apply changes of the files until cancelled, and call ``changed`` after each."""
        failure = ""  # why the files as they are now cannot be applied
        while True:
            await asyncio.sleep(self._pause)
            before = self._found
            self._found = await asyncio.to_thread(self._contents, self.config)
            # Wait while files are changing: a key may be written after its certificate.
            if self._found != before:
                continue
            # After a failure, the files may be again as they were when they were applied. They are
            # loaded then, too, because that ends the failure.
            if self._found == self._applied and not failure:
                continue
            try:
                config, self._applied = await asyncio.to_thread(self._load)
            except Exception as error:  # noqa: BLE001 - whatever it is, access stays as it was
                logged = failure
                failure = str(error) or repr(error)
                if failure != logged:
                    message = "invalid web configuration, the last valid one stays in effect"
                    self._log.error(message, extra=facts(error=failure))
            else:
                failure = ""
                self._found = self._applied  # the new configuration may name other files
                self._apply(config, "web configuration reloaded")
                changed()

    def _load(self) -> tuple[WebConfig, list[bytes | None]]:
        """Return the configuration, and the contents of its files from just before it was loaded.

        It is loaded twice, because only the file says which files it names. If one changes between
        the look at their contents and the second load, the next look finds another content.
        """
        contents = self._contents(load(self._path))
        return load(self._path), contents

    def _apply(self, config: WebConfig, message: str) -> None:
        """Put ``config`` into effect, and warn if its certificate is new and expires soon."""
        before = self.config.tls
        self.config = config
        tls = config.tls
        self._log.info(
            message, extra=facts(file=self._path, tls=bool(tls), users=len(config.users))
        )
        if tls is None or tls.ends is None:
            return
        is_known = before is not None and before.ends == tls.ends
        seconds_left = tls.ends - time.time()
        if is_known or seconds_left >= EXPIRES_SOON_SECONDS:
            return
        state = "expires soon"
        if seconds_left <= 0:
            state = "has expired: clients refuse it"
        self._log.warning(
            "the TLS certificate %s",
            state,
            extra=facts(file=tls.files[0], expires=iso_time(tls.ends)),
        )

    def _contents(self, config: WebConfig) -> list[bytes | None]:
        """Return the content of the file and of those that ``config`` names.

        It is None for one that cannot be read.
        """
        files = [self._path]
        if config.tls is not None:
            files += config.tls.files
        contents: list[bytes | None] = []
        for file in files:
            try:
                contents.append(read(file))
            except UsageError:
                contents.append(None)
        return contents
