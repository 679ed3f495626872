"""The status page ``/``: one HTML document, described in ``docs/status-page.md``.

Reads a snapshot. ``web.html`` escapes every text from IMDS, and the page's security policy allows only the one script
whose hash it names. Style and script are files beside this module, read once.
"""

import base64
import hashlib
from functools import cache
from pathlib import Path

from azure_scheduled_events_exporter import DOCUMENTATION, __version__
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.polling.snapshot import Polls, Snapshot

from .event_cards import WHOSE, cards
from .history import lives, timeline
from .html import Markup, joined, tag
from .importance import in_order
from .wording import moment, since, standing, title

NAME = "azure-scheduled-events-exporter"
LATE_SECONDS = 15.0
"""The last answer is outdated if it is older than two poll intervals plus this."""

_REFRESH_SECONDS = 5  # without JavaScript
_LINKS = {"/api/v1/events": "Events as JSON", "/-/healthy": "Health", "/-/ready": "Readiness"}
_PAGES = {"status-page.md": "this page", "runbooks/": "what to do about each alert"}
_PLACE = {
    "scale set": "scale_set",
    "zone": "zone",
    "fault domain": "fault_domain",
    "size": "vm_size",
    "region": "location",
    "priority": "priority",
    "resource group": "resource_group",
}


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def page_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of the page: only its own script and style may be loaded and run."""
    policy = (
        f"default-src 'none'; script-src {_hash('status.js')}; style-src {_hash('status.css')}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return ("Content-Security-Policy", policy), ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store")


@cache
def _hash(name: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(_file(name).encode()).digest()).decode()}'"


def page(snapshot: Snapshot, now: float, telemetry_path: str) -> bytes:
    """Return the body of ``/`` at ``now``, wall-clock seconds."""
    seen = _is_seen(snapshot, now)
    document = tag(
        "html",
        tag(
            "head",
            Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            Markup(f'<noscript><meta http-equiv="refresh" content="{_REFRESH_SECONDS}"></noscript>'),
            tag("title", _title(snapshot, seen=seen)),
            tag("style", Markup(_file("status.css"))),
        ),
        tag(
            "body",
            tag("a", "Skip to the current events", href="#events", class_="skip"),
            tag("header", tag("p", f"{NAME} {__version__}"), class_="product"),
            tag(
                "div",
                tag("p", role="alert"),
                tag("p", "The page shows the state of ", tag("time", id="server-time"), ".", class_="remark"),
                id="lost",
                hidden=True,
            ),
            tag("p", id="announcement", role="status", class_="unseen"),
            _main(snapshot, now, seen=seen),
            _footer(telemetry_path),
            tag("script", Markup(_file("status.js"))),
        ),
        lang="en",
        data_version=__version__,
    )
    return f"<!doctype html>\n{document.text}\n".encode()


def _is_seen(snapshot: Snapshot, now: float) -> bool:
    """Return whether the snapshot is current: missing data is never shown as "no events"."""
    last = snapshot.polls.last_success
    return snapshot.polls.up and last is not None and now - last <= 2 * snapshot.poll_interval + LATE_SECONDS


def _main(snapshot: Snapshot, now: float, *, seen: bool) -> Markup:
    shown = lives(snapshot)
    current = list(snapshot.current.values())
    return tag(
        "main",
        _sight(snapshot, now, seen=seen),
        _vm(snapshot),
        tag(
            "section",
            tag("h2", "Current events" if seen or not current else "Current events, as last known", id="current"),
            cards(current, snapshot.approval_statuses, snapshot.vm_name, now)
            if current
            else _none(snapshot, seen=seen),
            id="events",
            class_=None if seen else "doubtful",
            tabindex="-1",
            aria_labelledby="current",
        ),
        tag(
            "section",
            tag("h2", "History", id="past"),
            timeline(shown, now) if shown else tag("p", "The history of this exporter has no event."),
            id="history",
            aria_labelledby="past",
        ),
        _exporter(snapshot),
        id="main",
        data_now=now,
        data_announcement=_announcement(snapshot, seen=seen),
    )


def _doubt(polls: Polls) -> str:
    """Return why the page may not show what is."""
    if polls.partial:
        return "IMDS answers, but not all of it can be read"
    return "IMDS has not answered yet" if _is_starting(polls) else "IMDS gives no valid answer"


def _is_starting(polls: Polls) -> bool:
    """Return whether the first poll is still under way, within its time limits."""
    return not any(polls.outcomes.values()) and not polls.hanging


def _sight(snapshot: Snapshot, now: float, *, seen: bool) -> Markup:
    """Return the section that shows whether IMDS answers."""
    polls = snapshot.polls
    last = polls.last_success
    if seen and last is not None:
        words = tag("p", tag("strong", "IMDS answers"), " last answer ", since(last, now))
        return tag("section", words, id="imds", class_="seen", aria_label="Metadata service")
    reason = polls.failure or "polls do not return"
    if _is_starting(polls):
        reason = "The first answer may take two minutes."
    if polls.partial:
        known = Markup("The page shows what can be read. Events may be missing, and none is taken for over.")
    elif last is not None:
        known = joined("Last answer ", since(last, now), ", ", moment(last), ". The page shows what was known then.")
    elif snapshot.current:
        known = Markup("The page shows what was known before this exporter started.")
    else:
        known = Markup("It is unknown whether there are events.")
    return tag(
        "section",
        tag("p", tag("strong", _doubt(polls))),
        tag("p", tag("bdi", reason)),
        tag("p", known),
        id="imds",
        class_="starting" if _is_starting(polls) else "blind",
        aria_label="Metadata service",
    )


def _vm(snapshot: Snapshot) -> Markup:
    who = snapshot.identity
    if not snapshot.vm_name:
        unknown = "The name of this VM is not known yet, so the exporter cannot tell which events affect it."
        return tag("section", tag("h1", "This VM"), tag("p", unknown, class_="warning"), id="vm", aria_label="This VM")
    known = [(key, getattr(who, field)) for key, field in _PLACE.items()] if who else []
    entries = [tag("div", tag("dt", key), tag("dd", tag("bdi", value))) for key, value in known if value]
    heading = tag("h1", tag("bdi", snapshot.vm_name))
    wrong = None
    if snapshot.is_misnamed and who:
        text = "--instance.name is not the name of this VM in IMDS, so its events count as those of another VM: "
        wrong = tag("p", text, tag("bdi", who.vm_name), ".", class_="warning")
    return tag("section", heading, wrong, tag("dl", *entries) if entries else None, id="vm", aria_label="This VM")


def _none(snapshot: Snapshot, *, seen: bool) -> Markup:
    """Return the text for no events, and the one that the script shows when the exporter cannot be reached."""
    last = snapshot.polls.last_success
    unsure = Markup("Unknown.")
    if last is not None:
        unsure = joined("Unknown. There was no event at the last answer, ", moment(last), ".")
    if not seen:
        return tag("p", unsure, class_="unsure shown")
    quiet = tag("p", "No events: Azure has announced nothing for this VM or the VMs around it.", class_="quiet")
    return joined(quiet, tag("p", unsure, class_="unsure"))


def _exporter(snapshot: Snapshot) -> Markup:
    journal = "on disk" if snapshot.journal.up else "in memory only and is lost when the exporter stops"
    facts = [f"polls every {snapshot.poll_interval:g}s", f"the journal is {journal}"]
    if snapshot.deliveries.queued:
        facts.append(f"{snapshot.deliveries.queued} trace spans are waiting for the collector")
    return tag("p", f"This exporter: {', '.join(facts)}.", id="exporter", class_="remark")


def _footer(telemetry_path: str) -> Markup:
    links = {telemetry_path: "Metrics", **_LINKS}
    # Relative, so that they work behind a proxy with a path prefix.
    items = [tag("li", tag("a", text, href=f".{path}")) for path, text in links.items()]
    return tag(
        "footer",
        tag("nav", tag("ul", *items), aria_label="More from this exporter"),
        tag(
            "p",
            "Documentation: ",
            joined(*(tag("a", text, href=f"{DOCUMENTATION}{path}") for path, text in _PAGES.items()), between=", "),
            ".",
            class_="remark",
        ),
    )


def _title(snapshot: Snapshot, *, seen: bool) -> str:
    """Return the title: the most important fact."""
    vm = snapshot.vm_name or "this VM"
    first = next(iter(in_order(snapshot.current.values())), None)
    if not seen:
        return f"{_doubt(snapshot.polls)} - {vm}"
    if first is None:
        return f"No events - {vm}"
    whose = "" if first.scope is not Scope.PEER else " of other VMs"
    return f"{title(first)} {standing(first)}{whose} - {vm}"


def _announcement(snapshot: Snapshot, *, seen: bool) -> str:
    """Return the text that screen readers announce when it changes; it contains no times."""
    first = next(iter(in_order(snapshot.current.values())), None)
    shown = "can be read" if snapshot.polls.partial else "was last known"
    sight = "IMDS answers." if seen else f"{_doubt(snapshot.polls)}; the page shows what {shown}."
    if first is None:
        return f"{sight} {'No events.' if seen else 'It is unknown whether there are events.'}"
    others = len(snapshot.current) - 1
    more = f" And {others} more." if others else ""
    return f"{sight} {title(first)} of {WHOSE[first.scope]}, {standing(first)}.{more}"
