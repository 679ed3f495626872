"""The faults that ``doctor`` has to find: one row each, with the check that finds it and the text of its hint.

Each plants one thing that is wrong in a chain that is otherwise well.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import bcrypt
import yaml

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.journal.files import on_disk
from azure_scheduled_events_exporter.journal.store import Entry
from support.certificates import Authority
from support.doctor.doctor_chain import VM, Chain, as_json, grafana, imds
from support.monitoring.collector import Collector, Reply
from support.programs import eventually, fetch, free_port

Flags = dict[str, str | None]


@dataclass(frozen=True)
class Fault:
    """A fault; ``plant`` returns the flags and variables with which doctor then looks at the chain."""

    name: str
    check: str
    hint: str
    plant: Callable[[Chain], tuple[Flags, Mapping[str, str]]] = field(repr=False)
    mark: str = "wrong"


def flags(**changed: str | None) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault by flags alone, underscores for dashes and dots by the names of settings."""
    names = {
        "imds": "imds.endpoint",
        "journal": "journal.path",
        "listen": "web.listen-address",
        "otlp": "otlp.endpoint",
    }
    given = {names.get(name, name): value for name, value in changed.items()}
    return lambda chain: ({**chain.here, **given}, {})


def variables(**changed: str) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault by the environment."""
    return lambda chain: (chain.here, changed)


def by(plant: Callable[[Chain], Mapping[str, str | None]]) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault that has to be started first; ``plant`` returns the flags that lead to it."""
    return lambda chain: ({**chain.here, **plant(chain)}, {})


def beyond(plant: Callable[[Chain], Mapping[str, str | None]]) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a fault beyond this machine; ``plant`` returns the flags that lead to it."""
    return lambda chain: ({**chain.beyond, **plant(chain)}, {})


def imds_answers(**canned: Any) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:  # noqa: ANN401 - of imds()
    """Plant a metadata service of its own."""
    return by(lambda chain: {"imds.endpoint": chain.serve(imds(**canned)).url})


def imds_says(status: int, body: bytes = b"", **headers: str) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a metadata service that answers everything alike."""
    reply = (status, headers, body)
    replies = {"/metadata/instance": reply, "/metadata/scheduledevents": reply}
    return by(lambda chain: {"imds.endpoint": chain.serve(replies).url})


def prometheus(
    *arguments: str, rules: Callable[[str], str] | None = None, **config: object
) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a Prometheus with other flags, rules or configuration."""
    return beyond(
        lambda chain: {
            "prometheus": chain.run_prometheus(*arguments, rules=rules(chain.rules) if rules else None, **config)
        }
    )


def scraping(**changed: object) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a Prometheus that scrapes in another way."""
    return beyond(lambda chain: {"prometheus": chain.run_scraping_prometheus(chain.scrape_config(**changed))})


def alertmanager(edit: Callable[[dict[str, Any]], None]) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant an Alertmanager whose configuration ``edit`` has changed."""
    return beyond(lambda chain: {"alertmanager": chain.run_alertmanager(edit)})


def grafana_answers(
    **changed: tuple[int, Mapping[str, str], bytes],
) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    """Plant a Grafana; names of paths are written with ``__`` for a slash and ``_`` for a dash."""
    paths = {"/" + name.replace("__", "/").replace("_", "-"): reply for name, reply in changed.items()}
    return beyond(lambda chain: {"grafana": chain.serve(grafana(**paths)).url})


def _file(chain: Chain, name: str, content: bytes) -> str:
    path = chain.new_folder() / name
    path.write_bytes(content)
    return str(path)


def _throttled(chain: Chain) -> Flags:
    chain.simulator.inject("throttle", 4)
    return {}


def _old_span(chain: Chain) -> Flags:
    path = Path(_file(chain, "journal.sqlite", b""))
    store = on_disk(path)
    begun = time.time() - 7200
    span = SpanFacts("0" * 31 + "1", "0" * 15 + "1", "", "detected", begun, begun + 1, {})
    store.record(Entry(spans=[span]))
    store.close()
    return {"journal.path": str(path)}


def _expired(chain: Chain) -> Flags:
    folder = chain.new_folder()
    pair = Authority(folder).ending("server", time.time() - 86_400)
    web = folder / "web.yaml"
    web.write_text(f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}")
    exporter = chain.run_exporter(chain.simulator.vm_url(VM), "--web.config.file", str(web))
    return {"web.listen-address": f"127.0.0.1:{exporter.port}", "web.config.file": str(web)}


def _plain_instead_of_tls(chain: Chain) -> Flags:
    folder = chain.new_folder()
    pair = Authority(folder).server()
    web = folder / "web.yaml"
    web.write_text(f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}")
    return {"web.config.file": str(web)}


def _password(chain: Chain) -> Flags:
    folder = chain.new_folder()
    web = folder / "web.yaml"
    web.write_text(f"basic_auth_users: {{me: {bcrypt.hashpw(b'sesame', bcrypt.gensalt(4)).decode()}}}")
    exporter = chain.run_exporter(chain.simulator.vm_url(VM), "--web.config.file", str(web))
    return {"web.listen-address": f"127.0.0.1:{exporter.port}", "web.config.file": str(web)}


def _blind_exporter(chain: Chain) -> Flags:
    exporter = chain.run_exporter(f"http://127.0.0.1:{free_port()}")
    return {"web.listen-address": f"127.0.0.1:{exporter.port}"}


def _exporter_elsewhere(chain: Chain) -> Flags:
    exporter = chain.run_exporter(chain.serve(imds()).url)
    exporter.shows("a poll", lambda scrape: scrape.value("up"))
    return {"web.listen-address": f"127.0.0.1:{exporter.port}"}


def _journal_fails(chain: Chain) -> Flags:
    blocked = Path(_file(chain, "file", b"no folder")) / "state"
    exporter = chain.run_exporter(chain.simulator.vm_url(VM), "--journal.path", str(blocked))
    return {"web.listen-address": f"127.0.0.1:{exporter.port}"}


def _other_program(chain: Chain) -> Flags:
    return {"web.listen-address": f"127.0.0.1:{chain.serve({}).port}"}


def _collector(*replies: Reply) -> Callable[[Chain], tuple[Flags, Mapping[str, str]]]:
    return beyond(lambda chain: {"otlp.endpoint": chain.extra.enter_context(Collector(*replies)).url})


def _scraped_twice(chain: Chain) -> Flags:
    return {"prometheus": chain.run_scraping_prometheus(chain.scrape_config(), chain.scrape_config(job_name="again"))}


def _labelled_target(chain: Chain) -> Flags:
    (target,) = chain.scrape_config()["static_configs"]
    labels = {"zone": "rack-7", "vm_name": "web-four", "team": "search"}
    return {
        "prometheus": chain.run_scraping_prometheus(chain.scrape_config(static_configs=[{**target, "labels": labels}]))
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


def _without_first_rule(text: str) -> str:
    rules = yaml.safe_load(text)
    del rules["groups"][0]["rules"][0]
    return yaml.safe_dump(rules)


def _other_expression(text: str) -> str:
    rules = yaml.safe_load(text)
    rule = rules["groups"][0]["rules"][0]
    rule["expr"] = f"({rule['expr']}) or azure_scheduled_events_up"
    return yaml.safe_dump(rules)


def _seldom(text: str) -> str:
    rules = yaml.safe_load(text)
    for group in rules["groups"]:
        group["interval"] = "1m"
    return yaml.safe_dump(rules)


def _nobody(config: dict[str, Any]) -> None:
    for receiver in config["receivers"]:
        for key in [key for key in receiver if key.endswith("_configs")]:
            del receiver[key]


def _no_routes(config: dict[str, Any]) -> None:
    del config["route"]["routes"]


def _placeholder(config: dict[str, Any]) -> None:
    for receiver in config["receivers"]:
        receiver["email_configs"] = [{"to": "on-call@example.com", "from": "me@example.org", "smarthost": "smtp:25"}]


def _patient(config: dict[str, Any]) -> None:
    for route in config["route"]["routes"]:
        route.pop("group_wait", None)


def _no_inhibitions(config: dict[str, Any]) -> None:
    config["inhibit_rules"] = []


def _broad_inhibition(config: dict[str, Any]) -> None:
    rule = {"source_matchers": ['alertname="ClusterDown"'], "target_matchers": ['severity=~".+"']}
    config["inhibit_rules"].append(rule)


def _muted(config: dict[str, Any]) -> None:
    config["time_intervals"] = [
        {"name": "nights", "time_intervals": [{"times": [{"start_time": "22:00", "end_time": "24:00"}]}]}
    ]
    for route in config["route"]["routes"]:
        route["mute_time_intervals"] = ["nights"]


def _silence(chain: Chain) -> Flags:
    url = chain.run_alertmanager(lambda _: None)
    matcher = {"name": "alertname", "value": "AzureScheduled.*", "isRegex": True, "isEqual": True}
    status, _, body = as_json(
        {
            "matchers": [matcher],
            "startsAt": formatdate_iso(time.time() - 60),
            "endsAt": formatdate_iso(time.time() + 3600),
            "createdBy": "me",
            "comment": "too loud",
        }
    )
    answer = fetch(f"{url}/api/v2/silences", "POST", body, Content_Type="application/json")
    assert answer.status == status, answer.body
    return {"alertmanager": url}


def formatdate_iso(seconds: float) -> str:
    """Return a moment as Alertmanager takes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


_BOARD = next(assets.folder("dashboards").glob("*vm.json")).stem
_FAULTY_BOARD = {"dashboard": {"uid": _BOARD, "panels": []}, "meta": {}}
_EVENTS_OF_HOST = {"name": "issue_0", "host_name": "issue000000", "resources": ("issue000000",)}
_AN_HOUR_AGO = formatdate(time.time() - 3600, usegmt=True)

FAULTS = (
    # This machine
    Fault("misspelled variable", "variables", "Correct or remove", variables(AZURE_SCHEDULED_EVENTS_POL_INTERVAL="2s")),
    Fault("impossible variable", "settings", "check-config", variables(AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="never")),
    Fault("no such user", "user", "--process.user", flags(**{"process.user": "nobody-of-this-name"})),
    Fault("bad web configuration", "web-config", "Correct the file", flags(**{"web.config.file": "/nowhere.yaml"})),
    Fault("proxy", "proxy", "NO_PROXY", variables(HTTP_PROXY="http://me:sesame@proxy:3128"), "warning"),
    # Metadata service
    Fault(
        "nobody at IMDS' address",
        "imds-reachable",
        "firewall",
        by(lambda _: {"imds.endpoint": f"http://127.0.0.1:{free_port()}"}),
    ),
    Fault("guest proxy agent refuses", "imds-reachable", "azure-proxy-agent", imds_says(403, b"not allowed")),
    Fault("guest proxy agent fails", "imds-reachable", "Restart the agent", imds_says(502)),
    Fault("redirect", "imds-reachable", "Correct --imds.endpoint", imds_says(302, Location="http://login.example/")),
    Fault("clock an hour off", "clock", "time synchronisation", imds_answers(Date=_AN_HOUR_AGO)),
    Fault("another name", "vm-name", "Remove --instance.name", flags(**{"instance.name": "web-5"})),
    Fault("no name", "vm-name", "--instance.name", imds_answers(name="")),
    Fault("host name in Resources", "resources", "--instance.name issue000000", imds_answers(**_EVENTS_OF_HOST)),
    Fault("old api-version", "api-version", "2020-07-01", flags(**{"imds.api-version": "2019-01-01"}), "warning"),
    Fault("throttled", "scheduled-events", "5 requests a second", by(_throttled)),
    Fault("X-Forwarded-For", "scheduled-events", "X-Forwarded-For", imds_says(400, b'{"error":"Bad request"}')),
    Fault("no document", "document", "report it", imds_says(200, b"<html>")),
    # Journal
    Fault("journal in memory", "journal-kept", "--journal.path", flags(journal="memory"), "warning"),
    Fault("journal on tmpfs", "journal-disk", "OS disk", flags(journal="/dev/shm/state")),  # noqa: S108 - only looked at
    Fault("no journal", "journal-readable", "as root", beyond(lambda chain: {"journal.path": str(chain.new_folder())})),
    Fault(
        "damaged journal",
        "journal-readable",
        "Restart",
        beyond(lambda chain: {"journal.path": _file(chain, "journal.sqlite", b"no database" * 999)}),
    ),
    Fault("old span", "spans", "collector", beyond(_old_span)),
    # Exporter
    Fault(
        "no exporter",
        "served",
        "systemctl status",
        beyond(lambda _: {"web.listen-address": f"127.0.0.1:{free_port()}"}),
    ),
    Fault("another program's port", "served", "End that program", beyond(_other_program)),
    Fault("plain instead of TLS", "served", "--web.config.file", beyond(_plain_instead_of_tls)),
    Fault("expired certificate", "certificate", "Renew", beyond(_expired)),
    Fault("password asked", "exporter", "--exporter https://USER:PASSWORD", beyond(_password), "warning"),
    Fault("blind exporter", "exporter-polls", "metadata service above", beyond(_blind_exporter)),
    Fault("other settings", "exporter-settings", "Restart", flags(**{"poll.interval": "2s"}), "warning"),
    Fault("exporter elsewhere", "exporter-events", "--imds.endpoint of both", by(_exporter_elsewhere)),
    Fault("exporter's journal fails", "exporter-journal", "journal above", beyond(_journal_fails)),
    # Collector
    Fault(
        "no collector",
        "otlp",
        "Start the collector",
        beyond(lambda _: {"otlp.endpoint": f"http://127.0.0.1:{free_port()}"}),
    ),
    Fault("collector wants a token", "otlp", "OTEL_EXPORTER_OTLP_HEADERS", _collector(Reply(401))),
    Fault("collector elsewhere", "otlp", "base address", _collector(Reply(404))),
    Fault(
        "collector without HTTP",
        "otlp",
        "OTEL_*",
        variables(OTEL_EXPORTER_OTLP_ENDPOINT="http://h:1", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"),
    ),
    # Prometheus
    Fault("no Prometheus", "prometheus-reachable", "Start it", beyond(lambda _: {"prometheus": "http://127.0.0.1:1"})),
    Fault(
        "Prometheus wants a password",
        "prometheus-reachable",
        "--prometheus.http-config.file",
        beyond(lambda chain: {"prometheus": chain.serve({"/api/v1/status/buildinfo": as_json({}, 401)}).url}),
    ),
    Fault("not scraped", "target", "scrape_configs", prometheus(scrape_configs=[])),
    Fault("scraped at another path", "target", "metrics_path", scraping(metrics_path="/elsewhere")),
    Fault("scraped by https", "target", "tls_config", scraping(scheme="https")),
    Fault(
        "target labels with our names",
        "target-labels",
        "exported_vm_name, exported_zone",
        beyond(_labelled_target),
        "warning",
    ),
    Fault("scraped seldom", "scrape-interval", "5s", scraping(scrape_interval="6s"), "warning"),
    Fault(
        "scraped twice",
        "target",
        "Keep one",
        beyond(_scraped_twice),
        "warning",
    ),
    Fault("no rules", "rules-loaded", "rule_files", prometheus(rule_files=[])),
    Fault("a rule is missing", "rules-version", "assets export", prometheus(rules=_without_first_rule), "warning"),
    Fault("another expression", "rules-version", "assets export", prometheus(rules=_other_expression), "warning"),
    Fault("rules seldom evaluated", "rules-interval", "evaluation.interval", prometheus(rules=_seldom)),
    Fault("a rule fails", "rules-health", "Correct the cause in the error", beyond(_rule_fails)),
    Fault("short retention", "rules-history", "retention.time", prometheus("--storage.tsdb.retention.time=10m")),
    Fault("no Alertmanager known", "alerting", "alerting.alertmanagers", prometheus(alerting={})),
    # Alertmanager
    Fault(
        "no Alertmanager",
        "alertmanager-reachable",
        "Start it",
        beyond(lambda _: {"alertmanager": "http://127.0.0.1:1"}),
    ),
    Fault("nobody is notified", "routes", "Route critical alerts", alertmanager(_nobody)),
    Fault("placeholder", "receivers", "values.yaml", alertmanager(_placeholder)),
    Fault("no grouping by event", "grouping", "event_id", alertmanager(_no_routes), "warning"),
    Fault("pages wait", "group-wait", "group_wait: 0s", alertmanager(_patient), "warning"),
    Fault("no inhibitions", "inhibitions", "inhibit_rules", alertmanager(_no_inhibitions), "warning"),
    Fault("broad inhibition", "inhibitions", "equal", alertmanager(_broad_inhibition), "warning"),
    Fault("muted at night", "mute-times", "mute_time_intervals", alertmanager(_muted), "warning"),
    Fault("silence", "silences", "amtool silence expire", beyond(_silence)),
    # Grafana
    Fault(
        "Grafana wants a token",
        "grafana-reachable",
        "--grafana.http-config.file",
        grafana_answers(api__datasources=as_json({}, 401)),
    ),
    Fault(
        "no dashboard",
        "dashboards",
        "assets export",
        by(
            lambda chain: {
                "grafana": chain.serve(
                    {path: reply for path, reply in grafana().items() if "dashboards" not in path}
                ).url
            }
        ),
    ),
    Fault(
        "old dashboard",
        "dashboards",
        "assets export",
        by(
            lambda chain: {
                "grafana": chain.serve(grafana(**{f"/api/dashboards/uid/{_BOARD}": as_json(_FAULTY_BOARD)})).url
            }
        ),
        "warning",
    ),
    Fault("no data source", "data-source", "Add", grafana_answers(api__datasources=as_json([]))),
    Fault(
        "data source fails",
        "data-source",
        "Correct its address",
        grafana_answers(
            api__datasources__uid__p__health=as_json({"message": "connection refused", "status": "ERROR"}, 400)
        ),
    ),
)
