"""What ``doctor`` examines: the exporter's settings, and the servers that it asks.

Checks nothing itself.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
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
    """

    config: Config
    environment: Mapping[str, str]
    exporter: Api
    prometheus: Sequence[Api] = ()
    alertmanager: Sequence[Api] = ()
    grafana: Sequence[Api] = ()
    instance: Instance | None = None

    @property
    def vm_name(self) -> str:
        """This VM's name as the exporter uses it; ``""`` if unknown."""
        return self.config.instance_name or (self.instance.vm_name if self.instance else "")

    @property
    def servers(self) -> str:
        """The servers that are asked, without passwords."""
        endpoint, collector = self.config.imds_endpoint, self.config.otlp_endpoint
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
    """Return the address at which programs on this machine reach an exporter with the settings ``config``."""
    scheme = "http"
    if config.web_config_file is not None:
        with suppress(ExporterError):
            # Who cannot read the key can still see whether there is TLS.
            scheme = (
                "https"
                if "tls_server_config" in yaml_file.load(Path(config.web_config_file))
                else "http"
            )
    return f"{scheme}://{config.web_listen_address.local}"


def subject_of(
    config: Config,
    environment: Mapping[str, str],
    exporter: str | None,
    servers: Mapping[str, Sequence[str]],
    files: Mapping[str, str | None],
) -> Subject:
    """Return what to examine, from the exporter's settings and the servers that the command line names.

    Args:
        config: the effective settings.
        environment: the variables that the exporter runs with.
        exporter: the address of the exporter; None for that of the settings.
        servers: the addresses of ``prometheus``, ``alertmanager`` and ``grafana``. Without one of
            Alertmanager, those that get pushes.
        files: the HTTP client configurations of the exporter and the servers, by their names.

    Raises:
        UsageError: an address or a file is impossible.
    """
    files = {**files, "alertmanager": config.alertmanager_http_config_file}
    # The exporter uses no proxy, neither do checks of what it asks.
    direct = {"exporter"} if servers["alertmanager"] else {"exporter", "alertmanager"}

    def apis(name: str, urls: Sequence[str]) -> tuple[Api, ...]:
        file = files[name]
        http = load(Path(file)) if file else None
        if name == "exporter" and not exporter and http is None:
            # Its certificate may name another address. Nothing secret is sent.
            http = HttpConfig(insecure=True)
        return tuple(Api(f"--{name}", url, http, proxies=name not in direct) for url in urls)

    try:
        alertmanagers = apis("alertmanager", servers["alertmanager"] or config.alertmanager_url)
    except ExporterError:
        if servers["alertmanager"]:
            raise
        alertmanagers = ()  # a setting of the exporter, which is checked with the others
    (own,) = apis("exporter", [exporter or url_of(config)])
    return Subject(
        config,
        environment,
        own,
        apis("prometheus", servers["prometheus"]),
        alertmanagers,
        apis("grafana", servers["grafana"]),
    )
