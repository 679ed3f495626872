"""When a VM counts as in maintenance, how the alert is labeled, and what Alertmanager is told to inhibit."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import Settings, load, render, resolve
from alerts.settings import MAINTENANCE_TARGETS
from azure_scheduled_events_exporter.doctor.monitoring.routing import inhibits
from azure_scheduled_events_exporter.errors import UsageError
from support.monitoring.alert_scenarios import MAINTENANCE, Exporter, Seen, Story, one
from support.monitoring.promtool import promtool
from support.monitoring.stories.maintenance import MAINTAINED, working
from support.monitoring.together import Together, hold, together
from support.paths import ROOT

_REBOOT = Seen(not_before=300, started=300, gone=700)


PAGE = (ROOT / "docs" / "maintenance.md").read_text()


def rendered(name: str, **values: str) -> str:
    """Return a generated file with changed settings of the maintenance."""
    settings = resolve({key.replace("__", "."): value for key, value in values.items()})
    return render(settings, grafana=False)[name]


def play(folder: Path, story: Story, **values: str) -> None:
    """Assert that the story goes as it says with changed settings."""
    rules = folder / f"{story.name}.yml"
    rules.write_text(rendered("prometheus/prometheus-rules.yml", **values))
    done = promtool(folder, story, rules=rules)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stories", together(MAINTAINED), ids=str)
def test_story(stories: Together, subtests: pytest.Subtests, tmp_path: Path) -> None:
    """A VM is in maintenance while Azure is about to work on it, works on it or has just done so, and no longer."""
    hold(stories, subtests, tmp_path)


def test_it_needs_no_recording(tmp_path: Path) -> None:
    """The alert fires in its first evaluation from scraped series alone."""
    rules = yaml.safe_load(rendered("prometheus/prometheus-rules.yml"))
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if "alert" in rule]
    path = tmp_path / "alerts-only.yml"
    path.write_text(yaml.safe_dump({"groups": [group for group in rules["groups"] if group["rules"]]}))
    story = Story("alerts only", one(_REBOOT), fires={(MAINTENANCE, 240): (working(),)}, quiet={MAINTENANCE: (230,)})
    done = promtool(tmp_path, story, rules=path)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Restarted(Story):
    """A story in which Prometheus was restarted: what it recorded before was not marked as stale."""

    recorded: str = ""

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it, with the recorded series until the 300th second."""
        told = super().to_test()
        before = {"series": self.recorded, "values": "_x55 1x5"}
        return {**told, "input_series": [*self._inputs(self.end), before]}


def test_a_phase_of_before_a_restart(tmp_path: Path) -> None:
    """An event that has been due is in maintenance when it has started, although both phases are recorded."""
    place = 'azure_scheduled_events:event_place{event_id="E1",event_type="Reboot",phase="due",resources="vmss_0"}'
    started = one(replace(_REBOOT, announced=300))
    story = Restarted("restarted", started, steady={MAINTENANCE: (300, 585)}, every=15, recorded=place)
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


def test_times(tmp_path: Path) -> None:
    """``before``, ``after`` and ``longest`` are settings."""
    story = Story(
        "other times",
        one(_REBOOT, down=((305, 600),)),
        quiet={MAINTENANCE: (170, 790, 1000)},
        steady={MAINTENANCE: (180, 750)},
    )
    play(tmp_path, story, maintenance__before="2m", maintenance__after="1m")
    story = Story("at most 2 minutes", one(_REBOOT), quiet={MAINTENANCE: (230, 430)}, steady={MAINTENANCE: (240, 410)})
    play(tmp_path, story, maintenance__longest__reboot="2m")


def test_labels(tmp_path: Path) -> None:
    """The alert carries labels as the team's own alerts write them, and the labels to keep."""
    target = {"team": "search", "node": "aks-1"}
    labels = {
        "instance": "vmss_0:9100",
        "host": "vmss_0",
        "fqdn": "vmss_0.prod.example.org",
        "nodename": "aks-1",
        "severity": "info",
    }
    story = Story("labels", one(_REBOOT, target=target), fires={(MAINTENANCE, 240): (working(**target, **labels),)})
    equal = "instance=host:9100,host=host,fqdn=vm_name.prod.example.org,nodename=node"
    play(tmp_path, story, labels__keep="team", maintenance__equal=equal)


def test_computer_name(tmp_path: Path) -> None:
    """The alert knows the VM by the computer name that its exporter or its target shows, also while it is down."""
    down = ((305, 600),)
    named = Exporter("pool_35", (replace(_REBOOT, resources="pool_35"),), down=down, computer_name="pool00000Z")
    other = Exporter("vm", (replace(_REBOOT, event_id="E2", resources="vm"),), down=down)
    labeled = Exporter(
        "vm_2",
        (replace(_REBOOT, event_id="E3", resources="vm_2"),),
        down=down,
        target={"computer_name": "of-target"},
    )
    firing = (
        working("vm_2", computer_name="of-target", host="of-target.example.org"),
        working("pool_35", computer_name="pool00000Z", host="pool00000Z.example.org"),
        working("vm"),
    )
    away = tuple(replace(each, description=each.description.replace("00:04:00", "00:05:00")) for each in firing)
    story = Story("names", (named, other, labeled), fires={(MAINTENANCE, 240): firing, (MAINTENANCE, 450): away})
    play(tmp_path, story, maintenance__equal="instance,host=computer_name.example.org")


def test_two_forms_of_a_label(tmp_path: Path) -> None:
    """Two exporters on a VM have two instances: the alert then exists once for each."""
    firing = tuple(working(instance=f"vmss_0:{port}") for port in (9100, 9187))
    story = Story("ports", one(_REBOOT), fires={(MAINTENANCE, 240): firing})
    play(tmp_path, story, maintenance__equal="instance=host:9100,instance=host:9187")


def test_unknown_source_is_refused() -> None:
    """A label can be written with what is known of a VM, and nothing else."""
    with pytest.raises(UsageError, match=r"maintenance\.equal: 'nodename=team' needs 'team': there are host, vm_id, "):
        resolve({"maintenance.equal": "nodename=team"})
    resolve({"maintenance.equal": "nodename=team", "labels.keep": "team"})


@pytest.mark.parametrize("text", ["a b", 'alertname="x', "a=b{}", "instance=host 9100"])
def test_what_is_no_target(text: str) -> None:
    """What Alertmanager would not take is refused by the setting's name."""
    with pytest.raises(UsageError, match=r"maintenance\.targets: '"):
        resolve({"maintenance.targets": f"{text}\n"})


def inhibitions(**values: str) -> list[dict[str, Any]]:
    """Return the rules by which a VM in maintenance inhibits alerts."""
    config = yaml.safe_load(rendered("alertmanager/alertmanager.yml", **values))
    return [each for each in config["inhibit_rules"] if MAINTENANCE in str(each["source_matchers"])]


def test_nothing_is_inhibited_unless_asked_for() -> None:
    """As shipped, no alert of anybody waits for Azure."""
    assert inhibitions() == []
    assert Settings().items("maintenance.targets") == ()


def blocks_of(title: str, language: str) -> list[str]:
    """Return the blocks of a section of the page."""
    section = re.split(r"(?m)^## ", PAGE.partition(f"\n## {title}\n")[2])[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def documented(title: str, folder: Path) -> list[dict[str, Any]]:
    """Return the rules by which a VM in maintenance inhibits alerts, as the values file of a section renders them."""
    (values,) = [block for block in blocks_of(title, "yaml") if block.startswith("maintenance.targets:")]
    (folder / "values.yaml").write_text(values)
    config = yaml.safe_load(render(load(folder / "values.yaml"), grafana=False)["alertmanager/alertmanager.yml"])
    return [each for each in config["inhibit_rules"] if MAINTENANCE in str(each)]


def test_the_documented_example_is_what_is_rendered(tmp_path: Path) -> None:
    """The page's values file for node_exporter renders the inhibit_rules that the page shows."""
    (shown,) = [each for each in blocks_of("node_exporter", "yaml") if each.startswith("inhibit_rules:")]
    assert documented("node_exporter", tmp_path) == yaml.safe_load(shown)["inhibit_rules"]


def test_the_documented_example_of_kubernetes_is_what_is_rendered(tmp_path: Path) -> None:
    """The page's values file for kube-prometheus-stack renders four rules, of which the page shows the first."""
    rules = documented("kube-prometheus-stack", tmp_path)
    (shown,) = [each for each in blocks_of("kube-prometheus-stack", "yaml") if each.startswith("inhibit_rules:")]
    assert [rules[0]] == yaml.safe_load(shown)["inhibit_rules"]
    assert len(rules) == 4
    working_on = {"alertname": MAINTENANCE, "node": "aks-1", "instance": "10.0.0.4:9100"}
    quiet: list[tuple[str, dict[str, str]]] = [
        ("KubeNodeNotReady", {"node": "aks-1"}),
        ("InstanceDown", {"instance": "10.0.0.4:9100"}),
    ]
    loud: list[tuple[str, dict[str, str]]] = [
        ("KubeNodeNotReady", {"node": "aks-2"}),
        ("InstanceDown", {"instance": "10.0.0.5:9100"}),
        ("KubeNodeNotReady", {}),
        ("KubePersistentVolumeFillingUp", {"node": "aks-1"}),
    ]
    for name, labels in (*quiet, *loud):
        target = {"alertname": name, **labels}
        assert any(inhibits(rule, working_on, target) for rule in rules) is ((name, labels) in quiet), target


def documented_alerts() -> dict[str, list[str]]:
    """Return the alerts that the page's table names for each target."""
    table = PAGE.partition("| name | alerts |")[2].partition("\n\n")[0]
    return {name: alerts.split(", ") for name, alerts in re.findall(r"\| `([a-z-]+)` \| (.+?) \|", table)}


def test_every_named_target_is_documented() -> None:
    """The page's table has the targets that can be named, and all of their alerts."""
    assert {name: "|".join(alerts) for name, alerts in documented_alerts().items()} == MAINTENANCE_TARGETS


@pytest.mark.parametrize("name", MAINTENANCE_TARGETS)
def test_a_named_target_inhibits_the_documented_alerts(name: str) -> None:
    """The alerts of the page are inhibited while their VM is in maintenance, and alerts about data never are."""
    rules = inhibitions(maintenance__targets=name, maintenance__equal="instance=host:9100")
    working_on = {"alertname": MAINTENANCE, "instance": "10.0.0.4:9100"}

    def quiet(alert: str, instance: str = "10.0.0.4:9100") -> bool:
        return any(inhibits(rule, working_on, {"alertname": alert, "instance": instance}) for rule in rules)

    of_this = documented_alerts()[name]
    every = [alert for alerts in documented_alerts().values() for alert in alerts]
    data = ["PostgresReplicationLag", "NodeFilesystemSpaceFillingUp", "KubePersistentVolumeFillingUp"]
    assert [alert for alert in (*every, *data, "AzureScheduledEventReboot") if quiet(alert)] == of_this
    assert not any(quiet(alert, "10.0.0.5:9100") for alert in of_this)


@dataclass(frozen=True)
class Queried(Story):
    """A story of VMs that node_exporter finds down from the 300th second, with queries: their time and their rows."""

    queries: tuple[tuple[str, int, dict[str, float]], ...] = ()

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""
        nodes = [
            {"series": f'up{{job="node",instance="{vm}:9100"}}', "values": "1x60 0x200"} for vm in ("vmss_0", "vmss_1")
        ]
        asked = [
            {
                "expr": query,
                "eval_time": f"{at}s",
                "exp_samples": [{"labels": labels, "value": value} for labels, value in rows.items()],
            }
            for query, at, rows in self.queries
        ]
        return {**super().to_test(), "input_series": [*self._inputs(self.end), *nodes], "promql_expr_test": asked}


def test_the_documented_queries_for_grafana(tmp_path: Path) -> None:
    """During maintenance, the alert's query leaves out the VM, and the query of the annotation returns it."""
    excluded, annotation = (query.strip() for query in blocks_of("Grafana", "promql"))
    fleet = (*one(replace(_REBOOT, gone=600), down=((305, 500),)), Exporter("vmss_1"))
    chosen, other = (annotation.replace("$vm", vm) for vm in ("vmss_0|vmss_2", "vmss_1"))
    (setting,) = re.findall(r'maintenance\.equal: \["(.+?)"\]', PAGE.partition("\n## Grafana\n")[2])
    row = (
        f'ALERTS{{alertname="{MAINTENANCE}",alertstate="firing",component="maintenance",instance="vmss_0:9100",'
        'severity="info",vm_id="//vmss_0",vm_name="vmss_0"}'
    )
    story = Queried(
        "queries",
        fleet,
        steady={MAINTENANCE: (240, 880)},
        quiet={MAINTENANCE: (230, 930)},
        queries=(
            (chosen, 230, {}),
            (chosen, 450, {row: 1}),
            (other, 450, {}),
            (chosen, 930, {}),
            (excluded, 200, {}),
            (excluded, 450, {'up{job="node",instance="vmss_1:9100"}': 0}),
        ),
        exact=True,
    )
    play(tmp_path, story, maintenance__equal=setting)


def test_matchers_with_commas_are_one_target() -> None:
    """A target of several matchers selects what has all of them, however it is written; "" is a value too."""
    (found,) = inhibitions(maintenance__targets='alertname="InstanceDown",env="prod",team=""')
    assert found["target_matchers"][:3] == ['alertname="InstanceDown"', 'env="prod"', 'team=""']


def test_inhibition_needs_a_label_that_both_have() -> None:
    """A rule inhibits alerts of the same VM only: none that lacks the label, and no alert about an event."""
    found = inhibitions(
        maintenance__targets='node-exporter\nBackupSlow\nalertname=~"Probe.*",job=blackbox\n',
        maintenance__equal="instance=host:9100,node",
    )
    assert len(found) == 6
    for each in found:
        (label,) = each["equal"]
        assert each["source_matchers"] == [f'alertname="{MAINTENANCE}"', f'{label}!=""']
        assert each["target_matchers"][-2:] == ['alertname!~"AzureScheduledEvent.+"', f'{label}!=""']
    targets = [each["target_matchers"][:-2] for each in found if each["equal"] == ["node"]]
    assert re.match(r'alertname=~"InstanceDown\|', targets[0][0])
    assert targets[1:] == [['alertname="BackupSlow"'], ['alertname=~"Probe.*"', 'job="blackbox"']]


def test_inhibition_stays_within_a_cluster() -> None:
    """If VMs of two clusters have equal labels, an alert is inhibited by a VM of its own cluster only."""
    within = {"maintenance__within": "cluster"}
    found = inhibitions(maintenance__targets="node-exporter", maintenance__equal="instance=host:9100,node", **within)
    assert [each["equal"] for each in found] == [["instance", "cluster"], ["node", "cluster"]]
    config = yaml.safe_load(rendered("alertmanager/alertmanager.yml", **within))
    equal = [each["equal"] for each in config["inhibit_rules"]]
    assert equal == [["event_id"], *[["job", "instance", "cluster"]] * 2]


def test_the_label_of_phases_is_reserved() -> None:
    """``phase`` tells apart what is recorded of a VM, so it is no label to keep."""
    with pytest.raises(UsageError, match=r"labels\.keep: 'phase' is not possible"):
        resolve({"labels.keep": "phase"})
