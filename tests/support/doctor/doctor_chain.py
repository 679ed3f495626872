"""A complete healthy chain for ``doctor``.

It has substitutes for servers that are not installed here.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import yaml

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
)
from support.commands import command
from support.events.imds_bodies import entry
from support.monitoring.collector import Collector
from support.monitoring.paging import ConfiguredAlertmanager, Stack
from support.programs import NOBODY, ConfiguredPrometheus, Exporter, eventually, fetch
from support.servers.http_peer import HttpServer, Request, Response

FAST = {"scrape.interval": "1s", "evaluation.interval": "1s"}
VM = "web_4"
Reply = tuple[int, Mapping[str, str], bytes]


class Canned(HttpServer):
    """A server that answers each path with what ``replies`` has for it, else 404."""

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        super().__init__()
        self._replies = replies
        self.requests: list[Mapping[str, str]] = []  # the headers of each

    def respond(self, request: Request) -> Response:
        """Look up the path."""
        self.requests.append(request.headers)
        missing: Reply = (404, {}, b'{"message":"Not found"}')
        status, headers, body = self._replies.get(request.path.partition("?")[0], missing)
        return Response(status, body, {"Date": formatdate(usegmt=True), **headers})


def as_json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a JSON answer."""
    return (
        status,
        {"Content-Type": "application/json", **(headers or {})},
        json.dumps(content).encode(),
    )


def grafana(**changed: Reply) -> dict[str, Reply]:
    """Return what Grafana's documented API answers with our dashboards and a data source, but for
    what is changed.
    """
    boards = {
        path.stem: json.loads(path.read_text())
        for path in sorted(assets.folder("dashboards").glob("*.json"))
    }
    source = {
        "id": 1,
        "uid": "p",
        "name": "prom",
        "type": "prometheus",
        "url": "http://prom:9090",
        "isDefault": True,
    }
    answers = {
        "/api/health": as_json({"commit": "ed13bea", "database": "ok", "version": "12.0.2"}),
        "/api/datasources": as_json([source]),
        "/api/datasources/uid/p/health": as_json(
            {"message": "Successfully queried the Prometheus API.", "status": "OK"}
        ),
    }
    for uid, board in boards.items():
        meta = {"type": "db", "isStarred": False, "slug": uid, "version": 1}
        answers[f"/api/dashboards/uid/{uid}"] = as_json(
            {"dashboard": {**board, "id": 7, "version": 1}, "meta": meta}
        )
    return {**answers, **changed}


def imds(
    name: str = VM, host_name: str = "", resources: tuple[str, ...] = (), **headers: str
) -> dict[str, Reply]:
    """Return the answers of IMDS to a VM, with one event if ``resources`` are given."""
    event = entry(
        EventId="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        EventType="Freeze",
        Resources=list(resources),
        NotBefore="Mon, 11 Apr 2044 22:26:58 GMT",
        DurationInSeconds=5,
    )
    document = {"DocumentIncarnation": 1, "Events": [event] if resources else []}
    compute = {"name": name, "vmId": "1", "osProfile": {"computerName": host_name}}
    return {
        "/metadata/instance": as_json({"compute": compute}, headers=headers),
        "/metadata/scheduledevents": as_json(document, headers=headers),
    }


@dataclass(frozen=True)
class Report:
    """The output of ``doctor --json``."""

    status: int
    output: str
    findings: list[dict[str, str]] = field(default_factory=list)

    def of(self, check: str) -> list[dict[str, str]]:
        """Return the findings of ``check``."""
        return [each for each in self.findings if each["check"] == check]

    def is_ok(self, *checks: str) -> bool:
        """Whether each of ``checks`` has findings, all of them ok."""
        return all(
            marks == {"ok"}
            for marks in ({each["mark"] for each in self.of(check)} for check in checks)
        )

    @property
    def complaints(self) -> list[dict[str, str]]:
        """The warnings and what is wrong."""
        return [each for each in self.findings if each["mark"] in {"warning", "wrong"}]


def doctor(flags: Mapping[str, str | None], **env: str) -> Report:
    """Run ``doctor --json`` with ``flags`` as the command line does; a flag whose value is None is
    left out.
    """
    given = [
        part for name, value in flags.items() if value is not None for part in (f"--{name}", value)
    ]
    done = command("doctor", "--json", *given, **env)
    return Report(done.returncode, done.stdout, json.loads(done.stdout)["findings"])


class Chain:
    """Simulator, exporter, collector, Prometheus with our rules, Alertmanager and a Grafana, all
    well.

    What a fault needs besides is started by the methods here, and ends with the fault, as all that
    is in :attr:`extra`.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.extra = ExitStack()
        self._count = 0
        event = PlannedEvent("Reboot", (VM,), announced_at=0.0, notice=86_400.0)
        self.scenario = Scenario("chain", "", (VirtualMachine(VM, scale_set="web"),), (event,))
        self.simulator = stack.enter_context(Simulator(self.scenario))
        self.collector = stack.enter_context(Collector())
        self.journal = folder / "state"
        self.exporter = stack.enter_context(
            Exporter(
                self.simulator.vm_url(VM),
                folder / "exporter.log",
                *("--journal.path", str(self.journal), "--otlp.endpoint", self.collector.url),
            )
        )
        target = self.exporter.url.removeprefix("http://")
        self.whole = stack.enter_context(Stack(folder, FAST, [target]))
        self.settings = self.whole.settings
        self.grafana = stack.enter_context(Canned(grafana()))
        self.whole.wait_for_targets(1)

    @property
    def flags(self) -> dict[str, str | None]:
        """The flags with which ``doctor`` looks at the whole healthy chain."""
        return {
            **self.here,
            "otlp.endpoint": self.collector.url,
            "prometheus": self.whole.prometheus.url,
            "alertmanager": self.whole.alertmanager.url,
            "grafana": self.grafana.url,
        }

    @property
    def here(self) -> dict[str, str | None]:
        """The flags for the checks of this machine."""
        return {
            "imds.endpoint": self.simulator.vm_url(VM),
            "web.listen-address": f"127.0.0.1:{self.exporter.port}",
            "journal.path": str(self.journal),
        }

    @property
    def beyond(self) -> dict[str, str | None]:
        """The flags for a look at what is beyond this machine, without the pause between requests
        to IMDS.
        """
        return {**self.here, "imds.endpoint": f"http://{NOBODY}", "instance.name": VM}

    def new_folder(self) -> Path:
        """Return a folder of its own for one fault."""
        self._count += 1
        folder = self.folder / f"fault-{self._count}"
        folder.mkdir()
        return folder

    def serve(self, replies: Mapping[str, Reply]) -> Canned:
        """Start a server with canned answers."""
        return self.extra.enter_context(Canned(replies))

    def run_exporter(self, endpoint: str, *flags: str) -> Exporter:
        """Start another exporter."""
        return self.extra.enter_context(
            Exporter(endpoint, self.new_folder() / "exporter.log", *flags)
        )

    def run_prometheus(self, *, rules: str | None = None, **config: object) -> str:
        """Start another Prometheus, with a changed configuration or other rules; return its
        address.
        """
        folder = self.new_folder()
        made = yaml.safe_load((self.folder / "prometheus" / "prometheus.yml").read_text())
        made["scrape_configs"][0].pop("file_sd_configs")
        made["scrape_configs"][0]["static_configs"] = [
            {"targets": [self.exporter.url.removeprefix("http://")]}
        ]
        made.update(config)
        (folder / "prometheus.yml").write_text(json.dumps(made))
        shipped = (self.folder / "prometheus" / "prometheus-rules.yml").read_text()
        (folder / "prometheus-rules.yml").write_text(shipped if rules is None else rules)
        return self.extra.enter_context(ConfiguredPrometheus(folder / "prometheus.yml", folder)).url

    def run_scraping_prometheus(self, *jobs: dict[str, Any]) -> str:
        """Start another Prometheus with these scrape configurations; return its address once it has
        scraped.
        """
        url = self.run_prometheus(scrape_configs=jobs)

        def scraped() -> bool:
            targets = json.loads(fetch(f"{url}/api/v1/targets?state=active").body)["data"][
                "activeTargets"
            ]
            return len(targets) == len(jobs) and all(
                each["health"] != "unknown" for each in targets
            )

        eventually(scraped, "every target has been scraped")
        return url

    @property
    def rules(self) -> str:
        """The text of the shipped rules, as the healthy Prometheus has them."""
        return (self.folder / "prometheus" / "prometheus-rules.yml").read_text()

    def scrape_config(self, **changed: object) -> dict[str, Any]:
        """Return a scrape configuration of the exporter with something changed."""
        target = self.exporter.url.removeprefix("http://")
        job = {
            "job_name": "azure-scheduled-events-exporter",
            "scrape_interval": "1s",
            "static_configs": [{"targets": [target]}],
        }
        return {**job, **changed}

    def run_alertmanager(self, edit: "AlertmanagerEdit") -> str:
        """Start an Alertmanager whose configuration ``edit`` changes; return its address."""
        folder = self.new_folder()
        config = yaml.safe_load((self.folder / "alertmanager" / "alertmanager.yml").read_text())
        edit(config)
        config["templates"] = [str(self.folder / "alertmanager" / "templates" / "*.tmpl")]
        (folder / "alertmanager.yml").write_text(json.dumps(config))
        return self.extra.enter_context(
            ConfiguredAlertmanager(folder / "alertmanager.yml", folder)
        ).url


AlertmanagerEdit = Callable[[dict[str, Any]], None]


@contextmanager
def healthy_chain(folder: Path) -> Iterator[Chain]:
    """Start everything; end it afterwards."""
    with ExitStack() as stack:
        yield Chain(folder, stack)
