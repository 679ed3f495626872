"""The chain behind the exporters as programs on loopback: Prometheus with rules, Alertmanager, and
who is paged.
"""

import json
import operator
import time
import urllib.parse
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import yaml

from azure_scheduled_events_exporter.alerts import GENERATED, Settings, resolve
from azure_scheduled_events_exporter.alerts.formats.scrape import scrape_example
from support.programs import PATIENCE, ConfiguredPrometheus, Program, Server, eventually, fetch
from support.servers.http_peer import HttpServer, Request, Response

JOB = "azure-scheduled-events-exporter"


@dataclass(frozen=True)
class Notification:
    """One POST to a webhook: to which path, when (monotonic seconds), and its body."""

    path: str
    at: float
    body: dict[str, Any]

    def alerts(self, scale_set: str = "") -> list[tuple[str, str, str]]:
        """Return name, severity and status of its alerts; with ``scale_set``, of those about it."""
        return [
            (alert["labels"]["alertname"], alert["labels"]["severity"], alert["status"])
            for alert in self.body.get("alerts", ())
            if not scale_set
            or alert["labels"].get("scale_set") == scale_set
            or f"(scale set {scale_set})" in alert["annotations"].get("vms", "")
        ]


class Receiver(HttpServer):
    """A webhook that stores notifications; every path is one receiver."""

    def __init__(self) -> None:
        super().__init__()
        self.notifications: list[Notification] = []

    def respond(self, request: Request) -> Response:
        """Store it."""
        self.notifications.append(
            Notification(request.path, time.monotonic(), json.loads(request.body))
        )
        return Response()

    def webhooks(self) -> list[Notification]:
        """Return what came in Alertmanager's own form: pages and tickets."""
        return [each for each in list(self.notifications) if "alerts" in each.body]

    def notified(self, path: str, scale_set: str = "") -> list[tuple[str, str, str]]:
        """Return the notifications of the receiver at ``path``, in order: name, severity, firing or
        resolved.
        """
        return [
            alert
            for each in list(self.notifications)
            if each.path == path
            for alert in each.alerts(scale_set)
        ]

    def wait_for(
        self, expected: Collection[tuple[str, str, str]], seconds: float = PATIENCE
    ) -> None:
        """Wait until all ``expected`` notifications have come to the pager or the tickets'
        receiver.

        Each is name, severity and status, as often as it is to come. Whether others came too is for
        the tests to judge.
        """

        def missing() -> Counter[tuple[str, str, str]]:
            return Counter(expected) - Counter(
                [*self.notified("/pager"), *self.notified("/tickets")]
            )

        eventually(missing, "no notification is missing", seconds, until=operator.not_)


class ConfiguredAlertmanager(Server):
    """Debian's Alertmanager with a configuration file, and its data and log in ``folder``."""

    def __init__(self, config: Path, folder: Path, port: int = 0) -> None:
        flags = (f"--config.file={config}", f"--storage.path={folder / 'alertmanager-data'}")
        more = ("--web.listen-address={address}", "--cluster.listen-address=")
        ready = r'msg=Listening|msg="Listening on"'
        super().__init__(
            "prometheus-alertmanager", folder / "alertmanager.log", ready, *flags, *more, port=port
        )


class Alertmanager(ConfiguredAlertmanager):
    """An Alertmanager with the generated configuration of ``settings``, and a team's own ``routes``
    before it.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        routes: Sequence[Mapping[str, Any]] = (),
        port: int = 0,
    ) -> None:
        write(folder, "alertmanager/", settings)
        file = folder / "alertmanager" / "alertmanager.yml"
        config = yaml.safe_load(file.read_text())
        config["route"]["routes"] = [*routes, *config["route"]["routes"]]
        file.write_text(yaml.safe_dump(config))
        super().__init__(file, folder, port)

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that it holds now."""
        found: list[dict[str, Any]] = json.loads(fetch(f"{self.url}/api/v2/alerts").body)
        return found


@dataclass(frozen=True)
class Team:
    """What a company has of its own: scrape jobs, groups of rules, and routes of Alertmanager."""

    jobs: Sequence[Mapping[str, Any]] = ()
    rules: Sequence[Mapping[str, Any]] = ()
    routes: Sequence[Mapping[str, Any]] = ()


class RuledPrometheus(ConfiguredPrometheus):
    """Debian's Prometheus with the generated rules, and those of ``team``, scraping what
    :meth:`scrape` names.

    ``alertmanager`` is the address of one, or of several with commas. ``job`` has keys of the
    exporters' scrape job that replace the generated ones.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        alertmanager: str,
        targets: Sequence[str],
        team: Team = Team(),
        job: Mapping[str, Any] = MappingProxyType({}),
        flags: Sequence[str] = (),
    ) -> None:
        write(folder, "prometheus/", settings)
        config = yaml.safe_load(scrape_example("file", settings))
        notified = {"targets": alertmanager.split(",")}
        config["alerting"]["alertmanagers"] = [{"static_configs": [notified]}]
        config["scrape_configs"][0].update(job)
        config["scrape_configs"] += team.jobs
        config["rule_files"].append("team-rules.yml")
        (folder / "prometheus" / "team-rules.yml").write_text(
            yaml.safe_dump({"groups": list(team.rules)})
        )
        (folder / "prometheus" / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._targets = folder / "prometheus" / "targets"
        self._targets.mkdir(exist_ok=True)
        self.scrape(targets)
        super().__init__(folder / "prometheus" / "prometheus.yml", folder, *flags)

    def scrape(self, targets: Sequence[str]) -> None:
        """Scrape these (host:port) from now on."""
        (self._targets / "exporters.json").write_text(json.dumps([{"targets": list(targets)}]))

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the instant vector of ``expression``."""
        return query(self.url, expression)

    def fired(self, scale_set: str) -> set[tuple[str, str]]:
        """Return name and severity of all alerts so far about VMs of ``scale_set``."""
        alerts = 'max_over_time(ALERTS{alertstate="firing"}[1h])'
        events = f'max_over_time(azure_scheduled_events:event{{scale_set="{scale_set}"}}[1h])'
        places = f'max_over_time(ALERTS{{alertstate="firing",scale_set="{scale_set}"}}[1h])'
        found = self.query(
            f"max by (alertname, severity) ({alerts} and on (event_id) {events} or {places})"
        )
        return {(metric["alertname"], metric["severity"]) for metric, _ in found}


def query(url: str, expression: str) -> list[tuple[dict[str, str], float]]:
    """Return the instant vector of ``expression`` from an engine at ``url`` that has Prometheus'
    API.
    """
    form = urllib.parse.urlencode({"query": expression}).encode()
    answer = fetch(
        f"{url}/api/v1/query", "POST", form, Content_Type="application/x-www-form-urlencoded"
    )
    assert answer.status == 200, answer.body
    return [
        (each["metric"], float(each["value"][1]))
        for each in json.loads(answer.body)["data"]["result"]
    ]


def wait_for_targets(url: str, count: int) -> None:
    """Wait until an engine has scraped ``count`` exporters that have had an answer and know which
    VM they are on.
    """
    seeing = "azure_scheduled_events_last_success_timestamp_seconds > 0"
    known = 'azure_scheduled_events_instance_info{vm_id!=""}'
    ready = f"count({known} and on (job, instance) {seeing}) or vector(0)"
    eventually(lambda: query(url, ready)[0][1] >= count, f"{count} exporters are scraped")


def write(folder: Path, prefix: str, settings: Settings) -> None:
    """Write the generated files below ``prefix`` into ``folder``."""
    for name, text_of in GENERATED.items():
        if name.startswith(prefix):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text_of(settings))


def receivers(url: str) -> dict[str, str]:
    """Return the settings that send pages to ``URL/pager`` and tickets to ``URL/tickets``, and
    nothing elsewhere.
    """
    return {
        "pager.pagerduty-key": "",
        "pager.opsgenie-key": "",
        "pager.webhook-url": f"{url}/pager",
        "chat.slack-url": "",
        "tickets.webhook-url": f"{url}/tickets",
        "tickets.email-to": "",
    }


class Stack:
    """Prometheus, Alertmanager and a webhook receiver, with ``values`` over the shipped settings.

    With ``slack``, the receiver also hears at ``/slack`` what a chat would show. ``team`` has its
    own alerts, ``job`` keys of the exporters' scrape job.
    """

    def __init__(
        self,
        folder: Path,
        values: dict[str, str],
        targets: Sequence[str],
        *,
        slack: bool = False,
        team: Team = Team(),
        job: Mapping[str, Any] = MappingProxyType({}),
        flags: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._team = team
        self.receiver = Receiver().__enter__()
        chat = {"chat.slack-url": f"{self.receiver.url}/slack"} if slack else {}
        self.settings = resolve({**receivers(self.receiver.url), **chat, **values})
        self.alertmanager = Alertmanager(folder, self.settings, team.routes)
        address = self.alertmanager.url.removeprefix("http://")
        self.prometheus = RuledPrometheus(folder, self.settings, address, targets, team, job, flags)
        self.url = self.prometheus.url
        self.programs: dict[str, Program] = {
            "Prometheus": self.prometheus,
            "Alertmanager": self.alertmanager,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.prometheus.kill()
        self.alertmanager.kill()
        self.receiver.__exit__(kind, error, trace)

    def restart_alertmanager(self) -> None:
        """End Alertmanager as a service manager does, and start it again with its files at the same
        address.
        """
        self.alertmanager.terminate()
        port = int(self.alertmanager.url.rpartition(":")[2])
        self.alertmanager = Alertmanager(self._folder, self.settings, self._team.routes, port)

    def wait_for_targets(self, count: int) -> None:
        """Wait as the function of this name."""
        wait_for_targets(self.prometheus.url, count)
