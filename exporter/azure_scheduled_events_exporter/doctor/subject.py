"""What ``doctor`` examines: the exporter's settings, and the servers that it asks.

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
from azure_scheduled_events_exporter.config.settings import DISCOVER, Config
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
        instance: this VM in the instance metadata; None until it has been read.
        loaded_labels: the labels of each alert whose rule Prometheus evaluates, by its name; empty
            until they have been read.
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
        """The labels of each alert: as Prometheus evaluates its rule, else as the settings say."""
        if self.loaded_labels:
            return self.loaded_labels
        every = alerts(self.alert_settings)
        return {each.name: {**each.labels, "severity": each.severity} for each in every}

    @property
    def knows_severities(self) -> bool:
        """Whether :attr:`alert_labels` has the severities of this team's alerts.

        Otherwise they are those of the shipped rules, which the team may have changed. An exporter
        that pushes uses the settings as they are.
        """
        has_settings = self.config.alerts_values is not None or self.config.alertmanager_url
        return bool(self.loaded_labels or has_settings)

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
        return self.config.instance_name or (self.instance.vm_name if self.instance else "")

    @property
    def servers(self) -> str:
        """The servers that are asked, without passwords."""
        endpoint = self.config.imds_endpoint
        collector = self.config.otlp_endpoint
        asked = (
            (
                "the metadata service",
                ["the address that DHCP names" if endpoint == DISCOVER else endpoint],
            ),
            ("the exporter", [self.exporter.shown]),
            ("Prometheus", [api.shown for api in self.prometheus]),
            ("Alertmanager", [api.shown for api in self.alertmanager]),
            ("Grafana", [api.shown for api in self.grafana]),
            ("the collector", [without_password(collector)] if collector else []),
        )
        return ", ".join(
            f"{name} at {' and '.join(addresses)}" for name, addresses in asked if addresses
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
        alertmanager: the same; without one, those that get pushes.
        http_config_files: the HTTP client configurations, by the names of servers.
    """

    exporter: str | None
    prometheus: Sequence[str]
    alertmanager: Sequence[str]
    grafana: Sequence[str]
    http_config_files: Mapping[str, str | None]

    def api(self, name: str, url: str, *, proxies: bool = True) -> Api:
        """Return the client of a server.

        Raises:
            UsageError: the address or its file is impossible.
        """
        file = self.http_config_files.get(name)
        http = load(Path(file)) if file else None
        return Api(f"--{name}", url, http, proxies=proxies)


def subject_of(config: Config, environment: Mapping[str, str], servers: Servers) -> Subject:
    """Return what to examine.

    Args:
        config: the effective settings.
        environment: the variables that the exporter runs with.
        servers: what the command line names.

    Raises:
        UsageError: an address or a file is impossible.
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
    """Return the exporter that runs here. No proxy is asked for what is on this machine."""
    if servers.exporter or servers.http_config_files.get("exporter"):
        return servers.api("exporter", servers.exporter or url_of(config), proxies=False)
    # Its certificate may name another address. Nothing secret is sent.
    http = HttpConfig(insecure=True)
    return Api("--exporter", url_of(config), http, proxies=False)


def _alertmanagers(config: Config, servers: Servers) -> Sequence[Api]:
    """Return the Alertmanagers that are named, else those that this exporter pushes to.

    The exporter uses no proxy, neither do checks of what it asks.
    """
    if servers.alertmanager:
        return [servers.api("alertmanager", url) for url in servers.alertmanager]
    try:
        return [servers.api("alertmanager", url, proxies=False) for url in config.alertmanager_url]
    except ExporterError:
        return []  # a setting of the exporter, which is checked with the others
