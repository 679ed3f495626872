"""Stories of VMs: which are away, and which do not return."""

from collections.abc import Iterator

from support.stories.story import (
    Row,
    Story,
    ended,
    hit,
    impact,
    info,
    member,
    metric,
    moment,
    scraped,
    target,
)

# An event that its own VM shows for a minute, and then no more.
OWN = "1x4 stale"

VM_A = 'vm_id="a",vm_name="a",subscription_id="s",resource_group="rg",scale_set="web"'

_OTHER_GROUP = VM_A.replace('"rg"', '"rg2"')
_OTHER_VM = 'vm_id="z",vm_name="z",subscription_id="s2",resource_group="rg2",scale_set=""'


def _in(env: str, *rows: Row) -> Iterator[Row]:
    """Yield ``rows`` of a target with the label ``env``."""
    for series, values in rows:
        yield f'{series[:-1]},env="{env}"}}', values


IMPACTS = (
    Story(
        "The address of an evicted VM is reused by a VM that answers for a minute and crashes.",
        (
            info("a", "E", "Preempt", "announced", "1x2 stale"),
            impact("a", "E", "Preempt", 30, "x2 stale"),
            metric("up", "a", "1x2 stale _x7 1x4 stale"),
            target("a", "1x2 0x8 1x4 0x200"),
        ),
        {"Maintenance": "1m:1 9m:0 30m:0", "ExporterDown": "13m:0 15m:1", "VmNotBack": "never"},
    ),
    Story(
        "An evicted VM whose target stays is a ticket after twenty minutes.",
        (
            impact("a", "E", "Preempt", 30, "x2 stale"),
            target("a", "1x2 0x200"),
            metric("up", "a", "1x2 stale"),
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
            metric("up", "a", "1x2 stale"),
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
            metric("up", "a", "1x4 stale _x11 1x30 stale"),
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
            metric("up", "a", "1x4 stale"),
            target("a", "1x4 0x400"),
            ended("b", "E", "_x8 1x200", "cancelled"),
        ),
        {"VmNotBack": "never"},
    ),
    Story(
        "An exporter without IMDS that shows a begun event for a day holds back its VM's own alerts"
        " for two hours.",
        (
            impact("a", "E", "Freeze", 30, "x600"),
            metric("up", "a", "1x8 0x600"),
            target("a", "1x600"),
        ),
        {"Maintenance": "1m:1 119m:1 121m:0"},
    ),
    Story(
        "Names of VMs and groups are of the exporter's own series, whatever case IMDS has them in.",
        (impact("a", "E", "Freeze", 30, "x60"), info("A", "E", "Freeze", "announced", "1x60")),
        {"Maintenance": "1m:1", "Freeze": "1m:1"},
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
        {"VmNotBack": "20m:0 21m:1 150m:1 304m:1 307m:0", "ExporterDown": "150m:0 300m:0 315m:0"},
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
            metric("up", "a", "1x20 stale"),
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
        "An exporter restarts without IMDS during its event: its VM answers, so it is not away.",
        (
            *hit("a", "1x8 stale", 60),
            target("a", "1x10 0x2 1x200"),
            metric("up", "a", "1x10 stale _x2 0x200"),
            metric("instance_info", "a", "1x10 stale", VM_A),
        ),
        {"Maintenance": "1m:1 3m:1 12m:0", "VmNotBack": "never"},
    ),
    Story(
        "A VM returns from its Reboot after fourteen minutes, without IMDS. It answers, so it is"
        " not away.",
        (
            *hit("a", "1x8 stale", 60),
            target("a", "1x8 0x56 1x200"),
            metric("up", "a", "1x8 stale _x55 0x200"),
            metric("instance_info", "a", "1x8 stale", VM_A),
        ),
        {"Maintenance": "3m:1 16m:1 22m:0", "VmNotBack": "never"},
    ),
    Story(
        "A Reboot that somebody approved ends before its announced time, and no scrape of a peer"
        " has shown it Started: its VM is missed all the same.",
        (
            *scraped("a", "1x20 0x300"),
            *hit("a", "1x20 stale", 900),
            ended("b", "E", "_x25 1x200"),
        ),
        {"VmNotBack": "29m:0 31m:1"},
        end="35m",
    ),
    Story(
        "A peer that missed the start of a Reboot calls it cancelled, another one has seen it"
        " complete: its VM is missed.",
        (
            *scraped("a", "1x20 0x300"),
            *hit("a", "1x20 stale", 900),
            ended("b", "E", "_x25 1x200"),
            ended("c", "E", "_x25 1x200", "cancelled"),
        ),
        {"VmNotBack": "29m:0 31m:1 40m:1"},
        "45m",
    ),
    Story(
        "An exporter restarts without IMDS. Its Reboot begins five minutes late, and its VM does"
        " not return.",
        (
            *hit("a", "_x4 1x12 stale", 300),
            target("a", "1x16 0x2 1x21 0x240"),
            metric("up", "a", "1x16 stale _x2 0x20 stale"),
            member("a", "1x16 stale"),
            *scraped("b", "1x280"),
            info("a", "E", "Reboot", "announced", "_x4 1x276", "peer", by="b"),
            moment("started_timestamp_seconds", "b", "E", "Reboot", "_x40 600x240"),
        ),
        {"VmNotBack": "24m:0 26m:1 40m:1", "Maintenance": "12m:1", "ExporterDown": "40m:0"},
        "50m",
    ),
    Story(
        "A VM that is scraped every 75 s does not return from its Redeploy.",
        (
            info("a", "E", "Redeploy", "announced", "1 _x4 stale"),
            impact("a", "E", "Redeploy", 30, "x0 _x4 stale"),
            target("a", "1 _x4 0 _x4 0 _x4 " + "0 _x4 " * 100),
            metric("up", "a", "1 _x4 stale"),
        ),
        {"VmNotBack": "15m:0 17m:1 17m15s:1 18m30s:1 80m:1", "ExporterDown": "80m:0"},
    ),
    Story(
        "A VM is scraped once a minute. Its last document before it goes away misses the event.",
        (
            *scraped("a", "1 _x3 1 _x3 1 _x3 " + "0 _x3 " * 60, imds="1 _x3 1 _x3 1 _x3 stale"),
            info("a", "E", "Reboot", "announced", "1 _x3 1 _x3 stale"),
            impact("a", "E", "Reboot", 100, "x0 _x3 x0 _x3 stale"),
        ),
        {"VmNotBack": "10m:0 19m:1 60m:1"},
    ),
    Story(
        "A VM of the same name in another resource group is another VM: one does not come back,"
        " the other one crashes later.",
        (
            *hit("a", "1x4 stale", 60),
            *scraped("a", "1x4 0x400"),
            metric("instance_info", "other", "1x60 stale", _OTHER_GROUP),
            *scraped("other", "1x60 0x340"),
        ),
        {"Maintenance": "1m:1 5m:1", "VmNotBack": "20m:1 60m:1", "ExporterDown": "25m:0 30m:1"},
    ),
    Story(
        "VMs of two environments have the same address: what is true of one is not of the other.",
        (
            *_in("one", *scraped("a", "1x40 0x200"), *hit("a", "_x4 1x35 stale", 540)),
            *_in("one", member("a", "1x40 stale")),
            *_in("two", *scraped("a", "1x240"), metric("instance_info", "a", "1x240", _OTHER_VM)),
            *(row for vm in "xyz" for row in scraped(vm, "1x240")),
        ),
        {"Maintenance": "9m:1 15m:1", "VmNotBack": "26m:1 50m:1"},
        "55m",
    ),
    Story(
        "One of two VMs with the same address returns from its Reboot: it is not away any more.",
        (
            *_in("one", *scraped("a", "1x40 0x12 1x120"), *hit("a", "_x4 1x35 stale", 540)),
            *_in("one", member("a", "1x40 _x12 1x120")),
            *_in("two", *scraped("a", "1x172"), metric("instance_info", "a", "1x172", _OTHER_VM)),
        ),
        {"Maintenance": "9m:1 13m:1 19m:0 25m:0", "VmNotBack": "never"},
        "40m",
    ),
)
