"""Numbers on the pages are those of the program, of its declared dependencies, and of the
measurements.
"""

import re
import tomllib
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.approval.policy_file import MOST_RULES
from azure_scheduled_events_exporter.commands.cli import parser_of
from azure_scheduled_events_exporter.core import bounds
from azure_scheduled_events_exporter.core.lifecycle import APPROVAL_MARGIN_SECONDS
from azure_scheduled_events_exporter.core.observation_context import WATCHED_WITHIN_SECONDS
from azure_scheduled_events_exporter.http_server.access import EXPIRES_SOON_SECONDS
from azure_scheduled_events_exporter.imds.client import LARGEST_BODY
from azure_scheduled_events_exporter.journal.disk import documents, file
from azure_scheduled_events_exporter.journal.tables import inbox_tables, removal
from azure_scheduled_events_exporter.journal.thread import queue, shared
from azure_scheduled_events_exporter.metrics.exposition import SHARED_SECONDS
from azure_scheduled_events_exporter.metrics.spec import LABEL_BYTES
from azure_scheduled_events_exporter.polling import document_reader, state
from azure_scheduled_events_exporter.polling.clock import AGREES_SECONDS
from azure_scheduled_events_exporter.polling.liveness import HANGING_SECONDS
from azure_scheduled_events_exporter.web.event_cards import CARDS
from azure_scheduled_events_exporter.web.wording import LONGEST_TEXT
from support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    each.rpartition(" ")[2]
    for each in PROJECT["classifiers"]
    if each.startswith("Programming Language :: Python :: 3.")
]
RANGE = f"{PYTHONS[0]} to {PYTHONS[-1]}"
MIB = 1 << 20
DAY = 86400

# A page, and a part of a sentence of it that has a number of the program.
SENTENCES = [
    ("README.md", f"Python {RANGE}"),
    ("docs/install.md", f"Python, {RANGE}"),
    ("docs/install.md", f"needs Python {RANGE}"),
    ("docs/windows.md", f"Install Python {PYTHONS[0]} or newer"),
    ("docs/approvals.md", f"at most {MOST_RULES} rules"),
    ("docs/approve.md", f"At most {inbox_tables.MOST_REQUESTS:,} requests wait"),
    ("docs/configuration.md", f"if a poll hangs for {HANGING_SECONDS:g} s longer"),
    (
        "docs/how-scheduled-events-work.md",
        f"more than {WATCHED_WITHIN_SECONDS:g} s between two documents",
    ),
    ("docs/how-scheduled-events-work.md", f"less {APPROVAL_MARGIN_SECONDS:g} s"),
    (
        "docs/how-scheduled-events-work.md",
        f"waits up to {document_reader.FIRST_TIMEOUT_SECONDS:g} s",
    ),
    (
        "docs/how-scheduled-events-work.md",
        f"polls over at least {document_reader.EMPTY_SECONDS:g} s",
    ),
    ("docs/queries.md", f"at most {LABEL_BYTES:,} bytes"),
    ("docs/recordings.md", f"up to {document_reader.MOST_STORED // 1024} KiB"),
    ("docs/recordings.md", f"two files of at most {documents.LARGEST // 2 // MIB} MiB"),
    ("docs/reliability.md", f"wait for the disk for at most {shared.WAIT_SECONDS:g} s"),
    ("docs/reliability.md", f"At most {queue.MOST_BYTES // MIB} MiB of entries wait"),
    ("docs/reliability.md", f"waits for the journal for {state.QUICK_JOURNAL_SECONDS:g} s"),
    ("docs/reliability.md", f"until {state.JOURNAL_SECONDS:g} s after the start"),
    ("docs/reliability.md", f"within the first {state.APPROVALS_WAIT_SECONDS:g} s"),
    ("docs/reliability.md", f"journal has at most {removal.LARGEST_BYTES // MIB} MiB"),
    ("docs/reliability.md", f"`-wal` file {file.LARGEST_WAL_BYTES // MIB} MiB"),
    ("docs/reliability.md", f"(`history --documents`) have at most {documents.LARGEST // MIB} MiB"),
    ("docs/reliability.md", f"answer of IMDS has at most {LARGEST_BODY // MIB} MiB"),
    (
        "docs/reliability.md",
        f"{bounds.MOST_PEERS:,} current events of other VMs and {bounds.MOST_OWN:,} of this VM",
    ),
    ("docs/reliability.md", f"by more than {AGREES_SECONDS:g} s is corrected"),
    ("docs/http-limits.md", f"scrapes within {SHARED_SECONDS:g} s share one body"),
    ("docs/status-page.md", f"cut at {LONGEST_TEXT} characters"),
    ("docs/status-page.md", f"events at {CARDS};"),
    ("docs/web-config.md", f"within {EXPIRES_SOON_SECONDS / DAY:g} days"),
]


def words(page: str) -> str:
    """Return a page as one line, so that a sentence is found across the ends of lines."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize(("page", "sentence"), SENTENCES)
def test_a_page_has_the_number_of_the_program(page: str, sentence: str) -> None:
    """The page says the number that the program has."""
    assert sentence in words(page)


def test_the_alert_that_is_explained_is_that_of_the_rules() -> None:
    """The page that explains how the rules work has the whole expression for a Reboot."""
    shipped = {each.name.removeprefix(PREFIX): each for each in alerts(Settings())}
    page = (ROOT / "docs/how-the-rules-work.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?s)```promql\n(.+?)\n```", page)
    assert shown == shipped["Reboot"].expression


def test_options_of_hook_are_documented_as_they_are() -> None:
    """The table of options has each option of ``hook``, with its default."""
    table = re.findall(
        r"(?m)^\| `(--[a-z]+)` \| `?([^`|]+?)`? \|", Path(ROOT / "docs/hook.md").read_text()
    )
    parsed = vars(parser_of("hook").parse_args([]))
    parsed["kinds"] = ",".join(sorted(parsed["kinds"]))
    # In the order of the table.
    names = ("name", "types", "kinds", "lead", "timeout", "grace", "approve")
    assert table == [(f"--{name}", _written(parsed[name])) for name in names]


def _written(default: object) -> str:
    """Write a default as the page does: a duration in minutes or seconds, and an empty selection
    as "all".
    """
    if not default:
        return "all"
    if isinstance(default, float):
        return f"{default / 60:g}m" if default >= 60 else f"{default:g}s"
    return str(default)


def test_ranges_of_libraries_are_those_that_are_declared() -> None:
    """The table of libraries gives the range of each dependency: ``>=2.1,<4`` as "2.1 to 3.x", and
    ``>=0.54,<0.55`` as "0.54".
    """
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Libraries\n")[2]
    for each in PROJECT["dependencies"]:
        ((name, lowest, below),) = re.findall(r"^([\w-]+)>=([\d.]+),<([\d.]+)$", each)
        first_cell = name
        if name.startswith("opentelemetry"):
            first_cell = "opentelemetry-api,"  # one row has all packages of OpenTelemetry
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {first_cell} ")]
        expected = lowest  # if the range is one minor version
        if "." not in below:
            expected = f"{lowest} to {int(below) - 1}.x"
        assert f" {expected} |" in row, each


def test_the_memory_in_the_readme_is_that_of_the_measurement() -> None:
    """README and comparison name the memory that was measured last, to within 2 MiB."""
    tolerance = 2  # MiB
    measured = {
        tracing: float(value)
        for tracing, value in re.findall(
            r"(?m)^\| resident memory, tracing (off|on) \| [^|]+ \| ([\d.]+) MiB",
            (ROOT / "docs/performance.md").read_text(encoding="utf-8"),
        )
    }
    off, on = re.findall(
        r"about (\d+) MiB of memory \((\d+) MiB with tracing\)", words("README.md")
    )[0]
    compared = re.findall(r"needs about (\d+) MiB of memory", words("docs/compare.md"))
    assert compared == [off]
    assert abs(int(off) - measured["off"]) <= tolerance
    assert abs(int(on) - measured["on"]) <= tolerance


def test_the_faults_in_the_readme_are_those_of_the_newest_trials() -> None:
    """README names the kills and the power cuts of the table of trials."""
    kills, cuts = re.findall(r"such as (\d+) kills and (\d+) power cuts", words("README.md"))[0]
    trials = words("docs/fault-injection.md")
    assert f"| kills | {kills} SIGKILLs" in trials
    assert f"| power | {cuts} power cuts" in trials


def test_what_happens_if_an_exporter_dies() -> None:
    """README and FAQ say after how many seconds the unit starts the exporter again, and after how
    many minutes the rules make a ticket, for each of the two alerts.
    """
    unit = ROOT / "deploy/systemd/azure-scheduled-events-exporter.service"
    (seconds,) = re.findall(r"(?m)^RestartSec=(\d+)s$", unit.read_text(encoding="utf-8"))
    shipped = {each.name.removeprefix(PREFIX): each for each in alerts(Settings())}
    for alert in (shipped["ExporterDown"], shipped["NoExporters"]):
        assert (alert.severity, alert.pending_for) == ("warning", "10m")
    assert f"systemd starts it again after {seconds} s" in words("README.md")
    assert "the rules raise a ticket after 10 minutes" in words("README.md")
    assert f"systemd after {seconds} s" in words("docs/README.md")
    assert "after 10 minutes" in words("docs/README.md").partition("What if an exporter dies?")[2]
