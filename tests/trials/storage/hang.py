"""The journal's disk answers nothing for a minute, and a Spot VM is told that it is evicted in 30
s.
"""

import time
from contextlib import ExitStack
from email.utils import formatdate

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.follower import event
from support.events.journal_contents import rows
from support.programs import eventually
from support.servers.http_peer import Peer
from trials.storage.image import Image, can_mount
from trials.trial import QUIET, Crew, Order, Row, passes

POLL_SECONDS = 1.0
LATEST_SECONDS = POLL_SECONDS + 2.1
"""An event's way to `/metrics` and to Alertmanager: the poll interval, 2 s for the disk, and 0.1 s.
"""


def run(order: Order) -> Row:
    """Freeze the file system, announce a Preempt, and look at `/metrics`, at Alertmanager, and
    later at the journal.
    """
    if not can_mount():
        return Row("hang", "nothing", "needs Linux and root")
    seconds = order.pick(60, 8)
    with ExitStack() as stack:
        image = stack.enter_context(Image(order.folder / "disk"))
        simulator = stack.enter_context(Simulator(QUIET))
        alertmanager = stack.enter_context(Peer())
        crew = stack.enter_context(Crew(order.folder / "logs"))
        journal = image.place / "state" / "journal.sqlite"
        flags = (
            "--instance.name",
            "vmss_0",
            "--alertmanager.url",
            alertmanager.url,
            "--journal.path",
            str(journal),
        )
        exporter = crew.start(simulator.url, *flags)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        simulator.set_document([event("EARLIER")])
        exporter.shows("an event", lambda now: now.transitions().get("detected") == 1)
        with image.frozen():
            began = time.monotonic()
            not_before = formatdate(time.time() + 30, usegmt=True)
            preempt = event("PREEMPT", kind="Preempt", not_before=not_before)
            simulator.set_document([event("EARLIER"), preempt])
            exporter.shows("the Preempt", lambda now: now.series("event_info", event_id="PREEMPT"))
            shown = time.monotonic() - began
            eventually(
                lambda: any(b'"PREEMPT"' in body for _, _, body in alertmanager.requests),
                "the push",
            )
            pushed = time.monotonic() - began
            assert max(shown, pushed) <= LATEST_SECONDS, (shown, pushed)
            before = exporter.scrape().value("polls_total", outcome="ok") or 0
            passes(began + seconds / 3 - time.monotonic())
            simulator.set_document([event("EARLIER"), event("PREEMPT", "Started", kind="Preempt")])
            passes(began + seconds - time.monotonic())
            scrape = exporter.scrape()
            assert (scrape.value("journal_up"), scrape.value("up")) == (0, 1)
            polls = (scrape.value("polls_total", outcome="ok") or 0) - before
            assert polls >= (seconds - LATEST_SECONDS) * 0.8 - 1, f"{polls} polls"
        exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
        wanted = [
            ("EARLIER", "detected"),
            *(("PREEMPT", each) for each in ("detected", "approved", "started")),
        ]
        assert rows(journal) == wanted, rows(journal)
        exporter.kill()
        again = crew.start(simulator.url, *flags)
        again.shows("a poll", lambda now: now.value("up") == 1)
        assert again.scrape().transitions()["detected"] == 2
    return Row(
        "hang",
        f"a disk that answers nothing for {seconds} s, in which a Preempt is announced and starts",
        f"the Preempt in `/metrics` after {shown:.1f} s and at Alertmanager after {pushed:.1f} s,"
        f" `journal_up` 0, {polls:.0f} further polls; all on disk in order afterwards, and counted"
        " once after a SIGKILL",
    )
