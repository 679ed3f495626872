"""The flags of ``drill``, and which kind of drill they choose.

A drill posts an alert itself, lets an exporter push the alert (``--push``), or lets Prometheus
scrape an exporter and raise the alert (``--exporter.listen-address``). With ``--maintenance``, the
drill tests whether an alert of the team is inhibited.
"""

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from azure_scheduled_events_exporter.alertmanager.client import TIMEOUT_SECONDS, AlertmanagerError
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.settings import load as load_alerts
from azure_scheduled_events_exporter.alerts.settings import resolve as resolve_alerts
from azure_scheduled_events_exporter.commands.interruption import interruptible
from azure_scheduled_events_exporter.config.flags import argument, parse_assignments
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.http_client import http_config
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig
from azure_scheduled_events_exporter.http_server.listen_address import parse_listen_address
from azure_scheduled_events_exporter.service import alert_push
from azure_scheduled_events_exporter.times import parse_duration

from .alertmanager import DrilledAlertmanager
from .event import Drill, say
from .inhibition import check_inhibition
from .maintenance_labels import of_loaded_rules, of_rendered_rules, queries
from .story import alert_of_story, story_of

DESCRIPTION: Final = (
    "Test your paging: raise an alert and measure how long the page takes. A posted alert is"
    " labeled as a drill. With --exporter.listen-address or --push, the alert reads like that of a"
    " real event: only the name of its VM, such as DRILL-vmss_0, shows that it is a drill."
)

_HTTP_CONFIG: Final = "alertmanager.http-config.file"
_VALUES: Final = "alerts.values"
_PROMETHEUS: Final = "prometheus"
_PROMETHEUS_HTTP_CONFIG: Final = "prometheus.http-config.file"
_SERVING: Final = "With --exporter.listen-address: time"
"""How the help of two flags begins."""


@dataclass(frozen=True, slots=True)
class _Flag:
    """A flag with a value.

    Attributes:
        name: without dashes; also its name among the parsed ones.
        parse: reads its text.
        metavar: what stands for the value in the help.
        default: its text; None if there is none.
        help: what it does, without the default.
    """

    name: str
    parse: Callable[[str], Any]
    metavar: str
    default: str | None
    help: str


def _time_limit(text: str) -> float:
    """Return the seconds of a duration. Raises ValueError: it is none, or 0."""
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError("must be more than 0")
    return seconds


_FLAGS: Final = (
    _Flag(
        "alertmanager",
        str,
        "URL",
        None,
        "Your Alertmanager, for example http://alerts:9093. Required.",
    ),
    _Flag(
        _HTTP_CONFIG,
        str,
        "FILE",
        None,
        "Credentials and TLS for it, as in Prometheus' HTTP client configuration.",
    ),
    _Flag(
        _VALUES,
        str,
        "FILE",
        None,
        "Values file of your alert rules, to raise their alert and severity.",
    ),
    _Flag("scenario", str, "NAME", "host-failure", "Scenario of the simulator."),
    _Flag("timeout", _time_limit, "DURATION", "2m", "Time limit for the page."),
    _Flag(
        "exporter.listen-address",
        parse_listen_address,
        "HOST:PORT",
        None,
        "Test the whole path: serve the metrics of a simulated VM on this address, for your"
        " Prometheus to scrape.",
    ),
    _Flag(
        "wait",
        parse_duration,
        "DURATION",
        "30s",
        f"{_SERVING} for Prometheus to find the target before the event.",
    ),
    _Flag(
        "after",
        parse_duration,
        "DURATION",
        "30s",
        f"{_SERVING} to serve the metrics after the event: at least two scrape intervals of your"
        " Prometheus. If it does not see the end, the page stays for up to an hour.",
    ),
    _Flag(
        "maintenance",
        str,
        "LABELS",
        None,
        "Test inhibition instead, of your own alert with these labels, such as"
        " alertname=InstanceDown,instance=HOST. Needs --prometheus or --alerts.values.",
    ),
    _Flag(
        _PROMETHEUS,
        str,
        "URL",
        None,
        "With --maintenance: compare with the labels that the rules loaded there yield.",
    ),
    _Flag(
        _PROMETHEUS_HTTP_CONFIG,
        str,
        "FILE",
        None,
        "Credentials and TLS for Prometheus, in the same format.",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``drill`` to ``parser``."""
    for flag in _FLAGS:
        shown = f"{flag.help} (default {flag.default})" if flag.default else flag.help
        parser.add_argument(
            f"--{flag.name}",
            dest=flag.name,
            type=argument(flag.parse),
            metavar=flag.metavar,
            default=flag.default,
            required=flag.name == "alertmanager",
            help=shown,
        )
    parser.add_argument(
        "--push",
        action="store_true",
        help="Test pushed alerts: a simulated VM whose exporter pushes to your Alertmanager. No"
        " Prometheus.",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="Do not end the event or resolve the alert. An alert that the drill posts resolves"
        " after 5 minutes.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the drill; return the exit status.

    Raises:
        UsageError: a flag is invalid.
        ExporterError: Alertmanager cannot be reached, refuses the alert, or does not notify in
            time.
    """
    flags = vars(arguments)
    _check(flags)
    drill = _drill(flags)
    try:
        with interruptible():
            if flags["maintenance"] is not None:
                _inhibit(drill, flags)
            else:
                _raise_alert(drill, flags)
    except AlertmanagerError as error:
        raise ExporterError(f"Alertmanager at {drill.alertmanager.shown}: {error}") from None
    return 0


def _check(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for an impossible value, or for flags that cannot be used together."""
    if "," in flags["alertmanager"]:
        raise UsageError("--alertmanager: give one address; a cluster tells all its members")
    try:
        checked(flags["alertmanager"], "the address of an Alertmanager", "http://HOST:9093")
    except ValueError as error:
        raise UsageError(f"--alertmanager: {error}") from None
    _check_together(flags)


def _check_together(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for flags that exclude or need each other."""
    ways = ["push", "exporter.listen-address", "maintenance"]
    given = [f"--{way}" for way in ways if flags[way] not in {None, False}]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be used together")
    if flags["maintenance"] is None:
        for name in (_PROMETHEUS, _PROMETHEUS_HTTP_CONFIG):
            if flags[name] is not None:
                raise UsageError(f"--{name} is only for --maintenance")
    elif flags[_PROMETHEUS] is None and flags[_VALUES] is None:
        raise UsageError(
            "--maintenance: add --prometheus URL, to compare with the labels that your rules yield,"
            " or --alerts.values FILE, to compare with their form"
        )


def _exporter_settings(flags: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of an exporter that pushes to the team's Alertmanager."""
    settings = {"alertmanager.url": flags["alertmanager"]}
    for name in (_HTTP_CONFIG, _VALUES):
        if flags[name] is not None:
            settings[name] = flags[name]
    return settings


def _drill(flags: Mapping[str, Any]) -> Drill:
    """Return the drill: it raises the alert that an exporter with these files would push."""
    story = story_of(flags["scenario"])
    # `check` also reads the files that settings name, as an exporter does at its start.
    catalog = alert_push.check(resolve(_exporter_settings(flags), {}))
    alert = alert_of_story(story, catalog)
    alertmanager = DrilledAlertmanager(
        flags["alertmanager"],
        flags[_HTTP_CONFIG],
        min(flags["timeout"], TIMEOUT_SECONDS),  # of one request, which must not take longer
    )
    return Drill(
        alertmanager,
        story,
        alert,
        settings=_alert_settings(flags[_VALUES]),
        doctor=_doctor_command(alertmanager, flags),
        timeout=flags["timeout"],
        keep=flags["keep"],
    )


def _doctor_command(alertmanager: DrilledAlertmanager, flags: Mapping[str, Any]) -> str:
    """Return the command that checks the same Alertmanager with the same files."""
    files = [(name, flags[name]) for name in (_HTTP_CONFIG, _VALUES) if flags[name] is not None]
    more = "".join(f" --{name} {shlex.quote(file)}" for name, file in files)
    return f"azure-scheduled-events-exporter doctor --alertmanager {alertmanager.shown}{more}"


def _alert_settings(values: str | None) -> Settings:
    """Return the settings of the alerts in the file ``values``; without one, their defaults."""
    if values is None:
        return resolve_alerts({})
    return load_alerts(Path(values))


def _inhibit(drill: Drill, flags: Mapping[str, Any]) -> None:
    """Test whether Alertmanager inhibits the team's own alert, whose labels ``--maintenance`` has.

    Raises UsageError: its labels are not those of an alert.
    """
    own = parse_assignments("--maintenance", flags["maintenance"].split(","))
    if "alertname" not in own:
        raise UsageError(
            "--maintenance: the labels of an alert have an alertname, such as"
            " alertname=InstanceDown"
        )
    url = flags[_PROMETHEUS]
    if url is None:
        labels = of_rendered_rules(drill.settings, own)
    else:
        api = Api(f"--{_PROMETHEUS}", url, _prometheus_http(flags))
        labels = of_loaded_rules(api, own)
    check_inhibition(drill.alertmanager, own, labels, drill.timeout, doctor=drill.doctor)
    if url is None:
        say(
            "Not tested: whether your loaded rules yield these values for the VM. Add --prometheus"
            " URL to test that, or ask Prometheus: they do if a query has a result."
        )
        for query in queries(drill.settings, own):
            say(f"  {query}")


def _prometheus_http(flags: Mapping[str, Any]) -> HttpConfig | None:
    """Return credentials and trust for Prometheus; None if no file has any."""
    file = flags[_PROMETHEUS_HTTP_CONFIG]
    return None if file is None else http_config.load(Path(file))


def _raise_alert(drill: Drill, flags: Mapping[str, Any]) -> None:
    """Raise the alert of an event in the way that the flags choose."""
    # Asks Alertmanager, so that a wrong address is reported before anything starts.
    drill.alertmanager.sent()
    address = flags["exporter.listen-address"]
    if flags["push"]:
        drill.push(_exporter_settings(flags))
    elif address is not None:
        drill.scrape(address, flags["wait"], flags["after"])
    else:
        drill.post()
