"""One exporter: what polls, delivers and approves, and the threads that do it.

One thread polls, one asks who this VM is, one reads the policy file again, one delivers spans, one
sees when a poll hangs, and one for each Alertmanager pushes alerts. Parts of the exporter start
threads too: one writes the journal, one sends each approval, one measures pauses. They read the
snapshot that the poller publishes, which never changes. The journal and the rate limiter of IMDS,
which they share, have locks of their own. Must not serve HTTP or handle signals
(``service.daemon``).
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.approval.policy import BUILT_IN, Policy
from azure_scheduled_events_exporter.approval.scheduler import ApprovalScheduler
from azure_scheduled_events_exporter.approval.sender import ApprovalSender
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.imds.api_versions import event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.disk.location import MEMORY
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.polling.clock import Clock, ImdsClock, since_boot, system_clock
from azure_scheduled_events_exporter.polling.kernel import Kernel
from azure_scheduled_events_exporter.polling.pauses import Pauses
from azure_scheduled_events_exporter.polling.poller import Poller
from azure_scheduled_events_exporter.polling.state import ExporterState
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery
from azure_scheduled_events_exporter.tracing.loading import otlp_sender
from azure_scheduled_events_exporter.tracing.variables import (
    doubts,
    is_on,
    is_wanted,
    obstacles,
)

from .endpoint import with_endpoint
from .identification import Identification

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.alertmanager.push import AlertPush

_IDENTITY_HEAD_START = 1.0
"""How long the first poll waits for this VM's identity, in seconds.

Transitions are counted with the right scope only if the name is known. If a setting gives the name,
a pushed alert still names the resource group.
"""

_NAMED_SPANS_SECONDS = 5.0
"""How long the first spans wait for this VM's name, in seconds.

A span that was sent without it is never corrected. Just after a reboot, IMDS may fail for some
seconds. With ``--instance.name``, spans only wait until IMDS was asked once.
"""

_TRACE_AGAIN_SECONDS = 60.0  # after an internal error of span delivery
_LOOK_SECONDS = 0.1  # how often `alone` yields
_WATCH_SECONDS = 1.0  # how often to look whether a poll hangs
_FINAL_DELIVERY_SECONDS = 1.0  # limit for a collector that hangs
_STOP_SECONDS = 1.2  # limit for all threads together, with the final delivery


class Exporter:
    """The polling side: construct, :meth:`start`, read :attr:`poller`'s snapshot, :meth:`stop`.

    Args:
        config: the settings.
        log: the exporter's logger.
        clock: the clock of a simulation, which the time that IMDS sends does not correct; None for
            this machine's.
        rate_limiter: the limit on requests; None for that of IMDS.
        policy: what ``config.approval_policy`` names, already read. With the default, the exporter
            approves nothing by itself.
        reports: False to send neither spans nor alerts, whatever the settings are.
        expects_events: whether events may be current that the journal does not know: then an empty
            body is not believed at once.
        renames_journal: False to refuse a journal that would have to be renamed.

    Raises:
        ExporterError: a file about pushed alerts cannot be read or is invalid.

    Attributes:
        journal: opened by a thread of its own, from the construction on.
        clock: the time by the clock of IMDS.
        identification: asks who this VM is.
        poller: has the newest snapshot.
        failed: is called when a thread has ended by an internal error.
    """

    def __init__(
        self,
        config: Config,
        log: logging.Logger,
        clock: Clock | None = None,
        rate_limiter: RateLimiter | None = None,
        *,
        policy: Policy = BUILT_IN["off"],
        reports: bool = True,
        expects_events: Callable[[], bool] = lambda: False,
        renames_journal: bool = True,
    ) -> None:
        self._log = log
        self._reports = reports
        self._instance_name = config.instance_name
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failed: Callable[[], None] = lambda: None
        machine_clock = clock or system_clock()
        self.clock = ImdsClock(machine_clock)
        self._clients = self._imds_clients(config, rate_limiter or RateLimiter())
        polling, approving, asking = self._clients
        self.journal = Journal(
            _journal_path(config), config.journal_retention, log, renames=renames_journal
        )
        self.identification = Identification(
            asking, config.imds_timeout, config.instance_name, self._wait, log
        )
        self._delivery = self._span_delivery(config) if reports else None
        pushes = reports and config.alertmanager_url
        self._alerts = self._alert_push(config, self.clock) if pushes else None
        scheduler = ApprovalScheduler(policy, log)
        self._approval_policy = scheduler.policy
        approvals = self._approvals(scheduler, approving, config.imds_timeout, machine_clock)
        monotonic = (lambda: clock().monotonic) if clock else since_boot()
        pauses = Pauses(machine_clock, monotonic, self.journal)
        self.poller = Poller(
            self._state(config, pauses, Kernel(machine_clock)),
            polling,
            approvals,
            self._alerts,
            lambda: self.identification.identity,
            _ignore if clock else self.clock.correct,
            expects_events,
        )
        self.poller.begin()

    def _approvals(
        self, scheduler: ApprovalScheduler, client: ImdsClient, timeout: float, clock: Clock
    ) -> ApprovalSender:
        """Return what sends the approvals that ``scheduler`` finds due."""
        return ApprovalSender(
            scheduler, client, self.journal, timeout, self.clock, clock, self._log
        )

    def _state(self, config: Config, pauses: Pauses, kernel: Kernel) -> ExporterState:
        """Return what the poller knows, before its first poll."""
        return ExporterState(
            config,
            self.journal,
            self._delivery,
            self.clock,
            pauses,
            kernel,
            self._wait,
            self._log,
            sends_approvals=self._reports,
        )

    def _imds_clients(self, config: Config, limiter: RateLimiter) -> list[ImdsClient]:
        """Return one client for each kind of thread that sends requests."""
        versions = event_versions(
            config.imds_api_version,
            lambda found: self._log.info("api-version selected", extra=facts(api_version=found)),
        )
        return [
            ImdsClient(config.imds_endpoint, versions, limiter, self._wait, config.imds_timeout)
            for _ in range(3)  # for polls, approvals and who this VM is
        ]

    def _span_delivery(self, config: Config) -> SpanDelivery | None:
        """Return what delivers spans; None if tracing is off.

        The variables of OpenTelemetry may be meant for other programs, so they stop nothing here.
        """
        endpoint = config.otlp_endpoint
        message = "unusable OpenTelemetry variable"
        if not is_wanted(endpoint, os.environ):
            return None
        for doubt in (*obstacles(os.environ), *doubts(os.environ)):
            self._log.warning(message, extra=facts(error=doubt))
        if is_on(endpoint, os.environ):
            try:
                sender = otlp_sender(endpoint)
                return SpanDelivery(self.journal, sender, self._traced_instance, self._log)
            except UsageError as error:
                self._log.warning(message, extra=facts(error=str(error)))
        self._log.warning("tracing is off: OpenTelemetry's variables cannot be used")
        return None

    def _traced_instance(self) -> Instance | None:
        """Return this VM as its spans show it: ``--instance.name`` overrides the name in IMDS."""
        found = self.identification.identity
        name = self._instance_name
        if name is None:
            return found
        return Instance(name) if found is None else replace(found, vm_name=name)

    def _alert_push(self, config: Config, clock: Clock) -> "AlertPush":
        """Return what pushes alerts; ``clock`` is that of IMDS."""
        from .alert_push import alert_push  # noqa: PLC0415 - only with an Alertmanager

        return alert_push(config, self.latest, clock, self._log)

    def start(self) -> None:
        """Start all threads."""
        work: list[tuple[str, Callable[[], None]]] = [
            ("identify", self.identification.run),
            ("poll", self._poll),
            ("watch", self._watch),
            ("policy", partial(self._approval_policy.run, self._wait)),
        ]
        if self._delivery:
            work.append(("trace", partial(self._trace, self._delivery)))
        if self._alerts:
            work += [("push", worker.run) for worker in self._alerts.workers]
        self._threads = [
            threading.Thread(target=self._guarded, args=(run,), name=name, daemon=True)
            for name, run in work
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads in less than 2 s, including those that wait; close the journal."""
        self._ending.set()
        # Ends the waits of `_poll` and `_trace`.
        self.identification.complete.set()
        self.identification.asked.set()
        for client in self._clients:
            client.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        if self._alerts:
            self._alerts.stop()
        if self._delivery and self._threads:  # without :meth:`start`, no thread would send them
            self._delivery.stop(self.poller.state.open_spans(), _FINAL_DELIVERY_SECONDS)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        state = self.poller.state
        state.take_journal()  # it may have been read since the last poll
        state.pauses.attend(state.known, is_last=True)
        self.journal.close()

    def latest(self) -> Snapshot:
        """Return the newest snapshot."""
        return self.poller.latest()

    def _wait(self, seconds: float) -> bool:
        """Wait so many seconds, or until the process is to end; return whether it is."""
        return self._ending.wait(max(0.0, seconds))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run ``work``.

        If it raises, end the process: an exporter that no longer polls would show stale events.
        """
        try:
            work()
        except Exception:  # noqa: BLE001 - whatever it is
            message = "internal error in a thread; the exporter exits and must be restarted"
            self._log.exception(message, extra=facts(thread=threading.current_thread().name))
            self.failed()

    def _poll(self) -> None:
        """Poll, after IMDS was asked who this VM is."""
        self.identification.asked.wait(_IDENTITY_HEAD_START)
        self.poller.run()

    def _watch(self) -> None:
        """See and log when a poll begins to hang, and when polls go on.

        A thread of its own does this, because the one that polls is what hangs, and a log that
        hangs must not stop the one that serves HTTP.
        """
        was_hanging = False
        while not self._wait(_WATCH_SECONDS):
            self.poller.liveness.look()
            polls = self.poller.latest().polls
            if polls.hanging and not was_hanging:
                self._log.error("the poll loop hangs", extra=facts(error=polls.failure))
            elif was_hanging and not polls.hanging:
                self._log.info("the poll loop goes on")
            was_hanging = polls.hanging

    def _trace(self, delivery: SpanDelivery) -> None:
        """Deliver spans.

        They wait in the journal, so a failure here is no reason to stop polling.
        """
        has_name = self._instance_name is not None
        named = self.identification.asked if has_name else self.identification.complete
        named.wait(_NAMED_SPANS_SECONDS)  # spans from before a restart belong to this VM too
        while True:
            try:
                delivery.run()
            except Exception:  # noqa: BLE001 - whatever it is
                self._log.exception(
                    "span delivery failed; retrying", extra=facts(seconds=_TRACE_AGAIN_SECONDS)
                )
            else:  # it was stopped
                return
            if self._wait(_TRACE_AGAIN_SECONDS):
                return


def poll_alone(
    config: Config, log: logging.Logger, *, expects_events: Callable[[], bool] = lambda: False
) -> Iterator[Exporter]:
    """Poll IMDS with a journal in memory, and yield the exporter that does, every 0.1 s.

    For commands that watch for a while. It sends no spans and alerts, and stops with the iteration.
    ``expects_events``: as in :class:`Exporter`.

    Raises:
        ExporterError: polling has ended by an internal error, or the endpoint cannot be discovered.
    """
    exporter = Exporter(
        with_endpoint(replace(config, journal_path=MEMORY), log),
        log,
        reports=False,
        expects_events=expects_events,
    )
    failed = threading.Event()
    exporter.failed = failed.set
    exporter.start()
    try:
        while not failed.wait(_LOOK_SECONDS):
            yield exporter
        raise ExporterError(
            "polling has ended by an internal error, which is logged above: start this command"
            " again"
        )
    finally:
        exporter.stop()


def _journal_path(config: Config) -> Path | None:
    """Return where the journal is to be; None for one in memory."""
    return None if config.journal_path == MEMORY else Path(config.journal_path).absolute()


def _ignore(_: float | None) -> None:
    """Do not correct a clock."""
