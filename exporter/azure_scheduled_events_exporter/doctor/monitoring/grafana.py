"""Checks that a Grafana has the dashboards of this version, and a data source that works.

Sources: https://grafana.com/docs/grafana/latest/developers/http_api/ (other, dashboard, data_source).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.doctor.api import Api, WrongAnswerError
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, ok, warning, wrong
from azure_scheduled_events_exporter.errors import ExporterError

from .prometheus import unreachable

_PAGE: Final = "dashboards.md"


def examine(api: Api) -> Findings:
    """Yield the findings about the Grafana at ``api``."""
    try:
        version = api.data("/api/health").get("version")  # left out with hide_version
        yield ok("grafana-reachable", f"Grafana{f' {version}' if version else ''} answers at {api.shown}.")
        yield from _dashboards(api)
        yield _data_source(api)
    except ExporterError as error:
        yield unreachable("grafana-reachable", "Grafana", api, error)


def _dashboards(api: Api) -> Findings:
    files = sorted(assets.folder("dashboards").glob("*.json"))
    shipped = {board["uid"]: board for board in (json.loads(path.read_text("utf-8")) for path in files)}
    missing, other = [], []
    for uid, board in shipped.items():
        try:
            found = api.data(f"/api/dashboards/uid/{uid}")["dashboard"]
        except WrongAnswerError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            missing.append(uid)
        else:
            if _queries(found) != _queries(board):
                other.append(uid)
    hint = "Import the dashboards of this version: azure-scheduled-events-exporter assets export DIR."
    if missing:
        yield wrong("dashboards", f"Grafana has no dashboard {', '.join(missing)}.", hint, _PAGE)
    elif other:
        yield warning("dashboards", f"Dashboards are of another version, or edited: {', '.join(other)}.", hint, _PAGE)
    else:
        yield ok("dashboards", f"Grafana has our {len(shipped)} dashboards, of this version.")


def _data_source(api: Api) -> Finding:
    # The types of Azure's and AWS' managed Prometheus have other names.
    sources: list[dict[str, Any]] = [each for each in api.data("/api/datasources") if "prometheus" in each["type"]]
    if not sources:
        return wrong("data-source", "Grafana has no Prometheus data source.", "Add one.", _PAGE)
    source = next((each for each in sources if each.get("isDefault")), sources[0])
    try:
        health = api.data(f"/api/datasources/uid/{source['uid']}/health")
        status, message = health.get("status", "OK"), health.get("message", "ok")
        problem = "" if status == "OK" else f"{status}: {message}"
    except WrongAnswerError as error:
        problem = str(error)
    if problem:
        return wrong(
            "data-source",
            f"Grafana's data source '{source['name']}' does not work: {problem}.",
            f"Correct its address ({source.get('url')}) and credentials in Grafana.",
            _PAGE,
        )
    return ok("data-source", f"Grafana's data source '{source['name']}' works: {message}")


def _queries(board: Mapping[str, Any]) -> frozenset[str]:
    """Return title and expression of every query of a dashboard."""
    return frozenset(
        f"{panel.get('title', '')}: {target['expr']}"
        for panel in _panels(board.get("panels", ()))
        for target in panel.get("targets", ())
        if "expr" in target
    )


def _panels(panels: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for panel in panels:
        yield panel
        yield from _panels(panel.get("panels", ()))
