"""What doctor says of a Prometheus: its targets, its samples and its rules."""

import time
from collections.abc import Sequence

import pytest

from azure_scheduled_events_exporter.alerts.formats.prometheus import rules_version
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.doctor.finding import Finding
from support.doctor.canned_parts import (
    examined,
    finding_of,
    prometheus,
    target,
)
from support.doctor.doctor_chain import Canned


def test_target_that_was_not_scraped_yet() -> None:
    """Between discovery and the first scrape, nothing is known to be wrong."""
    fresh = target(health="unknown")
    found = finding_of("target", examined("Prometheus", prometheus([fresh])))
    assert found.mark == "warning"
    assert "not scraped" in found.sentence


_ID = "5d3a81f2-9c0e-4b7a-8f64-1e2b9a7c5d08"
_PRODUCTION = {"vm_id": _ID.upper(), "resource_group": "production"}
_STAGING = {"vm_id": _ID.replace("5", "6"), "resource_group": "staging"}


def scraped_as(instance: Instance | None, *vms: dict[str, str]) -> Finding:
    """Return what doctor says of the target on the VM ``instance``, if a Prometheus scrapes
    ``vms``, which all have its name: the first as ``vm-0:10169``, and so on.
    """
    series = [
        {"metric": {"job": "vms", "instance": f"vm-{number}:10169", "vm_name": "web_4", **labels}}
        for number, labels in enumerate(vms)
    ]
    at_name = target(
        labels={"job": "vms", "instance": "vm-0:10169"}, scrapeUrl="http://web_4:10169/metrics"
    )
    replies = prometheus([at_name], query={"result": series})
    return finding_of("target", examined("Prometheus", replies, instance=instance))


@pytest.mark.parametrize(
    "here",
    [
        pytest.param(Instance("web_4", vm_id=_ID, resource_group="moved"), id="id"),
        pytest.param(Instance("web_4", resource_group="Production"), id="resource group"),
    ],
)
def test_vms_of_one_name(here: Instance) -> None:
    """Among VMs of one name, doctor finds this one by its id, or by its resource group."""
    found = scraped_as(here, _STAGING, _PRODUCTION)
    assert (found.mark, found.sentence) == ("ok", "This exporter is scraped as vms/vm-1:10169.")
    found = scraped_as(here, _STAGING)
    assert found.mark == "wrong"
    assert "but another VM with this name: vms/vm-0:10169" in found.sentence
    found = scraped_as(here, _PRODUCTION, _PRODUCTION)
    assert found.mark == "warning"
    assert "scraped 2 times" in found.sentence


def test_an_id_that_is_not_azures() -> None:
    """While the exporter does not know its id, a label ``vm_id`` may be one that the target has of
    a discovery. It is no sign of another VM.
    """
    here = Instance("web_4", vm_id=_ID, resource_group="production")
    found = scraped_as(here, {"vm_id": "inventory-17", "resource_group": "production"})
    assert (found.mark, found.sentence) == ("ok", "This exporter is scraped as vms/vm-0:10169.")


def test_a_vm_of_which_only_the_name_is_known() -> None:
    """Without an answer of the metadata service, doctor does not claim which VM is scraped."""
    found = scraped_as(None, _STAGING, _PRODUCTION)
    assert found.mark == "note"
    assert "A VM with this name is scraped as vms/vm-0:10169, vms/vm-1:10169." in found.sentence


def test_loopback_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote Prometheus that scrapes its own loopback address scrapes another exporter."""
    url = "http://prometheus.example:9090"
    replies = {url + path: reply for path, reply in prometheus([target()]).items()}
    with Canned(replies) as proxy:  # a proxy is asked for whole addresses
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        findings = examined("Prometheus", {}, url)
    assert "does not scrape this exporter" in finding_of("target", findings).sentence


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
    assert hint in finding_of("target", examined("Prometheus", replies)).hint


def test_no_rules() -> None:
    """A Prometheus without our rules is one line, and not one for each thing to say of rules."""
    found = [
        each
        for each in examined("Prometheus", prometheus([target()]))
        if each.check.startswith("rules-")
    ]
    assert [(each.check, each.mark) for each in found] == [("rules-loaded", "wrong")]


def test_rules_of_two_versions() -> None:
    """If an old export is loaded beside that of this version, doctor names both versions."""
    rules = [
        {"type": "alerting", "name": "NoExporters", "annotations": {"rules_version": version}}
        for version in (rules_version(), "0.0.1+1a2b3c4d")
    ]
    group = {"name": "azure-scheduled-events-exporters", "rules": rules}
    replies = prometheus([target()], rules={"groups": [group]})
    found = finding_of("rules-version", examined("Prometheus", replies))
    assert found.mark == "warning"
    assert f"0.0.1+1a2b3c4d and {rules_version()}" in found.sentence


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
    assert finding_of("target", found).mark == "wrong", "this store has no samples of the exporter"


@pytest.mark.parametrize(
    ("ages", "mark", "words"),
    [
        pytest.param((200,), "skipped", "fewer than two scrapes", id="one"),
        pytest.param((310, 10), "wrong", "scraped every 5m", id="every five minutes"),
        pytest.param(range(120, 0, -30), "warning", "scraped every 30s", id="every 30 seconds"),
        pytest.param(range(60, 0, -6), "warning", "scraped every 6s", id="every six seconds"),
        pytest.param(
            (*range(900, 300, -60), *range(60, 0, -5)),
            "ok",
            "scraped every 5s",
            id="more often since a minute",
        ),
    ],
)
def test_samples_of_a_store(ages: Sequence[int], mark: str, words: str) -> None:
    """Rare samples are wrong, one sample says nothing yet, and the last minute counts.

    ``ages`` are those of the samples in seconds. More than 5 s between two is a warning.
    """
    now = time.time()
    samples = [[now - age, "1"] for age in ages]
    found = examined(
        "Prometheus", prometheus(query={"result": [{"metric": {}, "values": samples}]})
    )
    interval = finding_of("scrape-interval", found)
    assert interval.mark == mark
    assert words in interval.sentence


def labels_of_pushes(external: str, labels: str) -> Finding:
    """Return what doctor says of ``--alertmanager.labels`` beside the ``external_labels`` of a
    Prometheus.
    """
    config = f"global: {{external_labels: {{{external}}}}}\nalerting: {{}}\n"
    replies = prometheus(**{"status/config": {"yaml": config}})
    flags = {"alertmanager.url": "http://127.0.0.1:1", "alertmanager.labels": labels}
    return finding_of("alert-labels", examined("Prometheus", replies, flags=flags))


def test_labels_of_what_is_pushed() -> None:
    """A pushed alert needs the labels that Prometheus adds to its own, and may have more."""
    assert labels_of_pushes("", "").mark == "ok"
    assert labels_of_pushes("env: prod", "env=prod,team=web").mark == "ok"
    found = labels_of_pushes("env: prod", "team=web")
    assert found.mark == "warning"
    assert "--alertmanager.labels=env=prod" in found.hint
