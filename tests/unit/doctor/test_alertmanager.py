"""What doctor says of an Alertmanager: its inhibitions, and the severities that its routes name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor import alertmanager as doctor_of_alertmanager
from azure_scheduled_events_exporter.doctor import rules
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.finding import Finding
from azure_scheduled_events_exporter.doctor.subject import Subject
from support.doctor.canned_parts import PAGER, alertmanager, examined, finding_of, prometheus
from support.doctor.doctor_chain import Canned
from support.paths import DATA

# The inhibition that the shipped configuration has.
_OURS = {
    "source_matchers": ["severity=critical"],
    "target_matchers": ["severity=warning"],
    "equal": ["event_id"],
}


def inhibitions(*rules: dict[str, Any]) -> Finding:
    """Return what doctor says of the shipped inhibition beside ``rules``."""
    replies = alertmanager(inhibit_rules=[_OURS, *rules])
    return finding_of("inhibitions", examined("Alertmanager", replies))


@pytest.mark.parametrize(
    ("source", "target", "equal", "words"),
    [
        pytest.param(
            "severity=critical",
            "severity=warning",
            ["instance"],
            "with severity=critical fires",
            id="one label that they lack",
        ),
        pytest.param(
            'severity="critical"',
            '{severity=~"warning|info"}',
            ["instance", "namespace"],
            "[instance, namespace]",
            id="two labels that they lack",
        ),
        pytest.param(
            "alertname=Down", 'severity=~".+"', [], "with alertname=Down fires", id="no label"
        ),
        pytest.param(
            r'alertname="Disk \"/data\" is full"',
            'severity=~".+"',
            [],
            'with alertname=Disk "/data" is full fires',
            id="quotes within a value",
        ),
    ],
)
def test_inhibitions_that_mute_events(
    source: str, target: str, equal: list[str], words: str
) -> None:
    """Doctor warns of an inhibition whose ``equal`` has only labels that alerts about events lack.

    To Alertmanager, a label that both alerts lack is equal, so it mutes alerts about other events.
    """
    rule = {"source_matchers": [source], "target_matchers": [target], "equal": equal}
    found = inhibitions(rule)
    assert found.mark == "warning"
    assert words in found.sentence


@pytest.mark.parametrize(
    ("source", "target", "equal"),
    [
        pytest.param(
            "severity=critical",
            'alertname!~"AzureScheduledEvent.+"',
            ["instance"],
            id="of alerts that are not ours",
        ),
        pytest.param(
            "severity=critical", "severity=warning", ["alertname"], id="of alerts of one name"
        ),
        pytest.param(
            "alertname=NodeDown",
            'severity=~".+"',
            ["instance"],
            id="by an alert that has the label, as far as anybody knows",
        ),
        pytest.param("severity=critical", "team=db", ["instance"], id="of another team"),
        pytest.param(
            'severity=~"critical|warning"',
            "severity=warning",
            ["alertname"],
            id="that both sides accept",
        ),
    ],
)
def test_inhibitions_that_mute_no_event(source: str, target: str, equal: list[str]) -> None:
    """An inhibition of a team that mutes no alert about an event is well."""
    rule = {"source_matchers": [source], "target_matchers": [target], "equal": equal}
    assert inhibitions(rule).mark == "ok"


@pytest.mark.parametrize(
    ("values", "equal", "mark"),
    [
        pytest.param("labels.add: {cluster: prod}", ["cluster"], "warning", id="added to all"),
        pytest.param(
            "labels.add: {cluster: prod}",
            ["cluster", "namespace"],
            "warning",
            id="added to all, and one that they lack",
        ),
        pytest.param("labels.keep: [team]", ["team"], "warning", id="of one team"),
        pytest.param("", ["event_type"], "warning", id="of one type"),
        pytest.param(
            "labels.add: {cluster: prod}", ["cluster", "event_id"], "ok", id="of one event"
        ),
    ],
)
def test_inhibitions_by_labels_that_events_share(
    values: str, equal: list[str], mark: str, tmp_path: Path
) -> None:
    """Doctor warns of an inhibition whose ``equal`` has only labels that alerts about two events
    may have in common.
    """
    file = tmp_path / "values.yaml"
    file.write_text(f"{values}\n")
    rule = {"source_matchers": ["severity=critical"], "target_matchers": ["severity=warning"]}
    replies = alertmanager(inhibit_rules=[_OURS, {**rule, "equal": equal}])
    findings = examined("Alertmanager", replies, flags={"alerts.values": str(file)}, words=None)
    assert finding_of("inhibitions", findings).mark == mark


def test_inhibitions_in_the_old_form() -> None:
    """An inhibition with ``source_match`` is read as Alertmanager reads it: one about other alerts
    is well, and one that mutes warnings about other events is not. Doctor says which alerts that
    one mutes.
    """
    file = DATA / "cases" / "inhibit-old-form.yml"
    theirs = yaml.safe_load(file.read_text())["inhibit_rules"]
    found = finding_of("inhibitions", examined("Alertmanager", alertmanager(inhibit_rules=theirs)))
    assert found.mark == "ok", found
    broad = {
        "source_match": {"severity": "critical"},
        "target_match_re": {"severity": "warning|info"},
        "equal": ["instance"],
    }
    found = inhibitions(broad)
    assert found.mark == "warning"
    assert "severity=critical fires, an inhibition with equal: [instance]" in found.sentence
    assert "mutes the alerts with severity=~warning|info about all events that" in found.sentence


def severities(route: dict[str, Any]) -> Finding:
    """Return what doctor says of the severities of an Alertmanager with ``route`` below others."""
    tree = {**PAGER, "routes": [{"receiver": "pager", "routes": [route]}]}
    return finding_of("severities", examined("Alertmanager", alertmanager(route=tree)))


@pytest.mark.parametrize(
    "route", [{"matchers": ['severity="page"']}, {"match": {"severity": "page"}}]
)
def test_a_severity_that_no_route_names(route: dict[str, Any]) -> None:
    """Where routes ask for a severity, one of them has to name that of our pages."""
    found = severities(route)
    assert found.mark == "warning"
    assert "critical (AzureScheduledEvent" in found.sentence


@pytest.mark.parametrize(
    "route",
    [
        {"matchers": ['severity=~"page|critical"']},
        {"match_re": {"severity": "page|critical"}},
        {"matchers": ['team="search"']},
    ],
)
def test_severities_that_are_routed(route: dict[str, Any]) -> None:
    """Routes that name the severity of our pages, or that ask for no severity, are well."""
    assert severities(route).mark == "ok"


def test_severities_of_the_rules_that_are_loaded() -> None:
    """What Prometheus evaluates counts, not what this machine's settings would render."""
    rule = {"type": "alerting", "name": "AzureScheduledEventReboot", "labels": {"severity": "P1"}}
    group = {"name": "azure-scheduled-events", "rules": [rule]}
    tree = {**PAGER, "routes": [{"receiver": "pager", "matchers": ['severity="P1"']}]}
    replies = {**prometheus(rules={"groups": [group]}), **alertmanager(route=tree)}
    with Canned(replies) as server:
        api = Api("--url", server.url)
        subject = Subject(resolve({}, {}), {}, api)
        list(rules.examine(subject, api))  # leaves the labels of the loaded rules in the subject
        assert subject.loaded_labels
        found = finding_of("severities", list(doctor_of_alertmanager.examine(subject, api)))
    assert found.mark == "ok", found


_WORDS_OF_THE_TEAM = {"critical": "sev1", "warning": "sev2", "info": "sev3"}
_SEV1_INHIBITS_OTHERS = {
    "source_matchers": ['severity="sev1"'],
    "target_matchers": ['severity=~"sev2|sev3"'],
    "equal": ["instance"],
}
_ROUTE_OF_SEV1 = {
    "receiver": "team",
    "routes": [{"receiver": "p", "matchers": ['severity="sev1"']}],
}


def test_words_of_the_rules_that_are_loaded() -> None:
    """Inhibitions and routes are judged with the severities of the rules in Prometheus: a team's
    own words count, and those of the shipped rules do not.
    """
    replies = alertmanager(route=_ROUTE_OF_SEV1, inhibit_rules=[_OURS, _SEV1_INHIBITS_OTHERS])
    with_their_words = examined("Alertmanager", replies, words=_WORDS_OF_THE_TEAM)
    muted = finding_of("inhibitions", with_their_words)
    assert muted.mark == "warning"
    assert "with severity=sev1 fires" in muted.sentence
    assert finding_of("severities", with_their_words).mark == "ok"
    with_shipped_words = examined("Alertmanager", replies)
    assert finding_of("inhibitions", with_shipped_words).mark == "ok"
    assert "critical (AzureScheduledEvent" in finding_of("severities", with_shipped_words).sentence


def test_severities_that_only_a_values_file_tells(tmp_path: Path) -> None:
    """With neither the rules of a Prometheus nor a values file, doctor skips what depends on
    severities. With a values file alone, it judges by the severities in that file.
    """
    replies = alertmanager(route=_ROUTE_OF_SEV1, inhibit_rules=[_OURS, _SEV1_INHIBITS_OTHERS])
    # No ``words``: the rules that Prometheus has loaded are not known.
    without_rules = examined("Alertmanager", replies, words=None)
    for check in ("severities", "inhibitions"):
        found = finding_of(check, without_rules)
        assert found.mark == "skipped"
        assert "or --alerts.values FILE" in found.hint
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"severities": _WORDS_OF_THE_TEAM}))
    flags = {"alerts.values": str(values)}
    with_values = examined("Alertmanager", replies, flags=flags, words=None)
    assert finding_of("severities", with_values).mark == "ok"
    assert finding_of("inhibitions", with_values).mark == "warning"


def test_an_inhibition_of_every_severity() -> None:
    """An inhibition that mutes alerts whatever their severity is wrong, also if none is known."""
    broad = {"source_matchers": ["alertname=Down"], "target_matchers": ['severity=~".+"']}
    replies = alertmanager(inhibit_rules=[_OURS, broad])
    found = finding_of("inhibitions", examined("Alertmanager", replies, words=None))
    assert found.mark == "warning"
