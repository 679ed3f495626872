"""A VictoriaMetrics with the data of a Prometheus, and what either answers to a query."""

import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.programs import Server, eventually, fetch

Json = dict[str, Any]


class VictoriaMetrics(Server):
    """Debian's VictoriaMetrics, which is empty at first and hides no sample of the last seconds."""

    def __init__(self, folder: Path) -> None:
        flags = ("-httpListenAddr={address}", f"-storageDataPath={folder / 'victoria'}")
        more = ("-search.latencyOffset=0s", "-search.disableCache")
        super().__init__(
            "victoria-metrics", folder / "victoria.log", "starting http server at", *flags, *more
        )

    def wait_for_copy(self, prometheus: str, moment: float) -> None:
        """Wait until the Prometheus at this URL has written here all that it has of ``moment`` and
        before.
        """
        sent = "prometheus_remote_storage_queue_highest_sent_timestamp_seconds"

        def highest() -> float:
            lines = fetch(f"{prometheus}/metrics").body.decode().splitlines()
            return max(
                (float(line.split()[-1]) for line in lines if line.startswith(sent)), default=0.0
            )

        late = 2.0  # the results of a rule are written some time after the moment that they are of
        eventually(lambda: highest() > moment + late, "Prometheus has written what it has")
        fetch(f"{self.url}/internal/force_flush")


def answer(url: str, path: str, parameters: Mapping[str, str]) -> list[Json]:
    """Return the series that the engine at ``url`` answers to a query."""
    found = fetch(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
    assert found.status == 200, f"{parameters['query']}\n{found.body.decode()}"
    result: list[Json] = json.loads(found.body)["data"]["result"]
    return result
