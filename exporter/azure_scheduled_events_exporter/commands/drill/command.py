"""Parses the flags of ``drill``, raises the alert and measures how long the page takes."""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.alertmanager.event_alert import EventAlert
from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible, uninterrupted
from azure_scheduled_events_exporter.config import ENVIRONMENT_PREFIX, parse_assignments, resolve
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, named_by
from azure_scheduled_events_exporter.http_client import http_config
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress, parse_listen_address
from azure_scheduled_events_exporter.service import alert_push
from azure_scheduled_events_exporter.simulator import Scenario
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .alertmanager import REQUEST_SECONDS, Alertmanager, HeldAlert, Sent
from .stage import staged, until
from .story import DRILL, alert_of, story_of

DESCRIPTION: Final = "Test your paging: raise an alert that is labeled as a drill and measure how long the page takes."
_MAINTENANCE: Final = "AzureScheduledEventMaintenance"
_KEPT_SECONDS: Final = 300


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
    add(
        "--alertmanager.http-config.file",
        dest="http",
        metavar="FILE",
        help="Credentials and TLS for it, in the format of Prometheus' HTTP client configuration.",
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
    add(
        "--after",
        default="10s",
        metavar="DURATION",
        help="With --exporter.listen-address: time to serve the metrics after the event, so that Prometheus sees the "
        "end. If the target is to stay, longer than your maintenance.after, such as 6m. (default 10s)",
    )
    add(
        "--keep",
        action="store_true",
        help="Do not end the event or resolve the alert. An alert that the drill posts resolves after 5 minutes.",
    )
    add(
        "--alerts.values",
        dest="values",
        metavar="FILE",
        help="Values file that your alert rules were rendered with, so that the drill raises their alert and severity.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the drill; return the exit status: 128 and the signal's number if one came.

    Raises:
        UsageError: a flag is invalid.
        ExporterError: Alertmanager cannot be reached, refuses the alert, or does not notify in time.
    """
    with interruptible():
        try:
            _run(arguments)
        except Interrupted as interrupted:
            return interrupted.exit_status
    return 0


def _run(arguments: argparse.Namespace) -> None:
    timeout, wait, after = (_duration(flag, getattr(arguments, flag)) for flag in ("timeout", "wait", "after"))
    story = story_of(arguments.scenario)
    values = {} if arguments.values is None else {"alerts.values": arguments.values}
    alert = alert_of(story, alert_push.check(resolve(values, {})), time.time())
    with named_by("--alertmanager.http-config.file"):
        http = http_config.load(Path(arguments.http)) if arguments.http is not None else None
    team = Alertmanager(arguments.alertmanager, http, min(timeout, REQUEST_SECONDS))
    if arguments.maintenance is not None:
        _maintenance(team, arguments.maintenance, timeout)
        return
    if arguments.push and arguments.listen is not None:
        raise UsageError("--push and --exporter.listen-address cannot be used together")
    address = None if arguments.listen is None else _listen_address(arguments.listen)
    team.sent()  # so that a wrong address is reported before anything starts
    if arguments.push:
        _pushed(team, story, alert, timeout, arguments)
    elif address is not None:
        _scraped(team, story, alert, (wait, timeout, after), address, keep=arguments.keep)
    else:
        _posted(team, story, alert, timeout, keep=arguments.keep)


def _posted(team: Alertmanager, story: Scenario, alert: EventAlert, timeout: float, *, keep: bool) -> None:
    """Post ``alert`` to Alertmanager, and resolve it unless ``keep``."""
    labels, texts = {**alert.labels, "drill": "true"}, _as_drill(alert.annotations)
    vms = ", ".join(vm.name for vm in story.vms)
    _print(f"drill: {_name(alert)} ({labels['severity']}) for {vms}, posted to {team.shown}")
    before, begun = team.sent(), time.monotonic()
    try:
        team.post(labels, texts, ends_in=_KEPT_SECONDS)
        _measure(team, f'event_id="{labels["event_id"]}"', alert, before, begun, timeout)
    finally:
        if not keep:
            with uninterrupted():
                team.post(labels, texts, ends_in=0)


def _as_drill(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of an alert, marked as a drill."""
    summary, description = annotations["summary"], annotations["description"]
    marked = {"summary": f"{DRILL}: {summary}", "description": f"This is a drill: no VM is in danger. {description}"}
    return {**annotations, **marked}


def _name(alert: EventAlert) -> str:
    return alert.labels["alertname"]


def _pushed(
    team: Alertmanager, story: Scenario, alert: EventAlert, timeout: float, arguments: argparse.Namespace
) -> None:
    """Let a simulated VM's exporter push the alert of the event, and resolve it unless ``--keep``."""
    # By the environment: others on this machine see the flags of a process, and the address may have a password.
    settings = {f"{ENVIRONMENT_PREFIX}ALERTMANAGER_URL": team.url}
    if arguments.http is not None:
        settings[f"{ENVIRONMENT_PREFIX}ALERTMANAGER_HTTP_CONFIG_FILE"] = arguments.http
    if arguments.values is not None:
        settings[f"{ENVIRONMENT_PREFIX}ALERTS_VALUES"] = arguments.values
    with staged(story, "127.0.0.1:0", settings) as stage:
        stage.ready()
        before, begun = team.sent(), time.monotonic()
        matcher = f'event_id="{stage.announce()}"'
        _print(f"drill: {_announced(story)}; its exporter pushes {_name(alert)}")
        try:
            _measure(team, matcher, alert, before, begun, timeout)
        finally:
            if not arguments.keep:
                with uninterrupted():
                    stage.call_off()
                    until(lambda: team.holding(matcher, _name(alert)) is None, time.monotonic() + REQUEST_SECONDS)


def _scraped(
    team: Alertmanager,
    story: Scenario,
    alert: EventAlert,
    seconds: tuple[float, float, float],
    address: ListenAddress,
    *,
    keep: bool,
) -> None:
    """Let the team's Prometheus scrape a simulated VM; after the event, serve on unless ``keep``."""
    wait, timeout, after = seconds
    where = ListenAddress(address.host or "localhost", address.port)
    with staged(story, str(address)) as stage:
        stage.ready()
        _print(f"drill: scrape http://{where}/metrics now; the event follows in {format_duration(wait)}")
        stage.serve(wait)
        stage.ready()
        before, begun = team.sent(), time.monotonic()
        matcher = f'event_id="{stage.announce()}"'
        _print(f"drill: {_announced(story)}; {_name(alert)} should fire")
        try:
            _measure(team, matcher, alert, before, begun, timeout)
        except ExporterError as error:
            _print(f"drill: {error}")  # now, and again as the error of the command
            raise
        except (Interrupted, KeyboardInterrupt):
            after = 0
            raise
        finally:
            if after and not keep:
                stage.call_off()
                _print(
                    f"drill: the event is over; the metrics are served for {format_duration(after)} more, so that "
                    "Prometheus sees it. Then remove the target: if it stays, VmNotBack may page for it."
                )
                stage.serve(after)


def _announced(story: Scenario) -> str:
    return f"{story.events[0].event_type} of {story.vms[0].name} announced"


def _measure(team: Alertmanager, matcher: str, alert: EventAlert, before: Sent, begun: float, timeout: float) -> None:
    """Print when Alertmanager got the alert and when it notified; ExporterError: it did not, or notifying failed."""
    end, name = begun + timeout, _name(alert)
    held = until(lambda: team.holding(matcher, name), end)
    if held is None:
        raise ExporterError(
            f"{name} has not reached {team.shown} within {format_duration(timeout)}: run doctor "
            "with --prometheus and --alertmanager, which checks targets, rules and routes"
        )
    receivers = ", ".join(held.receivers)
    _print(f"{time.monotonic() - begun:.2f} s: Alertmanager has the alert, for receivers: {receivers}")
    if held.state == "suppressed":
        raise ExporterError(
            f"{name} is silenced or inhibited, so nobody is notified: run doctor --alertmanager {team.shown}"
        )
    is_info = alert.labels["severity"] == "info"
    if not is_info and not team.notifies(held.receivers):
        raise ExporterError(
            f"nobody is notified of {name} ({alert.labels['severity']}): no integration in receivers: {receivers}; "
            "add one, or route the alert to another receiver"
        )
    notified = until(lambda: _more(before.delivered, team.sent().delivered), end)
    failed = _more(before.failed, team.sent().failed)
    if notified:
        _print(f"{time.monotonic() - begun:.2f} s: Alertmanager notified: {', '.join(notified)}")
        failed = until(lambda: _more(before.failed, team.sent().failed), min(end, time.monotonic() + 1))
    if failed:
        raise ExporterError(f"notification failed: {', '.join(failed)}; see the log of Alertmanager for the reason")
    if not notified:
        hint = (
            "severity info notifies nobody"
            if is_info
            else f"run doctor --alertmanager {team.shown}, which checks receivers and group_wait"
        )
        raise ExporterError(f"Alertmanager notified nobody within {format_duration(timeout)}: {hint}")
    _print("Alertmanager has done its part. Did the notification arrive?")


def _maintenance(team: Alertmanager, text: str, timeout: float) -> None:
    """Raise the alert that a VM is in maintenance, then the team's own one; ExporterError: that is not inhibited."""
    labels = {**parse_assignments("--maintenance", text.split(",")), "drill": "true"}
    if "alertname" not in labels:
        raise UsageError("--maintenance: the labels of an alert have an alertname, such as alertname=InstanceDown")
    name = labels["alertname"]
    marked = {**labels, "alertname": _MAINTENANCE, "severity": "info", "component": "maintenance"}
    texts = {"summary": f"{DRILL}: {name}.", "description": "This is a drill: no VM is in danger."}
    try:
        team.post(marked, texts, ends_in=_KEPT_SECONDS)
        if not until(lambda: team.holding('drill="true"', _MAINTENANCE), time.monotonic() + timeout):
            raise ExporterError(f"{_MAINTENANCE} has not reached {team.shown} within {format_duration(timeout)}")
        team.post(labels, texts, ends_in=_KEPT_SECONDS)
        found = until(lambda: _decided(team, name), time.monotonic() + timeout)
    finally:
        with uninterrupted():
            for each in (labels, marked):
                team.post(each, texts, ends_in=0)
    if found is None or not found.inhibited:
        raise ExporterError(
            f"{name} is not inhibited while its VM is in maintenance, so it notifies: "
            "set maintenance.targets and maintenance.equal, and load the rendered inhibit_rules"
        )
    _print(f"{name} is inhibited while its VM is in maintenance. Both alerts are resolved.")


def _decided(team: Alertmanager, name: str) -> HeldAlert | None:
    """Return the team's alert once Alertmanager has decided what to do with it."""
    found = team.holding('drill="true"', name)
    return None if found is None or found.state == "unprocessed" else found


def _more(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    return sorted(name for name, count in now.items() if count > before.get(name, 0))


def _duration(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--{flag}: {error}") from None


def _listen_address(text: str) -> ListenAddress:
    try:
        return parse_listen_address(text)
    except ValueError as error:
        raise UsageError(f"--exporter.listen-address: {error}") from None


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
