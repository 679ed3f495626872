"""What is examined: the installation, and the servers to ask. Checks nothing itself, and never shows a password."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from azure_scheduled_events_exporter import __version__, yaml_file
from azure_scheduled_events_exporter.config.settings import DISCOVER, Config
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, one_line, without_password
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.http_client.deadline import DeadlineAdapter
from azure_scheduled_events_exporter.http_client.failures import WEB_PAGE, is_web_page
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig, load, session_for

_LARGEST = 64 << 20
_TIMEOUT = 10.0  # seconds for a whole answer


class WrongAnswerError(ExporterError):
    """The server's answer is not the JSON of its API.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """A client for the API at ``url``, which may contain ``user:password@``.

    Args:
        flag: the flag that names it, for error messages.
        url: its base address.
        http: credentials and trust.
        proxies: whether the environment's proxies, .netrc and CA bundles apply.

    Attributes:
        shown: its address without a password.

    Raises:
        UsageError: ``url`` is not an address.
    """

    def __init__(self, flag: str, url: str, http: HttpConfig | None = None, *, proxies: bool = True) -> None:
        try:
            checked(url, "an address", "http://HOST:PORT")
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from None
        self._url = url.rstrip("/")
        self.shown = without_password(self._url)
        self._session = session_for(url, http, DeadlineAdapter())
        self._session.trust_env = proxies
        self._session.headers["User-Agent"] = f"azure-scheduled-events-exporter/{__version__} doctor"

    def text(self, path: str, **params: str) -> str:
        """Return what is at ``path``.

        Raises:
            NoAnswerError: there is no whole answer.
            WrongAnswerError: its status is not 200, or it is a web page.
        """
        answer = self._session.exchange("GET", self._url + path, _TIMEOUT, _LARGEST, params=params)
        said = answer.body.decode("utf-8", "replace")
        if answer.status != requests.codes.ok:
            raise WrongAnswerError(f"answered {answer.status}: {one_line(said)}", answer.status)
        if is_web_page(answer.headers, answer.body):
            raise WrongAnswerError(f"answered {answer.status} with {WEB_PAGE}: {one_line(said)}", answer.status)
        return said

    def data(self, path: str, **params: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the JSON at ``path``. Raises as :meth:`text` does, also if the answer is no JSON."""
        said = self.text(path, **params)
        try:
            return json.loads(said)
        except (ValueError, RecursionError):
            raise WrongAnswerError(f"answered no JSON: {one_line(said)}", requests.codes.ok) from None


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
    def asked(self) -> str:
        """The servers that are asked, without passwords."""
        endpoint, collector = self.config.imds_endpoint, self.config.otlp_endpoint
        asked = (
            ("the metadata service", ["the address that DHCP names" if endpoint == DISCOVER else endpoint]),
            ("the exporter", [self.exporter.shown]),
            ("Prometheus", [api.shown for api in self.prometheus]),
            ("Alertmanager", [api.shown for api in self.alertmanager]),
            ("Grafana", [api.shown for api in self.grafana]),
            ("the collector", [without_password(collector)] if collector else []),
        )
        return ", ".join(f"{name} at {' and '.join(addresses)}" for name, addresses in asked if addresses)


def url_of(config: Config) -> str:
    """Return the address at which the exporter that ``config`` describes answers programs of this machine."""
    scheme = "http"
    if config.web_config_file is not None:
        with suppress(ExporterError):
            # Who cannot read the key can still see whether there is TLS.
            scheme = "https" if "tls_server_config" in yaml_file.load(Path(config.web_config_file)) else "http"
    return f"{scheme}://{config.web_listen_address.local}"


def subject_of(
    config: Config,
    environment: Mapping[str, str],
    exporter: str | None,
    servers: Mapping[str, Sequence[str]],
    files: Mapping[str, str | None],
) -> Subject:
    """Return the installation with these settings, and the servers that flags name.

    Args:
        config: the effective settings.
        environment: the variables that the exporter runs with.
        exporter: the address of the exporter; None for that of the settings.
        servers: the addresses of ``prometheus``, ``alertmanager`` and ``grafana``. Without one of Alertmanager, those
            that get pushes.
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
