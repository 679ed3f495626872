"""The settings of the alerts, and what they change."""

from functools import cache
from pathlib import Path

import pytest
import yaml

from alerts import SETTINGS, Settings, load, render, resolve
from alerts.generate import GENERATED
from alerts.rules import alerts, groups
from alerts.rules.series import EVENT
from azure_scheduled_events_exporter.errors import UsageError


def test_defaults_are_possible() -> None:
    """Every default passes its own check."""
    assert resolve({}).values == Settings().values


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("overdue.afer", "5m", "'overdue.afer' is no setting of the alerts; there are: job, "),
        ("overdue.after", "soon", "overdue.after: 'soon' is no duration"),
        ("overdue.after", "2d", "overdue.after: 2d is out of range: 1s to 1d"),
        ("hit.share", "1.5", "hit.share: 1.5 is out of range: 0.01 to 1"),
        ("hit.share", "half", "hit.share: 'half' is not a number"),
        ("hit.share", "nan", "hit.share: nan is out of range"),
        ("freeze.severity", "page", "freeze.severity: 'page' is none of critical, warning, info"),
        ("spot.severity", "page", "spot.severity: 'page' is not possible: by-type, critical, warning, info"),
        ("labels.keep", "team,event_id", "labels.keep: 'event_id' is not possible: a list of names of labels"),
        ("labels.keep", "cost-center", "labels.keep: 'cost-center' is not possible"),
        ("job", 'a"} or up{job="b', "job: must not contain quotes, backslashes, braces or line breaks"),
        ("labels.keep", "team,Inf", "labels.keep: 'Inf' is not possible"),
        ("job", "(", "job: '(' is no regular expression: "),
        ("maintenance.targets", 'alertname=~"("', "maintenance.targets: '(' is no regular expression: "),
        ("pager.webhook-url", "pager", "pager.webhook-url: 'pager' is not possible: an address that begins with http"),
        ("chat.slack-url", "hooks.slack.com", "chat.slack-url: 'hooks.slack.com' is not possible: an address that"),
        ("tickets.email-smarthost", "mail", "tickets.email-smarthost: 'mail' is not possible: HOST:PORT"),
        ("pager.webhook-url", "http://a\nb", "pager.webhook-url: must not contain quotes"),
        ("scrape.interval", "5m", "scrape.interval: 5m is out of range: 1s to 2m"),
        ("evaluation.interval", "5m", "evaluation.interval: 5m is out of range: 1s to 2m"),
    ],
)
def test_impossible_values_are_refused(name: str, value: str, complaint: str) -> None:
    """A value that would make nonsense of a rule is refused by the setting's name."""
    with pytest.raises(UsageError) as caught:
        resolve({name: value})
    assert complaint in str(caught.value)


def test_values_file(tmp_path: Path) -> None:
    """A values file may nest its keys, and a setting on the command line overrides it."""
    file = tmp_path / "values.yaml"
    file.write_text("overdue: {after: 20m}\nhit.share: 0.5\n")
    settings = load(file, {"hit.share": "0.75"})
    assert (settings.text("overdue.after"), settings.number("hit.share")) == ("20m", "0.75")


def test_list_in_a_values_file(tmp_path: Path) -> None:
    """A list is written as YAML's or, like with --set, with commas; a list for another setting is refused."""
    file = tmp_path / "values.yaml"
    file.write_text("labels.keep: [team, env]\n")
    assert (
        load(file).items("labels.keep") == resolve({"labels.keep": "team, env"}).items("labels.keep") == ("team", "env")
    )
    file.write_text("job: [a, b]\n")
    with pytest.raises(
        UsageError, match=r"values\.yaml:1: job: must not contain quotes, backslashes, braces or line breaks"
    ):
        load(file)


def test_rendered_values_file_says_the_values(tmp_path: Path) -> None:
    """The values file beside rendered rules renders the same rules again."""
    settings = resolve({"labels.keep": "team,env", "hit.share": "0.5", "tickets.email-to": ""})
    file = tmp_path / "values.yaml"
    file.write_text(render(settings, grafana=False)["values.yaml"])
    assert load(file).values == settings.values


def test_values_file_is_wrong(tmp_path: Path) -> None:
    """A complaint about a values file names its line."""
    file = tmp_path / "values.yaml"
    file.write_text("hit.share: 0.5\noverdue.after: 9d\n")
    with pytest.raises(UsageError, match=r"values\.yaml:2: overdue\.after: 9d is out of range"):
        load(file)


def test_values_that_need_each_other(tmp_path: Path) -> None:
    """Values of a file are compared when all are read: one may need another that stands below it, or miss it."""
    file = tmp_path / "values.yaml"
    file.write_text("maintenance.equal: [host=team]\nlabels.keep: [team]\n")
    assert load(file).items("maintenance.equal") == ("host=team",)
    with pytest.raises(UsageError, match=r"values\.yaml: maintenance\.equal: 'host=team' needs 'team'"):
        load(file, {"labels.keep": "env"})


def test_memory_outlasts_the_intervals() -> None:
    """An event is remembered until the rules have looked again, whatever the setting is."""
    for values, window in (({"memory": "20s"}, "1m"), ({"evaluation.watcher-interval": "5m", "memory": "2m"}, "10m")):
        rules = {rule.record: rule for group in groups(resolve(values)) for rule in group.recordings()}
        assert f"last_over_time({EVENT}[{window}])" in rules[EVENT].expression


def test_shipped_values_file_says_the_defaults(tmp_path: Path) -> None:
    """The values file that people copy changes nothing until they do."""
    file = tmp_path / "values.yaml"
    file.write_text(render(grafana=False)["values.yaml"])
    assert load(file).values == Settings().values


@cache
def _defaults() -> dict[str, str]:
    return render(grafana=False)


@pytest.mark.parametrize("name", [name for name in SETTINGS if not name.startswith("grafana.")])
def test_every_setting_changes_something(name: str) -> None:
    """No setting is without effect."""
    setting = SETTINGS[name]
    other = {"DURATION": "2m1s", "NUMBER": "0.5", "SEVERITY": "info", "TEXT": "another"}[setting.kind.name]
    candidates = [other, "1", "warning", "7s", "critical", "http://VM:10169/", "mail:25"]
    for value in candidates:
        if value == setting.default:
            continue
        try:
            changed = resolve({name: value})
        except UsageError:
            continue
        defaults = _defaults()
        shortest_first = sorted(defaults, key=lambda file: len(defaults[file]))
        assert any(GENERATED[file](changed) != defaults[file] for file in shortest_first if file != "values.yaml")
        return
    pytest.fail(f"no value for {name}")


def test_severity_moves_an_alert_to_another_receiver() -> None:
    """One setting turns the page for a Reboot into a ticket."""
    changed = {alert.name: alert.severity for alert in alerts(resolve({"reboot.severity": "warning"}))}
    assert changed["AzureScheduledEventReboot"] == "warning"
    assert changed["AzureScheduledEventRedeploy"] == "critical"


def test_thresholds_stand_in_the_rules() -> None:
    """A changed threshold is the one that Prometheus compares with."""
    text = render(resolve({"overdue.after": "90s"}), grafana=False)["prometheus/prometheus-rules.yml"]
    (rule,) = [
        rule
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "AzureScheduledEventOverdue"
    ]
    assert "< time() - 90\n" in rule["expr"]
