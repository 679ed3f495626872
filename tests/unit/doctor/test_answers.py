"""What doctor makes of answers: correct ones that are seldom seen, and such as no version of the
server gives.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.settings import resolve as resolve_alerts
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor import alertmanager as doctor_of_alertmanager
from azure_scheduled_events_exporter.doctor import chain, rules
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.finding import Finding, counted
from azure_scheduled_events_exporter.doctor.metadata_service import _CLOCK_WRONG
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.http_server.messages import plain
from support.doctor.doctor_chain import Canned, Reply, as_json, grafana
from support.paths import DATA

Replies = dict[str, Reply]
_PAGER: dict[str, Any] = {"receiver": "pager", "group_by": ["event_id"], "group_wait": "0s"}


def examined(
    part: str,
    replies: Mapping[str, Reply],
    url: str = "",
    flags: Mapping[str, str] = MappingProxyType({}),
    words: Mapping[str, str] | None = MappingProxyType({}),
) -> list[Finding]:
    """Return the findings of a part of the chain whose server answers with ``replies``, with more
    settings.

    Prometheus has loaded the shipped rules with these ``words`` for levels; None: its rules are
    unknown.
    """
    severities = "".join(f"{level}={word}\n" for level, word in (words or {}).items())
    every = alerts(resolve_alerts({"severities": severities}))
    loaded = {each.name: {**each.labels, "severity": each.severity} for each in every}
    config = resolve({"instance.name": "web_4", **flags}, {})
    with Canned(replies) as server:
        api = Api("--url", url or server.url)
        exporter = api if part == "Exporter" else Api("--exporter", "http://127.0.0.1:10169")
        subject = Subject(config, {}, exporter, [api], [api], [api])
        if part == "Alertmanager" and words is not None:
            subject.loaded_labels = loaded
        return next(list(findings) for title, findings in chain.examine(subject) if title == part)


def the(check: str, findings: list[Finding]) -> Finding:
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
        "route": _PAGER,
        "receivers": [{"name": "pager", "webhook_configs": [{"url": "http://pager"}]}],
        **config,
    }
    status = {
        "config": {"original": text or json.dumps(whole)},
        "versionInfo": {"version": "0.28.1"},
    }
    return {"/api/v2/status": as_json(status), "/api/v2/alerts": as_json([])}


_BOARD = next(path for path in grafana() if "/dashboards/" in path)


@pytest.mark.parametrize(
    ("part", "check", "replies"),
    [
        ("Exporter", "exporter", {**exporter(), "/api/v1/events": as_json([])}),
        ("Prometheus", "prometheus-reachable", {"/api/v1/status/buildinfo": as_json([])}),
        ("Prometheus", "prometheus-reachable", prometheus([target(labels=None)])),
        (
            "Prometheus",
            "prometheus-reachable",
            prometheus(query={"result": [{"metric": {"job": "a"}, "values": [["b", "1"]] * 2}]}),
        ),
        ("Alertmanager", "alertmanager-reachable", alertmanager("inhibit_rules: [a]")),
        ("Grafana", "grafana-reachable", {"/api/health": as_json([])}),
        ("Grafana", "grafana-reachable", grafana(**{_BOARD: as_json([])})),
    ],
)
def test_answers_of_another_form(part: str, check: str, replies: Replies) -> None:
    """An answer that this version does not know is a finding of its part, and does not end the
    report.
    """
    last = examined(part, replies)[-1]
    assert (last.check, last.mark) == (check, "wrong")
    assert "answers in another form than this version knows" in last.sentence


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "Name a user in the address, or credentials in --prometheus.http-config.file."),
        (403, "Name a user in the address, or credentials in --prometheus.http-config.file."),
        (500, "Start it, or correct the address: --prometheus URL."),
    ],
)
def test_server_that_refuses(status: int, hint: str) -> None:
    """A server that wants a user is not said to be down, nor the other way round."""
    refusal = as_json({}, status)
    [found] = examined("Prometheus", {"/api/v1/status/buildinfo": refusal})
    assert (found.check, found.mark, found.hint) == ("prometheus-reachable", "wrong", hint)


def test_target_that_was_not_scraped_yet() -> None:
    """Between discovery and the first scrape, nothing is known to be wrong."""
    fresh = target(health="unknown")
    found = the("target", examined("Prometheus", prometheus([fresh])))
    assert (found.mark, "not scraped" in found.sentence) == ("warning", True)


def test_loopback_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote Prometheus that scrapes its own loopback address scrapes another exporter."""
    url = "http://prometheus.example:9090"
    replies = {url + path: reply for path, reply in prometheus([target()]).items()}
    with Canned(replies) as proxy:  # a proxy is asked for whole addresses
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        findings = examined("Prometheus", {}, url)
    assert "does not scrape this exporter" in the("target", findings).sentence


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (
            'Get "http://vm000404:10169/metrics": context deadline exceeded',
            "or the exporter is slow",
        ),
        (
            (
                'Get "http://tls-401.example:10169/metrics": dial tcp: lookup tls-401.example: no'
                " such host"
            ),
            "cannot resolve the name",
        ),
        (
            'Get "http://vm:10169/metrics": dial tcp 10.0.0.4:10169: i/o timeout',
            "Open the port",
        ),
        (
            'Get "http://vm:10169/metrics": dial tcp 10.0.0.4:10169: connect: connection refused',
            "start the exporter",
        ),
        (
            (
                "label_value_length_limit exceeded (metric: azure_scheduled_events_event_info,"
                " label name: description, value: a long text, length: 300, limit: 200)"
            ),
            "Raise label_value_length_limit of the scrape configuration",
        ),
        ("sample limit exceeded", "Raise it in the scrape configuration"),
        ("invalid UTF-8 label value", "The cause is unknown"),
        ("server returned HTTP status 401 Unauthorized", "basic_auth"),
        ("server returned HTTP status 403 Forbidden", "client_allowed_sans"),
        (
            'unexpected status code returned when scraping "http://vm:10169/x": 404; expected 200',
            "metrics_path",
        ),
        (
            'Get "https://vm:10169/metrics": http: server gave HTTP response to HTTPS client',
            "tls_config",
        ),
        ('Get "https://vm:10169/metrics": remote error: tls: certificate required', "tls_config"),
    ],
)
def test_target_that_cannot_be_scraped(error: str, hint: str) -> None:
    """The advice follows from the error of the scrape, not from the address in it."""
    replies = prometheus([target(health="down", lastError=error)])
    assert hint in the("target", examined("Prometheus", replies)).hint


_OURS = {
    "source_matchers": ["severity=critical"],
    "target_matchers": ["severity=warning"],
    "equal": ["event_id"],
}


@pytest.mark.parametrize(
    ("source", "target", "equal", "words"),
    [
        ("severity=critical", "severity=warning", ["instance"], "with severity=critical fires"),
        (
            'severity="critical"',
            '{severity=~"warning|info"}',
            ["instance", "namespace"],
            "[instance, namespace]",
        ),
        ("alertname=Down", 'severity=~".+"', [], "with alertname=Down fires"),
        ("severity=critical", 'alertname!~"AzureScheduledEvent.+"', ["instance"], ""),
        ("severity=critical", "severity=warning", ["alertname"], ""),
        # Alerts that are not ours have the label, as far as anybody knows.
        ("alertname=NodeDown", 'severity=~".+"', ["instance"], ""),
        ("severity=critical", "team=db", ["instance"], ""),
    ],
)
def test_inhibitions_of_others(source: str, target: str, equal: list[str], words: str) -> None:
    """To Alertmanager, a label that both alerts lack is equal, so such an inhibition mutes alerts
    about events.
    """
    rule = {"source_matchers": [source], "target_matchers": [target], "equal": equal}
    found = the("inhibitions", examined("Alertmanager", alertmanager(inhibit_rules=[_OURS, rule])))
    assert found.mark == ("warning" if words else "ok"), found
    assert words in found.sentence


def test_inhibitions_in_the_old_form() -> None:
    """An inhibition with ``source_match`` is read as Alertmanager reads it."""
    file = DATA / "cases" / "inhibit-old-form.yml"
    theirs = yaml.safe_load(file.read_text())["inhibit_rules"]
    found = the("inhibitions", examined("Alertmanager", alertmanager(inhibit_rules=theirs)))
    assert found.mark == "ok", found
    broad = {
        "source_match": {"severity": "critical"},
        "target_match_re": {"severity": "warning|info"},
        "equal": ["instance"],
    }
    found = the("inhibitions", examined("Alertmanager", alertmanager(inhibit_rules=[_OURS, broad])))
    assert found.mark == "warning"
    assert "severity=critical fires, an inhibition with equal: [instance]" in found.sentence


@pytest.mark.parametrize(
    ("route", "mark"),
    [
        ({"matchers": ['severity="page"']}, "warning"),
        ({"match": {"severity": "page"}}, "warning"),
        ({"matchers": ['severity=~"page|critical"']}, "ok"),
        ({"match_re": {"severity": "page|critical"}}, "ok"),
        ({"matchers": ['team="search"']}, "ok"),
    ],
)
def test_a_severity_that_no_route_names(route: dict[str, Any], mark: str) -> None:
    """Where routes ask for a severity, one of them has to name that of our pages."""
    tree = {**_PAGER, "routes": [{"receiver": "pager", "routes": [route]}]}
    found = the("severities", examined("Alertmanager", alertmanager(route=tree)))
    assert found.mark == mark, found
    assert found.mark == "ok" or "critical (AzureScheduledEvent" in found.sentence


def test_severities_of_the_rules_that_are_loaded() -> None:
    """What Prometheus evaluates counts, not what this machine's settings would render."""
    rule = {"type": "alerting", "name": "AzureScheduledEventReboot", "labels": {"severity": "P1"}}
    group = {"name": "azure-scheduled-events", "rules": [rule]}
    tree = {**_PAGER, "routes": [{"receiver": "pager", "matchers": ['severity="P1"']}]}
    replies = {**prometheus(rules={"groups": [group]}), **alertmanager(route=tree)}
    with Canned(replies) as server:
        api = Api("--url", server.url)
        subject = Subject(resolve({}, {}), {}, api)
        list(rules.examine(subject, api))  # leaves the labels of the loaded rules in the subject
        assert subject.loaded_labels
        found = the("severities", list(doctor_of_alertmanager.examine(subject, api)))
    assert found.mark == "ok", found


_SEV = {"critical": "sev1", "warning": "sev2", "info": "sev3"}
_MUTES_TICKETS = {
    "source_matchers": ['severity="sev1"'],
    "target_matchers": ['severity=~"sev2|sev3"'],
    "equal": ["instance"],
}
_NAMES_PAGES = {"receiver": "team", "routes": [{"receiver": "p", "matchers": ['severity="sev1"']}]}


def test_words_of_the_rules_that_are_loaded() -> None:
    """Inhibitions and routes are judged with the severities of the rules in Prometheus: a team's
    own words count, and those of the shipped rules do not.
    """
    replies = alertmanager(route=_NAMES_PAGES, inhibit_rules=[_OURS, _MUTES_TICKETS])
    found = examined("Alertmanager", replies, words=_SEV)
    assert the("inhibitions", found).mark == "warning"
    assert "with severity=sev1 fires" in the("inhibitions", found).sentence
    assert the("severities", found).mark == "ok"
    found = examined("Alertmanager", replies)
    assert the("inhibitions", found).mark == "ok"
    assert "critical (AzureScheduledEvent" in the("severities", found).sentence


def test_unknown_severities(tmp_path: Path) -> None:
    """Without rules and values, what depends on severities is not said to be well or wrong."""
    replies = alertmanager(route=_NAMES_PAGES, inhibit_rules=[_OURS, _MUTES_TICKETS])
    found = examined("Alertmanager", replies, words=None)
    for check in ("severities", "inhibitions"):
        assert the(check, found).mark == "skipped"
        assert "or --alerts.values FILE" in the(check, found).hint
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"severities": _SEV}))
    found = examined("Alertmanager", replies, flags={"alerts.values": str(values)}, words=None)
    marks = [the(check, found).mark for check in ("severities", "inhibitions")]
    assert marks == ["ok", "warning"]
    broad = {"source_matchers": ["alertname=Down"], "target_matchers": ['severity=~".+"']}
    replies = alertmanager(inhibit_rules=[_OURS, broad])
    assert the("inhibitions", examined("Alertmanager", replies, words=None)).mark == "warning"


def test_the_clock_is_judged_as_the_alert_judges_it() -> None:
    """The clock is wrong from where ClockOff fires."""
    (clock_off,) = (each for each in alerts(Settings()) if each.name.endswith("ClockOff"))
    assert f" {_CLOCK_WRONG:g} s" in clock_off.meaning


def test_no_rules() -> None:
    """A Prometheus without our rules is one line, and servers that are not named are marked as
    skipped.
    """
    found = [
        each
        for each in examined("Prometheus", prometheus([target()]))
        if each.check.startswith("rules-")
    ]
    assert [(each.check, each.mark) for each in found] == [("rules-loaded", "wrong")]


def test_grafana_hides_its_version() -> None:
    """With hide_version, Grafana's health has no version."""
    findings = examined("Grafana", grafana(**{"/api/health": as_json({"database": "ok"})}))
    assert {each.mark for each in findings} == {"ok"}
    assert findings[0].sentence.startswith("Grafana answers at http://")


def test_data_source_of_azure() -> None:
    """Azure's data source for managed Prometheus is one."""
    source = {"uid": "p", "name": "azure", "type": "grafana-azureprometheus-datasource"}
    assert (
        the(
            "data-source", examined("Grafana", grafana(**{"/api/datasources": as_json([source])}))
        ).mark
        == "ok"
    )


@pytest.mark.parametrize("message", ["no such host", ""])
def test_data_source_that_fails_with_200(message: str) -> None:
    """A health answer with the status ERROR is a failure, whatever its HTTP status."""
    health = as_json({"status": "ERROR", "message": message})
    found = the(
        "data-source", examined("Grafana", grafana(**{"/api/datasources/uid/p/health": health}))
    )
    assert (found.mark, f"ERROR: {message}" in found.sentence) == ("wrong", True)


def test_a_store_without_a_list_of_targets() -> None:
    """A store that does not scrape, and has no list of targets, is checked by its samples and
    rules.
    """
    replies = prometheus()
    del replies["/api/v1/targets"]
    found = examined("Prometheus", replies)
    assert not [
        each for each in found if each.check == "prometheus-reachable" and each.mark == "wrong"
    ]
    assert the("target", found).mark == "wrong"


@pytest.mark.parametrize(
    ("ages", "mark", "words"),
    [
        ((200,), "skipped", "fewer than two scrapes"),
        ((310, 10), "wrong", "scraped every 5m"),
        (range(120, 0, -30), "warning", "scraped every 30s"),
        (range(60, 0, -6), "warning", "scraped every 6s"),
        ((*range(900, 300, -60), *range(60, 0, -5)), "ok", "scraped every 5s"),
    ],
    ids=[
        "one",
        "every five minutes",
        "every 30 seconds",
        "every six seconds",
        "more often since a minute",
    ],
)
def test_samples_of_a_store(ages: Sequence[int], mark: str, words: str) -> None:
    """Rare samples are wrong, one sample says nothing yet, and the last minute counts."""
    now = time.time()
    samples = [[now - age, "1"] for age in ages]
    found = examined(
        "Prometheus", prometheus(query={"result": [{"metric": {}, "values": samples}]})
    )
    interval = the("scrape-interval", found)
    assert interval.mark == mark
    assert words in interval.sentence


def test_an_exporter_that_refuses_the_certificate() -> None:
    """An exporter that allows other names of client certificates is not another program."""
    replies = {**exporter(), "/-/healthy": (403, {}, plain(403).body)}
    served = the("served", examined("Exporter", replies))
    assert served.mark == "warning"
    assert "End that program" not in served.hint


def test_numbers_of_things() -> None:
    """One warning is no "1 warnings"."""
    found = [counted(number, "warning") for number in (0, 1, 2)]
    assert found == ["0 warnings", "1 warning", "2 warnings"]
