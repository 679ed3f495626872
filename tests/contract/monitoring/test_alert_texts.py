"""The texts of alerts, as Prometheus fills them in from what the exporters of a story show.

``test_event_texts.py`` has those of alerts that exporters push, too. Each value of a story stands
for 15 seconds.
"""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alerts.rule import PREFIX
from support.stories.shipped_rules import BOARDS_URL, shipped_rules
from support.stories.story import (
    Row,
    Story,
    hit,
    info,
    member,
    metric,
    moment,
    paused_longer,
    play,
    scraped,
    target,
)

UTC = "1970-01-01 00:10:00 UTC"
"""The moment 600 s after the begin of a story, at which its events are due."""
_REBOOT = 'event_id="E",event_type="Reboot",kind="announced",scope="{}"'
# Each alert about a VM, an exporter or a late event: its name, the minute of the story at which its
# text is read, its summary, and the end of its link to a dashboard.
ALERTS = (
    (
        "VmNotBack",
        40,
        f"a (resource group rg) has not come back from its event of {UTC}.",
        "vm?var-vm=a",
    ),
    (
        "Overdue",
        22,
        f"A Redeploy of c (resource group rg) was due at {UTC} and has not started.",
        "vm?var-vm=c",
    ),
    (
        "PausedLonger",
        22,
        "c (resource group rg) stood still for 12 s; Azure had announced 5 s.",
        "vm?var-vm=c",
    ),
    (
        "ExporterDown",
        40,
        "The Scheduled Events exporter of b (resource group rg, b:10169) does not answer.",
        "exporter?var-job=azure-scheduled-events&var-instance=b%3A10169",
    ),
    (
        "ImdsUnreachable",
        40,
        "The Scheduled Events exporter of d (resource group rg, d:10169) lacks an answer of IMDS.",
        "exporter?var-job=azure-scheduled-events&var-instance=d%3A10169",
    ),
    (
        "ScaleSetHit",
        10,
        "50% of the VMs of scale set web (resource group rg) are down or about to go down.",
        "fleet?var-resource_group=rg",
    ),
)


@pytest.mark.parametrize(("name", "minute", "summary", "board"), ALERTS)
def test_texts_and_links(name: str, minute: int, summary: str, board: str, tmp_path: Path) -> None:
    """Alerts about VMs, late events and exporters name the VM, and link to its board.

    One story has them all. Its events have the ids E, F and O; a value stands for 15 s. The scale
    set has six VMs, of which two events hit three.
    """
    rows = (
        # a is hit by an event and does not come back; a2 and a3 of its scale set by another one.
        *scraped("a", "1x39 0x200"),
        *hit("a", "1x39 stale", 600),
        *hit("a2", "1x39 stale", 600, "F"),
        *hit("a3", "1x39 stale", 600, "F"),
        *(member(vm, "1x200") for vm in ("a2", "a3")),
        # b's exporter stops answering without an event.
        *scraped("b", "1x10 0x200"),
        # c's Redeploy is overdue, and paused the VM for longer than announced.
        *scraped("c", "1x200"),
        info("c", "O", "Redeploy", "announced", "1x200"),
        moment("not_before_timestamp_seconds", "c", "O", "Redeploy", "600x200"),
        paused_longer("c", "O", "Redeploy", "12x200"),
        # d's exporter gets no answer from IMDS.
        target("d", "1x200"),
        metric("up", "d", "0x200"),
    )
    texts = _texts(name, minute, rows, tmp_path)
    assert f'summary="{summary}"' in texts
    assert f'dashboard_url="{BOARDS_URL}{board}"' in texts
    assert texts.count("summary=") == 1, "there is no other alert of this name"


# Alerts: the name, the minute at which the text is read, and the part of it that says when the
# event begins or began. After an event, and in an advice, this has no time of day.
TIMES = (
    (
        "HookFailed",
        16,
        f"e (resource group rg) is perhaps not drained: its hook timed out before the Reboot at {UTC}.",  # noqa: E501
    ),
    (
        "HookFailed",
        16,
        "Drain the VM by hand, or hand the role of its database over, before the event begins.",
    ),
    (
        "HookFailed",
        16,
        "a (resource group rg) is perhaps not back in service: its hook failed after a Reboot.",
    ),
    ("ApprovalRefused", 2, f"The Reboot of g, h still begins at {UTC} or later (event G)."),
    ("PausedLonger", 2, f"It was paused by the Freeze that began at {UTC}."),
    ("ScaleSetHit", 10, f"take down a (at {UTC}), a2 (at {UTC}), a3 (at {UTC})."),
)


@pytest.mark.parametrize(("name", "minute", "part"), TIMES)
def test_times(name: str, minute: int, part: str, tmp_path: Path) -> None:
    """Alerts about hooks, approvals, pauses and scale sets say when the event begins or began, or
    that it is over.
    """
    timeout = 'event_type="Reboot",phase="prepare",outcome="timeout"'
    failed = 'event_type="Reboot",phase="recover",outcome="failed"'
    rows = (
        *(row for vm in ("a", "a2", "a3", "c", "e", "g") for row in scraped(vm, "1x200")),
        # Two events hit three VMs of a scale set.
        *hit("a", "1x200", 600),
        *hit("a2", "1x200", 600, "F"),
        *hit("a3", "1x200", 600, "F"),
        # c was paused for longer than announced.
        moment("impact_timestamp_seconds", "c", "O", "Freeze", "600x200"),
        paused_longer("c", "O", "Freeze", "12x200"),
        # After 15 minutes the hooks fail: on e before an event, on a after one.
        metric("hook_runs_total", "e", "0x60 1x100", timeout),
        metric("hook_runs_total", "a", "0x60 1x100", failed),
        moment("impact_timestamp_seconds", "e", "H", "Reboot", "600x62 stale"),
        # IMDS refuses g's approval after a minute.
        metric("approval_requests_total", "g", "0x4 1x100", 'outcome="rejected"'),
        moment("approval_due_timestamp_seconds", "g", "G", "Reboot", "60x200"),
        moment("impact_timestamp_seconds", "g", "G", "Reboot", "600x200"),
        info("g", "G", "Reboot", "announced", "1x200", more=',vms="g, h"'),
        *(member(vm, "1x200") for vm in ("a", "a2", "a3", "c", "e")),
    )
    assert part in _texts(name, minute, rows, tmp_path)


def test_time_that_was_seen_last(tmp_path: Path) -> None:
    """The text has the time that an exporter shows while it sees the event. An exporter that has
    lost IMDS goes on showing the time from before the event was moved, which is not used.
    """
    event = _REBOOT.format("peer")
    rows = (
        *scraped("b", "1x60"),
        *scraped("c", "1x60", imds="1x8 0x51"),
        *(info("a", "E", "Reboot", "announced", "1x60", "peer", by=each) for each in ("b", "c")),
        metric("event_impact_timestamp_seconds", "b", "1200x8 600x51", event),
        metric("event_impact_timestamp_seconds", "c", "1200x60", event),
    )
    assert f"Azure reboots a (resource group rg) at {UTC}." in _texts("Reboot", 9, rows, tmp_path)


def test_text_while_nobody_shows_the_event(tmp_path: Path) -> None:
    """The text stays as it is while the VM of the event is away, and no exporter shows it."""
    rows = (
        *scraped("a", "1x20 0x40"),
        *hit("a", "1x20 stale", 600),
        metric("event_impact_timestamp_seconds", "a", "600x20 stale", _REBOOT.format("self")),
    )
    assert f"Azure reboots a (resource group rg) at {UTC}." in _texts("Reboot", 9, rows, tmp_path)


def test_text_without_labels(tmp_path: Path) -> None:
    """The alert that there is no exporter links to the board without empty variables."""
    rows = (("anything", "1x200"),)  # a series that is of no exporter
    assert f'dashboard_url="{BOARDS_URL}exporter"' in _texts("NoExporters", 20, rows, tmp_path)


def _texts(name: str, minute: int, rows: tuple[Row, ...], folder: Path) -> str:
    """Return the labels and texts of the alert ``name`` at ``minute``, as Prometheus fills them in.

    promtool prints them only if they differ from those that a test expects. So this test expects an
    alert without any, and what promtool prints after "got:" is returned.
    """
    wrong = {
        "alertname": PREFIX + name,
        "eval_time": f"{minute}m",
        "exp_alerts": [{"exp_labels": {}, "exp_annotations": {}}],
    }
    test = {**Story(name, rows, {}).to_test(), "alert_rule_test": [wrong]}
    complaint = play(folder, shipped_rules(), [test])
    return complaint[complaint.rindex("got:") :]
