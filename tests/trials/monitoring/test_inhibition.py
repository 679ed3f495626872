"""The team's own alerts in a real Alertmanager: maintenance inhibits them, also when Alertmanager
restarts.
"""

import time
from pathlib import Path

from support.monitoring.paging import Stack, Team
from support.monitoring.stand_in import StandIn
from support.programs import eventually

RESEND_DELAY = "10s"
"""As docs/maintenance.md asks for.

An Alertmanager that restarts has to know of a maintenance before the alerts that it inhibits have
waited for their ``group_wait``.
"""
FAST = {
    "scrape.interval": "1s",
    "evaluation.interval": "1s",
    "group.interval": "1s",
    "group.wait": "0s",
}
TARGETS = {"maintenance.targets": "InstanceDown", "maintenance.equal": "instance"}
DOWN = {
    "name": "team",
    "interval": "1s",
    "rules": [{"alert": "InstanceDown", "expr": "up == 0", "labels": {"severity": "warning"}}],
}
ROUTE = {
    "matchers": ['alertname="InstanceDown"'],
    "receiver": "tickets",
    "group_wait": "15s",
    "group_interval": "1s",
}


def test_maintenance_outlives_a_restart_of_alertmanager(tmp_path: Path) -> None:
    """With the resend delay that the page names, an Alertmanager that restarts during maintenance
    sends no alert of the VM in maintenance, and sends that of a VM which crashed.
    """
    team = Team(rules=[DOWN], routes=[ROUTE])
    flags = (f"--rules.alert.resend-delay={RESEND_DELAY}",)
    with StandIn("away") as away, StandIn("crashed") as crashed:
        away.show("E Reboot announced", impact_at=int(time.time()))
        crashed.show()
        targets = [away.target, crashed.target]
        with Stack(tmp_path, {**FAST, **TARGETS}, targets, team=team, flags=flags) as chain:
            maintained = 'ALERTS{alertname="AzureScheduledEventMaintenance",alertstate="firing"}'
            eventually(lambda: chain.prometheus.query(maintained), "it is in maintenance", 60)
            chain.restart_alertmanager()
            away.go_away()
            crashed.go_away()
            chain.receiver.wait_for([("InstanceDown", "warning", "firing")], 90)
            notified = [
                alert["labels"]
                for webhook in chain.receiver.webhooks()
                for alert in webhook.body["alerts"]
            ]
            down = {each["instance"] for each in notified if each["alertname"] == "InstanceDown"}
            assert down == {crashed.target}
