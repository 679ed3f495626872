"""Stories of exporters that see the same event differently: who is believed."""

from support.stories.story import Story, ended, hit, info, metric, moment, scraped

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
        "A host fails without notice, and peers see that before a scrape of the VM fails: what its"
        " exporter answered before does not count as its return.",
        (
            *scraped("a", "1x12 0x300"),
            *scraped("b", "1x312"),
            info("a", "E", "Redeploy", "without_notice", "_x10 1x50 stale", "peer", by="b"),
            moment("started_timestamp_seconds", "b", "E", "Redeploy", "_x10 150x50 stale"),
            ended("b", "E", "_x61 1x240"),
        ),
        {"Maintenance": "2m45s:1 15m:1 21m:0", "VmNotBack": "18m:0 19m:1 75m:1"},
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
        "One document without the event, half a minute before its VM goes away.",
        (
            *scraped("a", "1x60 0x200"),
            *hit("a", "_x4 1x53 stale 1x1 stale", 930),
            ended("a", "E", "_x58 1x0 stale", "cancelled"),
        ),
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
            metric("up", "b", "1x13 0x200"),
            *(metric("up", vm, "1x200") for vm in "cd"),
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
    Story(
        "A Freeze of which IMDS makes a Reboot: the page is raised, and stays.",
        (
            metric("up", "a", "1x120"),
            info("a", "E", "Freeze", "announced", "_x4 1x16 stale"),
            info("a", "E", "Reboot", "announced", "_x21 1x100"),
        ),
        {"Freeze": "5m:1 7m:0 20m:0", "Reboot": "5m:0 5m30s:1 6m30s:1 7m:1 20m:1"},
    ),
)
