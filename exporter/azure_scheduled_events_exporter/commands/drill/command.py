"""The flags of ``drill`` and its ways: an alert that is posted, pushed by an exporter, or raised by rules; inhibition.

A posted alert is labeled as a drill; the names of simulated VMs and their scale set say it. Must
not touch a real
event.
"""

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from azure_scheduled_events_exporter.alertmanager.alert import Alert
from azure_scheduled_events_exporter.alertmanager.client import TIMEOUT_SECONDS, AlertmanagerError
from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible
from azure_scheduled_events_exporter.commands.waiting import until
from azure_scheduled_events_exporter.config.flags import argument
from azure_scheduled_events_exporter.config.resolution import parse_assignments, resolve
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.http_server.listen_address import (
    ListenAddress,
    parse_listen_address,
)
from azure_scheduled_events_exporter.service import alert_push
from azure_scheduled_events_exporter.simulator import Scenario, Simulator
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .story import DRILL, alert_of_story, story_of, watched
from .team import Sent, Team

DESCRIPTION: Final = (
    "Test your paging: raise an alert that is labeled as a drill and measure how long the page"
    " takes."
)

_HTTP_CONFIG: Final = "alertmanager.http-config.file"
_SERVING: Final = "With --exporter.listen-address: time"
_FLAGS: Final = (
    (
        "alertmanager",
        str,
        "URL",
        None,
        "Your Alertmanager, for example http://alerts:9093. Required.",
    ),
    (
        _HTTP_CONFIG,
        str,
        "FILE",
        None,
        "Credentials and TLS for it, as in Prometheus' HTTP client configuration.",
    ),
    (
        "alerts.values",
        str,
        "FILE",
        None,
        "Values file of your alert rules, to raise their alert and severity.",
    ),
    ("scenario", str, "NAME", "host-failure", "Scenario of the simulator."),
    ("timeout", parse_duration, "DURATION", "2m", "Time limit for the page."),
    (
        *("exporter.listen-address", parse_listen_address, "HOST:PORT", None),
        (
            "Test the whole path: serve the metrics of a simulated VM on this address, for your"
            " Prometheus to scrape."
        ),
    ),
    (
        "wait",
        parse_duration,
        "DURATION",
        "30s",
        f"{_SERVING} for Prometheus to find the target before the event.",
    ),
    (
        "after",
        parse_duration,
        "DURATION",
        "10s",
        f"{_SERVING} to serve the metrics after the event, for Prometheus.",
    ),
    (
        *("maintenance", str, "LABELS", None),
        (
            "Test inhibition instead, of your own alert with these labels, such as"
            " alertname=InstanceDown,instance=HOST."
        ),
    ),
)
_MAINTENANCE: Final = "AzureScheduledEventMaintenance"
_KEPT_SECONDS: Final = 300
_ANNOUNCED_SECONDS: Final = 10
_OTHERS_SECONDS: Final = 1  # after the first notification, for those of other receivers
_MARK: Final = "This is a drill: no VM is in danger."
say: Final = partial(print, flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``drill`` to ``parser``."""
    for name, parse, metavar, default, text in _FLAGS:
        kind, required = argument(parse), name == "alertmanager"
        shown = f"{text} (default {default})" if default else text
        parser.add_argument(
            f"--{name}",
            dest=name,
            type=kind,
            metavar=metavar,
            default=default,
            required=required,
            help=shown,
        )
    text = (
        "Test pushed alerts: a simulated VM whose exporter pushes to your Alertmanager. No"
        " Prometheus."
    )
    parser.add_argument("--push", action="store_true", help=text)
    text = (
        "Do not end the event or resolve the alert. An alert that the drill posts resolves after 5"
        " minutes."
    )
    parser.add_argument("--keep", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Run the drill; return the exit status.

    Raises:
        UsageError: a flag is invalid.
        ExporterError: Alertmanager cannot be reached, refuses the alert, or does not notify in
            time.
    """
    flags = vars(arguments)
    timeout, address = flags["timeout"], flags["exporter.listen-address"]
    story = story_of(flags["scenario"])
    settings = {
        name: flags[name] for name in (_HTTP_CONFIG, "alerts.values") if flags[name] is not None
    }
    settings["alertmanager.url"] = flags["alertmanager"]
    config = resolve(settings, {})
    catalog = alert_push.check(config)
    if len(config.alertmanager_url) > 1:
        raise UsageError("--alertmanager: give one address; a cluster tells all its members")
    if flags["push"] and address is not None:
        raise UsageError("--push and --exporter.listen-address cannot be used together")
    team = Team(flags["alertmanager"], flags[_HTTP_CONFIG], min(timeout, TIMEOUT_SECONDS))
    try:
        with interruptible():
            if flags["maintenance"] is not None:
                _inhibit(
                    team,
                    parse_assignments("--maintenance", flags["maintenance"].split(",")),
                    timeout,
                )
                return 0
            team.sent()  # so that a wrong address is reported before anything starts
            drill = Drill(team, story, alert_of_story(story, catalog), timeout, flags["keep"])
            if flags["push"]:
                drill.push(settings)
            elif address is not None:
                drill.scrape(address, flags["wait"], flags["after"])
            else:
                drill.post()
    except AlertmanagerError as error:
        raise ExporterError(f"Alertmanager at {team.shown}: {error}") from None
    return 0


@dataclass(frozen=True, slots=True)
class Drill:
    """An event of a simulated VM that raises an alert.

    Each way raises it, measures its page and takes it back.
    """

    team: Team
    story: Scenario
    alert: Alert  # of the event
    timeout: float  # seconds that the page may take
    keep: bool  # the event goes on, and the alert is not resolved

    def post(self) -> None:
        """Post the alert to Alertmanager directly, labeled as a drill."""
        event_id, told = f"{DRILL}-{self.alert.labels['event_id']}", self.alert.annotations
        labels = {**self.alert.labels, "event_id": event_id, "drill": "true"}
        texts = {
            **told,
            "summary": f"{DRILL}: {told['summary']}",
            "description": f"{_MARK} {told['description']}",
        }
        vm, severity = self.story.vms[0].name, labels["severity"]
        say(f"drill: {self.alert.name} ({severity}) for {vm}, posted to {self.team.shown}")
        before, begun = self.team.sent(), time.monotonic()
        try:
            self.team.put(labels, texts, ends_in=_KEPT_SECONDS)
            self._measure(event_id, before, begun)
        finally:
            if not self.keep:
                self.team.put(labels, texts, ends_in=0)

    def push(self, settings: Mapping[str, str]) -> None:
        """Let the exporter of a simulated VM, with these ``settings``, push the alert of the event."""
        event_id = ""
        try:
            with watched(self.story, settings) as simulator:
                before, begun = self.team.sent(), time.monotonic()
                event_id = self._announce(simulator, f"its exporter pushes {self.alert.name}")
                self._measure(event_id, before, begun)
        # the exporter, which has ended, would resolve the alert three minutes after the end of the
        # event
        finally:
            held = (
                self.team.holding(f'event_id="{event_id}"', self.alert.name) if event_id else None
            )
            if held is not None and not self.keep:
                self.team.put(held.labels, {}, ends_in=0)

    def scrape(self, address: ListenAddress, wait: float, after: float) -> None:
        """Let the team's Prometheus scrape the simulated VM: ``wait`` seconds before the event, ``after`` it."""
        with watched(self.story, {"web.listen-address": str(address)}) as simulator:
            say(
                f"drill: scrape http://{address.local}/metrics now; the event follows in"
                f" {format_duration(wait)}"
            )
            time.sleep(wait)
            before, begun = self.team.sent(), time.monotonic()
            try:
                event_id = self._announce(simulator, f"{self.alert.name} should fire")
                self._measure(event_id, before, begun)
            except Interrupted:
                after = 0
                raise
            finally:
                if after and not self.keep:
                    simulator.play(Scenario("over", "", self.story.vms, ()))
                    say(
                        "drill: the event is over; the metrics are served for"
                        f" {format_duration(after)} more, so that Prometheus sees it. Then remove"
                        " the target."
                    )
                    time.sleep(after)

    def _announce(self, simulator: Simulator, what_follows: str) -> str:
        """Announce the event to the exporter; return its id."""
        simulator.play(self.story)
        event = until(lambda: simulator.record, time.monotonic() + _ANNOUNCED_SECONDS)[0]
        say(f"drill: {event.event_type} of {self.story.vms[0].name} announced; {what_follows}")
        return event.event_id.upper()

    def _measure(self, event_id: str, before: Sent, begun: float) -> None:
        """Print when Alertmanager got the alert and when it notified; ExporterError: it did not, or that failed."""
        team, name, end, limit = (
            self.team,
            self.alert.name,
            begun + self.timeout,
            format_duration(self.timeout),
        )
        hint = f"run doctor --alertmanager {team.shown}"
        held = until(lambda: team.holding(f'event_id="{event_id}"', name), end)
        if held is None:
            raise ExporterError(
                f"{name} has not reached {team.shown} within {limit}: run doctor with --prometheus"
                " and --alertmanager, which checks targets, rules and routes"
            )
        say(
            f"{time.monotonic() - begun:.2f} s: Alertmanager has the alert, for receivers:"
            f" {', '.join(held.receivers)}"
        )
        if held.is_muted:
            raise ExporterError(f"{name} is silenced or inhibited, so nobody is notified: {hint}")
        notified = until(lambda: sorted(team.sent().delivered - before.delivered), end)
        if notified:
            say(f"{time.monotonic() - begun:.2f} s: Alertmanager notified: {', '.join(notified)}")
            time.sleep(_OTHERS_SECONDS)
        if refused := sorted(team.sent().failed - before.failed):
            raise ExporterError(
                f"notification failed: {', '.join(refused)}; the log of Alertmanager has the reason"
            )
        if not notified:
            is_info = self.alert.labels["severity"] == "info"
            hint = (
                "severity info notifies nobody"
                if is_info
                else f"{hint}, which checks receivers and group_wait"
            )
            raise ExporterError(f"Alertmanager notified nobody of {name} within {limit}: {hint}")
        say("Alertmanager has done its part. Did the notification arrive?")


def _inhibit(team: Team, labels: Mapping[str, str], timeout: float) -> None:
    """Raise the alert that a VM is in maintenance, then the team's own one; ExporterError: that is not inhibited."""
    own = {**labels, "drill": "true"}
    if "alertname" not in own:
        raise UsageError(
            "--maintenance: the labels of an alert have an alertname, such as"
            " alertname=InstanceDown"
        )
    name = own["alertname"]
    marked = {**own, "alertname": _MAINTENANCE, "severity": "info", "component": "maintenance"}
    texts = {"summary": f"{DRILL}: {name}.", "description": _MARK}
    found = None
    try:
        for each in (marked, own):
            team.put(each, texts, ends_in=_KEPT_SECONDS)
            raised, end = each["alertname"], time.monotonic() + timeout
            found = until(partial(team.holding, 'drill="true"', raised), end)
            if found is None:
                late = f"{raised} has not reached {team.shown} within {format_duration(timeout)}"
                raise ExporterError(f"{late}: run doctor --alertmanager {team.shown}")
    finally:
        for each in (own, marked):
            team.put(each, texts, ends_in=0)
    if found is None or not found.is_inhibited:
        raise ExporterError(
            f"{name} is not inhibited while its VM is in maintenance, so it notifies: "
            "set maintenance.targets and maintenance.equal, and load the rendered inhibit_rules"
        )
    say(f"{name} is inhibited while its VM is in maintenance. Both alerts are resolved.")
