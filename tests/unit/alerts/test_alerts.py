"""The settings of the alerts, and what they change."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import ALERT_SETTINGS, Settings, load, render, resolve
from azure_scheduled_events_exporter.alerts.generate import GENERATED
from azure_scheduled_events_exporter.alerts.groups import alerts, groups, unrouted
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.severities import notifies, pages
from azure_scheduled_events_exporter.errors import UsageError


def rules(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the rules that ``values`` make, by their names."""
    content = yaml.safe_load(GENERATED["prometheus/prometheus-rules.yml"](resolve(values)))
    return {
        rule.get("alert") or rule["record"]: rule
        for group in content["groups"]
        for rule in group["rules"]
    }


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        (
            "alerts.disable",
            "Reboot",
            "'alerts.disable' is no setting of the alerts; did you mean 'alerts.disabled'?",
        ),
        (
            "sevrities.Reboot",
            "page",
            "'sevrities.Reboot' is no setting of the alerts; did you mean 'severities'?",
        ),
        ("nonsense", "x", "'nonsense' is no setting of the alerts; there are: job, "),
        ("scrape.interval", "soon", "scrape.interval: 'soon' is no duration"),
        ("scrape.interval", "5m", "scrape.interval: 5m is out of range: 1s to 2m"),
        (
            "labels.keep",
            "team,event_id",
            "labels.keep: 'event_id' is not possible: a list of names of labels",
        ),
        (
            "labels.add",
            "severity=page",
            "labels.add: 'severity=page' is not possible: names of labels",
        ),
        (
            "labels.add",
            "scale_set=web",
            "labels.add: 'scale_set=web' is not possible: names of labels",
        ),
        ("labels.add", "team={{ x }}", "labels.add: 'team={{ x }}' is not possible"),
        (
            "severities",
            "Reboot",
            "severities: 'Reboot' is not possible: critical, warning, info or names of alerts",
        ),
        (
            "severities",
            "warning=low,info=low",
            "severities: 'low' is the word of warning and of info, so alerts of the level warning",
        ),
        (
            "severities.info",
            "critical",
            "severities: 'critical' is the word of critical and of info",
        ),
        (
            "job",
            'a"} or up{job="b',
            "job: must not contain quotes, backslashes, braces or line breaks",
        ),
        ("job", "(", "job: '(' is no regular expression: "),
        ("job", "", "job: '' is not possible: a regular expression"),
        ("job", "(?!other).+", "job: '(?!other).+' is no regular expression of Prometheus"),
        ("tickets.email-from", "", "tickets.email-from: '' is not possible: an address"),
        (
            "maintenance.targets",
            'alertname=~"("',
            "maintenance.targets: '(' is no regular expression: ",
        ),
        (
            "maintenance.equal",
            "host=team",
            "maintenance.equal: 'host=team' needs 'team': there are host, ",
        ),
        (
            "pager.webhook-url",
            "pager",
            "pager.webhook-url: its value is not possible: an address that begins with http",
        ),
        (
            "tickets.email-smarthost",
            "mail",
            "tickets.email-smarthost: 'mail' is not possible: HOST:PORT",
        ),
    ],
)
def test_impossible_values_are_refused(name: str, value: str, complaint: str) -> None:
    """A value that would make nonsense of a rule is refused by the setting's name, a mistyped name
    with a hint.
    """
    with pytest.raises(UsageError) as caught:
        resolve({name: value})
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("alerts.disabled", "Rebot", f"'Rebot' is no alert; did you mean '{PREFIX}Reboot'?"),
        ("alerts.disabled", "critical", "'critical' is no alert; there are: "),
        (
            "severities",
            "Rebot=page",
            (
                "severities: 'Rebot' is no alert and no level (critical, warning, info); did you"
                f" mean '{PREFIX}Reboot'?"
            ),
        ),
        ("severities", "Critical=page", "did you mean 'critical'?"),
    ],
)
def test_mistyped_alerts_are_refused(name: str, value: str, complaint: str) -> None:
    """An alert or level that does not exist is refused, with the name of a similar one, or with all
    if none is similar.
    """
    with pytest.raises(UsageError) as caught:
        render(resolve({name: value}))
    assert complaint in str(caught.value)


_WORDS = "critical=sev1,warning=sev2,info=sev3"
"""Another word for each level."""


def test_levels_in_the_words_of_a_company() -> None:
    """The word that is set for a level is the severity of all its alerts, unless an alert has a
    word of its own.
    """
    settings = resolve({"severities": f"{_WORDS},Preempt=sev1,Freeze=sev3"})
    words = {each.name.removeprefix(PREFIX): each.severity for each in alerts(settings)}
    assert {*words.values()} == {"sev1", "sev2", "sev3"}
    expected = {
        "Reboot": "sev1",
        "Preempt": "sev1",  # a warning by default
        "Overdue": "sev2",
        "Freeze": "sev3",
        "EvictionRisk": "sev3",
    }
    assert {name: words[name] for name in expected} == expected


def test_which_words_of_a_company_page_or_notify() -> None:
    """The word that is set for a level pages or notifies as the level does, and the level's own
    word is one like any other then. A list of the words that page overrides this.
    """
    settings = resolve({"severities": _WORDS})
    assert pages("sev1", settings)
    assert notifies("sev1", settings)
    assert not pages("sev2", settings)
    assert notifies("sev2", settings)
    assert not notifies("sev3", settings)
    assert not pages("critical", settings)
    assert notifies("info", settings), "as every word does that is not that of the level info"
    assert pages("sev2", resolve({"severities": _WORDS, "severities.paging": "sev1,sev2"}))


@pytest.mark.parametrize(
    ("severities", "paging", "suspect"),
    [
        pytest.param("", "", [], id="the defaults"),
        pytest.param(_WORDS, "", [], id="each level has another word"),
        pytest.param(
            f"{_WORDS},Reboot=sev2,Preempt=sev1", "", [], id="two alerts have another level's word"
        ),
        pytest.param("Reboot=P1,Freeze=P3", "", ["P1"], id="an alert that pages has a new word"),
        pytest.param("Reboot=P1,Freeze=P1", "", ["P1"], id="a ticket has that new word, too"),
        pytest.param(
            "Reboot=P3,Freeze=P3,Redeploy=P1",
            "critical,P1",
            [],
            id="the list of the words that page leaves out a word that a ticket has",
        ),
        pytest.param("Reboot=warning,Redeploy=info", "", [], id="alerts that page become tickets"),
        pytest.param(_WORDS, "critical", ["sev1"], id="the list has the old word of critical"),
        pytest.param(
            f"{_WORDS},Preempt=critical", "", ["critical"], id="an alert has the old word"
        ),
        pytest.param(
            "critical=emergency,warning=critical,info=warning", "", [], id="words that move down"
        ),
    ],
)
def test_severities_that_should_perhaps_page(
    severities: str, paging: str, suspect: list[str]
) -> None:
    """The program warns of each word of severity that does not page, but was probably meant to.

    Such a word is either on an alert that pages by default, or it is the name of a level that has
    another word now. A word that certainly means tickets is left out: the word of the level warning
    or info, or, beside a list of the words that page, the word of an alert that makes tickets.

    By default, Reboot and Redeploy page, and Freeze and Preempt make tickets. ``paging`` is the
    setting ``severities.paging``: the list of the words that page.
    """
    found = unrouted(resolve({"severities": severities, "severities.paging": paging}))
    assert [*found] == suspect


def test_values_file(tmp_path: Path) -> None:
    """A values file may nest its keys and has lists and maps; a setting on the command line
    overrides it.
    """
    file = tmp_path / "values.yaml"
    file.write_text(
        "labels: {keep: [team, env], add: {cloud: azure}}\nseverities:\n  Preempt: P3\ngroup.wait:"
        " 1m\n"
    )
    settings = load(file, {"group.wait": "2m", "severities.Reboot": "P1"})
    as_flag = resolve({"labels.keep": "team, env"})
    assert settings.items("labels.keep") == as_flag.items("labels.keep") == ("team", "env")
    assert settings.pairs("labels.add") == {"cloud": "azure"}
    assert settings.pairs("severities") == {"Preempt": "P3", "Reboot": "P1"}
    assert settings.text("group.wait") == "2m"


def test_map_on_the_command_line() -> None:
    """Commas separate the entries of a map; the value of an entry that is named alone may have
    commas.
    """
    several = resolve({"labels.add": "team=web,env=prod"})
    alone = resolve({"labels.add.note": "a, b"})
    assert several.pairs("labels.add") == {"team": "web", "env": "prod"}
    assert alone.pairs("labels.add") == {"note": "a, b"}


def test_values_file_is_wrong(tmp_path: Path) -> None:
    """A complaint about a values file names its line; values that need each other are compared when
    all are read.
    """
    file = tmp_path / "values.yaml"
    file.write_text("job: azure\ngroup.wait: 9d\n")
    with pytest.raises(UsageError, match=r"values\.yaml:2: group\.wait: 9d is out of range"):
        load(file)
    file.write_text("maintenance.equal: [host=team]\nlabels.keep: [team]\n")
    assert load(file).items("maintenance.equal") == ("host=team",)
    # The second argument has values that replace those of the file.
    with pytest.raises(
        UsageError, match=r"values\.yaml:1: maintenance\.equal: 'host=team' needs 'team'"
    ):
        load(file, {"labels.keep": "env"})
    file.write_text("labels:\n  keep: [team, env]\n  add: {team: web}\n")
    with pytest.raises(
        UsageError, match=r"values\.yaml:2: labels\.keep: 'team' is in labels\.add too"
    ):
        load(file)


def test_rendered_values_file_says_the_values(tmp_path: Path) -> None:
    """The values file beside rendered rules renders the same rules again, and the shipped one says
    the defaults.
    """
    changed = resolve(
        {"labels.keep": "team,env", "labels.add": "cloud=azure", "severities.Preempt": "P3"}
    )
    for settings in (changed, resolve({})):
        file = tmp_path / "values.yaml"
        file.write_text(GENERATED["values.yaml"](settings))
        assert load(file).values == settings.values
    assert resolve({}).values == Settings().values


# A valid value that is not the default, for each setting that cannot be "other" or an address.
_OTHER = {
    "severities": "Reboot=page",
    "labels.add": "cloud=azure",
    "labels.metadata": "release=monitoring",
    "alerts.disabled": "Reboot",
    "maintenance.equal": "node=computer_name",
    "tickets.email-smarthost": "mail:25",
    "scrape.interval": "7s",
    "group.wait": "7s",
    "group.repeat": "7m",
    "group.interval": "7s",
    "evaluation.interval": "7s",
}


_WITH_A_TARGET = {"maintenance.targets": "blackbox"}
"""What each setting is changed beside: without a target, ``maintenance.within`` has no effect."""


@cache
def _unchanged(file: str) -> str:
    return GENERATED[file](resolve(_WITH_A_TARGET))


@pytest.mark.parametrize("name", ALERT_SETTINGS)
def test_every_setting_changes_something(name: str) -> None:
    """No setting is without effect."""
    value = _OTHER.get(name, "http://other.test" if name.endswith("url") else "other")
    changed = resolve({**_WITH_A_TARGET, name: value})
    # ``any`` stops at the first difference, and the files of Alertmanager, which are first by name,
    # are made fastest.
    files = sorted(file for file in GENERATED if not file.endswith("values.yaml"))
    assert any(GENERATED[file](changed) != _unchanged(file) for file in files)


def test_labels_and_severities() -> None:
    """Alerts get a company's labels and words of severity, and are left out if disabled."""
    changed = rules(
        {
            "labels.add": "cloud=azure",
            "severities": "Reboot=P1",
            "alerts.disabled": "Freeze,Maintenance",
        }
    )
    assert changed["AzureScheduledEventReboot"]["labels"] == {"severity": "P1", "cloud": "azure"}
    assert changed["AzureScheduledEventExporterDown"]["labels"]["cloud"] == "azure"
    gone = {alert.name for alert in alerts(Settings())} - changed.keys()
    assert gone == {"AzureScheduledEventFreeze", "AzureScheduledEventMaintenance"}


def test_an_operator_can_review_the_rules() -> None:
    """An operator can review the file: expressions are short, and recordings and settings few.

    The limits are budgets: whoever needs more raises them on purpose.
    """
    every = groups(Settings())
    assert [group.interval for group in every] == ["5s", "15s", "30s", "1m"]
    assert sum(len(group.recordings) for group in every) <= 14
    assert len(ALERT_SETTINGS) <= 28
    for name, rule in rules({}).items():
        assert len(rule["expr"]) <= 700, name
        assert len(rule["expr"].splitlines()) <= 12, name


WIDEST_COMMENT = 120  # characters


def test_comments() -> None:
    """Each group, recording and alert of the rule file has a comment above it, and each alert a
    line in the head. No comment is wider than WIDEST_COMMENT.
    """
    lines = GENERATED["prometheus/prometheus-rules.yml"](Settings()).splitlines()
    head = lines[: lines.index("groups:")]
    listed = [found[1] for line in head if (found := re.match(r"#   ([A-Z]\w+)  ", line))]
    assert listed == [each.name.removeprefix(PREFIX) for each in alerts(Settings())]
    comments = [line for line in lines if line.lstrip().startswith("# ")]
    assert [line for line in comments if len(line) > WIDEST_COMMENT] == []
    first_lines = [
        number for number, line in enumerate(lines) if re.match(" *- (name|record|alert): ", line)
    ]
    assert first_lines
    for number in first_lines:
        assert lines[number - 1].lstrip().startswith("# "), lines[number]


def test_slow_evaluations() -> None:
    """If rules are evaluated once a minute, so is every group: one that is evaluated more rarely
    would let its recordings become stale.
    """
    slow = groups(resolve({"evaluation.interval": "60s"}))
    assert {group.interval for group in slow} == {"1m"}


def test_maintenance_in_the_words_of_a_team() -> None:
    """``maintenance.equal`` may name labels of a team's own alerts, and what a VM's series have in
    their place: here ``instance`` is the VM's name, and ``node`` its host name with a port.

    The rule makes such a label under a name with ``maintenance_`` first, so that it overwrites no
    label of the series, and gives it the team's name in the end.
    """
    changed = rules({"maintenance.equal": "instance=vm_name\nnode=host:9100\ncluster"})
    expression = changed["AzureScheduledEventMaintenance"]["expr"]
    assert "max by (vm_id, vm_name, maintenance_instance, maintenance_node, cluster)" in expression
    assert '"instance", "$1", "maintenance_instance", "(.+)")' in expression
