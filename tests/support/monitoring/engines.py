"""A VictoriaMetrics with the data of a Prometheus, and how the answers of both to one query differ."""

import json
import math
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.programs import Server, eventually, fetch

Json = dict[str, Any]
PRECISION = 1e-3
"""How far two equal values may differ: VictoriaMetrics keeps 15 digits, which is less than a millisecond of a time."""


class VictoriaMetrics(Server):
    """Debian's VictoriaMetrics, which is empty at first and hides no sample of the last seconds."""

    def __init__(self, folder: Path) -> None:
        flags = ("-httpListenAddr={address}", f"-storageDataPath={folder / 'victoria'}")
        more = ("-search.latencyOffset=0s", "-search.disableCache")
        super().__init__("victoria-metrics", folder / "victoria.log", "starting http server at", *flags, *more)

    def wait_for_copy(self, prometheus: str, moment: float) -> None:
        """Wait until the Prometheus at this URL has written here all that it has of ``moment`` and before."""
        sent = "prometheus_remote_storage_queue_highest_sent_timestamp_seconds"

        def highest() -> float:
            lines = fetch(f"{prometheus}/metrics").body.decode().splitlines()
            return max((float(line.split()[-1]) for line in lines if line.startswith(sent)), default=0.0)

        late = 2.0  # the results of a rule are written some time after the moment that they are of
        eventually(lambda: highest() > moment + late, "Prometheus has written what it has")
        fetch(f"{self.url}/internal/force_flush")


def answer(url: str, path: str, parameters: Mapping[str, str]) -> list[Json]:
    """Return the series that the engine at ``url`` answers to a query."""
    found = fetch(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
    assert found.status == 200, f"{parameters['query']}\n{found.body.decode()}"
    result: list[Json] = json.loads(found.body)["data"]["result"]
    return result


def difference(one: Sequence[Json], other: Sequence[Json], tolerance: float = PRECISION) -> list[str]:
    """Return in what two answers differ: in their series by all labels, in the times of values, and in the values.

    With a larger ``tolerance``, the times may differ, too: how many samples a rate() needs at its beginning is a matter
    of the engine.
    """
    left, right = _by_labels(one), _by_labels(other)
    found = [f"only one engine has {dict(labels)}" for labels in left.keys() ^ right.keys()]
    for labels in left.keys() & right.keys():
        here, there = left[labels], right[labels]
        if here.keys() != there.keys() and tolerance <= PRECISION:
            found.append(f"only one engine has values of {dict(labels)} at {sorted(here.keys() ^ there.keys())}")
        found += [
            f"{value} and {there[at]} of {dict(labels)} at {at}"
            for at, value in here.items()
            if at in there and not math.isclose(value, there[at], rel_tol=1e-9, abs_tol=tolerance)
        ]
    return found


def _by_labels(series: Sequence[Json]) -> dict[frozenset[tuple[str, str]], dict[float, float]]:
    """Return the values of each series by time. What is not a number is no value: no panel shows it."""
    every = {
        frozenset(each["metric"].items()): {
            float(at): float(value) for at, value in each.get("values", [each.get("value")]) if value != "NaN"
        }
        for each in series
    }
    return {labels: values for labels, values in every.items() if values}
