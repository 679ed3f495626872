"""The README is short, the reference pages agree with the code, and every link of every page has a
target.
"""

import ast
import re
import unicodedata
from importlib.metadata import metadata
from pathlib import Path
from urllib.parse import unquote

import pytest

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX, Events
from azure_scheduled_events_exporter.commands.cli import COMMANDS
from azure_scheduled_events_exporter.config.settings import SETTINGS
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Approver, Kind, Transition
from azure_scheduled_events_exporter.core.statistics import OTHER
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.metrics.collector import SPECS
from azure_scheduled_events_exporter.simulator.document import ADVICE
from azure_scheduled_events_exporter.snapshot.approvals import ApprovalOutcome
from azure_scheduled_events_exporter.snapshot.hooks import Phase, RunOutcome
from azure_scheduled_events_exporter.snapshot.pushes import PushOutcome
from support.documented import links, pages
from support.paths import ROOT

PAGES = pages()
DOCS = ROOT / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text()
METRICS = (DOCS / "metrics.md").read_text()
QUERIES = (DOCS / "queries.md").read_text()


def rows(page: str, columns: int, first: str) -> list[tuple[str, ...]]:
    """Return the rows of tables with so many columns whose first cell matches ``first``."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if "|" in line
    ]
    stripped = [tuple(cell.strip("|").strip() for cell in row) for row in cells]
    return [row for row in stripped if len(row) == columns and re.fullmatch(first, row[0])]


def test_every_metric_is_documented_as_it_is() -> None:
    """The table of metrics has exactly the names, types, labels and meanings that are scraped."""
    expected = [
        (f"`{spec.name}`", spec.type, ", ".join(spec.labels), spec.help) for spec in SPECS.values()
    ]
    assert rows(METRICS, 4, r"`[a-z_]+`") == expected


LABEL_VALUES: dict[tuple[str, str], set[str]] = {
    ("scope", "all metrics that have it"): set(Scope),
    ("event_type", "all metrics that have it"): {*EVENT_FACTS, ADVICE, OTHER},
    ("kind", "`event_info`, `event_seen_…`, `event_impact_…`"): set(Kind),
    ("transition", "`transitions_total`"): set(Transition),
    ("outcome", "`event_ended_timestamp_seconds`"): {"completed", "cancelled", "lost", "withdrawn"},
    ("approved_by", "`approval_latency_seconds`"): set(Approver),
    ("phase", "`phase_duration_seconds`"): {"scheduled", "started"},
    ("outcome", "`polls_total`"): set(Outcome),
    ("outcome", "`approval_requests_total`"): set(ApprovalOutcome),
    ("outcome", "`alertmanager_alerts_total`"): set(PushOutcome),
    ("outcome", "`spans_total`"): {"exported", "failed"},
    ("phase", "`hook_runs_total`, `hook_duration_seconds`"): set(Phase),
    ("outcome", "`hook_runs_total`"): set(RunOutcome),
}


def test_values_of_labels_are_documented_as_they_are() -> None:
    """The table of label values has exactly the values that the exporter uses."""
    section = QUERIES.partition("## Labels\n")[2].partition("\n## ")[0]
    table = {
        (label.strip("`"), metrics): set(re.findall("`([^`]+)`", values)) - {"approve"}
        for label, metrics, values in rows(section, 3, r"`[a-z_]+`")
    }
    assert table == LABEL_VALUES


def test_every_flag_is_documented_as_it_is() -> None:
    """The table of flags has exactly the flags, defaults and meanings of --help."""
    expected = [
        (f"`--{setting.flag}`", f"`{setting.default}`" if setting.default else "", setting.help)
        for setting in SETTINGS
    ]
    assert rows(CONFIGURATION, 3, r"`--[a-z.-]+`") == expected


def test_the_usual_notice_is_the_documented_one() -> None:
    """The simulator gives each type of event the notice that the page has from Azure's table."""
    page = (DOCS / "how-scheduled-events-work.md").read_text()
    notices = {row[0]: row[2] for row in rows(page, 3, r"Freeze|Reboot|Redeploy")}
    assert notices == {name: f"{EVENT_FACTS[name].usual_notice / 60:.0f} min" for name in notices}
    assert len(notices) == 3


def test_one_poll_may_not_enable_a_scale_set_in_all_its_zones() -> None:
    """The page that says that one VM is enough names the scale set for which it may not be."""
    page = (DOCS / "how-scheduled-events-work.md").read_text()
    assert "In a scale set that spans zones, one VM in each zone may have to poll" in page


def test_every_command_is_documented() -> None:
    """The table of commands names all there are, and no other."""
    table = CONFIGURATION.partition("| command | |\n")[2].partition("\n\n")[0]
    named = set(re.findall(r"(?m)^\| `([a-z-]+)", table))
    assert named == set(COMMANDS)


def test_the_contents_page_has_every_page() -> None:
    """No page of docs/ is left out of its contents."""
    contents = (DOCS / "README.md").read_text()
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in contents, page.name


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    found: dict[str, int] = {}
    names = set()
    for title in re.findall(r"(?m)^#+ +(.+?) *$", text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        kept = "".join(c for c in plain if c in " -_" or unicodedata.category(c)[0] in "LNM")
        name = kept.replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names


def test_every_link_leads_somewhere() -> None:
    """Each link to a page of the project, relative or by its address, names a file, and a heading
    that it has.
    """
    wrong = []
    for page, target in [(each, target) for each in PAGES for target in links(each)]:
        name, _, anchor = unquote(target).partition("#")
        if name.startswith(DOCUMENTATION):
            place = DOCS / name.removeprefix(DOCUMENTATION)
        elif re.match(r"[a-z]+:", name):
            continue
        else:
            place = (page.parent / name).resolve() if name else page
        if not (place.exists() and place.is_relative_to(ROOT)):
            wrong.append(f"{page.relative_to(ROOT)}: {target}")
        elif anchor and anchor not in anchors(place):
            wrong.append(f"{page.relative_to(ROOT)}: {target}: {place.name} has no such heading")
    assert wrong == []


def test_where_to_run_commands() -> None:
    """Log, command and restart of each platform are those of its page; a runbook with those of
    systemd links them.
    """
    section = (
        (DOCS / "README.md")
        .read_text()
        .partition("### Where to run commands\n")[2]
        .partition("\n### ")[0]
    )
    found = [row for row in section.splitlines() if row.startswith("| [")]
    assert len(found) == 4
    for row in found:
        page = (DOCS / re.findall(r"\]\((\S+?)#", row)[0]).read_text()
        commands = [
            text for cell in row.split(" | ")[1:] for text in re.findall(r"`([^`]+)`", cell)
        ]
        assert len(commands) >= 3
        assert [command for command in commands if command not in page] == []
    for runbook in (DOCS / "runbooks").glob("*.md"):
        if "journalctl" in runbook.read_text():
            assert f"{DOCUMENTATION}README.md#where-to-run-commands" in list(links(runbook)), (
                runbook.name
            )


COMPOSED = {
    "event lost",
    "the TLS certificate expires soon",
    "the TLS certificate has expired: clients refuse it",
    "alerts cannot be pushed to Alertmanager; retrying",
    "alerts rejected by Alertmanager; retrying",
}
"""Log messages that the program puts together from parts."""


def test_log_messages_are_those_of_the_program() -> None:
    """Every message that the table of log messages names is one that the program writes."""
    page = (ROOT / "docs" / "README.md").read_text()
    rows = re.findall(
        r"^\| (`.+?`) \| (?:warning|error) \| (.*) \|$",
        page.partition("### Log messages")[2],
        re.MULTILINE,
    )
    named = [message for names, _ in rows for message in re.findall("`([^`]+)`", names)]
    named += [
        message for _, meaning in rows for message in re.findall(r"`([^`]+)` \(info\)", meaning)
    ]
    written = {
        node.value
        for file in (ROOT / "exporter").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert len(named) > 10
    assert [
        message
        for message in named
        if message not in COMPOSED and not any(text.startswith(message) for text in written)
    ] == []


def test_licences_are_those_of_the_libraries() -> None:
    """The table of licences has every library that the exporter installs, under the licence that
    its project names.
    """
    section = (DOCS / "security.md").read_text().partition("## Libraries and their licences\n")[2]
    table = {
        name.lower(): licence
        for licence, names in rows(section, 2, r"[A-Z]+[a-z]*(-\d.*)?")
        for name in names.split(", ")
    }
    pinned = re.findall(r"(?m)^([\w-]+)==", (ROOT / "requirements" / "run.txt").read_text())
    assert set(table) == set(pinned)
    for name, licence in table.items():
        said = metadata(name)
        named = set(
            re.findall(r"Apache|BSD|MIT|MPL|PSF", said["License-Expression"] or said["License"])
        )
        assert named == set(re.findall(r"Apache|BSD|MIT|MPL|PSF", licence)), name


def test_kinds_have_the_alerts_that_the_page_names() -> None:
    """The page of kinds has each alert about an event with its kind, severity and hold, and each
    other alert with its severity.
    """
    table, _, others = (DOCS / "kinds.md").read_text().partition("## Other alerts")
    named = []
    kind = ""
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[4] and cells[4][0].isdigit():
            kind = cells[0].strip("`") or kind
            named.append((kind, cells[2].split(";")[0], cells[3], cells[4]))
    shipped = alerts(Settings())
    expected = [
        (each.events.kind, each.name.removeprefix(PREFIX), each.severity, _in_words(each.events))
        for each in shipped
        if each.events
    ]
    assert sorted(named) == sorted(expected)
    severities = {
        name: severity
        for names, severity, _ in rows(others, 3, r"[A-Z]\w+(, \w+)*")
        for name in names.split(", ")
    }
    assert severities == {
        each.name.removeprefix(PREFIX): each.severity
        for each in shipped
        if not each.events and "component" not in each.labels
    }


def _in_words(events: Events) -> str:
    return "1 hour" if events.hold == 3600 else f"{events.hold // 60} minutes"


@pytest.mark.parametrize(
    "page",
    [
        "how-scheduled-events-work.md",
        "approvals.md",
        "kinds.md",
        "alerts.md",
        "simulator.md",
    ],
)
def test_pages_name_every_event_type(page: str) -> None:
    """What CONTRIBUTING's recipe for an event type lists to be written by hand has been written."""
    text = (DOCS / page).read_text()
    assert [event_type for event_type in EVENT_FACTS if event_type not in text] == []
