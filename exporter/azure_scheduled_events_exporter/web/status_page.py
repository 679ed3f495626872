"""The status page ``/``: one HTML document, described in ``docs/status-page.md``.

Only reads a snapshot. ``web.html`` escapes every text from IMDS, and the page's security policy
allows only the one script whose hash it names. Template, style and script are the files
``status.*`` beside this module. The template's links are relative, so that they work behind a proxy
with a path prefix.
"""

import base64
import hashlib
from functools import cache

from azure_scheduled_events_exporter import DOCUMENTATION, __version__
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .elements import moment, since
from .event_cards import cards
from .history import lives, timeline
from .html import Child, Markup, file_text, filled, joined, tag
from .overview import headline, in_order, is_starting, outlook
from .wording import standing, title

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
"""What the page says of this VM: fields of the instance metadata, by their names on the page."""


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
    """Return the hash of a file, as Content-Security-Policy takes it."""
    digest = hashlib.sha256(file_text(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page(snapshot: Snapshot, now: float, telemetry_path: str) -> bytes:
    """Return the body of ``/`` at ``now``, wall-clock seconds.

    ``telemetry_path`` is the path of the metrics, to which the page links.
    """
    is_fresh = _is_fresh(snapshot, now)
    imds_class, imds = _imds(snapshot, now, is_fresh=is_fresh)
    announcement = f"{headline(snapshot.polls, is_fresh=is_fresh)}, "
    announcement += outlook(snapshot, is_fresh=is_fresh)
    as_of = None
    if snapshot.current and not is_fresh:
        as_of = ", as last known"
    return filled(
        "status.html",
        version=__version__,
        title=_title(snapshot, is_fresh=is_fresh),
        style=Markup(file_text("status.css")),
        script=Markup(file_text("status.js")),
        now=str(now),
        announcement=announcement,
        imds_class=imds_class,
        imds=imds,
        vm=_vm(snapshot),
        doubtful=None if is_fresh else "doubtful",
        as_of=as_of,
        events=_events(snapshot, now, is_fresh=is_fresh),
        history=_history(snapshot, now),
        exporter=_exporter(snapshot),
        telemetry_path=telemetry_path,
        documentation=DOCUMENTATION,
    ).text.encode()


def _is_fresh(snapshot: Snapshot, now: float) -> bool:
    """Return whether the snapshot is up to date.

    If it is not, the page says so: missing data is never shown as "no events".
    """
    last = snapshot.polls.last_success
    return (
        snapshot.polls.up
        and last is not None
        and now - last <= 2 * snapshot.poll_interval + LATE_SECONDS
    )


def _imds(snapshot: Snapshot, now: float, *, is_fresh: bool) -> tuple[str, Markup]:
    """Return the CSS class and the content of the section that shows whether IMDS answers."""
    polls = snapshot.polls
    last = polls.last_success
    answer = tag("strong", headline(polls, is_fresh=is_fresh))
    if is_fresh and last is not None:
        return "seen", tag("p", answer, " last answer ", since(last, now))
    imds_class = "blind"
    reason = polls.failure or "polls do not return"  # the last one succeeded, and is long ago
    if is_starting(polls):
        imds_class = "starting"
        reason = "The first answer may take two minutes."
    basis = tag("p", _basis(snapshot, now))
    return imds_class, joined(tag("p", answer), tag("p", tag("bdi", reason)), basis)


def _basis(snapshot: Snapshot, now: float) -> Child:
    """Return the sentence that says what the page shows while it is not current."""
    if snapshot.polls.partial:
        return "The page shows what can be read. Events may be missing; none counts as ended."
    last = snapshot.polls.last_success
    if last is not None:
        answered = joined("Last answer ", since(last, now), ", ", moment(last))
        return joined(answered, ". The page shows what was known then.")
    if snapshot.current:
        return "The page shows what was known before this exporter started."
    return "It is unknown whether there are events."


def _events(snapshot: Snapshot, now: float, *, is_fresh: bool) -> Markup:
    """Return the content of the section with the current events."""
    if snapshot.current:
        return cards(snapshot, now, is_fresh=is_fresh)
    return _no_events(snapshot, is_fresh=is_fresh)


def _history(snapshot: Snapshot, now: float) -> Markup:
    """Return the content of the section with the history."""
    shown = lives(snapshot)
    if not shown:
        return tag("p", "The history of this exporter has no event.")
    return timeline(shown, snapshot, now)


def _vm(snapshot: Snapshot) -> Markup:
    """Return the section about this VM: its name, its place, and warnings about the name."""
    identity = snapshot.identity  # None while no metadata was read
    if not snapshot.vm_name:
        unknown = (
            "The name of this VM is not known yet, so the exporter cannot tell which events"
            " affect it."
        )
        return joined(tag("h1", "This VM"), tag("p", unknown, class_="warning"))
    entries = []
    for key, field in _PLACE.items():
        value = getattr(identity, field, "")  # "" of None
        if value:
            entries.append(tag("div", tag("dt", key), tag("dd", tag("bdi", value))))
    place = None
    if entries:
        place = tag("dl", *entries)
    wrong = None
    if snapshot.is_misnamed and identity:
        text = (
            "--instance.name is not the name of this VM in IMDS, so its events count as those of"
            " another VM: "
        )
        wrong = tag("p", text, tag("bdi", identity.vm_name), ".", class_="warning")
    return joined(tag("h1", tag("bdi", snapshot.vm_name)), wrong, place)


def _no_events(snapshot: Snapshot, *, is_fresh: bool) -> Markup:
    """Return what the page shows instead of events.

    If the snapshot is current, there are two texts: that there are no events, and a hidden one that
    the script shows when it cannot reach the exporter.
    """
    last = snapshot.polls.last_success
    unsure = Markup("Unknown.")
    if last is not None:
        unsure = joined("Unknown. There was no event at the last answer, ", moment(last), ".")
    if not is_fresh:
        return tag("p", unsure, class_="unsure shown")
    quiet = tag(
        "p",
        "No events: Azure has announced nothing for this VM or the VMs around it.",
        class_="quiet",
    )
    return joined(quiet, tag("p", unsure, class_="unsure"))


def _exporter(snapshot: Snapshot) -> str:
    """Return the line about the exporter itself."""
    journal = "in memory only and is lost when the exporter stops"
    if snapshot.journal.up:
        journal = "on disk"
    facts = [f"polls every {snapshot.poll_interval:g}s", f"the journal is {journal}"]
    if snapshot.deliveries.queued:
        facts.append(f"{snapshot.deliveries.queued} trace spans are waiting for the collector")
    return ", ".join(facts)


def _title(snapshot: Snapshot, *, is_fresh: bool) -> str:
    """Return the title of the page: the most important fact, and the VM."""
    vm = snapshot.vm_name or "this VM"
    if not is_fresh:
        return f"{headline(snapshot.polls, is_fresh=is_fresh)} - {vm}"
    if not snapshot.current:
        return f"No events - {vm}"
    first = in_order(snapshot.current.values())[0]
    if first.scope is Scope.PEER:
        return f"{title(first)} {standing(first)} of other VMs - {vm}"
    return f"{title(first)} {standing(first)} - {vm}"
