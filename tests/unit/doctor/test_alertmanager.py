"""What doctor says of an Alertmanager: its inhibitions, and the severities that its routes name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor import alertmanager as doctor_of_alertmanager
from azure_scheduled_events_exporter.doctor import rules
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.subject import Subject
from support.doctor.canned_parts import PAGER, alertmanager, examined, prometheus, the
from support.doctor.doctor_chain import Canned
from support.paths import DATA

# The inhibition that the shipped configuration has.
_OURS = {
    "source_matchers": ["severity=critical"],
    "target_matchers": ["severity=warning"],
    "equal": ["event_id"],
}


@pytest.mark.parametrize(
    ("source", "target", "equal", "words"),
    # Those without words mute no alert about an event.
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
    tree = {**PAGER, "routes": [{"receiver": "pager", "routes": [route]}]}
    found = the("severities", examined("Alertmanager", alertmanager(route=tree)))
    assert found.mark == mark, found
    assert found.mark == "ok" or "critical (AzureScheduledEvent" in found.sentence


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
    muted = the("inhibitions", examined("Alertmanager", replies, words=None))
    assert muted.mark == "warning", "it mutes alerts of every severity, also of unknown ones"
