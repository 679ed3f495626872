"""The drill of an event: its alert is posted, pushed by an exporter, or raised by rules.

People see that it is a drill: a posted alert has a label and a text that say so. In each drill, the
names of the VM and its scale set say so. Must not touch a real event.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from azure_scheduled_events_exporter.alertmanager.alert import EventAlert
from azure_scheduled_events_exporter.alerts.formats.receivers import WITHOUT_PAGER
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.severities import notifies, pages
from azure_scheduled_events_exporter.commands.interruption import Interrupted
from azure_scheduled_events_exporter.commands.waiting import long_wait_noticed, until
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, Starts
from azure_scheduled_events_exporter.times import format_duration

from .alertmanager import DrilledAlertmanager, HeldAlert, Sent
from .story import DRILL, watched

KEPT_SECONDS: Final = 300
"""For how long Alertmanager keeps a posted alert that nobody resolves."""

MARK: Final = "This is a drill: no VM is in danger."
"""How the text of each posted alert begins."""

_CONFIRM: Final = "Tell whoever runs the drill that this message arrived; do nothing else."
_ANNOUNCED_SECONDS: Final = 10
"""How long the simulator may take to announce an event: it does so at once."""
_OTHERS_SECONDS: Final = 1
"""How long after the first notification to wait for those of other receivers."""
say: Final = partial(print, flush=True)
"""Prints a line at once: a person waits for it."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """The beginning of a measurement, just before the alert is raised.

    Attributes:
        at: when it was, by the monotonic clock.
        sent_before: the notifications that Alertmanager had sent by then.
    """

    at: float
    sent_before: Sent

    @property
    def elapsed(self) -> str:
        """The time since then, for people, such as ``3.20 s``."""
        return f"{time.monotonic() - self.at:.2f} s"


@dataclass(frozen=True, slots=True)
class Drill:
    """An event of a simulated VM that raises an alert.

    Each way raises it, measures its page and takes it back.

    Attributes:
        alertmanager: the Alertmanager of those who are to be paged.
        story: the event.
        alert: that of the event.
        settings: those of the alerts, which say what a severity does.
        doctor: the command that looks for the cause of a failure.
        timeout: seconds that the page may take.
        keep: the drill ends without an end of the event, and without a resolve of the alert.
    """

    alertmanager: DrilledAlertmanager
    story: Scenario
    alert: EventAlert
    settings: Settings
    doctor: str
    timeout: float
    keep: bool

    def post(self) -> None:
        """Post the alert to Alertmanager directly, labeled as a drill."""
        real = self.alert.annotations
        event_id = f"{DRILL}-{self.alert.labels['event_id']}"
        labels = {**self.alert.labels, "event_id": event_id, "drill": "true"}
        texts = {
            **real,
            "summary": f"{DRILL}: {real['summary']}",
            "description": f'{MARK} {_CONFIRM} The text of a real alert: "{real["description"]}"',
        }
        what = f"{self.alert.name} ({labels['severity']}) for {self._vm}"
        say(f"drill: {what}, posted to {self.alertmanager.shown}")
        begun = self._begin()
        try:
            self.alertmanager.put(labels, texts, ends_in=KEPT_SECONDS)
            self._measure(event_id, begun)
        finally:
            if not self.keep:
                self.alertmanager.put(labels, texts, ends_in=0)

    def push(self, exporter_settings: Mapping[str, str]) -> None:
        """Let the exporter of a simulated VM, with these settings, push the alert."""
        event_id = ""
        try:
            with watched(self.story, exporter_settings) as simulator:
                begun = self._begin()
                event_id = self._announce(simulator, f"its exporter pushes {self.alert.name}")
                self._measure(event_id, begun)
        finally:
            # After the block, which has ended the exporter: it would push the alert again.
            if event_id and not self.keep:
                self._resolve(event_id)

    def scrape(self, address: ListenAddress, wait: float, after: float) -> None:
        """Let the team's Prometheus scrape the simulated VM.

        Args:
            address: where its metrics are served.
            wait: seconds for Prometheus to find the target, before the event.
            after: seconds for Prometheus to see that the event is over. With 0, the event does not
                end before the target does.
        """
        with watched(self.story, {"web.listen-address": str(address)}) as simulator:
            url = f"http://{address.local}/metrics"
            say(f"drill: scrape {url} now; the event follows in {format_duration(wait)}")
            time.sleep(wait)
            begun = self._begin()
            is_interrupted = False
            try:
                event_id = self._announce(simulator, f"{self.alert.name} should fire")
                self._measure(event_id, begun)
            except Interrupted:
                is_interrupted = True  # then nobody wants to wait for `after`
                raise
            finally:
                if after and not self.keep and not is_interrupted:
                    self._end(simulator, after)

    @property
    def _vm(self) -> str:
        """The name of the simulated VM."""
        return self.story.vms[0].name

    def _begin(self) -> _Begun:
        """Begin a measurement."""
        sent_before = self.alertmanager.sent()  # this takes time, which is not to be measured
        return _Begun(time.monotonic(), sent_before)

    def _announce(self, simulator: Simulator, what_follows: str) -> str:
        """Let the simulator show the event of the story; return the EventId.

        The id is in upper case, as in the labels of alerts. ``what_follows`` is for people.
        """
        simulator.play(self.story)
        # Nothing was played before, so the first thing that happens is the announcement.
        happened = until(lambda: simulator.record, time.monotonic() + _ANNOUNCED_SECONDS)
        announced = happened[0]
        how = "is announced"
        if self.story.events[0].starts is Starts.AT_ONCE:
            how = "has begun without notice"
        say(f"drill: {announced.event_type} of {self._vm} {how}; {what_follows}")
        return announced.event_id.upper()

    def _end(self, simulator: Simulator, after: float) -> None:
        """End the event, and serve metrics for ``after`` more seconds: Prometheus has to see it."""
        without_events = Scenario("over", "", self.story.vms, ())
        simulator.play(without_events)
        say(
            f"drill: the event is over; the metrics are served for {format_duration(after)} more,"
            " so that Prometheus sees it. Then remove the target. The alert resolves in 3 minutes."
        )
        time.sleep(after)

    def _resolve(self, event_id: str) -> None:
        """Resolve a pushed alert at once.

        Its exporter would do so three minutes after the event, but has been stopped with the drill.
        The texts are posted, too: Alertmanager notifies with those of the newest post.
        """
        held = self.alertmanager.holding(f'event_id="{event_id}"', self.alert.name)
        if held is not None:
            self.alertmanager.put(held.labels, held.annotations, ends_in=0)

    def _measure(self, event_id: str, begun: _Begun) -> None:
        """Print when Alertmanager got the alert and when it notified.

        Raises:
            ExporterError: it did not within :attr:`timeout`, the alert is silenced or inhibited, a
                notification failed, or :meth:`_check_severity` raises it.
        """
        end = begun.at + self.timeout
        held = self._held(event_id, end)
        say(f"{begun.elapsed}: Alertmanager has the alert, for receivers: {held.receiver_names}")
        what = self._check_severity(held)
        if held.is_muted:
            raise ExporterError(
                f"{self.alert.name} is silenced or inhibited, so nobody is notified:"
                f" run {self.doctor}"
            )
        before = begun.sent_before
        with long_wait_noticed(self._waiting("Alertmanager to notify somebody")):
            notified = until(
                lambda: sorted(self.alertmanager.sent().delivered - before.delivered), end
            )
        if notified:
            say(f"{begun.elapsed}: Alertmanager notified: {', '.join(notified)}")
            time.sleep(_OTHERS_SECONDS)
        failed = sorted(self.alertmanager.sent().failed - before.failed)
        if failed:
            raise ExporterError(
                f"notification failed: {', '.join(failed)}; the log of Alertmanager has the reason"
            )
        if not notified:
            raise self._nobody_was_told()
        severity = held.labels["severity"]
        say(
            f"Alertmanager has done its part. Check that the {what} has arrived (severity"
            f" {severity}; receivers: {held.receiver_names})."
        )

    def _check_severity(self, held: HeldAlert) -> str:
        """Return what the severity of the alert makes of it: a page or a ticket.

        Raises:
            ExporterError: a page went to no receiver that pages, or rules with other settings than
                the drill's gave the alert a severity that the drill cannot judge.
        """
        severity = held.labels.get("severity", "")
        values = "give --alerts.values FILE, with the values that your rules were rendered with"
        if not pages(severity, self.settings):
            expected = self.alert.labels["severity"]
            if severity != expected:
                raise ExporterError(
                    f"the alert has the severity {severity}, but by the drill's settings"
                    f" {expected}: {values}"
                )
            return "ticket"
        if not self.alertmanager.has_route_for(severity):
            raise ExporterError(
                f"severity {severity} pages, but no route names it, so the alert went where all"
                f" others go ({held.receiver_names}). If your rules have words of their own for"
                f" severities, {values}. Otherwise add a route: run {self.doctor}"
            )
        if WITHOUT_PAGER.issuperset(held.receivers):
            raise ExporterError(
                f"severity {severity} pages, but the alert went only to {held.receiver_names},"
                " which pages nobody. Look for a route that takes it before that of the pager"
            )
        return "page"

    def _held(self, event_id: str, end: float) -> HeldAlert:
        """Return the alert once Alertmanager has it.

        Raises ExporterError: it does not have it by the monotonic time ``end``.
        """
        name = self.alert.name
        with long_wait_noticed(self._waiting(f"{name} to reach {self.alertmanager.shown}")):
            held = until(lambda: self.alertmanager.holding(f'event_id="{event_id}"', name), end)
        if held is None:
            limit = format_duration(self.timeout)
            raise ExporterError(
                f"{name} has not reached {self.alertmanager.shown} within {limit}:"
                f" run {self.doctor} --prometheus URL, which checks targets, rules and routes"
            )
        return held

    def _waiting(self, what: str) -> str:
        """Return what a person reads while the drill waits for ``what``."""
        return (
            f"waiting for {what}, which may take {format_duration(self.timeout)} in all (--timeout)"
        )

    def _nobody_was_told(self) -> ExporterError:
        """Return (not raise) the error that no notification was sent in time."""
        hint = (
            f"run {self.doctor}, which checks receivers, and give a --timeout that is longer than"
            " group_wait and group_interval of the route"
        )
        severity = self.alert.labels["severity"]
        if not notifies(severity, self.settings):
            hint = f"severity {severity} notifies nobody"
        limit = format_duration(self.timeout)
        return ExporterError(
            f"Alertmanager notified nobody of {self.alert.name} within {limit}: {hint}"
        )
