"""Stories of events and exporters: which alerts the shipped rules raise, when, and when they do
not.
"""

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import Settings, render, resolve
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.vms import NOT_BACK
from support.monitoring.stories import (
    Story,
    ended,
    hit,
    impact,
    info,
    member,
    moment,
    of,
    paused_longer,
    play,
    scraped,
    target,
)


def run(folder: Path, stories: Sequence[Story], values: Mapping[str, str]) -> str:
    """Run ``stories`` on the rules that ``values`` make; return what promtool complains about."""
    content = yaml.safe_load(
        render(resolve(values), grafana=False)["prometheus/prometheus-rules.yml"]
    )
    # ExporterDown waits for it.
    checked = {PREFIX + name for story in stories for name in story.alerts} | {NOT_BACK}
    for group in content[
        "groups"
    ]:  # rules that no check needs, and queries of texts, take most of the time
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert", NOT_BACK) in checked]
        for rule in group["rules"]:
            rule.pop("annotations", None)
    return play(folder, content, [story.to_test() for story in stories])


def one(event_type: str, kind: str, name: str, hold: str) -> Story:
    """Return the life of an alert: a lone VM goes away with its event and does not return; held,
    then given up.

    ``hold``: a time at which the alert is still held, and one at which it is not.
    """
    held, over = hold.split()
    rows = (info("a", "E", event_type, kind, "_x1 1x2 stale"),)
    return Story(f"{name} by {kind} {event_type}", rows, {name: f"0m:0 15s:1 {held}:1 {over}:0"})


OWN = "1x4 stale"
LIVES = (
    one("Terminate", "announced", "Terminate", "10m 11m"),
    one("Preempt", "announced", "Preempt", "10m 11m"),
    one("Redeploy", "announced", "Redeploy", "60m 61m"),
    one("Reboot", "announced", "Reboot", "30m 31m"),
    one("Freeze", "announced", "Freeze", "15m 16m"),
    one("Redeploy", "without_notice", "WithoutNotice", "60m 61m"),
    one("Reboot", "requested", "Requested", "30m 31m"),
    one("Defrag", "unknown_type", "UnknownType", "30m 31m"),
    one("Redeploy", "far_ahead", "DegradedHost", "5m 6m"),
    one("SpotRebalanceRecommendation", "advisory", "EvictionRisk", "5m 6m"),
)
EVENTS = (
    Story(
        "An event that somebody saw end resolves, also while a peer without IMDS shows it for"
        " hours, and after it.",
        (
            info("a", "E", "Reboot", "announced", OWN),
            info("b", "E", "Reboot", "announced", "1x500", "peer"),
            ended("a", "E", "_x5 1x240 stale"),
            of("up", "a", "1x600"),
            of("up", "b", "1x3 0x600"),
        ),
        {"Reboot": "1m:1 4m:1 4m30s:0 20m:0 65m:0 100m:0 126m:0 140m:0"},
    ),
    Story(
        "An event that ended stays ended when the only exporter that saw it is stopped.",
        (
            info("a", "E", "Redeploy", "announced", OWN),
            ended("a", "E", "_x5 1x4 stale"),
            of("up", "a", "1x10 stale"),
        ),
        {"Redeploy": "1m:1 4m:1 4m30s:0 30m:0 61m:0 66m:0"},
    ),
    Story(
        "An event that returns four minutes after its end pages again.",
        (
            info("a", "E", "Reboot", "announced", "1x4 stale _x15 1x40"),
            ended("a", "E", "_x5 1x15 stale"),
            of("up", "a", "1x60"),
        ),
        {"Reboot": "1m:1 4m:1 4m30s:0 5m30s:1 10m:1"},
    ),
    Story(
        "A Redeploy days ahead is no page, also if its only exporter restarts; once near, Redeploy"
        " takes over.",
        (
            info("a", "E", "Redeploy", "far_ahead", "1x20 stale _x2 1x20 stale"),
            info("a", "E", "Redeploy", "announced", "_x44 1x20"),
        ),
        {"DegradedHost": "5m:1 5m45s:1 8m:1 12m:1 13m:0", "Redeploy": "8m:0 10m:0 11m30s:1"},
    ),
    Story(
        "An announced Reboot that is moved days ahead, or turns out harmless, is not held.",
        (
            info("a", "E", "Reboot", "announced", OWN),
            info("a", "E", "Reboot", "far_ahead", "_x5 1x40"),
            info("a", "F", "Reboot", "announced", OWN),
            info("a", "F", "Reboot", "harmless", "_x5 1x40"),
        ),
        {"Reboot": "1m:2 2m:2 2m30s:0 9m:0", "DegradedHost": "1m:0 90s:1"},
    ),
    Story(
        "Whatever is days ahead is a degraded host, but for a Terminate.",
        (
            info("a", "E", "Freeze", "far_ahead", "1x40"),
            info("a", "F", "Defrag", "far_ahead", "1x40"),
            info("a", "G", "Terminate", "far_ahead", "1x40"),
        ),
        {"DegradedHost": "5m:2", "Freeze": "never", "UnknownType": "never", "Terminate": "never"},
    ),
    Story(
        "What is harmless raises nothing, unless it has been Started for half an hour.",
        (
            info("a", "G", "Reboot", "harmless", "1x240"),
            moment("not_before_timestamp_seconds", "a", "G", "Reboot", "0x80 stale"),
            moment("started_timestamp_seconds", "a", "G", "Reboot", "_x80 1200x160"),
        ),
        {"Reboot": "never", "Overdue": "never", "StartedTooLong": "20m:0 49m:0 51m:1"},
    ),
    Story(
        "An exporter that restarted in an event takes it for one without notice; peers know"
        " better.",
        (
            info("a", "E", "Reboot", "announced", "1x4 stale"),
            info("b", "E", "Reboot", "without_notice", "_x5 1x20", "peer"),
        ),
        {"Reboot": "1m:1 2m:1", "WithoutNotice": "never"},
    ),
    Story(
        "Many exporters, one event, one alert.",
        tuple(info(f"v{n}", "E", "Preempt", "announced", "1x20", "peer") for n in range(20)),
        {"Preempt": "1m:1"},
    ),
)
IMPACTS = (
    Story(
        "H1: the address of an evicted VM is reused by a VM that answers for a minute and crashes.",
        (
            info("a", "E", "Preempt", "announced", "1x2 stale"),
            impact("a", "E", "Preempt", 30, "x2 stale"),
            of("up", "a", "1x2 stale _x7 1x4 stale"),
            target("a", "1x2 0x8 1x4 0x200"),
        ),
        {"Maintenance": "1m:1 9m:0 30m:0", "ExporterDown": "13m:0 15m:1", "VmNotBack": "never"},
    ),
    Story(
        "H2: an evicted VM whose target stays is a ticket after twenty minutes.",
        (
            impact("a", "E", "Preempt", 30, "x2 stale"),
            target("a", "1x2 0x200"),
            of("up", "a", "1x2 stale"),
        ),
        {"Maintenance": "1m:1 12m:1 16m:0", "ExporterDown": "20m:0 21m:1"},
    ),
    Story(
        "A VM does not return from its Redeploy: a page after 15 minutes, and none for its exporter"
        " meanwhile.",
        (
            info("a", "E", "Redeploy", "announced", "1x2 stale"),
            impact("a", "E", "Redeploy", 30, "x2 stale"),
            target("a", "1x2 0x600"),
            of("up", "a", "1x2 stale"),
        ),
        {
            "VmNotBack": "10m:0 16m:1 80m:1 149m:1",
            "Maintenance": "10m:1 37m:0",
            "ExporterDown": "100m:0 149m:0",
        },
    ),
    Story(
        "A VM returns from its Reboot and crashes later: its team is paged for that.",
        (
            info("a", "E", "Reboot", "announced", OWN),
            impact("a", "E", "Reboot", 60, "x4 stale"),
            ended("a", "E", "_x16 1x30 stale"),
            of("up", "a", "1x4 stale _x11 1x30 stale"),
            target("a", "1x4 0x12 1x30 0x300"),
        ),
        {
            "Reboot": "3m:1 5m:1 8m:0",
            "Maintenance": "3m:1 10m:0 14m:0",
            "VmNotBack": "never",
            "ExporterDown": "20m:0 23m:1",
        },
    ),
    Story(
        "A VM that was stopped, so that its peers saw its Reboot cancelled, is not one that did not"
        " return.",
        (
            info("a", "E", "Reboot", "announced", "1x4 stale"),
            impact("a", "E", "Reboot", 300, "x4 stale"),
            of("up", "a", "1x4 stale"),
            target("a", "1x4 0x400"),
            ended("b", "E", "_x8 1x200", "cancelled"),
        ),
        {"VmNotBack": "never"},
    ),
    Story(
        "An exporter without IMDS that shows a begun event for a day holds back its VM's own alerts"
        " for two hours.",
        (impact("a", "E", "Freeze", 30, "x600"), of("up", "a", "1x8 0x600"), target("a", "1x600")),
        {"Maintenance": "1m:1 119m:1 121m:0"},
    ),
    Story(
        "M1: names of VMs and groups are of the exporter's own series, whatever case IMDS has"
        " them in.",
        (impact("a", "E", "Freeze", 30, "x60"), info("A", "E", "Freeze", "announced", "1x60")),
        {"Maintenance": "1m:1", "Freeze": "1m:1"},
    ),
    Story(
        "M2: one event of two VMs in a set of four is one page.",
        (
            *(member(vm, "1x60") for vm in "abcd"),
            *(
                info(vm, "E", "Redeploy", "announced", "1x60", "self" if vm in "ab" else "peer")
                for vm in "abcd"
            ),
            *(impact(vm, "E", "Redeploy", 30, "x60") for vm in "ab"),
        ),
        {"Redeploy": "5m:1", "ScaleSetHit": "never", "Maintenance": "5m:2"},
    ),
    Story(
        "Two events that take half of a set at once are a page of their own.",
        (
            *(member(vm, "1x8 stale" if vm in "ab" else "1x60") for vm in "abcd"),
            *(info(vm, vm, "Reboot", "announced", "1x8 stale") for vm in "ab"),
            *(impact(vm, vm, "Reboot", 120, "x8 stale") for vm in "ab"),
        ),
        {"ScaleSetHit": "30s:0 1m15s:1 3m:1", "Reboot": "1m15s:2"},
    ),
    Story(
        "Half of a set that a user deletes at once is none.",
        (
            *(member(vm, "1x60") for vm in "abcd"),
            *(info(vm, vm, "Terminate", "requested", "1x8 stale") for vm in "ab"),
            *(impact(vm, vm, "Terminate", 120, "x8 stale") for vm in "ab"),
        ),
        {"ScaleSetHit": "never", "Requested": "1m:2"},
    ),
    Story(
        "M3: reboots one VM after the other, each Started for ten minutes, are no simultaneous"
        " loss.",
        (
            *(member(vm, "1x200") for vm in "abcd"),
            *(
                row
                for n, vm in enumerate("abcd")
                for row in (
                    info(vm, vm, "Reboot", "announced", f"_x{20 * n} 1x8 stale _x4 1x35 stale"),
                    impact(vm, vm, "Reboot", 300 * n + 120, f"_x{20 * n} x8 stale _x4 x35 stale"),
                    of("up", vm, f"1x{20 * n + 8} stale _x4 1x100"),
                    ended(vm, vm, f"_x{20 * n + 50} 1x100"),
                )
            ),
        ),
        {"ScaleSetHit": "never", "Reboot": "1m:1"},
    ),
)
LATE = (
    Story(
        "An event that is still Scheduled ten minutes after its NotBefore, by an exporter that"
        " sees it.",
        (
            info("a", "E", "Reboot", "announced", "1x80"),
            moment("not_before_timestamp_seconds", "a", "E", "Reboot", "60x60 stale"),
            moment("started_timestamp_seconds", "b", "E", "Reboot", "_x56 840x20"),
            moment("not_before_timestamp_seconds", "c", "F", "Reboot", "60x80"),
            of("up", "c", "0x80"),
        ),
        {"Overdue": "10m:0 11m30s:1 14m30s:0 18m:0"},
    ),
    Story(
        "An event that has been Started for half an hour.",
        (
            info("a", "E", "Reboot", "announced", "1x139 stale"),
            moment("started_timestamp_seconds", "a", "E", "Reboot", "60x160"),
            ended("b", "E", "_x140 1x60"),
        ),
        {"StartedTooLong": "30m:0 32m:1 36m:0"},
    ),
    Story(
        "An IMDS that answers now and then does not end and raise them again; without IMDS they are"
        " not raised.",
        tuple(
            row
            for vm, event, up in (("a", "E", "1 0 "), ("b", "F", "0 0 "))
            for row in (
                of("up", vm, "1x40 " + up * 100),
                info(vm, event, "Reboot", "announced", "_x4 1x236"),
                info(vm, f"{event}2", "Reboot", "announced", "_x4 1x236"),
                moment("not_before_timestamp_seconds", vm, event, "Reboot", "_x4 600x236"),
                moment("started_timestamp_seconds", vm, f"{event}2", "Reboot", "_x40 600x200"),
            )
        ),
        {
            "Overdue": "20m:0 21m:1 21m15s:1 21m30s:1 21m45s:1 40m:1",
            "StartedTooLong": "40m:0 41m:1 41m15s:1 41m30s:1 41m45s:1",
        },
        "45m",
    ),
    Story(
        "An approval of the policy that is a minute late; approved ones and those that others"
        " approved are quiet.",
        (
            moment("approval_due_timestamp_seconds", "a", "E", "Reboot", "60x40"),
            moment("approval_due_timestamp_seconds", "b", "F", "Reboot", "60x40"),
            moment("approved", "b", "F", "Reboot", "0x5 1x40"),
            moment("approval_due_timestamp_seconds", "c", "G", "Reboot", "60x4 stale"),
            moment("started_timestamp_seconds", "c", "G", "Reboot", "_x4 60x40"),
        ),
        {"NotApproved": "1m:0 2m30s:1 5m:1"},
    ),
)
PAUSES = (
    Story(
        "A VM stood still for longer than announced.",
        (
            info("a", "a", "Freeze", "announced", "1x40 stale"),
            paused_longer("a", "a", "Freeze", "_x10 12x230 stale"),
        ),
        {"PausedLonger": "2m:0 3m:1 11m:1 50m:1 62m:0"},
    ),
    Story(
        "A pause that the exporter does not call longer than announced is quiet.",
        (
            info("a", "a", "Freeze", "announced", "1x40 stale"),
            moment("duration_seconds", "a", "a", "Freeze", "5x40 stale"),
            moment("observed_pause_seconds", "a", "a", "Freeze", "_x10 12x230"),
        ),
        {"PausedLonger": "never"},
    ),
)
_POLLS = 'outcome="{}"'
VM_A = 'vm_id="a",vm_name="a",subscription_id="s",resource_group="rg",scale_set="web"'


def _each_minute(off: int) -> str:
    """Return the time of the last poll at each step, once a minute, by a clock that is ``off``."""
    return " ".join(str(15 * step // 60 * 60 + off) for step in range(80))


EXPORTERS = (
    Story(
        "No answer of IMDS for three minutes; a short gap, or the first two minutes of a service,"
        " are quiet.",
        (of("up", "a", "0x20"), of("up", "b", "1x4 0x8 1x20")),
        {"ImdsUnreachable": "2m45s:0 3m15s:1 4m:1"},
    ),
    Story(
        "Documents that cannot be read for two minutes.",
        (
            of("up", "a", "1x4 0x40"),
            of("polls_total", "a", "0x4 1+15x40", _POLLS.format("invalid_document")),
        ),
        {"DocumentInvalid": "2m:0 4m:1", "Throttled": "never"},
    ),
    Story(
        "Every third poll throttled for five minutes; one in twenty is quiet.",
        (
            *(of("poll_duration_seconds_count", vm, "0+15x80") for vm in "ab"),
            of("polls_total", "a", "0+5x80", _POLLS.format("throttled")),
            of("polls_total", "b", "0+1x80", _POLLS.format("throttled")),
        ),
        {"Throttled": "4m:0 11m:1", "DocumentInvalid": "never"},
    ),
    Story(
        "An exporter that does not answer for ten minutes; one that restarts is quiet.",
        (target("a", "1x4 0x80"), target("b", "1x4 0x4 1x80")),
        {"ExporterDown": "10m:0 11m30s:1", "NoExporters": "never"},
    ),
    Story(
        "Nothing to scrape for ten minutes, a minute after the last target was removed.",
        (target("a", "1x4 stale"),),
        {"NoExporters": "10m:0 11m30s:1"},
    ),
    Story(
        "The only VM is away with its Reboot, and discovery removes it meanwhile.",
        (target("a", "1x4 stale"), impact("a", "E", "Reboot", 60, "x4 stale")),
        {"NoExporters": "11m30s:0 30m:0 42m:1"},
    ),
    Story(
        "A journal that cannot be written for five minutes.",
        (of("journal_up", "a", "1x4 0x40"), of("journal_up", "b", "0x10 1x40")),
        {"JournalNotOnDisk": "5m:0 6m30s:1"},
    ),
    Story(
        "A refused approval of an event that is still to be approved; one that another VM approved"
        " first is quiet.",
        (
            *(of("approval_requests_total", vm, "0x4 1x40", 'outcome="rejected"') for vm in "ab"),
            *(moment("approval_due_timestamp_seconds", vm, vm, "Reboot", "60x40") for vm in "ab"),
            moment("started_timestamp_seconds", "b", "b", "Reboot", "_x4 60x40"),
        ),
        {"ApprovalRefused": "1m:0 1m30s:1 8m:0"},
    ),
    Story(
        "Pushes that fail for five minutes.",
        (of("alertmanager_up", "a", "1x4 0x40"), of("alertmanager_up", "b", "0x10 1x40")),
        {"AlertsNotPushed": "5m:0 6m30s:1"},
    ),
    Story(
        "Spans that wait or were refused for 15 minutes.",
        (
            of("spans_queued", "a", "0x4 500x100"),
            of("spans_queued", "b", "500x20 0x100"),
            of("spans_total", "c", "0x4 5x100", 'outcome="failed"'),
        ),
        {"SpansNotDelivered": "15m:0 17m:2"},
    ),
    Story(
        "A clock that is minutes off; one that is right is quiet, as is one whose last answer is"
        " old.",
        (
            of("last_success_timestamp_seconds", "a", "400+15x40"),
            of("last_success_timestamp_seconds", "b", "0+15x40"),
            of("last_success_timestamp_seconds", "c", "0x40"),
            *(of("up", vm, "0x40" if vm == "c" else "1x40") for vm in "abc"),
        ),
        {"ClockOff": "4m:0 6m:1"},
    ),
    Story(
        "A hook that fails for the first time; one that failed before its VM was off for the night"
        " is quiet.",
        (
            of(
                "hook_runs_total",
                "a",
                "_x80 1x80",
                'event_type="Reboot",phase="prepare",outcome="timeout"',
            ),
            of(
                "hook_runs_total",
                "b",
                "0x80 1x80",
                'event_type="Reboot",phase="prepare",outcome="failed"',
            ),
            of(
                "hook_runs_total",
                "c",
                "0x80 1x80",
                'event_type="Reboot",phase="prepare",outcome="ok"',
            ),
            of(
                "hook_runs_total",
                "d",
                "3x4 stale _x80 3x75",
                'event_type="Reboot",phase="recover",outcome="failed"',
            ),
            *(of("up", vm, "1x4 stale _x80 1x75" if vm == "d" else "1x160") for vm in "abcd"),
        ),
        {"HookFailed": "15m:0 21m:2 30m:2 38m:0"},
    ),
)

WITNESSES = (
    Story(
        "A host fails without notice and its VM never returns: its peers say so.",
        (
            *scraped("a", "1x8 0x300"),
            *scraped("b", "1x308"),
            info("a", "E", "Redeploy", "without_notice", "_x10 1x50 stale", "peer", by="b"),
            moment("started_timestamp_seconds", "b", "E", "Redeploy", "_x10 150x50 stale"),
            ended("b", "E", "_x61 1x240"),
        ),
        {
            "WithoutNotice": "2m30s:1 15m:1 19m:0",
            "Maintenance": "2m15s:0 2m45s:1 15m:1 21m:0",
            "VmNotBack": "17m:0 18m:1 75m:1",
            "ExporterDown": "14m:0 30m:0 75m:0",
        },
    ),
    Story(
        "A host fails without notice and its VM returns after three minutes.",
        (
            *scraped("a", "1x8 0x12 1x300"),
            *scraped("b", "1x320"),
            info("a", "E", "Redeploy", "without_notice", "_x10 1x50 stale", "peer", by="b"),
            moment("started_timestamp_seconds", "b", "E", "Redeploy", "_x10 150x50 stale"),
            ended("b", "E", "_x61 1x240"),
        ),
        {
            "WithoutNotice": "2m30s:1 15m:1 19m:0",
            "Maintenance": "2m45s:1 5m:1 11m:0",
            "VmNotBack": "never",
            "ExporterDown": "never",
        },
    ),
    Story(
        "One document without the event, at its own VM, ends nothing, and the VM is missed later.",
        (
            *scraped("a", "1x60 0x200"),
            *hit("a", "_x4 1x16 stale 1x39 stale", 900),
            ended("a", "E", "_x21 1x0 stale", "cancelled"),
        ),
        {
            "Reboot": "5m:1 5m15s:1 5m30s:1 16m:1",
            "VmNotBack": "29m:0 31m30s:1",
            "Maintenance": "10m:0 17m:1",
        },
    ),
    Story(
        "One document without the event after NotBefore: the VM is not back, it has not been away.",
        (*scraped("a", "1x60 0x200"), *hit("a", "_x4 1x45 stale 1x10 stale", 600)),
        {"VmNotBack": "29m:0 31m30s:1", "Maintenance": "17m:1 25m:1"},
    ),
    Story(
        "One document without the event at a peer ends nothing.",
        (
            *scraped("a", "1x60 0x200"),
            *scraped("b", "1x260"),
            *hit("a", "_x4 1x56 stale", 900),
            info("a", "E", "Reboot", "announced", "_x4 1x16 stale 1x70 stale", "peer", by="b"),
            ended("b", "E", "_x21 1x0 stale", "cancelled"),
        ),
        {"Reboot": "5m:1 5m15s:1 9m:1", "VmNotBack": "31m30s:1"},
    ),
    Story(
        "An event is over when the last of its VMs has seen its end, three minutes later.",
        (
            *scraped("a", "1x108"),
            *scraped("b", "1x108"),
            info("a", "E", "Reboot", "announced", "_x4 1x23 stale"),
            info("b", "E", "Reboot", "announced", "_x4 1x55 stale"),
            ended("a", "E", "_x28 1x80"),
            ended("b", "E", "_x60 1x48"),
        ),
        {"Reboot": "6m:1 8m:1 11m:1 17m45s:1 18m30s:0"},
    ),
    Story(
        "An exporter that had lost IMDS sees the end minutes later: the page does not return.",
        (
            *scraped("a", "1x108"),
            *scraped("b", "1x108", imds="1x20 0x19 1x67"),
            info("a", "E", "Reboot", "announced", "_x4 1x23 stale"),
            info("a", "E", "Reboot", "announced", "_x4 1x35 stale", "peer", by="b"),
            ended("a", "E", "_x28 1x80"),
            ended("b", "E", "_x40 1x60"),
        ),
        {"Reboot": "7m:1 9m45s:1 10m15s:0 11m:0 13m:0"},
    ),
    Story(
        "A Redeploy that is moved three days ahead stays a degraded host over a missed scrape.",
        (
            *scraped("a", "1x39 0 1x40"),
            info("a", "E", "Redeploy", "announced", "_x4 1x15 stale"),
            info("a", "E", "Redeploy", "far_ahead", "_x20 1x19 stale 1x40"),
        ),
        {"Redeploy": "4m:1 7m:0 9m45s:0 10m:0 15m:0", "DegradedHost": "4m:0 5m:1 10m:1 15m:1"},
    ),
    Story(
        "A peer without IMDS that shows an event far ahead hides no page of others.",
        (
            of("up", "b", "1x13 0x200"),
            *(of("up", vm, "1x200") for vm in "cd"),
            info("a", "E", "Redeploy", "far_ahead", "_x4 1x200", "peer", by="b"),
            *(
                row
                for vm in "cd"
                for row in (
                    info("a", "E", "Redeploy", "far_ahead", "_x4 1x15 stale", "peer", by=vm),
                    info("a", "E", "Redeploy", "announced", "_x20 1x100", "peer", by=vm),
                )
            ),
        ),
        {"DegradedHost": "4m:1 7m:0", "Redeploy": "4m:0 5m:1 6m:1 20m:1"},
    ),
    Story(
        "A VM without IMDS goes on showing its event for an hour: the page stays.",
        (
            *scraped("a", "1x300", imds="1x8 0x292"),
            info("a", "E", "Reboot", "announced", "1x240 stale"),
        ),
        {"Reboot": "1m:1 30m:1 60m:1 62m:0"},
    ),
    Story(
        "An exporter that took an announced event for one without notice outdates nothing.",
        (
            info("a", "E", "Reboot", "announced", "1x4 stale"),
            info("a", "E", "Reboot", "without_notice", "_x5 1x60", "peer", by="b"),
        ),
        {"Reboot": "1m:1 3m:1 15m:1", "WithoutNotice": "never"},
    ),
)
VMS = (
    Story(
        "A VM comes back from its reboot under a new address, its neighbor does so later.",
        (
            *(member(vm, "1x240") for vm in "cd"),
            *hit("a1", "_x15 1x5 stale", 300, "a"),
            *scraped("a1", "1x20 stale"),
            *scraped("a2", "_x28 1x150"),
            ended("a2", "a", "_x28 1x150"),
            *hit("b1", "_x75 1x5 stale", 1200, "b"),
            *scraped("b1", "1x80 stale"),
            *scraped("b2", "_x88 1x150"),
            ended("b2", "b", "_x88 1x150"),
        ),
        {
            "Maintenance": "5m15s:1 13m:0 18m:0 20m15s:1",
            "ScaleSetHit": "never",
            "VmNotBack": "never",
        },
    ),
    Story(
        "A VM crashes, its reboot is called off: nothing is held back, and it is no VmNotBack.",
        (
            *scraped("a", "1x36 0x260"),
            *scraped("b", "1x298"),
            *hit("a", "_x4 1x32 stale", 705),
            info("a", "E", "Reboot", "announced", "_x4 1x33 stale", "peer", by="b"),
            ended("b", "E", "_x38 1x240", "cancelled"),
        ),
        {
            "Reboot": "9m:1 12m:1 13m:0",
            "Maintenance": "11m:0 20m:0",
            "ExporterDown": "19m:0 21m:1",
            "VmNotBack": "never",
        },
    ),
    Story(
        "Two events on one VM that does not return are one page.",
        (
            *scraped("a", "1x20 0x300"),
            *hit("a", "_x4 1x16 stale", 300, "E"),
            *hit("a", "_x8 1x12 stale", 300, "F", "Redeploy"),
        ),
        {"VmNotBack": "20m:0 21m:1 70m:1"},
    ),
    Story(
        "A VM is missed until it answers, five hours later.",
        (*scraped("a", "1x20 0x1200 1x40"), *hit("a", "_x4 1x16 stale", 300)),
        {"VmNotBack": "20m:0 21m:1 150m:1 304m:1 306m:0", "ExporterDown": "150m:0 300m:0 315m:0"},
    ),
    Story(
        "A VM is missed until its target is removed.",
        (*scraped("a", "1x20 0x200 stale"), *hit("a", "_x4 1x16 stale", 300)),
        {"VmNotBack": "21m:1 55m:1 57m:0"},
    ),
    Story(
        "A VM is missed while its target is made anew, as after a change of its scrape job.",
        (
            target("a", "1x20 0x99 stale 0x100"),
            of("up", "a", "1x20 stale"),
            *hit("a", "_x4 1x16 stale", 300),
        ),
        {"VmNotBack": "20m:0 21m:1 29m45s:1 30m15s:1 35m:1 50m:1"},
        "55m",
    ),
    Story(
        "A VM that is evicted after its Freeze is not missed.",
        (
            *scraped("a", "1x30 0x200"),
            *hit("a", "_x4 1x26 stale", 120, "E", "Freeze"),
            *hit("a", "_x24 1x6 stale", 420, "F", "Preempt"),
        ),
        {"VmNotBack": "never", "Preempt": "7m:1"},
    ),
    Story(
        "One event on two VMs of four is no loss of half a set, whatever else hits one of them.",
        (
            *(member(vm, "1x80") for vm in "abcd"),
            *hit("a", "1x8 stale", 120, "E"),
            *hit("b", "1x8 stale", 120, "E"),
            *hit("a", "1x8 stale", 120, "F", "Freeze"),
        ),
        {"ScaleSetHit": "never", "Reboot": "1m:1"},
    ),
    Story(
        "An event on two VMs of six and another one on a third are.",
        (
            *(member(vm, "1x80") for vm in "abcdef"),
            *hit("a", "1x8 stale", 120, "E"),
            *hit("b", "1x8 stale", 120, "E"),
            *hit("c", "1x8 stale", 120, "F"),
        ),
        {"ScaleSetHit": "45s:0 1m15s:1"},
    ),
    Story(
        "VMs that are back, and whose scrapes often fail or whose IMDS answers now and then, do not"
        " come and go.",
        tuple(
            row
            for vm, event, up in (("a", "E", "1 stale _ "), ("b", "F", "1 0 0 "))
            for row in (
                target(vm, "1x40 " + ("1 0 0 " if "stale" in up else "1 1 1 ") * 80),
                of("up", vm, "1x40 " + up * 80),
                *hit(vm, "_x4 1x120", 600, event),
                member(f"{vm}2", "1x280"),
            )
        ),
        {"ScaleSetHit": "9m:0 10m:1 13m:0 13m15s:0 13m30s:0 13m45s:0 14m:0 20m:0 20m15s:0"},
    ),
    Story(
        "An exporter restarts without IMDS during its event: its VM answers, so it is not away.",
        (
            *hit("a", "1x8 stale", 60),
            target("a", "1x10 0x2 1x200"),
            of("up", "a", "1x10 stale _x2 0x200"),
            of("instance_info", "a", "1x10 stale", VM_A),
        ),
        {"Maintenance": "1m:1 3m:1 12m:0", "VmNotBack": "never"},
    ),
)
SEED = random.Random("scrapes")
FLAKY = (
    Story(
        "A crash loop, every second scrape or random scrapes that fail: the exporter is down.",
        (
            target("a", "1x40 " + "1 0 0 " * 50),
            target("b", "1x40 " + "1 0 " * 75),
            target("c", "1x40 " + " ".join(SEED.choices("10", k=150))),
        ),
        {"ExporterDown": "10m:0 30m:3 45m:3"},
    ),
    Story(
        "One scrape in twenty that fails, one restart and a rolling upgrade are quiet.",
        (
            target("a", ("1x18 0 " * 10).strip()),
            target("b", "1x40 0x4 1x150"),
            *(target(vm, f"1x{40 + 8 * n} 0x3 1x150") for n, vm in enumerate("cdefgh")),
        ),
        {"ExporterDown": "never"},
    ),
    Story(
        "An exporter without IMDS, of whose scrapes every second one fails.",
        (of("up", "a", ("0 stale " * 60).strip()), target("a", ("1 0 " * 60).strip())),
        {"ImdsUnreachable": "2m:0 5m:1 15m:1"},
    ),
    Story(
        "An IMDS that answers every second poll.",
        (of("up", "a", "1x40 " + "0 1 " * 60),),
        {"ImdsUnreachable": "10m:0 20m:1"},
    ),
    Story(
        "Throttled polls, scraped as native histograms with custom buckets.",
        (
            of("polls_total", "a", "0+10x80", _POLLS.format("success")),
            of("polls_total", "a", "0+5x80", _POLLS.format("throttled")),
            of("polls_total", "b", "0+14x80", _POLLS.format("success")),
            of("polls_total", "b", "0+1x80", _POLLS.format("throttled")),
        ),
        {"Throttled": "4m:0 11m:1"},
    ),
    Story(
        "A clock that is right, with a poll a minute, and one that lags by two minutes.",
        (
            *(of("up", vm, "1x80") for vm in "ab"),
            *(of("poll_interval_seconds", vm, "60x80") for vm in "ab"),
            of("last_success_timestamp_seconds", "a", _each_minute(0)),
            of("last_success_timestamp_seconds", "b", _each_minute(-120)),
        ),
        {"ClockOff": "4m:0 11m:1 15m:1"},
    ),
    Story(
        "An approval that got no answer was not refused.",
        (
            of("approval_requests_total", "a", "0x4 1x40", 'outcome="error"'),
            moment("approval_due_timestamp_seconds", "a", "a", "Reboot", "60x40"),
        ),
        {"ApprovalRefused": "never"},
    ),
)
ALL = (*LIVES, *EVENTS, *IMPACTS, *LATE, *PAUSES, *EXPORTERS, *WITNESSES, *VMS, *FLAKY)


@pytest.mark.parametrize(
    "stories",
    [LIVES, EVENTS, IMPACTS, LATE, PAUSES, EXPORTERS, WITNESSES, VMS, FLAKY],
    ids=lambda some: some[0].name,
)
def test_stories(stories: Sequence[Story], tmp_path: Path) -> None:
    """The shipped rules raise what the stories say, at these moments."""
    assert run(tmp_path, stories, {}) == ""


def test_every_alert_has_its_stories() -> None:
    """Each alert fires in a story, and does not in another or before."""
    told = {PREFIX + name: "" for story in ALL for name in story.alerts}
    for story in ALL:
        for name, checks in story.alerts.items():
            told[PREFIX + name] += f" {checks} "
    every = {alert.name for alert in alerts(Settings())}
    assert {name for name, checks in told.items() if re.search(":[1-9]", checks)} == every
    assert {name for name, checks in told.items() if ":0 " in checks or "never" in checks} == every


TEAMS = (
    Story(
        "VMs of one event with different teams: each team gets its page, and peers of others none.",
        (
            *(
                info(
                    vm,
                    "E",
                    "Redeploy",
                    "announced",
                    "1x8 stale",
                    "self" if vm in "ab" else "peer",
                    f',team="{team}"',
                )
                for vm, team in (("a", "search"), ("b", "shop"), ("c", "other"))
            ),
            info("d", "F", "Reboot", "announced", "1x60", "peer", ',team="other"'),
        ),
        {"Redeploy": "15s:2 1m:2 30m:2", "Reboot": "0s:0 1m:1 10m:1"},
    ),
)


def test_kept_labels(tmp_path: Path) -> None:
    """Kept labels are those of the event's own VMs, also while these are away; of peers only if no
    own VM shows it.
    """
    assert run(tmp_path, TEAMS, {"labels.keep": "team"}) == ""
