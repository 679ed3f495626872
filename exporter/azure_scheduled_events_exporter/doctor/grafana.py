"""Checks that a Grafana has the dashboards of this version, and a data source that works.

Sources: https://grafana.com/docs/grafana/latest/developers/http_api/ (other, dashboard,
data_source).
"""

import json
import re
from http import HTTPStatus
from typing import Any

from azure_scheduled_events_exporter import assets

from .api import Api, WrongAnswerError
from .finding import Finding, Findings, ok, warning, wrong
from .subject import Subject


def examine(_subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Grafana at ``api``."""
    version = api.data("/api/health").get("version", "")  # left out with hide_version
    what = f"Grafana {version}".strip()
    yield ok("grafana-reachable", f"{what} answers at {api.shown}.")
    yield _dashboards(api)
    yield _data_source(api)


def _dashboards(api: Api) -> Finding:
    """Compare the dashboards of this installation with those of the same uid in Grafana."""
    shipped = [
        json.loads(path.read_text("utf-8"))
        for path in sorted(assets.folder("dashboards").glob("*.json"))
    ]
    missing = []
    different = []
    for board in shipped:
        try:
            found = api.data(f"/api/dashboards/uid/{board['uid']}")["dashboard"]
        except WrongAnswerError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            missing.append(board["uid"])
        else:
            if _queries(found) != _queries(board):
                different.append(board["uid"])
    hint = (
        "Import the dashboards of this version: azure-scheduled-events-exporter assets export DIR."
    )
    if missing:
        return wrong("dashboards", f"Grafana has no dashboard {', '.join(missing)}.", hint)
    if different:
        return warning(
            "dashboards",
            f"Dashboards are of another version, or edited: {', '.join(different)}.",
            hint,
        )
    return ok("dashboards", f"Grafana has our {len(shipped)} dashboards, of this version.")


def _queries(board: dict[str, Any]) -> list[str]:
    """Return the queries of all panels, as ``"expr": "…"`` in JSON.

    Only these are compared: Grafana may write the rest of a dashboard in another form.
    """
    return sorted(re.findall(r'"expr": "(?:[^"\\]|\\.)*"', json.dumps(board)))


def _data_source(api: Api) -> Finding:
    """Ask Grafana whether its Prometheus data source works: the default one, else the first."""
    # The types of Azure's and AWS' managed Prometheus are longer names with this word.
    sources: list[dict[str, Any]] = [
        each for each in api.data("/api/datasources") if "prometheus" in each["type"]
    ]
    if not sources:
        return wrong("data-source", "Grafana has no Prometheus data source.", "Add one.")
    source = next((each for each in sources if each.get("isDefault")), sources[0])
    try:
        health = api.data(f"/api/datasources/uid/{source['uid']}/health")
    except WrongAnswerError as error:
        return _not_working(source, str(error))
    status = health.get("status", "OK")
    message = health.get("message", "ok")
    if status != "OK":
        return _not_working(source, f"{status}: {message}")
    return ok("data-source", f"Grafana's data source '{source['name']}' works: {message}")


def _not_working(source: dict[str, Any], problem: str) -> Finding:
    sentence = f"Grafana's data source '{source['name']}' does not work: {problem}."
    hint = f"Correct its address ({source.get('url')}) and credentials in Grafana."
    return wrong("data-source", sentence, hint)
