"""The tables of the reference pages: metrics, values of labels, flags, notices and commands."""

import re

import pytest

from azure_scheduled_events_exporter.commands.cli import COMMANDS, parser_of
from azure_scheduled_events_exporter.config.settings import SETTINGS
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.label_limit import OTHER
from azure_scheduled_events_exporter.core.lifecycle import Approver, Kind, Lifecycles, Transition
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.records import change_record
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.metrics.table import SPECS
from azure_scheduled_events_exporter.simulator.document import ADVICE
from azure_scheduled_events_exporter.snapshot.approvals import ApprovalOutcome
from azure_scheduled_events_exporter.snapshot.hooks import Phase, RunOutcome
from azure_scheduled_events_exporter.snapshot.pushes import PushOutcome
from azure_scheduled_events_exporter.times import parse_duration
from support.documented import rows
from support.monitoring.exposed import at
from support.paths import ROOT

DOCS = ROOT / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text()
METRICS = (DOCS / "metrics.md").read_text()
QUERIES = (DOCS / "queries.md").read_text()


def test_every_metric_is_documented_as_it_is() -> None:
    """The table of metrics has exactly the names, types, labels and meanings that are scraped."""
    expected = [
        (f"`{spec.name}`", spec.type, ", ".join(spec.labels), spec.help) for spec in SPECS.values()
    ]
    assert rows(METRICS, columns=4, first=r"`[a-z_]+`") == expected


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
    # `approve` is a command, which the explanation of a value names.
    table = {
        (label.strip("`"), metrics): set(re.findall("`([^`]+)`", values)) - {"approve"}
        for label, metrics, values in rows(section, columns=3, first=r"`[a-z_]+`")
    }
    assert table == LABEL_VALUES


def test_keys_of_a_followed_transition_are_documented() -> None:
    """The table of keys in docs/follow.md has exactly those of a line of ``events --follow``."""
    document = Document(1, (ScheduledEvent("E", "Freeze", "Scheduled"),))
    _, (detected,) = observe(Lifecycles(), document, ObservationContext(at(0), "vmss_0"))
    section = (DOCS / "follow.md").read_text().partition("## Keys\n")[2].partition("\n## ")[0]
    keys = [keys for keys, _ in rows(section, columns=2, first=r"`[a-z_`, ]+`")]
    documented = set(re.findall("`([a-z_]+)`", " ".join(keys)))
    assert documented == {"seq", "cursor", *change_record(detected)}


def test_every_flag_is_documented_as_it_is() -> None:
    """The table of flags has exactly the flags, defaults and meanings of --help."""
    expected = [
        (f"`--{setting.flag}`", f"`{setting.default}`" if setting.default else "", setting.help)
        for setting in SETTINGS
    ]
    assert rows(CONFIGURATION, columns=3, first=r"`--[a-z.-]+`") == expected


def test_the_defaults_of_hook_are_the_documented_ones() -> None:
    """To give an option of ``hook`` the default that the table of options names changes nothing."""
    page = (DOCS / "hook.md").read_text().partition("## Options\n")[2].partition("\n## ")[0]
    table = rows(page, columns=3, first=r"`--[a-z]+`")
    # The default of --types, "all", is no value that can be given.
    documented = [(option, default) for option, default, _ in table if default != "all"]
    assert len(documented) == len(table) - 1, "every option but --types"
    words = [word.strip("`") for row in documented for word in row]
    parser = parser_of("hook")
    assert parser.parse_args(words) == parser.parse_args([])


def test_the_usual_notice_is_the_documented_one() -> None:
    """The simulator gives each type of event the notice that the page has from Azure's table."""
    page = (DOCS / "how-scheduled-events-work.md").read_text()
    table = rows(page, columns=3, first=r"Freeze|Reboot|Redeploy")
    notices = {event_type: notice for event_type, _, notice in table}
    assert notices == {name: f"{EVENT_FACTS[name].usual_notice / 60:.0f} min" for name in notices}
    assert len(notices) == 3


@pytest.mark.parametrize(
    ("key", "fact"), [("notice", "usual_notice"), ("started_for", "usual_started")]
)
def test_the_defaults_of_a_simulated_event_are_the_documented_ones(key: str, fact: str) -> None:
    """The page of the simulator has the times that a scenario's event gets by its type."""
    # The cell is such as: Freeze, Reboot `15m`; Redeploy, Terminate `10m`; Preempt `30s`
    ((_, cell),) = rows((DOCS / "simulator.md").read_text(), columns=2, first=f"`{key}`")
    documented = {
        event_type: parse_duration(time)
        for event_types, time in re.findall(r"([\w, ]+) `(\w+)`", cell)
        for event_type in event_types.strip().split(", ")
    }
    assert documented == {
        event_type: getattr(facts, fact) for event_type, facts in EVENT_FACTS.items()
    }


def test_every_command_is_documented() -> None:
    """The table of commands names all there are, and no other."""
    table = CONFIGURATION.partition("| command | |\n")[2].partition("\n\n")[0]
    named = set(re.findall(r"(?m)^\| `([a-z-]+)", table))
    assert named == set(COMMANDS)
