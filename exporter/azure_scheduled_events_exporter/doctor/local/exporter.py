"""Checks the exporter that runs here: which program serves the port, with which TLS, and what it reports."""

import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from azure_scheduled_events_exporter import __version__, yaml_file
from azure_scheduled_events_exporter.approval.policy import BUILT_IN
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.doctor.api import Api, NoAnswerError, WrongAnswerError
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, Mark, note, ok, skipped, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_server.access import EXPIRES_SOON_SECONDS
from azure_scheduled_events_exporter.http_server.app import plain
from azure_scheduled_events_exporter.http_server.web_config import load
from azure_scheduled_events_exporter.polling.liveness import HANGS
from azure_scheduled_events_exporter.times import format_duration

_PREFIX: Final = "azure_scheduled_events_"
_DOWN: Final = "runbooks/AzureScheduledEventExporterDown.md"


def url_of(config: Config) -> str:
    """Return the address at which the exporter that ``config`` describes answers programs of this machine."""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(  # noqa: S104 - compared, not bound
        config.web_listen_address.host, config.web_listen_address.host
    )
    scheme = "http"
    if config.web_config_file is not None:
        with suppress(ExporterError):
            # Who cannot read the key can still see whether there is TLS.
            scheme = "https" if "tls_server_config" in yaml_file.load(Path(config.web_config_file)) else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{config.web_listen_address.port}"


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the exporter at ``api``."""
    parts = urlsplit(api.shown)
    served = _served(api)
    yield served
    if parts.scheme == "https":
        yield from _certificate(subject, parts.hostname or "", parts.port or 443)
    if served.mark is not Mark.OK:
        yield skipped("exporter", "Not checked: the exporter's own view.")
        return
    try:
        state: Mapping[str, Any] = api.data("/api/v1/events")
        metrics = _metrics(api, subject.config.web_telemetry_path)
    except ExporterError as error:
        yield _closed(error)
        return
    yield _version(state)
    yield _polls(state)
    yield _same_settings(subject.config, metrics)
    yield _journal(subject.config, state)
    yield _pushes(subject.config, metrics)


def _served(api: Api) -> Finding:
    try:
        # This path needs no password. A server that requires client certificates answers with the reason.
        answer = api.get("/-/healthy")
    except NoAnswerError as error:
        hint = (
            "systemctl status azure-scheduled-events-exporter says why it is not running. If it runs with TLS, give "
            "doctor its --web.config.file."
        )
        if "TLS" in str(error) or "SSL" in str(error) or "certificate" in str(error):
            hint = (
                "Compare --web.config.file with the running exporter's, or name a file whose tls_config trusts its "
                "certificate: --exporter.http-config.file."
            )
        return wrong("served", f"No exporter answers at {api.shown}: {error}.", hint, _DOWN)
    if answer.body == plain(HTTPStatus.FORBIDDEN).body:
        return warning(
            "served",
            f"The exporter at {api.shown} serves only clients whose certificate has a name that it allows.",
            "Give doctor such a certificate: --exporter.http-config.file.",
            "web-config.md",
        )
    if answer.body.strip() != b"alive" and not answer.body.strip().endswith(HANGS.encode()):
        return _another(api, answer.status)
    return ok("served", f"The exporter answers at {api.shown}.")


def _another(api: Api, status: int) -> Finding:
    """Return the finding that something else than the page of an exporter is at its address."""
    parts = urlsplit(api.shown)
    hint = "Correct --exporter or --web.listen-address, or end that program."
    if parts.path:
        hint = f"Name it without the path: --exporter {parts._replace(path='').geturl()}."
    return wrong("served", f"At {api.shown}, another program answers, not this exporter ({status}).", hint, _DOWN)


def _closed(error: Exception) -> Finding:
    if isinstance(error, WrongAnswerError) and error.status in {401, 403}:
        hint = (
            "Name a file with basic_auth, and with tls_config if the system does not trust the exporter's certificate: "
            "--exporter.http-config.file."
        )
        sentence = "The exporter asks for a password, so its own view was not checked."
        return warning("exporter", sentence, hint, "doctor.md#credentials")
    return wrong("exporter", f"The exporter's own view cannot be read: {error}.", "See its log.", _DOWN)


def _metrics(api: Api, path: str) -> Mapping[str, list[tuple[dict[str, str], float]]]:
    answer = api.get(path)
    if answer.status != 200:  # noqa: PLR2004 - OK
        raise WrongAnswerError(f"{path} answered {answer.status}", answer.status)
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(answer.body.decode("utf-8")):
        for sample in family.samples:
            found.setdefault(sample.name.removeprefix(_PREFIX), []).append((sample.labels, sample.value))
    return found


def _version(state: Mapping[str, Any]) -> Finding:
    running = state.get("version")
    if running == __version__:
        return ok("exporter-version", f"The running exporter has version {running}, as installed.")
    return warning(
        "exporter-version",
        f"The running exporter has version {running}, installed is {__version__}.",
        "Restart the exporter: systemctl restart azure-scheduled-events-exporter.",
        "systemd.md#upgrade",
    )


def _polls(state: Mapping[str, Any]) -> Finding:
    if state.get("up"):
        return ok("exporter-polls", f"The exporter's last poll succeeded ({state.get('last_success')}).")
    failure = state.get("failure") or "none has succeeded yet"
    hint = "See the checks of the metadata service above. If they are ok, only the exporter's user or unit is refused."
    if failure.endswith(HANGS):
        hint = "Find out what it waits for, such as the disk of its journal or of its log, and restart it."
    return wrong(
        "exporter-polls",
        f"The exporter's last poll failed: {failure}.",
        hint,
        "runbooks/AzureScheduledEventImdsUnreachable.md",
    )


def _same_settings(config: Config, metrics: Mapping[str, list[tuple[dict[str, str], float]]]) -> Finding:
    """Compare the poll interval and policy that the running exporter shows with those that it would start with now."""
    different = []
    interval = next((value for _, value in metrics.get("poll_interval_seconds", ())), config.poll_interval)
    if abs(interval - config.poll_interval) > 1e-6:  # noqa: PLR2004 - of floats
        there, here = (format_duration(each) for each in (interval, config.poll_interval))
        different.append(f"--poll.interval is {there} there, {here} here")
    policy = next((labels.get("policy") for labels, _ in metrics.get("approval_policy_info", ())), None)
    chosen = config.approval_policy
    name = chosen.name if chosen is BUILT_IN.get(chosen.name) else "file"
    if policy is not None and policy != name:
        different.append(f"--approval.policy is {policy} there, {name} here")
    if not different:
        return ok("exporter-settings", "The running exporter has this poll interval and approval policy.")
    return warning(
        "exporter-settings",
        f"The running exporter has other settings: {'; '.join(different)}.",
        "Restart the exporter, or give doctor the flags that the exporter was started with.",
        "systemd.md#settings",
    )


def _journal(config: Config, state: Mapping[str, Any]) -> Finding:
    journal = state.get("journal", {})
    if journal.get("up"):
        return ok("exporter-journal", "The exporter writes its journal.")
    if config.journal_path == "memory":
        return note("exporter-journal", "The exporter keeps its journal in memory, as configured.")
    return wrong(
        "exporter-journal",
        f"The exporter cannot write its journal ({journal.get('errors')} errors).",
        "See the checks of the journal above, and the exporter's log.",
        "runbooks/AzureScheduledEventJournalNotOnDisk.md",
    )


def _pushes(config: Config, metrics: Mapping[str, list[tuple[dict[str, str], float]]]) -> Finding:
    """Report whether alerts are delivered; spans that wait are checked with the journal."""
    accepted = [value for _, value in metrics.get("alertmanager_up", ())]
    if 0 in accepted:
        return wrong(
            "exporter-deliveries",
            "The exporter cannot push alerts to Alertmanager.",
            "Correct --alertmanager.url; the exporter's log has the reason.",
            "runbooks/AzureScheduledEventAlertsNotPushed.md",
        )
    if accepted:
        return ok("exporter-deliveries", "Alertmanager accepted the last push.")
    if config.alertmanager_url:
        return wrong(
            "exporter-deliveries",
            "The exporter pushes no alerts, although --alertmanager.url is set.",
            "Restart the exporter: it has not read this setting.",
            "push-alerts.md#settings",
        )
    return note("exporter-deliveries", "The exporter pushes no alerts.")


def _certificate(subject: Subject, host: str, port: int) -> Findings:
    """Compare the served certificate with the configured one, and report when it expires."""
    if subject.config.web_config_file is None:
        return
    try:
        tls = load(Path(subject.config.web_config_file)).tls
        if tls is None:
            return
        ends, text = tls.ends, tls.files[0].read_text("ascii", "replace")
    except (ExporterError, OSError):
        return  # reported with the web configuration
    with suppress(OSError):
        served = ssl.get_server_certificate((host, port), timeout=5.0)
        if "".join(served.split()) not in "".join(text.split()):
            yield warning(
                "certificate",
                "The exporter serves another certificate than the configured one.",
                "Restart the exporter; with LoadCredential= in the unit it does not see a new file.",
                "systemd.md#settings",
            )
    if ends is None:
        return
    left = ends - time.time()
    days = f"{left / 86400:.0f} days"
    hint = "Renew the certificate; the exporter reads it again by itself."
    if left <= 0:
        yield wrong("certificate", "The exporter's certificate has expired: scrapes fail.", hint, "web-config.md")
    elif left < EXPIRES_SOON_SECONDS:
        yield warning("certificate", f"The exporter's certificate ends in {days}.", hint, "web-config.md")
    else:
        yield ok("certificate", f"The exporter's certificate is valid for another {days}.")
