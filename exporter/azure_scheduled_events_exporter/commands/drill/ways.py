"""The ways of a drill: an alert that is posted, pushed by an exporter, or raised by rules; and inhibition.

Each raises an alert, measures how long its page takes, and takes the alert back.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from azure_scheduled_events_exporter.alertmanager.alert import Alert
from azure_scheduled_events_exporter.commands.interruption import Interrupted, uninterrupted
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.simulator import Scenario
from azure_scheduled_events_exporter.times import format_duration

from .stage import DRILL, Stage, staged, until
from .team import Sent, Team

_MAINTENANCE: Final = "AzureScheduledEventMaintenance"
_KEPT_SECONDS: Final = 300
_MARK: Final = "This is a drill: no VM is in danger."
say: Final = partial(print, flush=True)


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill.

    Attributes:
        team: the Alertmanager that is to page.
        story: the simulated VM and its event; alert: the alert of that event.
        timeout: how many seconds the page may take.
        keep: whether the event goes on, and the alert is not resolved.
    """

    team: Team
    story: Scenario
    alert: Alert
    timeout: float
    keep: bool

    def post(self) -> None:
        """Post the alert to Alertmanager directly, labeled as a drill."""
        event_id = f"{DRILL}-{self.alert.labels['event_id']}"
        labels = {**self.alert.labels, "event_id": event_id, "drill": "true"}
        told = self.alert.annotations
        texts = {**told, "summary": f"{DRILL}: {told['summary']}", "description": f"{_MARK} {told['description']}"}
        say(f"drill: {self.alert.name} ({labels['severity']}) for {self._vm}, posted to {self.team.shown}")
        before, begun = self.team.sent(), time.monotonic()
        try:
            self.team.post(labels, texts, ends_in=_KEPT_SECONDS)
            self._measure(event_id, before, begun)
        finally:
            if not self.keep:
                with uninterrupted():
                    self.team.post(labels, texts, ends_in=0)

    def push(self, settings: Mapping[str, str]) -> None:
        """Let the exporter of a simulated VM, with these ``settings``, push the alert of the event."""
        with staged(self._quiet, **settings) as stage:
            before, begun = self.team.sent(), time.monotonic()
            event_id = self._announce(stage, f"its exporter pushes {self.alert.name}")
            try:
                self._measure(event_id, before, begun)
            finally:
                with uninterrupted():
                    stage.exporter.stop()  # it would resolve the alert three minutes after the end of the event
                    held = self.team.holding(f'event_id="{event_id}"', self.alert.name)
                    if held is not None and not self.keep:
                        self.team.post(held.labels, {}, ends_in=0)

    def scrape(self, address: ListenAddress, wait: float, after: float) -> None:
        """Let the team's Prometheus scrape the simulated VM: ``wait`` seconds before the event, ``after`` it."""
        with staged(self._quiet) as stage, stage.served(address):
            say(f"drill: scrape http://{address.local}/metrics now; the event follows in {format_duration(wait)}")
            time.sleep(wait)
            before, begun = self.team.sent(), time.monotonic()
            event_id = self._announce(stage, f"{self.alert.name} should fire")
            try:
                self._measure(event_id, before, begun)
            except Interrupted:
                after = 0
                raise
            except ExporterError as error:
                say(f"drill: {error}")  # now, and again as the error of the command
                raise
            finally:
                if after and not self.keep:
                    stage.simulator.play(self._quiet)
                    say(
                        f"drill: the event is over; the metrics are served for {format_duration(after)} more, "
                        "so that Prometheus sees it. Then remove the target."
                    )
                    time.sleep(after)

    def _announce(self, stage: Stage, what_follows: str) -> str:
        event_id = stage.announce(self.story)
        say(f"drill: {self.story.events[0].event_type} of {self._vm} announced; {what_follows}")
        return event_id

    def _measure(self, event_id: str, before: Sent, begun: float) -> None:
        """Print when Alertmanager got the alert and when it notified; ExporterError: it did not, or that failed."""
        team, name, end, limit = self.team, self.alert.name, begun + self.timeout, format_duration(self.timeout)

        def report(text: str) -> None:
            say(f"{time.monotonic() - begun:.2f} s: {text}")

        def failed() -> list[str]:
            return sorted(team.sent().failed - before.failed)

        held = until(lambda: team.holding(f'event_id="{event_id}"', name), end)
        if held is None:
            raise ExporterError(
                f"{name} has not reached {team.shown} within {limit}: run doctor with --prometheus and --alertmanager, "
                "which checks targets, rules and routes"
            )
        report(f"Alertmanager has the alert, for receivers: {', '.join(held.receivers)}")
        hint = f"run doctor --alertmanager {team.shown}"
        if held.is_muted:
            raise ExporterError(f"{name} is silenced or inhibited, so nobody is notified: {hint}")
        notified = until(lambda: sorted(team.sent().delivered - before.delivered), end)
        refused = failed()
        if notified:
            report(f"Alertmanager notified: {', '.join(notified)}")
            refused = until(failed, min(end, time.monotonic() + 1))
        if refused:
            raise ExporterError(f"notification failed: {', '.join(refused)}; the log of Alertmanager has the reason")
        if not notified:
            is_info = self.alert.labels["severity"] == "info"
            hint = "severity info notifies nobody" if is_info else f"{hint}, which checks receivers and group_wait"
            raise ExporterError(f"Alertmanager notified nobody of {name} within {limit}: {hint}")
        say("Alertmanager has done its part. Did the notification arrive?")

    @property
    def _quiet(self) -> Scenario:
        return replace(self.story, events=())

    @property
    def _vm(self) -> str:
        return self.story.vms[0].name


def inhibit(team: Team, labels: Mapping[str, str], timeout: float) -> None:
    """Raise the alert that a VM is in maintenance, then the team's own one; ExporterError: that is not inhibited."""
    own = {**labels, "drill": "true"}
    if "alertname" not in own:
        raise UsageError("--maintenance: the labels of an alert have an alertname, such as alertname=InstanceDown")
    name = own["alertname"]
    marked = {**own, "alertname": _MAINTENANCE, "severity": "info", "component": "maintenance"}
    texts = {"summary": f"{DRILL}: {name}.", "description": _MARK}
    try:
        team.post(marked, texts, ends_in=_KEPT_SECONDS)
        if not until(lambda: team.holding('drill="true"', _MAINTENANCE), time.monotonic() + timeout):
            late = f"{_MAINTENANCE} has not reached {team.shown} within {format_duration(timeout)}"
            raise ExporterError(f"{late}: run doctor --alertmanager {team.shown}")
        team.post(own, texts, ends_in=_KEPT_SECONDS)
        found = until(lambda: team.holding('drill="true"', name), time.monotonic() + timeout)
    finally:
        with uninterrupted():
            for each in (own, marked):
                team.post(each, texts, ends_in=0)
    if found is None or not found.is_inhibited:
        raise ExporterError(
            f"{name} is not inhibited while its VM is in maintenance, so it notifies: "
            "set maintenance.targets and maintenance.equal, and load the rendered inhibit_rules"
        )
    say(f"{name} is inhibited while its VM is in maintenance. Both alerts are resolved.")
