"""Stories of events: which of them raise an alert, for how long it is held, and what ends it."""

from support.stories.story import Story, ended, info, metric, moment, paused_longer, scraped


def one(event_type: str, kind: str, name: str, hold: str) -> Story:
    """Return the life of an alert: a lone VM goes away with its event and does not return; held,
    then given up.

    ``hold``: a time at which the alert is still held, and one at which it is not.
    """
    held, over = hold.split()
    rows = (info("a", "E", event_type, kind, "_x1 1x2 stale"),)
    return Story(f"{name} by {kind} {event_type}", rows, {name: f"0m:0 15s:1 {held}:1 {over}:0"})


# An event that its own VM shows for a minute, and then no more.
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
            metric("up", "a", "1x600"),
            metric("up", "b", "1x3 0x600"),
        ),
        {"Reboot": "1m:1 4m:1 4m30s:0 20m:0 65m:0 100m:0 126m:0 140m:0"},
    ),
    Story(
        "An event that ended stays ended when the only exporter that saw it is stopped.",
        (
            info("a", "E", "Redeploy", "announced", OWN),
            ended("a", "E", "_x5 1x4 stale"),
            metric("up", "a", "1x10 stale"),
        ),
        {"Redeploy": "1m:1 4m:1 4m30s:0 30m:0 61m:0 66m:0"},
    ),
    Story(
        "An event that returns four minutes after its end pages again.",
        (
            info("a", "E", "Reboot", "announced", "1x4 stale _x15 1x40"),
            ended("a", "E", "_x5 1x15 stale"),
            metric("up", "a", "1x60"),
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

LATE = (
    Story(
        "An event that is still Scheduled ten minutes after its NotBefore, by an exporter that"
        " sees it.",
        (
            info("a", "E", "Reboot", "announced", "1x80"),
            moment("not_before_timestamp_seconds", "a", "E", "Reboot", "60x60 stale"),
            moment("started_timestamp_seconds", "b", "E", "Reboot", "_x56 840x20"),
            moment("not_before_timestamp_seconds", "c", "F", "Reboot", "60x80"),
            metric("up", "c", "0x80"),
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
                metric("up", vm, "1x40 " + up * 100),
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
        {"PausedLonger": "2m:0 3m:1 11m:1 50m:1 69m:1 71m:0"},
        "75m",
    ),
    Story(
        "While scrapes fail, the ticket about such a pause stays, and no second one follows.",
        (
            info("a", "a", "Freeze", "announced", "1x40 stale"),
            paused_longer("a", "a", "Freeze", "_x10 12x20 stale _x2 12x200 stale"),
        ),
        {"PausedLonger": "3m:1 8m:1 8m15s:1 8m30s:1 9m:1"},
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
    Story(
        "An event goes on for longer than its alert is held, while its own VM is down: its team's"
        " page stays, and no other team gets one.",
        (
            *scraped("b", "1x420"),
            info("a", "E", "Reboot", "announced", "1x20 stale", "self", ',team="shop"'),
            info("a", "E", "Reboot", "announced", "1x320 stale", "peer", ',team="web"', by="b"),
            ended("b", "E", "_x321 1x80"),
        ),
        {"Reboot": "1m:1 34m:1 37m:1 50m:1 64m:1 68m:1 80m:1 82m:1 84m:0"},
    ),
    Story(
        "The kind of an event changes while its own VM is down: peers raise the page.",
        (
            metric("up", "b", "1x120"),
            info("a", "E", "Redeploy", "far_ahead", "1x20 stale", "self", ',team="shop"'),
            info("a", "E", "Redeploy", "far_ahead", "1x40 stale", "peer", ',team="web"', by="b"),
            info("a", "E", "Redeploy", "announced", "_x41 1x60", "peer", ',team="web"', by="b"),
        ),
        {"DegradedHost": "1m:1 8m:1 12m:0", "Redeploy": "10m:0 11m:1 20m:1"},
    ),
)
