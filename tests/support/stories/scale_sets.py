"""Stories of scale sets: how much of one is hit at once, and by how many events."""

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


def _scraped_every_two_minutes(
    vm: str, event: str, *, begins_at: int, first_shown: int, fails: int
) -> Iterator[Row]:
    """Yield what a VM shows of its Reboot, in 20 scrapes that are two minutes apart.

    ``begins_at``: when the impact begins, in seconds. ``first_shown``: the number of the first
    scrape with the event. ``fails``: the number of the scrape that fails.
    """
    scrapes = range(20)
    yield target(vm, " ".join("0 _x7" if each == fails else "1 _x7" for each in scrapes))
    exported = ["stale _x7" if each == fails else "1 _x7" for each in scrapes]
    yield metric("up", vm, " ".join(exported))
    shown = " ".join(["_x8"] * first_shown + exported[first_shown:])
    yield info(vm, event, "Reboot", "announced", shown)
    yield impact(vm, event, "Reboot", begins_at, shown.replace("1 ", "x0 "))


SCALE_SETS = (
    Story(
        "One event of two VMs in a set of four is one page.",
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
        "Half of a set that a user deletes at once is no page of its own.",
        (
            *(member(vm, "1x60") for vm in "abcd"),
            *(info(vm, vm, "Terminate", "requested", "1x8 stale") for vm in "ab"),
            *(impact(vm, vm, "Terminate", 120, "x8 stale") for vm in "ab"),
        ),
        {"ScaleSetHit": "never", "Requested": "1m:2"},
    ),
    Story(
        "A user's request that takes three VMs of eight does not hide two events that take one"
        " each.",
        (
            *(member(vm, "1x80") for vm in "abcdefgh"),
            *(info(vm, "R", "Terminate", "requested", "1x8 stale") for vm in "abc"),
            *(impact(vm, "R", "Terminate", 120, "x8 stale") for vm in "abc"),
            *hit("d", "1x8 stale", 120, "E"),
            *hit("e", "1x8 stale", 120, "F"),
        ),
        {"ScaleSetHit": "30s:0 1m15s:1 3m:1"},
    ),
    Story(
        "Beside a user's request that takes three VMs of eight, one event that takes two is one"
        " page.",
        (
            *(member(vm, "1x80") for vm in "abcdefgh"),
            *(info(vm, "R", "Terminate", "requested", "1x8 stale") for vm in "abc"),
            *(impact(vm, "R", "Terminate", 120, "x8 stale") for vm in "abc"),
            *hit("d", "1x8 stale", 120, "E"),
            *hit("e", "1x8 stale", 120, "E"),
        ),
        {"ScaleSetHit": "never", "Reboot": "1m:1"},
    ),
    Story(
        "A Reboot of one VM becomes a Redeploy, another VM has a Reboot: half of the set is away.",
        (
            *(member(vm, "1x100") for vm in "abcd"),
            *hit("a", "1x20 stale", 1200, "E"),
            *hit("a", "_x21 1x60 stale", 1200, "E", "Redeploy"),
            *hit("b", "1x80 stale", 1200, "F"),
        ),
        {"ScaleSetHit": "18m:0 20m:1"},
    ),
    Story(
        "Reboots of one VM after the other, each Started for ten minutes, are no simultaneous"
        " loss.",
        (
            *(member(vm, "1x200") for vm in "abcd"),
            *(
                row
                for n, vm in enumerate("abcd")
                for row in (
                    info(vm, vm, "Reboot", "announced", f"_x{20 * n} 1x8 stale _x4 1x35 stale"),
                    impact(vm, vm, "Reboot", 300 * n + 120, f"_x{20 * n} x8 stale _x4 x35 stale"),
                    metric("up", vm, f"1x{20 * n + 8} stale _x4 1x100"),
                    ended(vm, vm, f"_x{20 * n + 50} 1x100"),
                )
            ),
        ),
        {"ScaleSetHit": "never", "Reboot": "1m:1"},
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
        "An event on two VMs of six and another one on a third are a loss of half a set.",
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
                metric("up", vm, "1x40 " + up * 80),
                *hit(vm, "_x4 1x120", 600, event),
                member(f"{vm}2", "1x280"),
            )
        ),
        {"ScaleSetHit": "9m:0 10m:1 13m:0 13m15s:0 13m30s:0 13m45s:0 14m:0 20m:0 20m15s:0"},
    ),
    Story(
        "Four VMs of a set have an exporter. Events on two others, which they see, are not half of"
        " it; with a third one of their own, it is a quarter.",
        (
            *(row for vm in "abcd" for row in scraped(vm, "1x120")),
            *(
                row
                for event, vm in (("E", "x"), ("F", "y"))
                for row in (
                    info(vm, event, "Redeploy", "announced", "_x4 1x60 stale", "peer", by="b"),
                    moment("started_timestamp_seconds", "b", event, "Redeploy", "_x8 120x56 stale"),
                )
            ),
            *hit("a", "_x4 1x60 stale", 120, "G"),
        ),
        {"ScaleSetHit": "never", "Redeploy": "5m:2", "Maintenance": "3m:1"},
    ),
    Story(
        "Two VMs of a set have an exporter. One event hits one of them, another event a third VM:"
        " of those that have an exporter, a single event takes half.",
        (
            *(row for vm in "ab" for row in scraped(vm, "1x120")),
            *hit("a", "_x4 1x60 stale", 120, "E"),
            info("x", "F", "Redeploy", "announced", "_x4 1x60 stale", "peer", by="b"),
            moment("started_timestamp_seconds", "b", "F", "Redeploy", "_x8 120x56 stale"),
        ),
        {"ScaleSetHit": "never", "Reboot": "5m:1", "Redeploy": "5m:1"},
    ),
)

SLOWLY_SCRAPED = (
    Story(
        "Two VMs of four answer again after their Reboots, which are still Started. A scrape every"
        " two minutes that fails takes neither away again.",
        (
            *(target(vm, "1 _x7 " * 20) for vm in "cd"),
            *(metric("up", vm, "1 _x7 " * 20) for vm in "cd"),
            *_scraped_every_two_minutes("a", "E", begins_at=240, first_shown=2, fails=10),
            *_scraped_every_two_minutes("b", "F", begins_at=720, first_shown=4, fails=10),
        ),
        {"ScaleSetHit": "never"},
        "38m",
    ),
)
"""Stories with a scrape every two minutes, as the setting ``scrape.interval`` says."""

SLOWLY_EVALUATED = (
    Story(
        "Two Reboots take two VMs of four for ten minutes: one page, although rules are evaluated"
        " seldom.",
        (
            *(row for vm in "cd" for row in scraped(vm, "1x160")),
            *(row for vm in "ab" for row in scraped(vm, "1x40 0x40 1x80")),
            *hit("a", "_x4 1x36 stale", 600, "E"),
            *hit("b", "_x4 1x36 stale", 600, "F"),
        ),
        {"ScaleSetHit": "11m:1 12m:1 13m:1 14m:1 15m:1 16m:1 17m:1 18m:1 19m:1 24m:0"},
    ),
)
"""Stories with the setting ``evaluation.interval: 30s``."""
