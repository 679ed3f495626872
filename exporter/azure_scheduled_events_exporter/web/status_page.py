"""The status page ``/``: one HTML document, described in ``docs/status-page.md``.

Reads a snapshot. ``web.html`` escapes every text from IMDS, and the page's security policy allows
only the one script whose hash it names. Template (``status.html``; its links are relative, so that
they work behind a proxy with a path prefix), style and script are files beside this module.
"""

import base64
import hashlib
from functools import cache

from azure_scheduled_events_exporter import DOCUMENTATION, __version__
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .event_cards import cards
from .history import lives, timeline
from .html import Child, Markup, file_text, filled, joined, tag
from .status_line import headline, in_order, is_starting, outlook
from .wording import moment, since, standing, title

LATE_SECONDS = 15.0
"""The last answer is outdated if it is older than two poll intervals plus this."""

_PLACE = {
    "scale set": "scale_set",
    "zone": "zone",
    "fault domain": "fault_domain",
    "size": "vm_size",
    "region": "location",
    "priority": "priority",
    "resource group": "resource_group",
}


def page_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of the page: only its own script and style may be loaded and run."""
    policy = (
        f"default-src 'none'; script-src {_hash('status.js')}; style-src {_hash('status.css')};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return (
        ("Content-Security-Policy", policy),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    )


@cache
def _hash(name: str) -> str:
    return (
        f"'sha256-{base64.b64encode(hashlib.sha256(file_text(name).encode()).digest()).decode()}'"
    )


def page(snapshot: Snapshot, now: float, telemetry_path: str) -> bytes:
    """Return the body of ``/`` at ``now``, wall-clock seconds."""
    seen = _is_seen(snapshot, now)
    shown = lives(snapshot)
    current = list(snapshot.current.values())
    sight, imds = _sight(snapshot, now, seen=seen)
    return filled(
        "status.html",
        version=__version__,
        title=_title(snapshot, seen=seen),
        style=Markup(file_text("status.css")),
        script=Markup(file_text("status.js")),
        now=str(now),
        announcement=f"{headline(snapshot.polls, seen=seen)}, {outlook(snapshot, seen=seen)}",
        sight=sight,
        imds=imds,
        vm=_vm(snapshot),
        doubtful=None if seen else "doubtful",
        as_of=None if seen or not current else ", as last known",
        events=(cards(snapshot, now, seen=seen) if current else _none(snapshot, seen=seen)),
        history=(
            timeline(shown, snapshot.hook_runs, now)
            if shown
            else tag("p", "The history of this exporter has no event.")
        ),
        exporter=_exporter(snapshot),
        telemetry_path=telemetry_path,
        documentation=DOCUMENTATION,
    ).text.encode()


def _is_seen(snapshot: Snapshot, now: float) -> bool:
    """Return whether the snapshot is current: missing data is never shown as "no events"."""
    last = snapshot.polls.last_success
    return (
        snapshot.polls.up
        and last is not None
        and now - last <= 2 * snapshot.poll_interval + LATE_SECONDS
    )


def _sight(snapshot: Snapshot, now: float, *, seen: bool) -> tuple[str, Markup]:
    """Return the class and the content of the section that shows whether IMDS answers."""
    polls = snapshot.polls
    last = polls.last_success
    if seen and last is not None:
        return "seen", tag(
            "p", tag("strong", headline(polls, seen=seen)), " last answer ", since(last, now)
        )
    known: Child = "It is unknown whether there are events."
    if polls.partial:
        known = "The page shows what can be read. Events may be missing; none counts as ended."
    elif last is not None:
        known = joined(
            "Last answer ",
            since(last, now),
            ", ",
            moment(last),
            ". The page shows what was known then.",
        )
    elif snapshot.current:
        known = "The page shows what was known before this exporter started."
    starting = is_starting(polls)
    reason = (
        "The first answer may take two minutes."
        if starting
        else polls.failure or "polls do not return"
    )
    doubt = tag("p", tag("strong", headline(polls, seen=seen)))
    return "starting" if starting else "blind", joined(
        doubt, tag("p", tag("bdi", reason)), tag("p", known)
    )


def _vm(snapshot: Snapshot) -> Markup:
    who = snapshot.identity
    if not snapshot.vm_name:
        unknown = (
            "The name of this VM is not known yet, so the exporter cannot tell which events"
            " affect it."
        )
        return joined(tag("h1", "This VM"), tag("p", unknown, class_="warning"))
    known = [(key, getattr(who, field)) for key, field in _PLACE.items()] if who else []
    entries = [
        tag("div", tag("dt", key), tag("dd", tag("bdi", value))) for key, value in known if value
    ]
    wrong = None
    if snapshot.is_misnamed and who:
        text = (
            "--instance.name is not the name of this VM in IMDS, so its events count as those of"
            " another VM: "
        )
        wrong = tag("p", text, tag("bdi", who.vm_name), ".", class_="warning")
    return joined(
        tag("h1", tag("bdi", snapshot.vm_name)), wrong, tag("dl", *entries) if entries else None
    )


def _none(snapshot: Snapshot, *, seen: bool) -> Markup:
    """Return the text for no events.

    With the one that the script shows when the exporter cannot be reached.
    """
    last = snapshot.polls.last_success
    unsure = Markup("Unknown.")
    if last is not None:
        unsure = joined("Unknown. There was no event at the last answer, ", moment(last), ".")
    if not seen:
        return tag("p", unsure, class_="unsure shown")
    quiet = tag(
        "p",
        "No events: Azure has announced nothing for this VM or the VMs around it.",
        class_="quiet",
    )
    return joined(quiet, tag("p", unsure, class_="unsure"))


def _exporter(snapshot: Snapshot) -> str:
    journal = (
        "on disk" if snapshot.journal.up else "in memory only and is lost when the exporter stops"
    )
    facts = [f"polls every {snapshot.poll_interval:g}s", f"the journal is {journal}"]
    if snapshot.deliveries.queued:
        facts.append(f"{snapshot.deliveries.queued} trace spans are waiting for the collector")
    return ", ".join(facts)


def _title(snapshot: Snapshot, *, seen: bool) -> str:
    """Return the title: the most important fact."""
    vm = snapshot.vm_name or "this VM"
    first = next(iter(in_order(snapshot.current.values())), None)
    if not seen:
        return f"{headline(snapshot.polls, seen=seen)} - {vm}"
    if first is None:
        return f"No events - {vm}"
    whose = "" if first.scope is not Scope.PEER else " of other VMs"
    return f"{title(first)} {standing(first)}{whose} - {vm}"
