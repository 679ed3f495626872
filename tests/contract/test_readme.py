"""The reference pages agree with the code, and every link of every page has a target."""

import ast
import re
import unicodedata
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from urllib.parse import unquote

import pytest

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX, Events
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from support.documented import links, pages, rows
from support.paths import ROOT

PAGES = pages()
DOCS = ROOT / "docs"


def test_the_page_names_the_scale_set_for_which_one_poll_is_not_enough() -> None:
    """The page says that a poll of one VM enables events for its whole service. It also names the
    exception, a scale set that spans zones, whose users would otherwise miss events.
    """
    page = (DOCS / "how-scheduled-events-work.md").read_text()
    assert "In a scale set that spans zones, one VM in each zone may have to poll" in page


def test_the_contents_page_has_every_page() -> None:
    """docs/README.md links every other page of its folder."""
    contents = DOCS / "README.md"
    for page in set(DOCS.glob("*.md")) - {contents}:
        assert f"]({page.name})" in contents.read_text(), page.name


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    times: dict[str, int] = {}  # how often each name has come
    names = set()
    for title in re.findall(r"(?m)^#+ +(.+?) *$", text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        kept = "".join(c for c in plain if c in " -_" or unicodedata.category(c)[0] in "LNM")
        name = kept.replace(" ", "-")
        before = times.get(name, 0)
        times[name] = before + 1
        # The second heading of a name has the anchor name-1.
        names.add(f"{name}-{before}" if before else name)
    return names


def test_every_link_leads_somewhere() -> None:
    """Each link to a page of the project, relative or by its address, names a file, and a heading
    that it has.
    """
    wrong = []
    every_link = [(page, target) for page in PAGES for target in links(page)]
    for page, target in every_link:
        name, _, anchor = unquote(target).partition("#")
        if name.startswith(DOCUMENTATION):
            place = DOCS / name.removeprefix(DOCUMENTATION)
        elif re.match(r"[a-z]+:", name):  # an address elsewhere
            continue
        elif name:
            place = (page.parent / name).resolve()
        else:
            place = page
        if not (place.exists() and place.is_relative_to(ROOT)):
            wrong.append(f"{page.relative_to(ROOT)}: {target}")
        elif anchor and anchor not in anchors(place):
            wrong.append(f"{page.relative_to(ROOT)}: {target}: {place.name} has no such heading")
    assert wrong == []


def test_where_to_run_commands() -> None:
    """The table has the commands of each platform for log, command and restart, as the platform's
    page has them. A runbook that gives those of systemd links the table, for the other platforms.
    """
    from_its_title = (DOCS / "README.md").read_text().partition("### Where to run commands\n")[2]
    section = from_its_title.partition("\n### ")[0]
    platforms = [row for row in section.splitlines() if row.startswith("| [")]
    assert len(platforms) == 4, "systemd, a container, Kubernetes and Windows"
    for row in platforms:
        platform, _, cells = row.partition(" | ")
        (page,) = re.findall(r"\]\((\S+?)#", platform)
        commands = re.findall(r"`([^`]+)`", cells)
        assert len(commands) >= 3, "log, command and restart"
        text = (DOCS / page).read_text()
        assert [command for command in commands if command not in text] == []
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
    table = (DOCS / "README.md").read_text().partition("### Log messages")[2]
    named = []
    for messages, meaning in re.findall(r"(?m)^\| (`.+?`) \| (?:warning|error) \| (.*) \|$", table):
        named += re.findall("`([^`]+)`", messages)
        named += re.findall(r"`([^`]+)` \(info\)", meaning)
    texts_of_the_code = {
        node.value
        for file in (ROOT / "exporter").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert len(named) > 10, "the messages are found"
    for message in named:
        written = any(text.startswith(message) for text in texts_of_the_code)
        assert written or message in COMPOSED, message


def test_licences_are_those_of_the_libraries() -> None:
    """The table of licences has every library that the exporter installs, under the licence that
    the library's own project names. Only families such as Apache are compared, as there are several
    ways to write a licence.
    """
    section = (DOCS / "security.md").read_text().partition("## Libraries and their licences\n")[2]
    a_licence = r"[A-Z]+[a-z]*(-\d.*)?"
    table = {
        name.lower(): licence
        for licence, names in rows(section, 2, a_licence)
        for name in names.split(", ")
    }
    pinned = re.findall(r"(?m)^([\w-]+)==", (ROOT / "requirements" / "run.txt").read_text())
    assert set(table) == set(pinned)
    families = re.compile(r"Apache|BSD|MIT|MPL|PSF")
    for name, licence in table.items():
        installed = metadata(name)
        of_its_project = installed["License-Expression"] or installed["License"]
        assert set(families.findall(of_its_project)) == set(families.findall(licence)), name


def alerts_by_kind(page: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield kind, alert, severity and hold of each row of the table of kinds."""
    kind = ""
    # The columns are kind, meaning, alert, severity and hold, such as "10 minutes"; the row of
    # titles has no number there.
    row = r"(?m)^\|([^|]*)\|[^|]*\|([^|]*)\|([^|]*)\| *(\d[^|]*)\|$"
    for own_kind, names, severity, hold in re.findall(row, page):
        # An empty first cell stands for the kind above it.
        kind = own_kind.strip(" `") or kind
        yield kind, names.partition(";")[0].strip(), severity.strip(), hold.strip()


def test_kinds_have_the_alerts_that_the_page_names() -> None:
    """The page of kinds has each alert about an event with its kind, severity and hold, and each
    other alert about VMs with its severity. Those about an exporter itself, which have the label
    ``component``, are not in it.
    """
    about_events, _, others = (DOCS / "kinds.md").read_text().partition("## Other alerts")
    named = list(alerts_by_kind(about_events))
    shipped = alerts(Settings())
    expected = [
        (each.events.kind, each.name.removeprefix(PREFIX), each.severity, _in_words(each.events))
        for each in shipped
        if each.events
    ]
    assert sorted(named) == sorted(expected)
    names_of_alerts = r"[A-Z]\w+(, \w+)*"
    severities = {
        name: severity
        for names, severity, _ in rows(others, 3, names_of_alerts)
        for name in names.split(", ")
    }
    assert severities == {
        each.name.removeprefix(PREFIX): each.severity
        for each in shipped
        if not each.events and "component" not in each.labels
    }


def _in_words(events: Events) -> str:
    an_hour = 3600
    return "1 hour" if events.hold == an_hour else f"{events.hold // 60} minutes"


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
    """The pages that CONTRIBUTING's recipe for a new event type lists, because they are written by
    hand, name each event type. Of ``queries.md``, which it lists too, ``test_reference_pages``
    compares the whole table.
    """
    text = (DOCS / page).read_text()
    assert [event_type for event_type in EVENT_FACTS if event_type not in text] == []


def test_the_smallest_rule_leaves_out_the_kinds_that_the_readme_names() -> None:
    """The sentence above the smallest rule names each kind that its expression leaves out."""
    before, _, rule = (ROOT / "README.md").read_text().partition("- alert: AzureScheduledEvent\n")
    left_out = re.findall(r'kind!~"([^"]+)"', rule)[0].split("|")
    sentence = before.rpartition("This is the smallest rule.")[2]
    assert re.findall(r"`([a-z_]+)`", sentence) == left_out
