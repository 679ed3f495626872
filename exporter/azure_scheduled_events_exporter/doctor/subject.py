"""What ``doctor`` examines: the exporter's settings, and clients of the servers around it.

Checks nothing itself.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.settings import Settings, resolve
from azure_scheduled_events_exporter.alerts.settings import load as load_alerts
from azure_scheduled_events_exporter.config.parsers import DISCOVER
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.errors import ExporterError, without_password
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig, load

from .api import Api


@dataclass(slots=True)
class Subject:
    """The installation under examination.

    Attributes:
        config: the effective settings.
        environment: the variables that the exporter runs with.
        exporter: the exporter that runs here.
        prometheus, alertmanager, grafana: the servers of each kind; none if none is known.
        instance: this VM in the instance metadata; None until ``metadata_service`` has read it.
        loaded_labels: the labels of each alert whose rule Prometheus evaluates, by its name; empty
            until ``rules`` has read them.
    """

    config: Config
    environment: Mapping[str, str]
    exporter: Api
    prometheus: Sequence[Api] = ()
    alertmanager: Sequence[Api] = ()
    grafana: Sequence[Api] = ()
    instance: Instance | None = None
    loaded_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def alert_labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of each alert by its name, with its severity.

        They are those of the rules that Prometheus evaluates; if these are unknown, those that the
        settings make.
        """
        if self.loaded_labels:
            return self.loaded_labels
        rendered = alerts(self.alert_settings)
        return {alert.name: {**alert.labels, "severity": alert.severity} for alert in rendered}

    @property
    def knows_severities(self) -> bool:
        """Whether :attr:`alert_labels` has the severities of this team's alerts.

        That is so if Prometheus has told them, if a file of settings is named, or if the exporter
        pushes, which it does with the settings that it has. Otherwise they are the shipped ones,
        which the team may have changed in its rules.
        """
        has_settings = self.config.alerts_values is not None
        pushes = bool(self.config.alertmanager_url)
        return bool(self.loaded_labels) or has_settings or pushes

    @property
    def alert_settings(self) -> Settings:
        """The settings of the alerts: those of the file of ``--alerts.values``, else as shipped."""
        if self.config.alerts_values is None:
            return resolve({})
        try:
            return load_alerts(Path(self.config.alerts_values))
        except ExporterError:  # reported with the settings
            return resolve({})

    @property
    def vm_name(self) -> str:
        """This VM's name as the exporter uses it; ``""`` if unknown."""
        if self.config.instance_name:
            return self.config.instance_name
        if self.instance:
            return self.instance.vm_name
        return ""

    @property
    def shown_servers(self) -> str:
        """The servers that are asked, with their addresses, for people; without passwords."""
        metadata_service = self.config.imds_endpoint
        if metadata_service == DISCOVER:
            metadata_service = "the address that DHCP names"
        asked = {
            "the metadata service": [metadata_service],
            "the exporter": [self.exporter.shown],
            "Prometheus": [api.shown for api in self.prometheus],
            "Alertmanager": [api.shown for api in self.alertmanager],
            "Grafana": [api.shown for api in self.grafana],
        }
        if self.config.otlp_endpoint:
            asked["the collector"] = [without_password(self.config.otlp_endpoint)]
        return ", ".join(
            f"{name} at {' and '.join(addresses)}" for name, addresses in asked.items() if addresses
        )


def url_of(config: Config) -> str:
    """Return the address at which programs on this machine reach an exporter with ``config``."""
    scheme = "http"
    if config.web_config_file is not None:
        # Only the file itself is read, not the certificate's private key, which whoever runs this
        # may not be allowed to read. A file that cannot be read is reported with the settings.
        with suppress(ExporterError):
            if "tls_server_config" in yaml_file.load(Path(config.web_config_file)):
                scheme = "https"
    return f"{scheme}://{config.web_listen_address.local}"


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers that the command line names.

    Attributes:
        exporter: the address of the exporter; None for that of the settings.
        prometheus, grafana: the addresses to check.
        alertmanager: the same; if there are none, those that the exporter pushes to are checked.
        http_config_files: the file with the HTTP client configuration of each kind of server, by
            its name, such as ``grafana``; None for no file.
    """

    exporter: str | None
    prometheus: Sequence[str]
    alertmanager: Sequence[str]
    grafana: Sequence[str]
    http_config_files: Mapping[str, str | None]

    def api(self, name: str, url: str, *, trust_env: bool = True) -> Api:
        """Return a client of the server at ``url``; ``name`` is its kind, such as ``grafana``.

        Raises:
            UsageError: ``url`` is not an address, or the file for this kind is invalid.
        """
        http = None
        file = self.http_config_files.get(name)
        if file:
            http = load(Path(file))
        return Api(f"--{name}", url, http, trust_env=trust_env)


def subject_of(config: Config, environment: Mapping[str, str], servers: Servers) -> Subject:
    """Return what to examine.

    Args:
        config: the effective settings.
        environment: the variables that the exporter runs with.
        servers: what the command line names.

    Raises:
        UsageError: an address or a file that the command line names is invalid.
    """
    return Subject(
        config,
        environment,
        _exporter(config, servers),
        [servers.api("prometheus", url) for url in servers.prometheus],
        _alertmanagers(config, servers),
        [servers.api("grafana", url) for url in servers.grafana],
    )


def _exporter(config: Config, servers: Servers) -> Api:
    """Return the client of the exporter, which is asked without a proxy: usually it runs here."""
    if servers.exporter or servers.http_config_files.get("exporter"):
        return servers.api("exporter", servers.exporter or url_of(config), trust_env=False)
    # The certificate is not verified: it may name another address than the local one, and nothing
    # secret is sent.
    http = HttpConfig(insecure=True)
    return Api("--exporter", url_of(config), http, trust_env=False)


def _alertmanagers(config: Config, servers: Servers) -> Sequence[Api]:
    """Return the Alertmanagers that are named, else those that this exporter pushes to.

    The exporter pushes without a proxy, so the latter are asked without one too.
    """
    if servers.alertmanager:
        return [servers.api("alertmanager", url) for url in servers.alertmanager]
    try:
        return [
            servers.api("alertmanager", url, trust_env=False) for url in config.alertmanager_url
        ]
    except ExporterError:
        return []  # the setting is invalid, which is reported with the other settings
