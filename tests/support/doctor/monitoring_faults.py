"""Faults of the monitoring that ``doctor`` has to find: Prometheus, Alertmanager and Grafana."""

import time
from collections.abc import Callable
from typing import Any

import yaml

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.alerts import GENERATED, resolve
from azure_scheduled_events_exporter.times import iso_time
from support.doctor.doctor_chain import Chain, Reply, as_json, grafana
from support.doctor.doctor_faults import Fault, Flags, Plant, beyond, by
from support.programs import NOBODY, eventually, fetch


def prometheus(*, rules: Callable[[str], str] | None = None, **config: object) -> Plant:
    """Plant a Prometheus with other flags, rules or configuration."""
    return beyond(
        lambda chain: {
            "prometheus": chain.run_prometheus(
                rules=rules(chain.rules) if rules else None, **config
            )
        }
    )


def scraping(**changed: object) -> Plant:
    """Plant a Prometheus that scrapes in another way."""
    return beyond(
        lambda chain: {"prometheus": chain.run_scraping_prometheus(chain.scrape_config(**changed))}
    )


def alertmanager(edit: Callable[[dict[str, Any]], None]) -> Plant:
    """Plant an Alertmanager whose configuration ``edit`` has changed."""
    return beyond(lambda chain: {"alertmanager": chain.run_alertmanager(edit)})


def beside_rules(edit: Callable[[dict[str, Any]], None], words: str = "") -> Plant:
    """Plant such an Alertmanager beside a Prometheus whose rules have ``words`` for severities."""

    def plant(chain: Chain) -> Flags:
        settings = resolve({**chain.settings.values, "severities": words})
        rules = GENERATED["prometheus/prometheus-rules.yml"](settings)
        return {
            "prometheus": chain.run_prometheus(rules=rules),
            "alertmanager": chain.run_alertmanager(edit),
        }

    return beyond(plant)


def grafana_answers(**changed: Reply) -> Plant:
    """Plant a Grafana that answers some paths in another way."""
    return beyond(lambda chain: {"grafana": chain.serve(grafana(**changed)).url})


def _scraped_twice(chain: Chain) -> Flags:
    return {
        "prometheus": chain.run_scraping_prometheus(
            chain.scrape_config(), chain.scrape_config(job_name="again")
        )
    }


def _labeled_target(chain: Chain) -> Flags:
    (target,) = chain.scrape_config()["static_configs"]
    labels = {"zone": "rack-7", "vm_name": "web-four", "team": "search"}
    return {
        "prometheus": chain.run_scraping_prometheus(
            chain.scrape_config(static_configs=[{**target, "labels": labels}])
        )
    }


def _failing_rule(text: str) -> str:
    rules = yaml.safe_load(text)
    bad = "azure_scheduled_events_up * on () group_left () azure_scheduled_events_polls_total"
    rules["groups"][0]["rules"].append({"record": "azure_scheduled_events:bad", "expr": bad})
    return yaml.safe_dump(rules)


def _rule_fails(chain: Chain) -> Flags:
    url = chain.run_prometheus(rules=_failing_rule(chain.rules))
    eventually(lambda: b"many-to-many" in fetch(f"{url}/api/v1/rules").body, "a rule fails")
    return {"prometheus": url}


def _other_version(text: str) -> str:
    return text.replace("rules_version: ", "rules_version: 0.0.")


def _old_export(chain: Chain) -> Flags:
    old = chain.new_folder() / "old-rules.yml"
    old.write_text(_other_version(chain.rules).replace("severity: critical", "severity: page"))
    return {"prometheus": chain.run_prometheus(rule_files=["prometheus-rules.yml", str(old)])}


def _labeled_alerts(chain: Chain) -> Flags:
    """As the Prometheus operator configures it: one external label is dropped from alerts, and one
    is not.
    """
    config: dict[str, Any] = {
        "global": {
            "scrape_interval": "1s",
            "external_labels": {"prometheus": "ns/name", "prometheus_replica": "0"},
        },
        "alerting": {
            "alert_relabel_configs": [{"action": "labeldrop", "regex": "prometheus_replica"}]
        },
    }
    return {
        "prometheus": chain.run_prometheus(**config),
        "alertmanager.url": chain.whole.alertmanager.url,
    }


def _placeholder(config: dict[str, Any]) -> None:
    for receiver in config["receivers"]:
        receiver["email_configs"] = [
            {"to": "on-call@example.com", "from": "me@example.org", "smarthost": "smtp:25"}
        ]


def _other_words(config: dict[str, Any]) -> None:
    config["route"]["routes"] = [{"receiver": "pager", "matchers": ['severity="page"']}]


def _mutes_tickets(config: dict[str, Any]) -> None:
    rule = {
        "source_matchers": ['severity="sev1"'],
        "target_matchers": ['severity=~"sev2|sev3"'],
        "equal": ["instance"],
    }
    config["inhibit_rules"].append(rule)


def _no_inhibitions(config: dict[str, Any]) -> None:
    config["inhibit_rules"] = []


def _broad_inhibition(config: dict[str, Any]) -> None:
    rule = {"source_matchers": ['alertname="ClusterDown"'], "target_matchers": ['severity=~".+"']}
    config["inhibit_rules"].append(rule)


def _silence(chain: Chain) -> Flags:
    url = chain.run_alertmanager(lambda _: None)
    matcher = {"name": "alertname", "value": "AzureScheduled.*", "isRegex": True, "isEqual": True}
    silence = {
        "matchers": [matcher],
        "startsAt": iso_time(time.time() - 60),
        "endsAt": iso_time(time.time() + 3600),
        "createdBy": "me",
        "comment": "too loud",
    }
    alert = {"labels": {"alertname": "AzureScheduledEventReboot"}}
    for path, content in (("silences", silence), ("alerts", [alert])):
        _, _, body = as_json(content)
        answer = fetch(f"{url}/api/v2/{path}", "POST", body, Content_Type="application/json")
        assert answer.status == 200, answer.body
    return {"alertmanager": url}


_BOARD = next(assets.folder("dashboards").glob("*vm.json")).stem
_SIGN_IN = (
    200,
    {"Content-Type": "text/html; charset=utf-8"},
    b"<!doctype html><title>Sign in</title>",
)
_FAULTY = {"dashboard": {"uid": _BOARD, "panels": []}, "meta": {}}
_OF_BOARD = f"/api/dashboards/uid/{_BOARD}"
_OF_SOURCE = "/api/datasources/uid/p/health"
_UNHEALTHY = as_json({"message": "connection refused", "status": "ERROR"}, 400)

MONITORING_FAULTS = (
    # Prometheus
    Fault(
        "no Prometheus",
        "prometheus-reachable",
        "Start it",
        beyond(lambda _: {"prometheus": f"http://{NOBODY}"}),
    ),
    Fault(
        "Prometheus wants a password",
        "prometheus-reachable",
        "--prometheus.http-config.file",
        beyond(
            lambda chain: {
                "prometheus": chain.serve({"/api/v1/status/buildinfo": as_json({}, 401)}).url
            }
        ),
    ),
    Fault("not scraped", "target", "scrape_configs", prometheus(scrape_configs=[])),
    Fault("scraped at another path", "target", "metrics_path", scraping(metrics_path="/elsewhere")),
    Fault(
        "a limit of label values",
        "target",
        "Raise label_value_length_limit",
        scraping(label_value_length_limit=10),
    ),
    Fault("scraped by https", "target", "tls_config", scraping(scheme="https")),
    Fault(
        "target labels with our names",
        "target-labels",
        "relabel_configs",
        beyond(_labeled_target),
        "warning",
    ),
    Fault("scraped twice", "target", "Keep one", by(_scraped_twice), "warning"),
    Fault("no rules", "rules-loaded", "rule_files", prometheus(rule_files=[])),
    Fault(
        "an old export beside the rules",
        "rules-loaded",
        "Keep one of these files",
        beyond(_old_export),
        "warning",
    ),
    Fault(
        "other rules", "rules-version", "assets export", prometheus(rules=_other_version), "warning"
    ),
    Fault("a rule fails", "rules-health", "Correct the cause in the error", beyond(_rule_fails)),
    Fault(
        "alerts with another label",
        "alert-labels",
        "prometheus=ns/name.",
        beyond(_labeled_alerts),
        "warning",
    ),
    Fault("no Alertmanager known", "alerting", "alerting.alertmanagers", prometheus(alerting={})),
    # Alertmanager
    Fault(
        "no Alertmanager",
        "alertmanager-reachable",
        "Start it",
        beyond(lambda _: {"alertmanager": f"http://{NOBODY}"}),
    ),
    Fault(
        "sign-in page for an Alertmanager",
        "alertmanager-reachable",
        "sign-in page",
        beyond(lambda chain: {"alertmanager": chain.serve({"/api/v2/status": _SIGN_IN}).url}),
    ),
    Fault("placeholder", "receivers", "values.yaml", alertmanager(_placeholder)),
    Fault(
        "no route for pages",
        "severities",
        "severities.paging",
        beside_rules(_other_words),
        "warning",
    ),
    Fault(
        "an inhibition in the words of the rules",
        "inhibitions",
        "target_matchers",
        beside_rules(_mutes_tickets, "critical=sev1,warning=sev2,info=sev3"),
        "warning",
    ),
    Fault(
        "no inhibitions", "inhibitions", "inhibit_rules", alertmanager(_no_inhibitions), "warning"
    ),
    Fault(
        "broad inhibition",
        "inhibitions",
        "target_matchers",
        alertmanager(_broad_inhibition),
        "warning",
    ),
    Fault("silence", "silences", "amtool silence expire", beyond(_silence)),
    # Grafana
    Fault(
        "Grafana wants a token",
        "grafana-reachable",
        "--grafana.http-config.file",
        grafana_answers(**{"/api/datasources": as_json({}, 401)}),
    ),
    Fault(
        "no dashboard",
        "dashboards",
        "assets export",
        grafana_answers(**{_OF_BOARD: as_json({}, 404)}),
    ),
    Fault(
        "old dashboard",
        "dashboards",
        "assets export",
        grafana_answers(**{_OF_BOARD: as_json(_FAULTY)}),
        "warning",
    ),
    Fault(
        "no data source", "data-source", "Add", grafana_answers(**{"/api/datasources": as_json([])})
    ),
    Fault(
        "data source fails",
        "data-source",
        "Correct its address",
        grafana_answers(**{_OF_SOURCE: _UNHEALTHY}),
    ),
)
