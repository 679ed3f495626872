"""Runs one exporter as a process: HTTP, signals, start and shutdown.

The main thread serves HTTP and handles signals (``service.ending``). The exporter has threads of
its own (``service.exporter``).
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.approval.policy_reload import load_policy
from azure_scheduled_events_exporter.config.settings import Config, warnings
from azure_scheduled_events_exporter.errors import named_by
from azure_scheduled_events_exporter.http_server.app import App
from azure_scheduled_events_exporter.http_server.server import Server
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.disk.location import MEMORY
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.web.status_line import status_line

from .ending import Ending
from .endpoint import with_endpoint
from .exporter import Exporter
from .privileges import give_up
from .routes import OPEN_PATHS, routes
from .sd_notify import ServiceManager

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.http_server.access import WebAccess

_HUNG_UP = "SIGHUP: files are read whenever they change; a change of the settings needs a restart"


def run(
    config: Config,
    log: logging.Logger,
    started: Callable[[str, int], None] | None = None,
    rate_limiter: RateLimiter | None = None,
    ending: Ending | None = None,
) -> int:
    """Serve and poll until SIGTERM or SIGINT; return the exit status.

    The caller must end the process then. If it has not ended 1.9 s after the signal, ``ending``
    kills it.

    Args:
        config: the settings.
        log: the exporter's logger.
        started: is called with scheme and port when the server listens.
        rate_limiter: the limit on requests; pass one only if the endpoint is not IMDS.
        ending: what handles the signals, if it does so already; None to handle them here.

    Raises:
        ExporterError: the endpoint cannot be discovered, root cannot be given up, listening fails,
            or the journal must not be used.
    """
    if ending is None:  # nobody handles the signals yet: call this again in a block that does
        ending = Ending()
        with ending.on_signals():
            return run(config, log, started, rate_limiter, ending)
    ending.hung_up = partial(log.info, _HUNG_UP)
    for warning in warnings(config):
        log.warning(warning)
    config = with_endpoint(config, log)  # before root is given up: DHCP may need it
    journal = None
    if config.journal_path != MEMORY:
        journal = Path(config.journal_path)
    root = give_up(config.process_user, config.web_listen_address.port, journal)
    _raise_limit_of_descriptors()
    daemon = _Daemon(config, log, ending, started or _tell_nobody, rate_limiter, root)
    return asyncio.run(daemon.run())


def _raise_limit_of_descriptors() -> None:
    """Raise the soft limit of open files to the hard one.

    The server takes 512 connections, which is more open files than macOS permits at first, and the
    journal and the log need some too.
    """
    if sys.platform != "win32":
        with suppress(OSError, ValueError):  # macOS does not take "unlimited"
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tell_nobody(_scheme: str, _port: int) -> None:
    """Do nothing when the server listens."""


@dataclass(frozen=True, slots=True)
class _Daemon:
    """The rest of :func:`run`, after root was given up.

    The attributes are the arguments of :func:`run`, and ``root``: what has become of root, for the
    log; ``""`` if the process was not root.
    """

    config: Config
    log: logging.Logger
    ending: Ending
    started: Callable[[str, int], None]
    rate_limiter: RateLimiter | None
    root: str

    async def run(self) -> int:
        """Serve and poll until the end; return the exit status."""
        self.ending.attach()  # from now on, a signal wakes the event loop
        access = _access(self.config, self.log)
        exporter = self._exporter()
        server = await self._listening(exporter, access)
        scheme = "http"
        if access and access.config.tls:
            scheme = "https"
        self.started(scheme, server.port)
        exporter.start()
        manager = ServiceManager(os.environ)
        poller = exporter.poller
        notifications = asyncio.create_task(
            manager.keep_notifying(
                poller.liveness.overdue_seconds, lambda: status_line(poller.latest())
            )
        )
        await self.ending.wait()
        notifications.cancel()
        manager.notify("STOPPING=1", "STATUS=ending")
        # A disk that hangs, or a log that nobody reads, can block each of these steps. `ending`
        # then kills the process; the journal survives that.
        await server.stop()  # first, so that no client takes time from the next steps
        exporter.stop()
        _check_journal(exporter)  # the journal may have been refused while the exporter ran
        self.log.info("exporter stopped")
        return self.ending.status

    def _exporter(self) -> Exporter:
        """Return an exporter whose failure ends the process."""
        policy = load_policy(self.config.approval_policy)
        exporter = Exporter(self.config, self.log, rate_limiter=self.rate_limiter, policy=policy)
        _check_journal(exporter)
        exporter.failed = self.ending.fail
        exporter.journal.when_refused(self.ending.fail)
        return exporter

    async def _listening(self, exporter: Exporter, access: "WebAccess | None") -> Server:
        """Return the server of the exporter's pages, which listens; log that it does."""
        config = self.config
        pages = routes(
            exporter.poller.latest, config.web_telemetry_path, lambda: exporter.clock().wall
        )
        server = Server(config.web_listen_address, App(pages, access, self.log), self.log)
        await server.start()
        about_root = {}
        if self.root:
            about_root["root"] = self.root
        self.log.info(
            "listening",
            extra=facts(
                address=str(config.web_listen_address),
                port=server.port,
                endpoint=config.imds_endpoint,
                interval_seconds=config.poll_interval,
                **about_root,
            ),
        )
        return server


def _check_journal(exporter: Exporter) -> None:
    """Raise ExporterError if it is known by now that the journal must not be used."""
    if exporter.journal.refusal is not None:
        raise exporter.journal.refusal


def _access(config: Config, log: logging.Logger) -> "WebAccess | None":
    """Return what decides who may read the pages; None without a file that says so."""
    if config.web_config_file is None:
        return None
    # Imported only here, because YAML and bcrypt take 2 MiB.
    from azure_scheduled_events_exporter.http_server.access import WebAccess  # noqa: PLC0415

    with named_by("--web.config.file"):
        return WebAccess(Path(config.web_config_file), OPEN_PATHS, log=log)
