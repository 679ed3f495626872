"""Labels of targets that alerts carry, so that a company can route by its own labels; and severity by priority."""

from dataclasses import replace
from pathlib import Path

import pytest

from alerts import render, resolve
from support.monitoring.alert_scenarios import (
    PREEMPT,
    REBOOT,
    WITHOUT_NOTICE,
    Exporter,
    Firing,
    Seen,
    Story,
    one,
)
from support.monitoring.promtool import promtool
from support.monitoring.stories.expected_alerts import LOST_REBOOT, NOT_BACK, SCALE_SET_HIT, at, row
from support.monitoring.stories.fleets import vms

KEPT = {"labels.keep": "team,node", "spot.severity": "warning"}
SEARCH, SHOP = {"team": "search", "node": "n0"}, {"team": "shop", "node": "n1"}
_REBOOT = Seen(not_before=930)
_STARTED = Seen(announced=65, not_before=None, started=65)


def rebooted(who: str, severity: str = "critical", left: str = "14m 30s", **labels: str) -> Firing:
    """Return the alert about a Reboot of ``who``."""
    vms_ = f"{who} (scale set vmss)"
    text = f"{vms_} will be rebooted. {at('00:15:30', left)} {LOST_REBOOT} Event E1."
    return Firing(row("Reboot", severity, **labels), "Azure reboots a VM.", text, vms=vms_)


STORIES = (
    Story(
        "the event of a VM is reported first by a VM of another team",
        (
            Exporter("vmss_1", (replace(_REBOOT, scope="peer"),), target=SHOP),
            Exporter(events=(replace(_REBOOT, announced=35),), target=SEARCH),
        ),
        fires={(REBOOT, 60): (rebooted("vmss_0", **SEARCH),)},
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "two VMs of an event disagree: the alert is one, with the labels of the first VM in Resources",
        tuple(
            Exporter(vm, (replace(_REBOOT, resources="vmss_1,vmss_0"),), target=target)
            for vm, target in (("vmss_0", SEARCH), ("vmss_1", SHOP))
        ),
        fires={(REBOOT, 60): (rebooted("vmss_1,vmss_0", **SHOP),)},
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "the first VM leaves Resources: the alert keeps the labels that it began with",
        tuple(
            Exporter(
                vm,
                (
                    replace(_REBOOT, resources="vmss_0,vmss_1", gone=300),
                    replace(_REBOOT, announced=300, resources="vmss_1"),
                ),
                target=target,
            )
            for vm, target in (("vmss_0", SEARCH), ("vmss_1", SHOP))
        ),
        steady={REBOOT: (30, 900)},
        quiet={PREEMPT: (900,)},
    ),
    *(
        Story(
            f"of two VMs that do not come back from a reboot, {back} does later: the alert stays one",
            tuple(
                Exporter(
                    vm,
                    (Seen(not_before=300, started=300, resources="vmss_0,vmss_1"),),
                    target=target,
                    down=((305, 1500 if vm == back else 100_000),),
                )
                for vm, target in (("vmss_0", SEARCH), ("vmss_1", SHOP))
            ),
            quiet={NOT_BACK: (1170,)},
            steady={NOT_BACK: (1230, 2400)},
        )
        for back in ("vmss_0", "vmss_1")
    ),
    Story(
        "a host fails, and only a peer of another team is left to report it",
        (
            Exporter(down=((60, 100_000),), target=SEARCH),
            Exporter("vmss_1", (Seen(announced=65, not_before=None, started=65, scope="peer"),), target=SHOP),
        ),
        fires={
            (WITHOUT_NOTICE, 90): (
                Firing(
                    row("Reboot", "critical", event_status="Started", **SEARCH),
                    "A VM went down without notice, as it does when its host fails.",
                    "A Reboot of vmss_0 (scale set vmss) had already started when it was first reported: "
                    "Azure gave no notice. Memory is lost. After a Redeploy, ephemeral disks are lost too. Event E1.",
                ),
            )
        },
    ),
    Story(
        "a VM without an exporter: the alert has the labels of those that report its event",
        tuple(
            Exporter(f"vmss_{number}", (replace(_REBOOT, scope="peer"),), target={"team": "search"})
            for number in (1, 2)
        ),
        fires={(REBOOT, 60): (rebooted("vmss_0", team="search"),)},
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "a VM with priority Spot is rebooted",
        one(_REBOOT, target={"priority": "Spot"}),
        fires={(REBOOT, 60): (rebooted("vmss_0", "warning", priority="Spot"),)},
    ),
    Story(
        "a VM with priority Regular is rebooted",
        one(_REBOOT, target={"priority": "Regular"}),
        fires={(REBOOT, 60): (rebooted("vmss_0", priority="Regular"),)},
    ),
    Story(
        "a Spot VM whose priority only the exporters know is rebooted, and a peer is scraped first",
        (
            Exporter("vmss_1", (replace(_REBOOT, announced=65, scope="peer"),), priority="Spot"),
            Exporter(events=(replace(_REBOOT, announced=70),), priority="Spot"),
        ),
        fires={(REBOOT, 65): (rebooted("vmss_0", "warning", "14m 25s", priority="Spot"),)},
        steady={REBOOT: (65, 900)},
        every=5,
    ),
    *(
        Story(
            f"a VM with {labels} goes down after one scrape with its event, and comes back: the alert is one",
            (replace(exporter, events=(_STARTED,), down=((70, 400),)),),
            steady={WITHOUT_NOTICE: (65, 600)},
            every=5,
        )
        for labels, exporter in (
            ("labels of its target", Exporter(target=SEARCH)),
            ("a priority", Exporter(priority="Spot")),
        )
    ),
    Story(
        "two of four VMs of one team are evicted: the wave has the team, and not the nodes, which differ",
        tuple(
            replace(each, target={"team": "search", "node": each.vm})
            for each in vms(4, 2, Seen("Preempt", not_before=60, gone=300))
        ),
        fires={
            (SCALE_SET_HIT, 60): (
                Firing(
                    {"scale_set": "vmss", "team": "search", "severity": "critical"},
                    "Events hit a large part of a scale set at the same time.",
                    "Events that have started or are due hit 50% of the VMs of scale set vmss. "
                    "Their capacity, memory and ephemeral disks may be lost at once.",
                    "fleet",
                ),
            )
        },
        quiet={SCALE_SET_HIT: (20, 320)},
    ),
    Story(
        "both VMs of one team are away while those of another one stay: the wave has no team, all the time",
        tuple(
            replace(each, target={"team": "search" if number < 2 else "shop"}, down=((605, 905),) * (number < 2))
            for number, each in enumerate(vms(4, 2, Seen(not_before=600, started=600, gone=1200)))
        ),
        fires={
            (SCALE_SET_HIT, at_): (
                Firing(
                    {"scale_set": "vmss", "severity": "critical"},
                    "Events hit a large part of a scale set at the same time.",
                    "Events that have started or are due hit 50% of the VMs of scale set vmss. "
                    "Their capacity, memory and ephemeral disks may be lost at once.",
                    "fleet",
                ),
            )
            for at_ in (60, 900)
        },
        steady={SCALE_SET_HIT: (60, 1190)},
    ),
    Story(
        "both VMs of a team are evicted: the wave keeps the team when they have left the targets",
        vms(2, 2, Seen("Preempt", announced=65, not_before=95), target={"team": "search"}, down=((95, 999),), gone=120),
        steady={SCALE_SET_HIT: (80, 600)},
    ),
)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules with labels to keep, and another severity of Spot VMs."""
    path = tmp_path_factory.mktemp("kept") / "rules.yml"
    path.write_text(render(resolve(KEPT), grafana=False)["prometheus/prometheus-rules.yml"])
    return path


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_alert_carries_labels(story: Story, rules: Path, tmp_path: Path) -> None:
    """An event is one alert, with the labels that its VM's target has, or has had."""
    done = promtool(tmp_path, story, rules=rules)
    assert done.returncode == 0, done.stdout + done.stderr
