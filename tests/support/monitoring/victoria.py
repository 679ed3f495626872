"""vmagent, VictoriaMetrics and vmalert with the generated rules, in the place of a Prometheus."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from azure_scheduled_events_exporter.alerts import resolve
from support.monitoring.paging import (
    JOB,
    Alertmanager,
    Receiver,
    query,
    receivers,
    wait_for_targets,
    write,
)
from support.programs import Program, Server, fetch

_ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "vmalert": {"GOGC": "800"},
    "victoria-metrics": {"GOGC": "200"},
}
"""As docs/fleet.md advises."""


class VictoriaStack:
    """VictoriaMetrics' programs, Alertmanager and a webhook receiver, with ``values`` over the
    shipped settings.

    ``shards`` vmagents share the targets. ``job`` has more keys of the exporters' scrape job.
    ``notified`` are the URLs of the Alertmanagers that vmalert notifies, instead of its own one.
    """

    def __init__(
        self,
        folder: Path,
        values: dict[str, str],
        targets: Sequence[str],
        *,
        shards: int = 1,
        job: Mapping[str, Any] = MappingProxyType({}),
        notified: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._flags: dict[str, tuple[str, ...]] = {}
        self._stack = ExitStack()
        self.receiver = self._stack.enter_context(Receiver())
        settings = resolve({**receivers(self.receiver.url), **values})
        self.alertmanager = self._stack.enter_context(Alertmanager(folder, settings))
        self.programs: dict[str, Program] = {"Alertmanager": self.alertmanager}
        write(folder, "prometheus/", settings)
        self.url = self._start(
            "victoria-metrics",
            f"-storageDataPath={folder / 'victoria'}",
            "-search.latencyOffset=0s",  # 30 s by default: rules would read what was true then
        )
        static = [{"targets": list(targets)}] if targets else []
        exporters = {"job_name": JOB, "static_configs": static, **job}
        configuration = self._scrape_configuration(settings.text("scrape.interval"), exporters)
        self.agents = [self._start_agent(configuration, shard, shards) for shard in range(shards)]
        self.vmalert = self._start_vmalert(notified or (self.alertmanager.url,))

    def _scrape_configuration(self, interval: str, exporters: Mapping[str, object]) -> Path:
        """Write the configuration of vmagent with the scrape job of the exporters; return its
        path.
        """
        flush = {  # new series are found at once instead of up to 10 s later
            "job_name": "victoria-metrics-flush",
            "metrics_path": "/internal/force_flush",
            "scrape_interval": "1s",
            "static_configs": [{"targets": [self.url.removeprefix("http://")]}],
        }
        content = {"global": {"scrape_interval": interval}, "scrape_configs": [exporters, flush]}
        path = self._folder / "vmagent.yml"
        path.write_text(json.dumps(content))
        return path

    def _start_agent(self, configuration: Path, shard: int, shards: int) -> str:
        """Start one of ``shards`` vmagents; return its address."""
        return self._start(
            f"vmagent-{shard}" if shards > 1 else "vmagent",
            f"-promscrape.config={configuration}",
            f"-promscrape.cluster.membersCount={shards}",
            f"-promscrape.cluster.memberNum={shard}",
            f"-remoteWrite.url={self.url}/api/v1/write",
            f"-remoteWrite.tmpDataPath={self._folder / f'vmagent-{shard}'}",
            "-remoteWrite.flushInterval=1s",
        )

    def _start_vmalert(self, notified: Sequence[str]) -> str:
        """Start vmalert with the rules, which notifies these Alertmanagers; return its address."""
        return self._start(
            "vmalert",
            f"-rule={self._folder / 'prometheus' / 'prometheus-rules.yml'}",
            f"-datasource.url={self.url}",
            f"-remoteWrite.url={self.url}",
            f"-remoteRead.url={self.url}",
            *(f"-notifier.url={url}" for url in notified),
            # an alert outlives four times as long without vmalert, as with Prometheus
            "-rule.resendDelay=1m",
            "-remoteWrite.flushInterval=1s",
            # data as of now, not as of the last multiple of an interval
            "-datasource.queryTimeAlignment=false",
            # the label alertgroup would differ from Prometheus' recordings and alerts
            "-disableAlertgroupLabel",
        )

    def _start(self, name: str, *flags: str, port: int = 0) -> str:
        """Start a program, ``name`` without its number, with its log in a file of this name; return
        its address.
        """
        log = self._folder / f"{name}.log"
        binary = re.sub(r"-\d+$", "", name)
        ready = "starting http server at"
        env = _ENVIRONMENTS.get(binary, {})
        program = Server(binary, log, ready, "-httpListenAddr={address}", *flags, port=port, **env)
        self.programs[name] = self._stack.enter_context(program)
        self._flags[name] = flags
        return program.url

    def restart(self, name: str) -> None:
        """End a program as a service manager does, and start it again at the same address."""
        program = self.programs[name]
        assert isinstance(program, Server), f"{name} serves nothing"
        program.terminate()
        self._start(name, *self._flags[name], port=int(program.url.rpartition(":")[2]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def rules(self) -> list[dict[str, Any]]:
        """Return every rule with its last error."""
        groups = json.loads(fetch(f"{self.vmalert}/api/v1/rules").body)["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def wait_for_targets(self, count: int) -> None:
        """Wait as the function of this name."""
        wait_for_targets(self.url, count)

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the instant vector of ``expression``."""
        return query(self.url, expression)
