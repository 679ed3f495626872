"""What ``doctor`` finds in answers that a test makes up: one part of the chain at a time."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.settings import resolve as resolve_alerts
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.doctor import chain
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.finding import Finding
from azure_scheduled_events_exporter.doctor.subject import Subject
from support.doctor.doctor_chain import Canned, Reply, as_json

Replies = dict[str, Reply]
PAGER: dict[str, Any] = {"receiver": "pager", "group_by": ["event_id"], "group_wait": "0s"}


def examined(
    part: str,
    replies: Mapping[str, Reply],
    url: str = "",
    flags: Mapping[str, str] = MappingProxyType({}),
    words: Mapping[str, str] | None = MappingProxyType({}),
    instance: Instance | None = None,
) -> list[Finding]:
    """Return the findings of a part of the chain whose server answers with ``replies``, with more
    settings.

    Prometheus has loaded the shipped rules with these ``words`` for levels; None: its rules are
    unknown. ``instance`` is what IMDS has told of this VM.
    """
    severities = "".join(f"{level}={word}\n" for level, word in (words or {}).items())
    every = alerts(resolve_alerts({"severities": severities}))
    loaded = {each.name: {**each.labels, "severity": each.severity} for each in every}
    config = resolve({"instance.name": "web_4", **flags}, {})
    with Canned(replies) as server:
        api = Api("--url", url or server.url)
        exporter = api if part == "Exporter" else Api("--exporter", "http://127.0.0.1:10169")
        subject = Subject(config, {}, exporter, [api], [api], [api], instance)
        if part == "Alertmanager" and words is not None:
            subject.loaded_labels = loaded
        return next(list(findings) for title, findings in chain.examine(subject) if title == part)


def finding_of(check: str, findings: list[Finding]) -> Finding:
    """Return the last finding of ``check``."""
    return [each for each in findings if each.check == check][-1]


def exporter(**changed: object) -> Replies:
    """Return what an exporter answers; ``changed`` is its view."""
    state = {"version": __version__, "up": True, "events": [], "journal": {"up": True}, **changed}
    return {
        "/-/healthy": (200, {}, b"alive\n"),
        "/api/v1/events": as_json(state),
        "/metrics": (200, {}, b""),
    }


def prometheus(targets: object = (), **changed: object) -> Replies:
    """Return what a Prometheus with ``targets`` and without rules and samples answers; ``changed``
    names an answer.
    """
    data = {
        "status/buildinfo": {"version": "3.5.0"},
        "status/runtimeinfo": {"storageRetention": "15d"},
        "targets": {"activeTargets": targets},
        "query": {"result": []},
        "rules": {"groups": []},
        "alertmanagers": {"activeAlertmanagers": []},
        **changed,
    }
    return {
        f"/api/v1/{path}": as_json({"status": "success", "data": each})
        for path, each in data.items()
    }


def target(**changed: object) -> dict[str, object]:
    """Return a target as Prometheus lists it."""
    labels = {"job": "azure-scheduled-events-exporter", "instance": "127.0.0.1:10169"}
    url = "http://127.0.0.1:10169/metrics"
    return {"labels": labels, "scrapeUrl": url, "health": "up", "lastError": "", **changed}


def alertmanager(text: str = "", **config: object) -> Replies:
    """Return what an Alertmanager with a configuration answers that is well but for ``config``; or
    with ``text``.
    """
    whole = {
        "route": PAGER,
        "receivers": [{"name": "pager", "webhook_configs": [{"url": "http://pager"}]}],
        **config,
    }
    status = {
        "config": {"original": text or json.dumps(whole)},
        "versionInfo": {"version": "0.28.1"},
    }
    return {"/api/v2/status": as_json(status), "/api/v2/alerts": as_json([])}
