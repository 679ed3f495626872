"""Checks the exporter that runs here: which program serves the port, and what it reports."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from azure_scheduled_events_exporter import __version__, yaml_file
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_client.failures import CERTIFICATE_REFUSED, CLOSED
from azure_scheduled_events_exporter.http_client.sessions import NoAnswerError
from azure_scheduled_events_exporter.http_server.access import EXPIRES_SOON_SECONDS
from azure_scheduled_events_exporter.http_server.messages import plain
from azure_scheduled_events_exporter.http_server.web_config import load
from azure_scheduled_events_exporter.journal.disk.location import MEMORY
from azure_scheduled_events_exporter.polling.liveness import HANGS

from .api import Api, WrongAnswerError
from .finding import EXPORTER_PAGE, Finding, Findings, Mark, note, ok, skipped, warning, wrong
from .subject import Subject

_PUSH_ACCEPTED: Final = re.compile(r"^azure_scheduled_events_alertmanager_up (\S+)$", re.MULTILINE)
"""The sample in the metrics: 1 if every Alertmanager accepted the last push, else 0."""

_ALIVE: Final = "alive"
"""What ``/-/healthy`` of an exporter answers. While its polls hang, it says so with a 503."""


def examine(subject: Subject) -> Findings:
    """Yield the findings about the exporter: who serves its port, then what it says of itself."""
    api = subject.exporter
    config = subject.config
    served = _served(api, config)
    yield served
    if api.shown.startswith("https:"):
        yield from _certificate(config)
    if served.mark is not Mark.OK:
        yield skipped("exporter", "Not checked: the exporter's own view.")
        return
    try:
        state: Mapping[str, Any] = api.data("/api/v1/events")
        metrics = api.text(config.web_telemetry_path)
    except WrongAnswerError as error:
        if error.status not in {401, 403}:
            raise
        hint = (
            "Name a file with basic_auth, and with tls_config if the system does not trust the"
            " exporter's certificate: --exporter.http-config.file."
        )
        yield warning(
            "exporter", "The exporter asks for a password, so its own view was not checked.", hint
        )
        return
    yield _version(state)
    yield _polls(state)
    if state.get("up") and not state.get("vm_name"):
        yield _nameless()
    yield _journal(config, state)
    yield _pushes(config, _PUSH_ACCEPTED.search(metrics))


def _served(api: Api, config: Config) -> Finding:
    """Report whether an exporter serves the port, and answers doctor."""
    try:
        said = api.text("/-/healthy").strip()  # needs no password
    except NoAnswerError as error:
        return _no_answer(api, config, error)
    except WrongAnswerError as error:
        said = str(error)
    forbidden = plain(HTTPStatus.FORBIDDEN).body.decode().strip()
    if forbidden in said:  # it checks the names in client certificates
        sentence = (
            f"The exporter at {api.shown} serves only clients whose certificate has a name that it"
            " allows."
        )
        hint = "Give doctor such a certificate: --exporter.http-config.file."
        return warning("served", sentence, hint, EXPORTER_PAGE)
    if said == _ALIVE or said.endswith(HANGS):
        return ok("served", f"The exporter answers at {api.shown}.")
    hint = "Correct --exporter, without a path, or --web.listen-address, or end that program."
    return wrong("served", f"At {api.shown}, another program answers, not this exporter.", hint)


def _no_answer(api: Api, config: Config, error: NoAnswerError) -> Finding:
    """Return the finding about an exporter from which no HTTP answer came."""
    reason = str(error)
    if CERTIFICATE_REFUSED in reason:
        return _not_trusted(api, error)
    if _requires_certificate(config) and any(word in reason for word in CLOSED):
        sentence = (
            f"The exporter at {api.shown} requires a client certificate that its client_ca_file"
            f" has signed, and ends the connection without one: {error}."
        )
        hint = (
            "Name a file whose tls_config has the cert_file and key_file of such a certificate:"
            " --exporter.http-config.file."
        )
        return warning("served", sentence, hint, EXPORTER_PAGE)
    hint = (
        "systemctl status azure-scheduled-events-exporter says why it is not running. If it"
        " runs with TLS, give doctor its --web.config.file, or a file whose tls_config trusts"
        " its certificate: --exporter.http-config.file."
    )
    return wrong("served", f"No exporter answers at {api.shown}: {error}.", hint)


def _requires_certificate(config: Config) -> bool:
    """Return whether the exporter's web configuration requires client certificates.

    The connection does not tell: a TLS server ends it without a reason. Of the configuration, only
    the file itself is read, not the keys that it names.
    """
    if config.web_config_file is None:
        return False
    with suppress(ExporterError):  # reported with the settings
        tls = yaml_file.load(Path(config.web_config_file)).section("tls_server_config")
        return tls is not None and tls.text("client_auth_type", "") == "RequireAndVerifyClientCert"
    return False


def _not_trusted(api: Api, error: NoAnswerError) -> Finding:
    hint = (
        "In the tls_config of --exporter.http-config.file, ca_file has to name the authority that"
        " signed the exporter's certificate, and server_name a name that is in the certificate, if"
        " doctor asks by another name or by an IP address."
    )
    sentence = f"A program answers at {api.shown}, but doctor does not trust it: {error}."
    return wrong("served", sentence, hint, EXPORTER_PAGE)


def _version(state: Mapping[str, Any]) -> Finding:
    running = state.get("version")
    if running == __version__:
        return ok("exporter-version", f"The running exporter has version {running}, as installed.")
    sentence = f"The running exporter has version {running}, installed is {__version__}."
    hint = "Restart the exporter: systemctl restart azure-scheduled-events-exporter."
    return warning("exporter-version", sentence, hint)


def _polls(state: Mapping[str, Any]) -> Finding:
    """Report whether the last poll succeeded; ``state`` is the answer of ``/api/v1/events``."""
    if state.get("up"):
        return ok(
            "exporter-polls", f"The exporter's last poll succeeded ({state.get('last_success')})."
        )
    failure = state.get("failure") or "none has succeeded yet"
    hint = (
        "See the checks of the metadata service above. If they are ok, only the exporter's user or"
        " unit is refused."
    )
    if failure.endswith(HANGS):
        hint = (
            "Find out what it waits for, such as the disk of its journal or of its log, and"
            " restart it."
        )
    return wrong("exporter-polls", f"The exporter's last poll failed: {failure}.", hint)


def _nameless() -> Finding:
    """Report that the exporter lacks the VM's name, which IMDS may tell to doctor's user alone."""
    sentence = (
        "The exporter does not know this VM's name, so it pushes and approves nothing, and no hook"
        " prepares."
    )
    hint = (
        "Its log says why. Give it the name as it appears in Resources (--instance.name), and"
        " restart it."
    )
    return wrong("exporter-vm-name", sentence, hint)


def _journal(config: Config, state: Mapping[str, Any]) -> Finding:
    journal = state.get("journal", {})
    if journal.get("up"):
        return ok("exporter-journal", "The exporter writes its journal.")
    if config.journal_path == MEMORY:
        return note("exporter-journal", "The exporter keeps its journal in memory, as configured.")
    errors = journal.get("errors")
    sentence = f"The exporter's journal is not on disk ({errors} attempts to write it failed)."
    hint = (
        "If it runs with --journal.path memory, give doctor the same setting. Otherwise see the"
        " checks of the journal above, and the exporter's log."
    )
    return wrong("exporter-journal", sentence, hint)


def _pushes(config: Config, accepted: re.Match[str] | None) -> Finding:
    """Report whether the last pushes were accepted.

    ``accepted`` is None if the running exporter pushes nothing.
    """
    if accepted and float(accepted[1]) == 0:
        sentence = "The exporter cannot push alerts to Alertmanager."
        return wrong(
            "exporter-deliveries", sentence, "Correct --alertmanager.url; the log has the reason."
        )
    if accepted:
        return ok("exporter-deliveries", "Alertmanager accepted the last push.")
    if config.alertmanager_url:
        sentence = "The exporter pushes no alerts, although --alertmanager.url is set."
        return wrong("exporter-deliveries", sentence, "Restart it to read that.")
    return note(
        "exporter-deliveries", "The exporter pushes no alerts: --alertmanager.url is not set."
    )


def _certificate(config: Config) -> Findings:
    """Report when the exporter's TLS certificate expires; nothing if its file cannot be read."""
    if config.web_config_file is None:
        return
    try:
        tls = load(Path(config.web_config_file)).tls
    except ExporterError:
        return  # reported with the settings
    if tls is None or tls.ends is None:
        return
    seconds_left = tls.ends - time.time()
    days_left = max(0.0, seconds_left) / 86400
    sentence = f"The exporter's certificate is valid for another {days_left:.0f} days."
    hint = "Renew it; the exporter reads it again by itself."
    if seconds_left >= EXPIRES_SOON_SECONDS:
        yield ok("certificate", sentence)
    elif seconds_left > 0:
        yield warning("certificate", sentence, hint)
    else:
        yield wrong("certificate", sentence, hint)
