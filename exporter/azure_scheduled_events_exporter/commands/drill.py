"""The command ``drill``: tests the paging of a team and measures how long a page takes.

Either an alert is posted to Alertmanager directly, or a simulated event takes the whole path: simulator, exporter,
Prometheus, Alertmanager. Alerts, VM names and the scale set are labelled as a drill. Must not touch a real event.
"""

import argparse
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import requests

from azure_scheduled_events_exporter.config import ENVIRONMENT_PREFIX, parse_assignments
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, without_password
from azure_scheduled_events_exporter.http_failures import failure_reason
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress, parse_listen_address
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, Starts, VirtualMachine, find
from azure_scheduled_events_exporter.times import format_duration, parse_duration

_Found = TypeVar("_Found")
DRILL: Final = "DRILL"
DESCRIPTION: Final = "Test your paging: raise an alert that is labelled as a drill and measure how long the page takes."
_LOOK_SECONDS: Final = 0.05  # between two looks at Alertmanager
_REQUEST_SECONDS: Final = 10
_SHORT_FREEZE_SECONDS: Final = 9
_MAINTENANCE: Final = "AzureScheduledEventMaintenance"
_DEGRADED_SECONDS: Final = 86_400
_NOTIFICATIONS: Final = re.compile(
    r"^alertmanager_notification_requests(?P<failed>_failed)?_total"
    r'\{(?:[^}]*,)?integration="(?P<integration>[^"]+)"[^}]*\} '
    r"(?P<count>\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class DrillAlert:
    """The alert that the shipped rules raise for an event."""

    name: str
    severity: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Number of delivered and of failed notifications of Alertmanager so far, by integration."""

    delivered: Mapping[str, float]
    failed: Mapping[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``drill`` to ``parser``."""
    parser.description = DESCRIPTION
    add = parser.add_argument
    add("--scenario", default="host-failure", metavar="NAME", help="Scenario of the simulator. (default host-failure)")
    add(
        "--alertmanager",
        required=True,
        metavar="URL",
        help="Your Alertmanager, for example http://alerts:9093. Required.",
    )
    add("--timeout", default="2m", metavar="DURATION", help="Time limit for the page. (default 2m)")
    add(
        "--exporter.listen-address",
        dest="listen",
        metavar="HOST:PORT",
        help="Test the whole path: serve the metrics of a simulated VM on this address, for your Prometheus to scrape.",
    )
    add(
        "--push",
        action="store_true",
        help="Test pushed alerts: a simulated VM whose exporter pushes to your Alertmanager. No Prometheus.",
    )
    add(
        "--wait",
        default="30s",
        metavar="DURATION",
        help="With --exporter.listen-address: time for Prometheus to find the target before the event. (default 30s)",
    )
    add(
        "--maintenance",
        metavar="LABELS",
        help="Test inhibition instead: labels of an alert of your own that stays quiet while Azure works on its VM, "
        "for example alertname=InstanceDown,instance=10.0.0.4:9100.",
    )
    add("--keep", action="store_true", help="Do not resolve the alert at the end. It resolves after 5 minutes.")


def run(arguments: argparse.Namespace) -> int:
    """Run the drill; return the exit status.

    Raises:
        UsageError: a flag is invalid.
        ExporterError: Alertmanager cannot be reached, refuses the alert, or does not notify in time.
    """
    timeout, wait = (_duration(flag, getattr(arguments, flag)) for flag in ("timeout", "wait"))
    event = _event(arguments.scenario)
    alert = alert_of(event)
    team = Alertmanager(arguments.alertmanager)
    if arguments.maintenance is not None:
        return _maintenance(team, arguments.maintenance, timeout)
    before = team.sent()
    if arguments.push:
        if arguments.listen is not None:
            raise UsageError("--push and --exporter.listen-address are two ways: choose one")
        _push(team, event, alert, before, timeout, keep=arguments.keep)
        return 0
    if arguments.listen is None:
        labels = labels_of(event, alert)
        _print(f"drill: {alert.name} ({alert.severity}) for {labels['resources']}, posted to {team.shown}")
        begun = time.monotonic()
        team.raise_alert(labels, alert, ends_in=300)
        try:
            _measure(team, f'event_id="{labels["event_id"]}"', alert, before, begun, timeout)
        finally:
            if not arguments.keep:
                team.raise_alert(labels, alert, ends_in=0)
        return 0
    with _staged(event, arguments.listen) as (announce, _):
        address = parse_listen_address(arguments.listen)
        where = ListenAddress(address.host or "localhost", address.port)
        _print(f"drill: scrape http://{where}/metrics now; the event follows in {format_duration(wait)}")
        threading.Event().wait(wait)
        begun, event_id = announce()
        _print(f"drill: {event.event_type} of {DRILL}-{event.resources[0]} announced; {alert.name} should fire")
        _measure(team, f'event_id="{event_id}"', alert, before, begun, timeout)
    return 0


def _push(
    team: "Alertmanager", event: PlannedEvent, alert: DrillAlert, before: Sent, timeout: float, *, keep: bool
) -> None:
    """Let a simulated VM's exporter push the alert of ``event``, and resolve it unless ``keep``."""
    # By the environment: others on this machine see the flags of a process, and the address may have a password.
    alertmanager = {f"{ENVIRONMENT_PREFIX}ALERTMANAGER_URL": team.url}
    with _staged(event, "127.0.0.1:0", alertmanager) as (announce, call_off):
        begun, event_id = announce()
        _print(f"drill: {event.event_type} of {DRILL}-{event.resources[0]} announced; its exporter pushes {alert.name}")
        matcher = f'event_id="{event_id.upper()}"'
        _measure(team, matcher, alert, before, begun, timeout)
        if not keep:
            call_off()
            _until(lambda: team.holding(matcher, alert.name) is None, time.monotonic() + _REQUEST_SECONDS)


def alert_of(event: PlannedEvent) -> DrillAlert:
    """Return the alert that the shipped rules raise for ``event``."""
    prefix = "AzureScheduledEvent"
    facts = EVENT_FACTS.get(event.event_type)
    comes_back = facts is not None and facts.reboots and not facts.deletes
    if event.starts is Starts.AT_ONCE and comes_back and event.source != "User":
        return DrillAlert(f"{prefix}WithoutNotice", "critical")
    if event.notice > _DEGRADED_SECONDS:
        return DrillAlert(f"{prefix}DegradedHost", "warning")
    if event.event_type == "Freeze":
        short = 0 <= event.duration < _SHORT_FREEZE_SECONDS
        return DrillAlert(f"{prefix}ShortFreeze", "info") if short else DrillAlert(f"{prefix}Freeze", "warning")
    if event.source == "User" and event.event_type != "Preempt":
        return DrillAlert(f"{prefix}{event.event_type}Requested", "warning")
    return DrillAlert(f"{prefix}{event.event_type}", facts.severity if facts else "critical")


def labels_of(event: PlannedEvent, alert: DrillAlert) -> dict[str, str]:
    """Return the labels of an alert whose event, VMs and scale set are named so that everybody sees a drill."""
    return {
        "alertname": alert.name,
        "severity": alert.severity,
        "event_id": f"{DRILL}-{uuid.uuid4()}".upper(),
        "event_type": event.event_type,
        "event_source": event.source,
        "resources": ",".join(f"{DRILL}-{name}" for name in event.resources),
        "scale_set": DRILL,
        "drill": "true",
    }


class Alertmanager:
    """The team's Alertmanager, over its API and its metrics.

    Attributes:
        url: its address, which may have a password.
        shown: the same to print.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.shown = without_password(self.url)
        try:
            address = urlsplit(self.url)
            usable = address.scheme in {"http", "https"} and address.hostname and address.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(f"--alertmanager: '{without_password(url)}' is not an address: write http://HOST:PORT")
        self._session = requests.Session()

    def sent(self) -> Sent:
        """Return the number of delivered and failed notifications so far."""
        tried: dict[str, float] = {}
        failed: dict[str, float] = {}
        for found in _NOTIFICATIONS.finditer(self._ask("GET", "/metrics").text):
            counts = failed if found["failed"] else tried
            counts[found["integration"]] = counts.get(found["integration"], 0) + float(found["count"])
        return Sent({name: count - failed.get(name, 0) for name, count in tried.items()}, failed)

    def raise_alert(self, labels: Mapping[str, str], alert: DrillAlert, ends_in: float) -> None:
        """Post the alert, which resolves after ``ends_in`` seconds."""
        text = f"This is a drill: no VM is in danger. {labels['event_type']} of {labels['resources']}."
        self.post(labels, f"{DRILL}: {alert.name}.", text, ends_in)

    def post(self, labels: Mapping[str, str], summary: str, description: str, ends_in: float) -> None:
        """Post an alert with these texts, which resolves after ``ends_in`` seconds."""
        now = datetime.now(UTC)
        body = {
            "labels": dict(labels),
            "annotations": {"summary": summary, "description": description},
            "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(seconds=ends_in)).isoformat(),
        }
        self._ask("POST", "/api/v2/alerts", json=[body])

    def holding(self, matcher: str, name: str) -> dict[str, Any] | None:
        """Return the alert ``name`` that ``matcher`` selects; None if Alertmanager has none."""
        answer = self._ask("GET", "/api/v2/alerts", params={"filter": [matcher, f'alertname="{name}"']})
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, list):
            raise ExporterError(f"{self.shown}: answers, but not with a list of alerts: is it an Alertmanager?")
        return found[0] if found else None

    def _ask(self, method: str, path: str, **more: Any) -> requests.Response:  # noqa: ANN401 - what requests takes
        try:
            answer = self._session.request(method, f"{self.url}{path}", timeout=_REQUEST_SECONDS, **more)
        except requests.RequestException as error:
            raise ExporterError(f"{self.shown}: Alertmanager cannot be reached: {failure_reason(error)}") from None
        if not answer.ok:
            raise ExporterError(f"{self.shown}{path}: answered {answer.status_code}: {answer.text.strip()[:200]}")
        return answer


def _measure(team: Alertmanager, matcher: str, alert: DrillAlert, before: Sent, begun: float, timeout: float) -> None:
    """Print when Alertmanager got the alert and when it notified; ExporterError: it did not, or notifying failed."""
    end = begun + timeout
    held = _until(lambda: team.holding(matcher, alert.name), end)
    if held is None:
        raise ExporterError(
            f"{alert.name} has not reached {team.shown} within {format_duration(timeout)}: run doctor "
            "with --prometheus and --alertmanager, which checks targets, rules and routes"
        )
    receivers = ", ".join(receiver["name"] for receiver in held["receivers"])
    _print(f"{time.monotonic() - begun:.2f} s: Alertmanager has the alert, for receivers: {receivers}")
    if held["status"]["state"] == "suppressed":
        raise ExporterError(
            f"{alert.name} is silenced or inhibited, so nobody is notified: run doctor --alertmanager {team.shown}"
        )
    notified = _until(lambda: _more(before.delivered, team.sent().delivered), end)
    failed = _more(before.failed, team.sent().failed)
    if notified:
        _print(f"{time.monotonic() - begun:.2f} s: Alertmanager notified: {', '.join(notified)}")
        failed = _until(lambda: _more(before.failed, team.sent().failed), min(end, time.monotonic() + 1))
    if failed:
        raise ExporterError(f"notification failed: {', '.join(failed)}; see the log of Alertmanager for the reason")
    if not notified:
        hint = (
            "severity info notifies nobody"
            if alert.severity == "info"
            else f"run doctor --alertmanager {team.shown}, which checks receivers and group_wait"
        )
        raise ExporterError(f"Alertmanager notified nobody within {format_duration(timeout)}: {hint}")
    _print("Alertmanager has done its part. Did the page arrive?")


def _maintenance(team: Alertmanager, text: str, timeout: float) -> int:
    """Raise the alert that a VM is in maintenance, then the team's own one; ExporterError: that is not inhibited."""
    labels = {**parse_assignments("--maintenance", text.split(",")), "drill": "true"}
    if "alertname" not in labels:
        raise UsageError("--maintenance: the labels of an alert have an alertname, such as alertname=InstanceDown")
    name = labels["alertname"]
    marked = {**labels, "alertname": _MAINTENANCE, "severity": "info", "component": "maintenance"}
    summary, description = f"{DRILL}: {name}.", "This is a drill: no VM is in danger."
    try:
        team.post(marked, summary, description, ends_in=300)
        if not _until(lambda: team.holding('drill="true"', _MAINTENANCE), time.monotonic() + timeout):
            raise ExporterError(f"{_MAINTENANCE} has not reached {team.shown} within {format_duration(timeout)}")
        team.post(labels, summary, description, ends_in=300)
        found = _until(lambda: _decided(team, name), time.monotonic() + timeout)
    finally:
        for each in (labels, marked):
            team.post(each, summary, description, ends_in=0)
    if found is None or not found["status"]["inhibitedBy"]:
        raise ExporterError(
            f"{name} is not inhibited while its VM is in maintenance, so it notifies: "
            "set maintenance.targets and maintenance.equal, and load the rendered inhibit_rules"
        )
    _print(f"{name} is inhibited while its VM is in maintenance. Both alerts are resolved.")
    return 0


def _decided(team: Alertmanager, name: str) -> dict[str, Any] | None:
    """Return the team's alert once Alertmanager has decided what to do with it."""
    found = team.holding('drill="true"', name)
    return None if found is None or found["status"]["state"] == "unprocessed" else found


def _more(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    return sorted(name for name, count in now.items() if count > before.get(name, 0))


def _until(look: Callable[[], _Found], end: float) -> _Found:
    found = look()
    while not found and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        found = look()
    return found


@contextmanager
def _staged(
    event: PlannedEvent, listen: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Callable[[], tuple[float, str]], Callable[[], None]]]:
    """Run a simulated VM and its exporter; yield what announces the event, returning its id, and what calls it off.

    ``settings`` are further ones of the exporter, by their names in the environment.
    """
    names = tuple(f"{DRILL}-{name}" for name in event.resources)
    vms = tuple(VirtualMachine(name, scale_set=DRILL) for name in names)
    story = Scenario("drill", "", vms, (replace(event, resources=names, announced_at=0.0),))
    waiting = Scenario("waiting", "", vms, ())
    with Simulator(waiting) as simulator:
        command = [sys.executable, "-m", "azure_scheduled_events_exporter", "run"]
        command += ["--imds.endpoint", simulator.url, "--instance.name", names[0], "--journal.path", "memory"]
        # Settings of the VM's own exporter (collector, users, policy) do not apply to this one.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", ENVIRONMENT_PREFIX))}
        command += ["--web.listen-address", listen]
        with subprocess.Popen(command, env={**env, **settings}) as exporter:  # noqa: S603 - this program
            try:

                def announce() -> tuple[float, str]:
                    _until(lambda: simulator.requests or exporter.poll(), time.monotonic() + _REQUEST_SECONDS)
                    if exporter.poll() is not None:
                        raise ExporterError(f"the exporter at {listen} has ended; see its message above")
                    begun = time.monotonic()
                    simulator.play(story, 1)
                    found = _until(lambda: simulator.record, begun + _REQUEST_SECONDS)
                    return begun, found[0].event_id

                yield announce, lambda: simulator.play(waiting, 1)
            finally:
                exporter.terminate()


def _event(name: str) -> PlannedEvent:
    scenarios = find(name)
    if len(scenarios) != 1 or not scenarios[0].events:
        raise UsageError(
            f"--scenario: '{name}' is not one scenario with events: choose another one of 'simulate --list'"
        )
    return scenarios[0].events[0]


def _duration(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--{flag}: {error}") from None


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
