"""The ways of a drill: an alert that is posted, pushed by an exporter, or raised by rules; and inhibition.

Each raises an alert, measures how long its page takes, and takes the alert back.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from azure_scheduled_events_exporter.alertmanager.alert import Alert
from azure_scheduled_events_exporter.commands.interruption import Interrupted, uninterrupted
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.simulator import Scenario
from azure_scheduled_events_exporter.times import format_duration

from .stage import Stage, staged, until
from .story import DRILL
from .team import HeldAlert, Sent, Team

_MAINTENANCE: Final = "AzureScheduledEventMaintenance"
_KEPT_SECONDS: Final = 300
_MARK: Final = "This is a drill: no VM is in danger."


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
        labels = {**self.alert.labels, "drill": "true"}
        told = self.alert.annotations
        texts = {**told, "summary": f"{DRILL}: {told['summary']}", "description": f"{_MARK} {told['description']}"}
        say(f"drill: {self.alert.name} ({labels['severity']}) for {self._vm}, posted to {self.team.shown}")
        matcher = f'event_id="{labels["event_id"]}"'
        measurement = _Measurement(self.team, self.alert, matcher, self.team.sent(), time.monotonic(), self.timeout)
        try:
            self.team.post(labels, texts, ends_in=_KEPT_SECONDS)
            measurement.page()
        finally:
            if not self.keep:
                with uninterrupted():
                    self.team.post(labels, texts, ends_in=0)

    def push(self, settings: Mapping[str, str]) -> None:
        """Let the simulated VM's exporter push the alert of the event; ``settings`` are those of its environment."""
        with staged(self.story, "127.0.0.1:0", settings) as stage:
            stage.ready()
            measurement = self._announce(stage, f"its exporter pushes {self.alert.name}")
            try:
                measurement.page()
            finally:
                with uninterrupted():
                    stage.stop()  # it would resolve the alert three minutes after the end of the event
                    held = self.team.holding(measurement.matcher, self.alert.name)
                    if held is not None and not self.keep:
                        self.team.post(held.labels, {}, ends_in=0)

    def scrape(self, address: ListenAddress, wait: float, after: float) -> None:
        """Let the team's Prometheus scrape the simulated VM: ``wait`` seconds before the event, ``after`` it."""
        where = ListenAddress(address.host or "localhost", address.port)
        with staged(self.story, str(address)) as stage:
            stage.ready()
            say(f"drill: scrape http://{where}/metrics now; the event follows in {format_duration(wait)}")
            stage.serve(wait)
            stage.ready()
            measurement = self._announce(stage, f"{self.alert.name} should fire")
            try:
                measurement.page()
            except Interrupted:
                after = 0
                raise
            except ExporterError as error:
                say(f"drill: {error}")  # now, and again as the error of the command
                raise
            finally:
                if after and not self.keep:
                    stage.call_off()
                    say(
                        f"drill: the event is over; the metrics are served for {format_duration(after)} more, "
                        "so that Prometheus sees it. Then remove the target."
                    )
                    stage.serve(after)

    def _announce(self, stage: Stage, what_follows: str) -> "_Measurement":
        before, begun = self.team.sent(), time.monotonic()
        matcher = f'event_id="{stage.announce()}"'
        say(f"drill: {self.story.events[0].event_type} of {self._vm} announced; {what_follows}")
        return _Measurement(self.team, self.alert, matcher, before, begun, self.timeout)

    @property
    def _vm(self) -> str:
        return self.story.vms[0].name


@dataclass(frozen=True, slots=True)
class _Measurement:
    """A page that is waited for: the alert that ``matcher`` selects, and the notifications ``before`` it ``begun``."""

    team: Team
    alert: Alert
    matcher: str
    before: Sent
    begun: float
    timeout: float

    def page(self) -> None:
        """Print when Alertmanager got the alert and when it notified; ExporterError: it did not, or that failed."""
        held = self._held()
        end = self.begun + self.timeout
        notified = until(lambda: sorted(self.team.sent().delivered - self.before.delivered), end)
        failed = self._failed()
        if notified:
            self._say(f"Alertmanager notified: {', '.join(notified)}")
            failed = until(self._failed, min(end, time.monotonic() + 1))
        if failed:
            raise ExporterError(f"notification failed: {', '.join(failed)}; see the log of Alertmanager for the reason")
        if not notified:
            hint = f"run doctor --alertmanager {self.team.shown}, which checks receivers and group_wait"
            if self.alert.labels["severity"] == "info":
                hint = "severity info notifies nobody"
            waited = format_duration(self.timeout)
            raise ExporterError(f"Alertmanager notified nobody of {held.labels['alertname']} within {waited}: {hint}")
        say("Alertmanager has done its part. Did the notification arrive?")

    def _held(self) -> HeldAlert:
        """Wait for the alert; raise ExporterError if Alertmanager does not have it, or will notify nobody of it."""
        name, shown = self.alert.name, self.team.shown
        held = until(lambda: self.team.holding(self.matcher, name), self.begun + self.timeout)
        if held is None:
            raise ExporterError(
                f"{name} has not reached {shown} within {format_duration(self.timeout)}: run doctor "
                "with --prometheus and --alertmanager, which checks targets, rules and routes"
            )
        receivers = ", ".join(held.receivers)
        self._say(f"Alertmanager has the alert, for receivers: {receivers}")
        if held.is_muted:
            raise ExporterError(
                f"{name} is silenced or inhibited, so nobody is notified: run doctor --alertmanager {shown}"
            )
        return held

    def _failed(self) -> list[str]:
        return sorted(self.team.sent().failed - self.before.failed)

    def _say(self, text: str) -> None:
        say(f"{time.monotonic() - self.begun:.2f} s: {text}")


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
            raise ExporterError(f"{_MAINTENANCE} has not reached {team.shown} within {format_duration(timeout)}")
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


def say(text: str) -> None:
    """Print ``text`` at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
