"""Stories of exporters: which of them need somebody, and which are left alone."""

import random

from support.stories.story import Story, ended, hit, impact, metric, moment, scraped, target

_POLLS = 'outcome="{}"'


def _each_minute(age: int) -> str:
    """Return when the last poll was, scraped once a minute, ``age`` seconds after it each time."""
    return " ".join(f"{60 * minute - age} _x3" for minute in range(20))


EXPORTERS = (
    Story(
        "No answer of IMDS for three minutes; a short gap, or the first two minutes of a service,"
        " are quiet.",
        (
            *(metric("instance_info", vm, "1x40") for vm in "ab"),
            metric("up", "a", "0x20"),
            metric("up", "b", "1x4 0x8 1x20"),
        ),
        {"ImdsUnreachable": "2m45s:0 3m15s:1 4m:1"},
    ),
    Story(
        "IMDS tells the events, but for three minutes not the VM's name; a start is quiet.",
        (
            *(metric("up", vm, "1x40") for vm in "ab"),
            metric("instance_info", "a", "_x20 1x20"),
            metric("instance_info", "b", "_x8 1x32"),
        ),
        {"ImdsUnreachable": "2m45s:0 3m15s:1 4m45s:1 5m30s:0"},
    ),
    Story(
        "Documents that cannot be read for two minutes.",
        (
            metric("up", "a", "1x4 0x40"),
            metric("polls_total", "a", "0x4 1+15x40", _POLLS.format("invalid_document")),
        ),
        {"DocumentInvalid": "2m:0 4m:1", "Throttled": "never"},
    ),
    Story(
        "Every third poll throttled for five minutes; one in twenty is quiet.",
        (
            *(metric("poll_duration_seconds_count", vm, "0+15x80") for vm in "ab"),
            metric("polls_total", "a", "0+5x80", _POLLS.format("throttled")),
            metric("polls_total", "b", "0+1x80", _POLLS.format("throttled")),
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
        (metric("journal_up", "a", "1x4 0x40"), metric("journal_up", "b", "0x10 1x40")),
        {"JournalNotOnDisk": "5m:0 6m30s:1"},
    ),
    Story(
        "A refused approval of an event that is still to be approved; one that another VM approved"
        " first is quiet.",
        (
            *(
                metric("approval_requests_total", vm, "0x4 1x40", 'outcome="rejected"')
                for vm in "ab"
            ),
            *(moment("approval_due_timestamp_seconds", vm, vm, "Reboot", "60x40") for vm in "ab"),
            moment("started_timestamp_seconds", "b", "b", "Reboot", "_x4 60x40"),
        ),
        {"ApprovalRefused": "1m:0 1m30s:1 8m:0"},
    ),
    Story(
        "Pushes that fail for five minutes.",
        (metric("alertmanager_up", "a", "1x4 0x40"), metric("alertmanager_up", "b", "0x10 1x40")),
        {"AlertsNotPushed": "5m:0 6m30s:1"},
    ),
    Story(
        "Spans that wait or were refused for 15 minutes.",
        (
            metric("spans_queued", "a", "0x4 500x100"),
            metric("spans_queued", "b", "500x20 0x100"),
            metric("spans_total", "c", "0x4 5x100", 'outcome="failed"'),
            # The exporter of d restarts, long after the collector refused spans.
            metric("spans_total", "d", "5x40 stale 0x160", 'outcome="failed"'),
        ),
        {"SpansNotDelivered": "15m:0 17m:2 28m:1"},
    ),
    Story(
        "A VM's clock that differs from that of IMDS by 40 s, behind or ahead; one that differs by"
        " 20 s is quiet, as is one of an exporter that IMDS no longer answers.",
        (
            *(metric("last_success_timestamp_seconds", vm, "0+15x40") for vm in "abc"),
            metric("last_success_timestamp_seconds", "d", "0x40"),
            metric("clock_offset_seconds", "a", "-40x40"),
            metric("clock_offset_seconds", "b", "40x40"),
            metric("clock_offset_seconds", "c", "20x40"),
            metric("clock_offset_seconds", "d", "40x40"),
            *(metric("up", vm, "0x40" if vm == "d" else "1x40") for vm in "abcd"),
        ),
        {"ClockOff": "4m:0 6m:2"},
    ),
    Story(
        "A clock of Prometheus that is minutes off; one that is right is quiet, as is an exporter"
        " whose last answer is old.",
        (
            metric("last_success_timestamp_seconds", "a", "400+15x40"),
            metric("last_success_timestamp_seconds", "b", "0+15x40"),
            metric("last_success_timestamp_seconds", "c", "0x40"),
            *(metric("up", vm, "0x40" if vm == "c" else "1x40") for vm in "abc"),
        ),
        {"ClockOff": "4m:0 6m:1"},
    ),
    Story(
        "A hook that fails for the first time, also if its VM is evicted 30 s later; one that"
        " failed before its VM was off for the night is quiet.",
        (
            metric(
                "hook_runs_total",
                "a",
                "_x80 1x80",
                'event_type="Reboot",phase="prepare",outcome="timeout"',
            ),
            metric(
                "hook_runs_total",
                "b",
                "0x80 1x80",
                'event_type="Reboot",phase="prepare",outcome="failed"',
            ),
            metric(
                "hook_runs_total",
                "c",
                "0x80 1x80",
                'event_type="Reboot",phase="prepare",outcome="ok"',
            ),
            metric(
                "hook_runs_total",
                "d",
                "3x4 stale _x80 3x75",
                'event_type="Reboot",phase="recover",outcome="failed"',
            ),
            metric(
                "hook_runs_total",
                "e",
                "_x80 1x2 stale",
                'event_type="Preempt",phase="prepare",outcome="timeout"',
            ),
            # The journal of f was lost with a disk, after three failures.
            metric(
                "hook_runs_total",
                "f",
                "3x80 stale 1x80",
                'event_type="Redeploy",phase="recover",outcome="failed"',
            ),
            *(metric("up", vm, "1x160") for vm in "abcf"),
            metric("up", "d", "1x4 stale _x80 1x75"),
            metric("up", "e", "1x82 stale"),
        ),
        {"HookFailed": "15m:0 21m:4 30m:4 38m:0"},
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
        "A VM that boots in a loop after its reboot: its exporter is down.",
        (
            *scraped("a", "1x8 " + "0x2 1 " * 80),
            *scraped("b", "1x330"),
            *hit("a", "_x2 1x5 stale", 120),
            ended("b", "E", "_x20 1x240"),
        ),
        {"ExporterDown": "10m:0 20m:1 45m:1", "VmNotBack": "never"},
        "75m",
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
        (metric("up", "a", ("0 stale " * 60).strip()), target("a", ("1 0 " * 60).strip())),
        {"ImdsUnreachable": "2m:0 5m:1 15m:1"},
    ),
    Story(
        "An IMDS that answers every second poll.",
        (metric("up", "a", "1x40 " + "0 1 " * 60), metric("instance_info", "a", "1x160")),
        {"ImdsUnreachable": "10m:0 20m:1"},
    ),
    Story(
        "Throttled polls, scraped as native histograms with custom buckets.",
        (
            metric("polls_total", "a", "0+10x80", _POLLS.format("success")),
            metric("polls_total", "a", "0+5x80", _POLLS.format("throttled")),
            metric("polls_total", "b", "0+14x80", _POLLS.format("success")),
            metric("polls_total", "b", "0+1x80", _POLLS.format("throttled")),
        ),
        {"Throttled": "4m:0 11m:1"},
    ),
    Story(
        "A poll and a scrape a minute, 45 s apart: a clock that is right, and one that lags by two"
        " minutes.",
        (
            *(metric("up", vm, "1x80") for vm in "ab"),
            *(metric("poll_interval_seconds", vm, "60x80") for vm in "ab"),
            metric("last_success_timestamp_seconds", "a", _each_minute(45)),
            metric("last_success_timestamp_seconds", "b", _each_minute(165)),
        ),
        {"ClockOff": "4m:0 11m:1 15m:1"},
    ),
    Story(
        "An approval that got no answer was not refused.",
        (
            metric("approval_requests_total", "a", "0x4 1x40", 'outcome="error"'),
            moment("approval_due_timestamp_seconds", "a", "a", "Reboot", "60x40"),
        ),
        {"ApprovalRefused": "never"},
    ),
)
