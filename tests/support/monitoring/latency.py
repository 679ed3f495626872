"""A dashboard that somebody else has: the latency of a service, with our annotation on it."""

from typing import Any

from dashboards.board import annotation
from dashboards.grafana import DATASOURCE
from dashboards.style import NEUTRAL

SPAN = 3600.0
SERIES = "checkout:request_duration_seconds:p99"
"""The series of the panel."""
BOARD: dict[str, Any] = {
    "title": "Checkout",
    "annotations": {"list": [annotation()]},
    "templating": {"list": []},
    "panels": [
        {
            "id": 1,
            "type": "timeseries",
            "title": "Latency of checkout, p99",
            "description": "A service on the VM web_1.",
            "datasource": DATASOURCE,
            "gridPos": {"x": 0, "y": 0, "w": 24, "h": 9},
            "options": {"legend": {"showLegend": False}},
            "fieldConfig": {
                "defaults": {
                    "unit": "s",
                    "min": 0,
                    "color": {"mode": "fixed", "fixedColor": "#5794F2"},
                    "mappings": [],
                    "thresholds": {
                        "mode": "absolute",
                        "steps": [{"value": None, "color": NEUTRAL}],
                    },
                    "custom": {"lineWidth": 2, "showPoints": "never"},
                },
                "overrides": [],
            },
            "targets": [
                {
                    "refId": "A",
                    "datasource": DATASOURCE,
                    "expr": SERIES,
                    "instant": False,
                    "legendFormat": "__auto",
                }
            ],
        }
    ],
}
