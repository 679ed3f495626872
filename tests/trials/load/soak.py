"""An exporter left running, much busier than in life: does anything grow that should not?

Run: ``make soak`` or ``PYTHONPATH=tests python -m trials.load.soak [--minutes 60] [--write
FOLDER]``. It polls a simulator 50 times a second while events come and go several times a second,
is scraped once a second, traces everything to a collector that fails in turns, and keeps its
journal for a twelfth of the run, so that pruning is part of it. Ends with status 1 when something
grew, a scrape was not answered, or the process ended. Stays on loopback.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import psutil

from azure_scheduled_events_exporter.simulator import Simulator
from support.monitoring.collector import ACCEPT, HANG, Collector, Reply
from support.programs import Exporter
from trials.trial import lives

POLLS_PER_SECOND = 50
RETENTION = 1 / 12  # of the run
SPEED = 3000.0
SCENARIOS = ("rollout", "live-migration", "user-reboot", "cancelled", "host-failure")
SAMPLE_SECONDS = 5.0
MEBIBYTE = 1 << 20
GROWTH_MEBIBYTES = 1.0
TELLING_SECONDS = 600.0  # in less, all that can be said is that it lives and answers
LATE_REPLIES = (
    Reply(503),
    Reply(429, {"Retry-After": "1"}),
    Reply(400),
    HANG,
    Reply(200, rejected=1),
)


Sample = dict[str, float]
"""The exporter at one moment: sizes in MiB, ``scrape`` in seconds, ``processor`` in seconds since
its start.
"""


class Watch:
    """Scrapes the exporter, and looks at its process and journal."""

    def __init__(self, exporter: Exporter, journal: Path) -> None:
        self._exporter = exporter
        self._journal = journal
        self._process = psutil.Process(exporter.process.pid)
        self._began = time.monotonic()
        self.samples: list[Sample] = []
        self.unanswered = 0

    def scrape(self, *, sample: bool) -> None:
        """Scrape, and keep what was seen if it is to be a sample."""
        begun = time.perf_counter()
        try:
            scrape = self._exporter.scrape()
        except OSError:
            self.unanswered += 1
            return
        took = time.perf_counter() - begun
        times = self._process.cpu_times()
        if sample:
            files = self._journal.parent.glob("journal.db*")
            self.samples.append(
                {
                    "at": time.monotonic() - self._began,
                    "memory": self._process.memory_info().rss / MEBIBYTE,
                    "descriptors": self._process.num_fds(),
                    "threads": self._process.num_threads(),
                    "journal": sum(each.stat().st_size for each in files) / MEBIBYTE,
                    "queued": scrape.total("spans_queued"),
                    "transitions": scrape.total("transitions_total"),
                    "polls": scrape.total("polls_total"),
                    "scrape": took,
                    "processor": times.user + times.system,
                }
            )


def flap(collector: Collector, ending: threading.Event, chance: random.Random) -> None:
    """Let the collector accept most of the time, and fail in turns: refuse, answer badly, hang."""
    while not ending.wait(chance.uniform(5, 15)):
        if chance.random() < 0.3:
            collector.stop()
            ending.wait(chance.uniform(1, 8))
            collector.start()
        else:
            collector.answer(*chance.choices(LATE_REPLIES, k=3), ACCEPT)
        collector.received.clear()


def soak(minutes: float, folder: Path, say: Callable[[str], None]) -> Watch:
    """Run it; return the measurements."""
    chance = random.Random(20261121)
    ending = threading.Event()
    journal = folder / "journal.db"
    limit = POLLS_PER_SECOND * 10  # far above, so that no poll is throttled
    with (
        Simulator(SCENARIOS, speed=SPEED, loop=True, requests_per_second=limit) as simulator,
        Collector() as collector,
    ):
        flags = {
            "poll.interval": f"{1000 // POLLS_PER_SECOND}ms",
            "journal.path": str(journal),
            "journal.retention": f"{minutes * 60 * RETENTION:.0f}s",
            "otlp.endpoint": collector.url,
            "tracing.scope": "all",
        }
        arguments = [part for name, value in flags.items() for part in (f"--{name}", value)]
        command = (sys.executable, str(Path(__file__).with_name("soaked.py")))
        log = folder / "exporter.log"
        with Exporter(simulator.url, log, *arguments, command=command) as exporter:
            flapper = threading.Thread(target=flap, args=(collector, ending, chance), daemon=True)
            flapper.start()
            watch = Watch(exporter, journal)
            began = time.monotonic()
            due = began
            while (now := time.monotonic()) < began + minutes * 60:
                lives(exporter)
                watch.scrape(sample=now >= due)
                if now >= due:
                    due += SAMPLE_SECONDS
                    if len(watch.samples) % 60 == 0:
                        say(f"{now - began:.0f} s: {watch.samples[-1]}")
                time.sleep(1)
            ending.set()
            flapper.join()
            status = exporter.terminate()
            assert status == 0, f"the exporter ended with {status}:\n{exporter.log[-3000:]}"
    return watch


def growth(samples: Sequence[Sample], name: str) -> float:
    """Return by how much the last third exceeds the middle one; the first is for warming up and
    filling.
    """
    third = len(samples) // 3
    values = [each[name] for each in samples]
    return median(values[-third:]) - median(values[third : 2 * third])


def verdict(watch: Watch) -> list[str]:
    """Return one sentence for each value that grows; none if all are flat."""
    samples = watch.samples
    unanswered = [f"{watch.unanswered} scrapes had no answer"] if watch.unanswered else []
    if samples[-1]["at"] < TELLING_SECONDS:
        return unanswered
    most = {
        "memory": GROWTH_MEBIBYTES,
        "descriptors": 2,
        "threads": 1,
        "journal": 0.2 * median(each["journal"] for each in samples),  # in spite of its retention
    }
    return [
        *unanswered,
        *(f"{name} grows" for name, limit in most.items() if growth(samples, name) > limit),
    ]


def row(watch: Watch) -> str:
    """Return the run as a row of docs/fault-injection.md."""
    samples = watch.samples
    last = samples[-1]
    half = samples[len(samples) // 2 :]

    def span(name: str, form: str) -> str:
        found = sorted(each[name] for each in half)
        return f"{found[0]:{form}} to {found[-1]:{form}}"

    return (
        f"| {last['at'] / 60:.0f} minutes, {last['polls']:,.0f} polls, {last['transitions']:,.0f}"
        f" transitions | memory {span('memory', '.1f')} MiB, descriptors"
        f" {span('descriptors', '.0f')}, threads {span('threads', '.0f')}, journal"
        f" {span('journal', '.1f')} MiB in the second half;"
        f" {last['processor'] / last['polls'] * 1000:.1f} ms of processor time a poll, scrape"
        f" median {median(each['scrape'] for each in samples) * 1000:.1f} ms; {watch.unanswered}"
        " scrapes without answer |"
    )


def plot(samples: Sequence[Sample], target: Path) -> None:
    """Draw the figures over time as SVG."""
    import matplotlib as mpl  # noqa: PLC0415 - a run of a minute needs no plot

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "soak", "font.size": 9})
    from matplotlib import pyplot as plt  # noqa: PLC0415 - as above

    panels = {
        "memory (MiB)": "memory",
        "journal (MiB)": "journal",
        "file descriptors": "descriptors",
        "threads": "threads",
        "spans waiting": "queued",
        "transitions so far": "transitions",
    }
    figure, axes = plt.subplots(3, 2, figsize=(9, 7), sharex=True, constrained_layout=True)
    for axis, (title, name) in zip(axes.flat, panels.items(), strict=True):
        axis.plot(
            [each["at"] / 60 for each in samples], [each[name] for each in samples], linewidth=1
        )
        axis.set_title(title, loc="left")
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("minutes")
    figure.savefig(target, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, print the row and the verdict; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="how long (default %(default)s)"
    )
    parser.add_argument("--write", type=Path, help="a folder for soak.svg")
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        watch = soak(parsed.minutes, Path(name), lambda text: print(text, flush=True))
    print(row(watch))
    if parsed.write:
        parsed.write.mkdir(parents=True, exist_ok=True)
        plot(watch.samples, parsed.write / "soak.svg")
    wrong = verdict(watch)
    print("; ".join(wrong) or "nothing grew, every scrape was answered")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
