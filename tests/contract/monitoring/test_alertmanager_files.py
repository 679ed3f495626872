"""The exported configuration in a real Alertmanager, alone and beside a team's own."""

import base64
import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alertmanager.client import posted
from azure_scheduled_events_exporter.commands.cli import main
from support.deployment.charts import helm
from support.documented import blocks
from support.monitoring.paging import ConfiguredAlertmanager, Receiver, receivers
from support.paths import DATA, ROOT
from support.programs import NOBODY, environment, eventually, fetch
from support.servers.certificates import Authority
from support.servers.mail_server import MailServer

CHART = DATA / "stack_chart"
TEAM_VALUES = DATA / "cases" / "team-kube-prometheus-stack-values.yaml"
OURS = Path()
"""Stands for our file among values, as its name is not known before it is exported."""
MOUNTED = "/etc/alertmanager/config"
"""Where the operator mounts the Secret."""
PREFIX = "AzureScheduledEvent"
EVENT = {"event_id": "E", "event_type": "Reboot"}
REBOOT = {"alertname": f"{PREFIX}Reboot", "severity": "critical", **EVENT}
FREEZE = {"alertname": f"{PREFIX}Freeze", "severity": "warning", "event_id": "F"}
MAINTENANCE = {"alertname": f"{PREFIX}Maintenance", "severity": "info", "instance": "a"}
SUMMARY = "s."
"""The summary of every alert that is posted here."""
TEAM_ALERTS = {
    "team-pager": {"alertname": "DiskFull", "severity": "critical"},
    "team-slack": {"alertname": "DiskFills", "severity": "warning"},
    "null": {"alertname": "Watchdog", "severity": "none"},
}
"""The alerts of a team, by the receiver that gets each with the team's values."""


def export(folder: Path, url: str, **more: str) -> Path:
    """Export everything; pages go to ``URL/pager``, tickets to ``URL/tickets``."""
    settings = {**receivers(url), "group.wait": "0s", "group.interval": "1s", **more}
    flags = [flag for name, text in settings.items() for flag in ("--set", f"{name}={text}")]
    assert main(["assets", "export", str(folder), *flags]) == 0
    return folder / "alerts" / "alertmanager"


# The three forms in which the configuration is exported. Each function gets the folder of the
# export, and perhaps values of a team, and returns a file that Alertmanager can load.


def as_exported(folder: Path, *values: Path) -> Path:
    """Return the whole configuration as it was exported; there are no values to merge."""
    assert not values
    return folder / "alertmanager.yml"


def fragment(folder: Path, *values: Path) -> Path:
    """Return the fragment alone, or a team's configuration to which its items were added as the
    comments in the fragment say.
    """
    file = folder / "fragment.yml"
    if not values:
        return file
    ours = yaml.safe_load(file.read_text())
    config = yaml.safe_load(TEAM_VALUES.read_text())["alertmanager"]["config"]
    for name in ("inhibit_rules", "receivers", "templates"):
        config[name] = [*config.get(name, ()), *ours[name]]
    config["route"]["routes"] = [*ours["route"]["routes"], *config["route"]["routes"]]
    file.write_text(yaml.safe_dump(config))
    return file


def stack(folder: Path, *values: Path) -> Path:
    """Return what Helm makes of the chart's values and of ``values``, in which OURS stands for our
    own file; without any, of ours alone.
    """
    ours = folder / "kube-prometheus-stack-values.yaml"
    files = [ours if path == OURS else path for path in values or (OURS,)]
    flags = [flag for path in files for flag in ("--values", str(path))]
    done = helm("template", "monitoring", str(CHART), *flags)
    assert done.returncode == 0, done.stderr
    for name, encoded in yaml.safe_load(done.stdout)["data"].items():
        text = base64.b64decode(encoded).decode()
        (folder / name).write_text(text.replace(MOUNTED, str(folder)))
    return folder / "alertmanager.yaml"


def loaded(file: Path) -> ConfiguredAlertmanager:
    """Return an Alertmanager with the configuration ``file``."""
    return ConfiguredAlertmanager(file, file.parent)


def post(url: str, *alerts: Mapping[str, str]) -> None:
    """Post alerts that go on for a minute."""
    now = time.time()
    body = json.dumps([posted(labels, {"summary": SUMMARY}, now, now + 60) for labels in alerts])
    answer = fetch(f"{url}/api/v2/alerts", "POST", body.encode(), Content_Type="application/json")
    assert answer.status == 200, answer.body


def processed_alert(url: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return an alert as Alertmanager holds it, once it has been processed."""

    def look() -> list[dict[str, Any]]:
        every = json.loads(fetch(f"{url}/api/v2/alerts").body)
        ready = [each for each in every if each["status"]["state"] != "unprocessed"]
        return [each for each in ready if each["labels"] == labels]

    (found,) = eventually(look, f"{labels} is processed")
    return found


def receivers_of(url: str, labels: Mapping[str, str]) -> list[str]:
    """Return the names of the receivers of an alert, without our prefix."""
    names = [each["name"] for each in processed_alert(url, labels)["receivers"]]
    return [name.removeprefix("azure-") for name in names]


@pytest.mark.parametrize("form", [as_exported, fragment, stack])
def test_as_exported(form: Any, tmp_path: Path) -> None:
    """Each file is loaded as it is; page, ticket, info and drill reach who should be told.

    The first drill is about a host that fails, which is a page; the second is an eviction.
    """
    with Receiver() as receiver:
        file = form(export(tmp_path, receiver.url))
        with loaded(file) as alertmanager:
            url = alertmanager.url
            post(url, REBOOT, FREEZE, MAINTENANCE)
            assert receivers_of(url, REBOOT) == ["pager"]
            assert receivers_of(url, FREEZE) == ["tickets"]
            assert receivers_of(url, MAINTENANCE) == ["show"], "which notifies nobody"
            drill = ["drill", "--alertmanager", url, "--timeout", "20s"]
            eventually(lambda: len(receiver.notifications) == 2, "page and ticket have come")
            assert main(drill) == 0
            assert main([*drill, "--scenario", "spot-preempt"]) == 0
        notified = set()
        for each in receiver.notifications:
            labels = each.body["commonLabels"]
            is_drill = "drill" in labels
            notified.add((each.path, labels["alertname"], is_drill))
    assert notified == {
        ("/pager", f"{PREFIX}Reboot", False),
        ("/tickets", f"{PREFIX}Freeze", False),
        ("/pager", f"{PREFIX}WithoutNotice", True),
        ("/tickets", f"{PREFIX}Preempt", True),
    }


def test_each_vm_that_is_not_back_is_a_page(tmp_path: Path) -> None:
    """Two VMs of a scale set are two pages. If they were one page, somebody who has acknowledged it
    because of the first VM would not hear of the second.
    """
    place = {"subscription_id": "s", "resource_group": "shop", "scale_set": "web"}
    alert = {"alertname": f"{PREFIX}VmNotBack", "severity": "critical", **place}
    with Receiver() as receiver:
        file = as_exported(export(tmp_path, receiver.url))
        with loaded(file) as alertmanager:
            post(alertmanager.url, {**alert, "vm_name": "web_1"}, {**alert, "vm_name": "web_2"})
            eventually(lambda: len(receiver.notifications) == 2, "two pages have come")
    vms_of_pages = [
        [alert["labels"]["vm_name"] for alert in page.body["alerts"]]
        for page in receiver.notifications
    ]
    assert sorted(vms_of_pages) == [["web_1"], ["web_2"]]


@pytest.mark.parametrize("form", [as_exported, fragment, stack])
def test_mail(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ticket arrives as one mail that is plain text, from a file that nothing is added to: no
    file needs a mail server in ``global``.
    """
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.own.certificate))
    pair = authority.vouch("localhost", "DNS:localhost")
    with MailServer(pair) as server:
        settings = {"tickets.email-to": "me@example.org", "tickets.email-smarthost": server.address}
        with loaded(form(export(tmp_path, f"http://{NOBODY}", **settings))) as alertmanager:
            post(alertmanager.url, FREEZE)
            eventually(lambda: server.mails, "the mail has come")
    (mail,) = server.mails
    assert (mail["To"], mail["Subject"]) == ("me@example.org", SUMMARY)
    (text,) = (part for part in mail.walk() if not part.is_multipart())
    assert text.get_content_type() == "text/plain"
    summary, _description, event, since, *_ = text.get_content().splitlines()
    assert (summary, event) == (SUMMARY, "Event: F")
    assert since.startswith("Alert since: 20")


@pytest.mark.parametrize(
    ("form", "values"),
    [(fragment, (TEAM_VALUES,)), (stack, (TEAM_VALUES, OURS)), (stack, (OURS, TEAM_VALUES))],
    ids=["appended", "stack: ours last", "stack: ours first"],
)
def test_beside_a_team(form: Any, values: tuple[Path, ...], tmp_path: Path) -> None:
    """A team's own alerts reach whom they reached before, and ours reach our receivers alone."""
    file = form(export(tmp_path, f"http://{NOBODY}"), *values)
    with loaded(file) as alertmanager:
        url = alertmanager.url
        post(url, *TEAM_ALERTS.values(), REBOOT, FREEZE)
        for name, labels in TEAM_ALERTS.items():
            assert receivers_of(url, labels) == [name]
        assert receivers_of(url, REBOOT) == ["pager"]
        assert receivers_of(url, FREEZE) == ["tickets"]


def test_the_documented_route_for_each_team(tmp_path: Path) -> None:
    """With the page's route before ours, one event with VMs of two teams pages each team, and the
    page's commands for amtool pass.

    The route is that of the team dba; our pager is that of the team web.
    """
    page = ROOT / "docs" / "existing-alertmanager.md"
    (text,) = (block.text for block in blocks(page) if block.file_name == "with-teams.yml")
    for_dba, _ours = yaml.safe_load(text)["route"]["routes"]
    with Receiver() as receiver:
        file = fragment(export(tmp_path, receiver.url, **{"labels.keep": "team"}), TEAM_VALUES)
        config = yaml.safe_load(file.read_text())
        webhook = {"url": f"{receiver.url}/dba", "send_resolved": True}
        config["receivers"].append({"name": "dba-pager", "webhook_configs": [webhook]})
        config["route"]["routes"].insert(0, for_dba)
        merged = file.with_name("with-teams.yml")
        merged.write_text(yaml.safe_dump(config))
        with loaded(merged) as alertmanager:
            dba = {**REBOOT, "team": "dba"}
            web = {**REBOOT, "team": "web"}
            not_back = {
                "alertname": f"{PREFIX}VmNotBack",
                "severity": "critical",
                "team": "dba",
                "vm_name": "db-1",
            }
            post(alertmanager.url, dba, web, not_back, {**FREEZE, "team": "dba"})
            receiver.wait_for([(f"{PREFIX}Reboot", "critical", "firing")])  # the page of web
            eventually(lambda: len(receiver.notified("/dba")) == 2, "the team dba is paged twice")
            assert receivers_of(alertmanager.url, {**FREEZE, "team": "dba"}) == ["tickets"]
        pages = [each for each in receiver.webhooks() if each.path != "/tickets"]
    teams_of_pages = {(each.path, each.body["commonLabels"]["team"]) for each in pages}
    assert teams_of_pages == {("/dba", "dba"), ("/pager", "web")}
    commands = re.findall(r"(?m)^\$ (.*event_id=E team=.*)$", page.read_text())
    assert len(commands) == 2, "one for each team"
    for command in commands:
        _run(command, merged.parent)


def _run(commands: str, folder: Path) -> None:
    """Run commands of the page in ``folder``; each must succeed."""
    tools = f"{ROOT / '.tools/usr/bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder,
        env=environment(PATH=tools),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_documented_look_at_the_merged_configuration(tmp_path: Path) -> None:
    """The page's command prints what Helm makes of a team's values and ours, and checks it."""
    export(tmp_path / "rendered", f"http://{NOBODY}")
    (tmp_path / "yours.yaml").write_text(TEAM_VALUES.read_text())
    page = ROOT / "docs" / "existing-alertmanager.md"
    (text,) = (block.text for block in blocks(page) if "helm template" in block.text)
    _run(text.replace("prometheus-community/kube-prometheus-stack", str(CHART)), tmp_path)
    receivers = yaml.safe_load((tmp_path / "merged.yml").read_text())["receivers"]
    names = {each["name"] for each in receivers}
    assert {"team-pager", "team-slack", "azure-pager", "azure-tickets"} <= names


def test_stack_keeps_its_defaults(tmp_path: Path) -> None:
    """Our values add receivers, inhibitions and routes to those of the chart, and change nothing
    else of its configuration.
    """
    export(tmp_path, f"http://{NOBODY}")
    before = yaml.safe_load((CHART / "values.yaml").read_text())["alertmanager"]["config"]
    after = yaml.safe_load(stack(tmp_path / "alerts" / "alertmanager").read_text())
    assert after["global"] == before["global"]
    for name in ("inhibit_rules", "receivers"):
        first = after[name][: len(before[name])]
        assert first == before[name], "ours stand behind them"
    routes = before["route"].pop("routes")
    last = after["route"].pop("routes")[-len(routes) :]
    assert last == routes, "ours stand before them"
    assert after["route"] == before["route"]


def test_words_of_a_company(tmp_path: Path) -> None:
    """An alert with a severity of a company's own is a page if ``severities.paging`` has the word,
    and else a ticket. A page inhibits the tickets about its event, unless one says something new
    (Overdue).
    """
    more = {
        "severities": "Reboot=P1,Freeze=P3,Overdue=P4",
        "severities.paging": "critical,P1",
    }
    p1 = {**REBOOT, "severity": "P1"}
    p3 = {"alertname": f"{PREFIX}Freeze", "severity": "P3", "event_id": "E"}
    p4 = {"alertname": f"{PREFIX}Overdue", "severity": "P4", "event_id": "E"}
    file = as_exported(export(tmp_path, f"http://{NOBODY}", **more))
    with loaded(file) as alertmanager:
        url = alertmanager.url
        post(url, p1, p3, p4)
        assert receivers_of(url, p1) == ["pager"]
        assert receivers_of(url, p3) == ["tickets"]
        assert processed_alert(url, p3)["status"]["inhibitedBy"]
        assert not processed_alert(url, p4)["status"]["inhibitedBy"]


@pytest.mark.parametrize("form", [as_exported, fragment, stack])
def test_levels_in_the_words_of_a_company(
    form: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The word of critical pages and inhibits tickets, and that of info notifies nobody."""
    folder = export(tmp_path, f"http://{NOBODY}", severities="critical=sev1,warning=sev2,info=sev3")
    # The export warns of a severity that no route names: these words have taken their places.
    assert "Warning" not in capsys.readouterr().err
    reboot = {**REBOOT, "severity": "sev1"}
    requested = {"alertname": f"{PREFIX}Requested", "severity": "sev2", "event_id": "E"}
    freeze = {**FREEZE, "severity": "sev2"}
    maintenance = {**MAINTENANCE, "severity": "sev3"}
    with loaded(form(folder)) as alertmanager:
        url = alertmanager.url
        post(url, reboot, requested, freeze, maintenance)
        assert receivers_of(url, reboot) == ["pager"]
        assert receivers_of(url, freeze) == ["tickets"]
        assert receivers_of(url, maintenance) == ["show"]
        assert processed_alert(url, requested)["status"]["inhibitedBy"]
        assert not processed_alert(url, freeze)["status"]["inhibitedBy"]
