"""Starts: killed within three seconds on a disk of any speed, and on each kind of bad disk."""

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.follower import event
from support.events.journal_contents import rows
from support.paths import ROOT
from support.programs import Exporter
from trials.kills import STORY, Ordeal
from trials.storage.image import Image, can_mount
from trials.trial import POLL, QUIET, Crew, Order, Row
from trials.truth import Record, check_counters, check_file, check_rows, transitions_in

FSYNC_MS = (0, 10, 50, 200)
LONGEST_SECONDS = 3.0
PROMISED_SECONDS = 2.0
"""From the start to a poll in `/metrics`, and from SIGTERM to the end."""

BUSY_SECONDS = 3.0
"""What a busy machine may add to it."""


def library(source: Path, folder: Path) -> str:
    """Return the path of a library to preload, built from ``source``."""
    built = folder / f"{source.stem}.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(built), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return str(built)


def killed(order: Order, preload: str, milliseconds: int, kills: int) -> int:
    """Kill an exporter so often soon after its start; return the number of transitions."""
    folder = order.folder / f"fsync-{milliseconds}"
    journal = folder / "state"
    slow = {"LD_PRELOAD": preload, "SLOW_DISK_MS": str(milliseconds)}
    chance = random.Random(order.chance.randrange(1 << 32))
    with Simulator(STORY, requests_per_second=1000) as simulator, Crew(folder) as crew:
        ordeal = Ordeal(simulator, Record(simulator), journal, crew, chance, environment=slow)
        ordeal.plays()
        while ordeal.kills < kills:
            ordeal.starts()
            ordeal.dies(chance.uniform(0.0, LONGEST_SECONDS))
            if ordeal.over() and ordeal.kills < kills:
                ordeal.plays()
        scrape = ordeal.ends()
        assert list(journal.glob("*set-aside*")) == []
        found = transitions_in(journal)
    check_file(journal)
    check_counters(found, scrape)
    check_rows(found)
    return len(found)


@contextmanager
def bad_disk(kind: str, folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Give a folder for a journal with event A, and the environment in which its disk is bad."""
    if kind in {"full", "read-only"}:
        with Image(folder) as image:
            place = image.place / "state"
            with_an_event(place, folder)
            if kind == "full":
                image.fill()
            else:
                image.remount("ro")
            yield place, {}
            if kind == "read-only":
                image.remount("rw")
        return
    with_an_event(folder / "state", folder)
    if kind == "hanging":
        preload = library(ROOT / "tests" / "support" / "hosts" / "slow_disk.c", folder)
        yield folder / "state", {"LD_PRELOAD": preload, "HANGING_DISK": str(folder / "state")}
    elif kind == "without locks":
        preload = library(ROOT / "tests" / "data" / "cases" / "smb-locks.c", folder)
        yield folder / "state", {"LD_PRELOAD": preload}
    else:
        (folder / "state" / "journal.sqlite").write_bytes(b"damage" * 1000)
        yield folder / "state", {}


def with_an_event(place: Path, folder: Path) -> None:
    """Let an exporter write a journal with event A."""
    with Simulator(QUIET) as simulator, Crew(folder / "before") as crew:
        simulator.set_document([event("A")])
        exporter = crew.start(simulator.url, *POLL, "--journal.path", str(place))
        exporter.shows("event A", lambda now: now.transitions().get("detected") == 1)
        exporter.terminate()


def started(order: Order, kind: str) -> tuple[float, float]:
    """Start on a bad disk; return the seconds to the first poll, and from SIGTERM to the end."""
    folder = order.folder / kind.replace(" ", "-")
    folder.mkdir()
    with bad_disk(kind, folder) as (place, environment), Simulator(QUIET) as simulator:
        simulator.set_document([event("A"), event("B")])
        with Crew(folder / "logs") as crew:
            began = time.monotonic()
            flags = (*POLL, "--instance.name", "vmss_0", "--journal.path", str(place))
            exporter = crew.start(simulator.url, *flags, **environment)
            exporter.shows("both events", lambda now: len(now.series("event_info")) == 2)
            shown = time.monotonic() - began
            expected = 1 if kind in {"full", "read-only", "without locks"} else 2
            assert exporter.scrape().transitions().get("detected", 0) >= expected
            assert (exporter.scrape().value("journal_up") == 1) is (kind == "damaged")
            ended = ends(exporter)
            for _ in range(order.pick(10, 2)):
                again = crew.start(simulator.url, *flags, **environment)
                time.sleep(order.chance.uniform(0.0, 1.5))
                ended = max(ended, ends(again))
        if kind in {"hanging", "without locks"}:
            assert rows(place) == [("A", "detected")], "the file was left alone"
    return shown, ended


def ends(exporter: Exporter) -> float:
    """Send SIGTERM; return the seconds to the end."""
    began = time.monotonic()
    assert exporter.terminate() == 0
    return time.monotonic() - began


def run(order: Order) -> Row:
    """Kill starts on disks of any speed, and start on bad disks."""
    kills = order.pick(200, 8) // len(FSYNC_MS)
    preload = library(ROOT / "tests" / "support" / "hosts" / "slow_disk.c", order.folder)
    transitions = 0
    for milliseconds in FSYNC_MS:
        transitions += killed(order, preload, milliseconds, kills)
        order.say(f"{kills} kills with an fsync of {milliseconds} ms")
    kinds = ["hanging", "without locks", "damaged"]
    if can_mount():
        kinds += ["full", "read-only"]
    shown = 0.0
    ended = 0.0
    for kind in kinds:
        found = started(order, kind)
        order.say(f"{kind}: {found[0]:.1f} s, {found[1]:.1f} s")
        shown = max(shown, found[0])
        ended = max(ended, found[1])
    assert max(shown, ended) < PROMISED_SECONDS + BUSY_SECONDS, (shown, ended)
    return Row(
        "start",
        f"{kills * len(FSYNC_MS)} SIGKILLs within {LONGEST_SECONDS:g} s of a start, with an fsync"
        f" of {', '.join(map(str, FSYNC_MS))} ms; starts on a disk that is {', '.join(kinds)},"
        f" seed {order.seed}",
        f"{transitions} transitions, none lost or twice, no file renamed; on a bad disk at most"
        f" {shown:.1f} s to both events in `/metrics`, and {ended:.1f} s from SIGTERM to the end",
    )
