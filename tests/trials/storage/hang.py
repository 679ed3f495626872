"""The journal's disk answers nothing for a minute, and a Spot VM is told that it is evicted in 30
s.
"""

import time
from dataclasses import dataclass
from email.utils import formatdate

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.follower import event
from support.events.journal_contents import rows
from support.programs import Exporter, eventually
from support.servers.http_peer import Peer
from trials.storage.image import Image, can_mount
from trials.trial import QUIET, Crew, Order, Row, passes

POLL_SECONDS = 1.0
LATEST_SECONDS = POLL_SECONDS + 2.1
"""An event's way to `/metrics` and to Alertmanager: the poll interval, 2 s for the disk, and 0.1 s.
"""


@dataclass(frozen=True)
class Hang:
    """What came of a Preempt while the disk answered nothing.

    Attributes:
        shown: after how many seconds `/metrics` had it.
        pushed: after how many seconds Alertmanager had it.
        polls: how many polls succeeded afterwards, while the disk still hung.
    """

    shown: float
    pushed: float
    polls: float


def preempt_while_frozen(
    image: Image, simulator: Simulator, exporter: Exporter, alertmanager: Peer, seconds: int
) -> Hang:
    """Freeze the file system for so many seconds; announce a Preempt at once, and let it start
    after a third of them.
    """
    with image.frozen():
        began = time.monotonic()
        not_before = formatdate(time.time() + 30, usegmt=True)
        preempt = event("PREEMPT", kind="Preempt", not_before=not_before)
        simulator.set_document([event("EARLIER"), preempt])
        exporter.shows("the Preempt", lambda now: now.series("event_info", event_id="PREEMPT"))
        shown = time.monotonic() - began
        eventually(
            lambda: any(b'"PREEMPT"' in body for _, _, body in alertmanager.requests), "the push"
        )
        pushed = time.monotonic() - began
        assert max(shown, pushed) <= LATEST_SECONDS, (shown, pushed)
        before = exporter.scrape().value("polls_total", outcome="ok") or 0
        passes(began + seconds / 3 - time.monotonic())
        simulator.set_document([event("EARLIER"), event("PREEMPT", "Started", kind="Preempt")])
        passes(began + seconds - time.monotonic())
        scrape = exporter.scrape()
        assert scrape.value("journal_up") == 0
        assert scrape.value("up") == 1
        polls = (scrape.value("polls_total", outcome="ok") or 0) - before
        # One poll a second, of which a fifth may be late on a busy machine.
        assert polls >= (seconds - LATEST_SECONDS) / POLL_SECONDS * 0.8 - 1, f"{polls} polls"
    return Hang(shown, pushed, polls)


def run(order: Order) -> Row:
    """Freeze the file system, announce a Preempt, and look at `/metrics`, at Alertmanager, and
    later at the journal.
    """
    if not can_mount():
        return Row("hang", "nothing", "needs Linux and root")
    seconds = order.pick(60, 8)
    with (
        Image(order.folder / "disk") as image,
        Simulator(QUIET) as simulator,
        Peer() as alertmanager,
        Crew(order.folder / "logs") as crew,
    ):
        journal = image.place / "state" / "journal.sqlite"
        vm = ("--instance.name", "vmss_0", "--journal.path", str(journal))
        flags = (*vm, "--alertmanager.url", alertmanager.url)
        exporter = crew.start(simulator.url, *flags)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        simulator.set_document([event("EARLIER")])
        exporter.shows("an event", lambda now: now.transitions().get("detected") == 1)
        hang = preempt_while_frozen(image, simulator, exporter, alertmanager, seconds)
        exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
        written = rows(journal)
        assert written == [
            ("EARLIER", "detected"),
            ("PREEMPT", "detected"),
            ("PREEMPT", "approved"),
            ("PREEMPT", "started"),
        ]
        exporter.kill()
        again = crew.start(simulator.url, *flags)
        again.shows("a poll", lambda now: now.value("up") == 1)
        assert again.scrape().transitions()["detected"] == 2
    return Row(
        "hang",
        f"a disk that answers nothing for {seconds} s, in which a Preempt is announced and starts",
        f"the Preempt in `/metrics` after {hang.shown:.1f} s and at Alertmanager after"
        f" {hang.pushed:.1f} s, `journal_up` 0, {hang.polls:.0f} further polls; all on disk in"
        " order afterwards, and counted once after a SIGKILL",
    )
