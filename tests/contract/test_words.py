"""Names and messages use the standard terms, in American spelling, not the ones that this project once made up."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import ROOT

# What replaced them stands beside each: the standard term of the field.
OLD = {
    r"class House": "ServerState",
    r"(Open)?Door": "AccessControl, AllowAll",
    r"Teller": "EventLog",
    r"Tally|class Measured": "Statistics, Measurement",
    r"class Pace": "PollSchedule",
    r"Rhythm|class Attention|PauseWatch": "PauseDetector, SamplingMode, PauseTracker",
    r"Vantage|class (Instant|Reading)": "ObservationContext, Timestamp, ClockSample",
    r"leave_sign|lateness|back_in": "record_heartbeat, overdue_seconds, expect",
    r"stood_still|rejoined": "record_pause, merge_recovered",
    r"of_process|settled_metrics|polled_metrics": "process_metrics, state_metrics, poll_metrics",
    r"Tracer|Verdict": "SpanDelivery, ExportResult",
    r"[Ww]ould hold": "effective",
    r"[Tt]he other side": "peer",
    r"[Ww]ho is late": "delayed",
    r"[Ss]tranger": "client certificate rejected",
    r"[Ww]ish|[Rr]hythm": "request, interval",
    r"keep_telling|_worded": "keep_notifying, rendered",
    r"[Ww]hoever|knows better": "a client, a user; takes precedence",
    r"handed in|as (it|they) stands?": "argument; unchanged",
    r"[Bb]ehaviours?|[Cc]olours?|[Nn]eighbours?|[Gg]rey|[Jj]udgements?": "behavior, color, neighbor, gray, judgment",
    r"misspelt|[Ll]abell(ed|ing)|\w+isation": "misspelled, labeled, -ization",
}
CLEAN = ("*.md", ".github", "alerts", "benchmarks", "dashboards", "deploy", "docs", "exporter", "tests")
KINDS = {".py", ".md", ".yaml", ".yml", ".sh", ".html", ".tpl", ".js", ".css"}


@pytest.mark.parametrize("place", CLEAN)
def test_no_word_of_the_old_dialect(place: str) -> None:
    """A reader meets the field's own terms, in one spelling, in names of files, code, messages and pages."""
    old = re.compile(rf"\b({'|'.join(OLD)})\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in files(place)
        for number, line in enumerate((path.name, *path.read_text("utf-8", "replace").splitlines()))
        for match in old.finditer(line)
    ]
    assert not found, "write instead: " + "; ".join(OLD.values())


def files(place: str) -> Iterator[Path]:
    """Yield the texts of a folder, or those that a pattern names; not this file, which has the words."""
    for path in sorted(ROOT.glob(place if "*" in place else f"{place}/**/*")):
        if path.suffix in KINDS and "node_modules" not in path.parts and path != Path(__file__):
            yield path
