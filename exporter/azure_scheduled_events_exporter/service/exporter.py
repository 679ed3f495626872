"""One exporter: what polls, delivers and approves, and the threads that do it.

:meth:`Exporter.start` starts these threads:

- ``poll`` polls,
- ``identify`` asks who this VM is,
- ``policy`` reads the policy file again when it changes,
- ``watch`` sees when a poll hangs,
- ``trace`` delivers spans, if tracing is on,
- ``push`` pushes alerts, one thread for each Alertmanager.

Parts of the exporter have threads too: one writes the journal, one sends each approval, and one
measures pauses. Other threads than ``poll`` learn of events only by the snapshot that the poller
publishes, which never changes. The journal and the rate limiter of IMDS are shared, and have locks
of their own.

Must not serve HTTP or handle signals (``service.daemon``).
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.approval.policy import BUILT_IN, Policy
from azure_scheduled_events_exporter.approval.scheduler import ApprovalScheduler
from azure_scheduled_events_exporter.approval.sender import ApprovalSender
from azure_scheduled_events_exporter.config.settings import Config
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

from .identification import Identification
from .traces import deliver_spans, span_delivery

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.alertmanager.push import AlertPush
    from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery

_IDENTITY_HEAD_START = 1.0
"""How long the first poll waits for this VM's identity, in seconds.

Transitions are counted with the right scope only if the name is known. Even if a setting gives the
name, the wait lets the first alert that is pushed name the resource group.
"""

_WATCH_SECONDS = 1.0  # how often to look whether a poll hangs
_FINAL_DELIVERY_SECONDS = 1.0  # limit for a collector that hangs
_STOP_SECONDS = 1.2  # limit for the ends of all threads together, with the final delivery


class Exporter:
    """The polling side: construct, :meth:`start`, read :attr:`poller`'s snapshot, :meth:`stop`.

    Args:
        config: the settings.
        log: the exporter's logger.
        clock: None for this machine's clock, whose time of day is corrected to that of IMDS; or
            the clock of a simulation, which is taken as it is.
        rate_limiter: the limit on requests; None for that of IMDS.
        policy: what ``config.approval_policy`` names, already read. With the default, the exporter
            approves nothing by itself.
        reports: False in a command that only watches, beside this VM's exporter. It sends neither
            spans nor alerts, whatever the settings are, and does not log that somebody else has
            approved an event: that may have been the exporter. Whether it approves events is
            decided by ``policy`` alone.
        expects_events: returns whether events may be current that the journal does not know: then
            an empty body is not believed at once.
        renames_journal: False to refuse a journal that would have to be renamed.

    Raises:
        ExporterError: a file about pushed alerts cannot be read or is invalid.

    Attributes:
        journal: opened by a thread of its own, from the construction on.
        clock: the time by the clock of IMDS.
        identification: asks who this VM is.
        poller: has the newest snapshot.
        failed: is called when a thread has ended by an internal error; does nothing until it is
            set.
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
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failed: Callable[[], None] = lambda: None
        machine_clock = clock or system_clock()
        self.clock = ImdsClock(machine_clock)
        monotonic = since_boot()
        correct_clock: Callable[[float | None], None] = self.clock.correct
        if clock is not None:  # that of a simulation
            monotonic = _monotonic_of(clock)
            correct_clock = _ignore
        for_polls, for_approvals, for_identity = self._imds_clients(
            config, rate_limiter or RateLimiter()
        )
        self._clients = (for_polls, for_approvals, for_identity)
        self.journal = Journal(
            _journal_path(config), config.journal_retention, log, renames=renames_journal
        )
        self.identification = Identification(
            for_identity, config.imds_timeout, config.instance_name, self._wait, log
        )
        self._delivery: SpanDelivery | None = None
        self._alerts: AlertPush | None = None
        if reports:
            self._delivery = span_delivery(config, self.journal, self.identification, log)
            if config.alertmanager_url:
                self._alerts = self._alert_push(config)
        scheduler = ApprovalScheduler(policy, log)
        self._approval_policy = scheduler.policy
        pauses = Pauses(machine_clock, monotonic, self.journal)
        self.poller = Poller(
            state=self._state(config, pauses, Kernel(machine_clock)),
            client=for_polls,
            approvals=self._approvals(scheduler, for_approvals, config.imds_timeout, machine_clock),
            alerts=self._alerts,
            identity=lambda: self.identification.identity,
            correct_clock=correct_clock,
            clock_ahead=lambda: self.clock.machine_ahead,
            expects_events=expects_events,
        )
        self.poller.begin()

    def _approvals(
        self, scheduler: ApprovalScheduler, client: ImdsClient, timeout: float, clock: Clock
    ) -> ApprovalSender:
        """Return what sends the approvals that ``scheduler`` finds due."""
        return ApprovalSender(
            scheduler,
            client,
            self.journal,
            timeout,
            now=self.clock,
            machine_clock=clock,
            log=self._log,
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
            logs_foreign_approvals=self._reports,
        )

    def _imds_clients(self, config: Config, limiter: RateLimiter) -> list[ImdsClient]:
        """Return three clients, for polls, for approvals and to ask who this VM is.

        Each belongs to one thread. All find the api-version together.
        """
        versions = event_versions(
            config.imds_api_version,
            lambda found: self._log.info("api-version selected", extra=facts(api_version=found)),
        )
        return [
            ImdsClient(config.imds_endpoint, versions, limiter, self._wait, config.imds_timeout)
            for _ in range(3)
        ]

    def _alert_push(self, config: Config) -> "AlertPush":
        """Return what pushes alerts."""
        from .alert_push import alert_push  # noqa: PLC0415 - only with an Alertmanager

        return alert_push(config, self.latest, self.clock, self._log)

    def start(self) -> None:
        """Start all threads."""
        work: list[tuple[str, Callable[[], None]]] = [
            ("identify", self.identification.run),
            ("poll", self._poll),
            ("watch", self._watch),
            ("policy", partial(self._approval_policy.run, self._wait)),
        ]
        if self._delivery:
            trace = partial(
                deliver_spans, self._delivery, self.identification, self._wait, self._log
            )
            work.append(("trace", trace))
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
        # The threads "poll" and "trace" may still wait for these two.
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
        state.take_journal()  # if it was read only after the last poll, what it has counts too
        state.pauses.attend(state.known, is_last=True)
        self.journal.close()

    def latest(self) -> Snapshot:
        """Return the newest snapshot."""
        return self.poller.latest()

    def _wait(self, seconds: float) -> bool:
        """Wait so many seconds, or until :meth:`stop`; return whether that was called."""
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

        This needs a thread of its own: the one that polls is what hangs, and the one that serves
        HTTP must not wait for a log that hangs.
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


def _journal_path(config: Config) -> Path | None:
    """Return where the journal is to be; None for one in memory."""
    if config.journal_path == MEMORY:
        return None
    return Path(config.journal_path).absolute()


def _monotonic_of(clock: Clock) -> Callable[[], float]:
    """Return what reads the monotonic time of ``clock``."""
    return lambda: clock().monotonic


def _ignore(_imds_time: float | None) -> None:
    """Do not correct a clock."""
