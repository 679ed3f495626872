"""vmagent, VictoriaMetrics and vmalert with the generated rules, in the place of a Prometheus."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from alerts import resolve
from support.monitoring.paging import Alertmanager, Receiver, query, receivers, write
from support.programs import Program, debian, fetch, free_port

_STARTED = "starting http server at"


class VictoriaStack:
    """VictoriaMetrics' programs, Alertmanager and a webhook receiver, with ``values`` over the shipped settings."""

    def __init__(self, folder: Path, values: dict[str, str], targets: Sequence[str]) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.receiver = self._stack.enter_context(Receiver())
        settings = resolve({**receivers(self.receiver.url), **values})
        alertmanager = self._stack.enter_context(Alertmanager(folder, settings))
        write(folder, "prometheus/", settings)
        job = {"job_name": "azure-scheduled-events-exporter", "static_configs": [{"targets": list(targets)}]}
        interval = settings.duration("scrape.interval")
        scraping = folder / "vmagent.yml"
        scraping.write_text(json.dumps({"global": {"scrape_interval": interval}, "scrape_configs": [job]}))
        self.url = self._start(
            "victoria-metrics",
            f"-storageDataPath={folder / 'victoria'}",
            "-search.latencyOffset=0s",  # 30 s by default: rules would read what was true then
        )
        self._start(
            "vmagent",
            f"-promscrape.config={scraping}",
            f"-remoteWrite.url={self.url}/api/v1/write",
            f"-remoteWrite.tmpDataPath={folder / 'vmagent'}",
            "-remoteWrite.flushInterval=1s",
        )
        self._vmalert = self._start(
            "vmalert",
            f"-rule={folder / 'prometheus' / 'prometheus-rules.yml'}",
            f"-datasource.url={self.url}",
            f"-remoteWrite.url={self.url}",
            f"-remoteRead.url={self.url}",
            f"-notifier.url={alertmanager.url}",
            "-remoteWrite.flushInterval=1s",
            "-disableAlertgroupLabel",  # the label alertgroup would differ from Prometheus' recordings and alerts
        )

    def _start(self, name: str, *flags: str) -> str:
        address = f"127.0.0.1:{free_port()}"
        command = [debian(name), f"-httpListenAddr={address}", *flags]
        program = self._stack.enter_context(Program(command, self._folder / f"{name}.log"))
        program.wait_for_line(_STARTED)
        return f"http://{address}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def rules(self) -> list[dict[str, Any]]:
        """Return every rule with its last error."""
        groups = json.loads(fetch(f"{self._vmalert}/api/v1/rules").body)["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the instant vector of ``expression``."""
        return query(self.url, expression)
