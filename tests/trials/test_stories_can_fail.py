"""Each story of a false or missing page fails without the part of the rules that it is about."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import Settings
from alerts.rules.event_sets import outlasting_alerts, requested
from alerts.rules.fragments import left_resources
from alerts.rules.series import (
    ANNOUNCED,
    DELETING,
    EVENT,
    EVERY_POLL,
    FIRST_SEEN,
    INFO,
    INSTANCE,
    JOB_TARGETS,
    LAST_SUCCESS,
    NOT_BEFORE,
    NOTICE,
    OVER,
    SCALE_SET,
    SCALE_SET_VMS,
    SHOWN,
    UP,
    VM_EVENT,
    VM_HIT,
    WARNED,
    WITHOUT_IMDS,
    ZONE,
    ZONE_VMS,
)
from support.monitoring.alert_scenarios import DOWN, REBOOT, REDEPLOY, WITHOUT_NOTICE, Story
from support.monitoring.promtool import RULES, promtool
from support.monitoring.stories.blind_exporters import BLIND
from support.monitoring.stories.event_lives import LIVES
from support.monitoring.stories.expected_alerts import (
    NEVER_READY,
    NO_EXPORTERS,
    OVERDUE,
    SCALE_SET_HIT,
    SHORT_NOTICE,
    THROTTLED,
    ZONE_HIT,
)
from support.monitoring.stories.exporters import EXPORTERS
from support.monitoring.stories.hits import HITS
from support.monitoring.stories.places import PLACES
from support.monitoring.stories.reports import REPORTS
from support.monitoring.stories.twins import TWINS
from support.monitoring.together import Together

STORIES = {story.name: story for story in (*BLIND, *LIVES, *EXPORTERS, *HITS, *PLACES, *REPORTS, *TWINS)}
WERE_JOBS = f'{JOB_TARGETS}{{job=~"{Settings().text("job")}"}}'
JOBS = f'up{{job=~"{Settings().text("job")}"}}'


@dataclass(frozen=True)
class Change:
    """A change of the rules, and the story in which the checks of ``alert`` must then fail.

    ``parts``: each is the name of a rule, what is replaced in its expression, and by what.
    """

    story: str
    alert: str
    parts: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        """Return the name of the test."""
        return f"{self.story}: {self.alert.removeprefix('AzureScheduledEvent')}"

    def applied(self) -> list[Mapping[str, Any]]:
        """Return the groups of rules with the change. Every part must be there."""
        groups = deepcopy(_groups())
        for name, old, new in self.parts:
            found = [rule for group in groups for rule in group["rules"] if name in rule.values()]
            before = [_one_line(rule["expr"]) for rule in found]
            assert any(_one_line(old) in text for text in before), f"{name} has no {old}"
            for rule, text in zip(found, before, strict=True):
                rule["expr"] = text.replace(_one_line(old), new)
        return groups

    def checked(self) -> Story:
        """Return the story with the checks of when the alert fires, and no other checks."""
        story = STORIES[self.story]
        return replace(
            story,
            fires={},
            quiet={name: times for name, times in story.quiet.items() if name == self.alert},
            steady={name: times for name, times in story.steady.items() if name == self.alert},
        )


@cache
def _groups() -> list[Mapping[str, Any]]:
    """Return the groups of the shipped rules, without the texts of alerts, which no check here reads."""
    groups: list[Mapping[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        rule.pop("annotations", None)
    return groups


def _one_line(expression: str) -> str:
    return " ".join(expression.split())


_TIMES, _BLIND = f'{NOT_BEFORE}{{event_type="Redeploy"}}', f" unless on (job, instance) {WITHOUT_IMDS}"
_STARTED = f'last_over_time({VM_EVENT}{{event_status="Started",event_type!~"{DELETING}"}}'
_RETURNING = 'event_type=~"Reboot|Redeploy"'
_REBOOT = 'event_type="Reboot"'
_NOTICED = f'{FIRST_SEEN}{{scope="self"}}'

CHANGES = (
    # The latest NotBefore counts, from any exporter.
    Change(
        "an event is moved near while a blind peer still shows it far",
        REDEPLOY,
        ((REDEPLOY, f"min by (event_id, event_type) ({_TIMES}{_BLIND})", f"max by (event_id, event_type) ({_TIMES})"),),
    ),
    # The NotBefore of exporters without IMDS access counts, too.
    Change(
        "an event is moved far away while a blind peer still shows it near",
        REDEPLOY,
        ((REDEPLOY, f"{_TIMES}{_BLIND}", _TIMES),),
    ),
    # An event is not over while an exporter without IMDS access shows it.
    Change(
        "an event is called off while a blind peer still shows it",
        REBOOT,
        ((OVER, f"unless on (job, instance) min_over_time({UP}[10s]) == 0", ""),),
    ),
    # An event that has started is remembered for as long as any other.
    Change(
        "a VM never returns from its Redeploy",
        REDEPLOY,
        ((EVENT, f"{_STARTED}[1h])", f"{_STARTED}[15m])"),),
    ),
    # Targets are counted, not VMs: those that are hit, and those that there are.
    Change(
        "two jobs scrape the same VMs, whose ids are known",
        SCALE_SET_HIT,
        ((SCALE_SET_HIT, f"group by (vm_id, {SCALE_SET})", f"group by (vm_id, job, {SCALE_SET})"),),
    ),
    Change(
        "two jobs scrape the same VMs, whose ids IMDS does not tell",
        ZONE_HIT,
        ((ZONE_HIT, f"group by (vm_id, {ZONE})", f"group by (vm_id, job, {ZONE})"),),
    ),
    Change(
        "two jobs scrape the VMs that no event hits",
        SCALE_SET_HIT,
        ((SCALE_SET_VMS, f"group by (vm_id, {SCALE_SET})", f"group by (vm_id, job, {SCALE_SET})"),),
    ),
    Change(
        "a pod is replaced during an event",
        SCALE_SET_HIT,
        ((SCALE_SET_HIT, f"group by (vm_id, {SCALE_SET})", f"group by (vm_id, instance, {SCALE_SET})"),),
    ),
    # A scale set is a name, or a name and one of its two other parts.
    Change(
        "scale sets of one name in two resource groups, each with one VM of four hit",
        SCALE_SET_HIT,
        ((SCALE_SET_HIT, "resource_group, ", ""), (SCALE_SET_VMS, "resource_group, ", "")),
    ),
    Change(
        "two of four VMs in prod, beside forty of the same name in dev",
        SCALE_SET_HIT,
        ((SCALE_SET_HIT, "resource_group, ", ""), (SCALE_SET_VMS, "resource_group, ", "")),
    ),
    Change(
        "scale sets of one name in two subscriptions, each with one VM of four hit",
        SCALE_SET_HIT,
        ((SCALE_SET_HIT, "subscription_id, ", ""), (SCALE_SET_VMS, "subscription_id, ", "")),
    ),
    Change(
        "two of four VMs in one subscription, beside forty of the same name in another one",
        ZONE_HIT,
        ((ZONE_HIT, "subscription_id, ", ""), (ZONE_VMS, "subscription_id, ", "")),
    ),
    # A VM is hit until the event is over, whatever Resources say.
    Change(
        "a VM that is down is dropped from Resources",
        ZONE_HIT,
        ((VM_HIT, f"unless on (event_id, vm_name) {left_resources(outlasting_alerts(Settings()))}", ""),),
    ),
    # A join fails if one target has two series.
    Change(
        "one exporter is scraped twice, with two zones",
        REBOOT,
        ((SHOWN, f"topk by (job, instance) (1, last_over_time({INSTANCE}[1m]))", f"last_over_time({INSTANCE}[1m])"),),
    ),
    # What an exporter saw between two scrapes is not known.
    Change(
        "somebody approves an event elsewhere before anybody scrapes it",
        WITHOUT_NOTICE,
        (
            (WITHOUT_NOTICE, f"or on (event_id) last_over_time({ANNOUNCED}{{{_RETURNING}}}[1m]) == 1", ""),
            (WARNED, f"or on (event_id) last_over_time({ANNOUNCED}[1m]) == 1", ""),
        ),
    ),
    # The rate of throttled polls counts, not their share.
    Change(
        "IMDS throttles, and the exporter slows down",
        THROTTLED,
        ((THROTTLED, f"/ increase({EVERY_POLL}[5m])", "/ 300"),),
    ),
    # The alert of Azure's own events ignores that another exporter shows the user's request.
    Change(
        "the source of an event is empty for one api-version",
        REBOOT,
        ((REBOOT, f"unless on (event_id) {requested(_REBOOT, Settings())}", ""),),
    ),
    # Resources identify an event.
    Change(
        "two exporters order Resources differently, and one VM leaves them",
        REBOOT,
        ((REBOOT, f"max by (event_id, event_type) ( ({INFO}", f"max by (event_id, event_type, resources) ( ({INFO}"),),
    ),
    # Only an exporter that is down all the time is down, or never ready.
    Change(
        "an exporter crashes in a loop, and never gets an answer",
        DOWN,
        ((DOWN, f"or ({JOBS} and avg_over_time({JOBS}[5m]) < 0.5)", ""),),
    ),
    Change(
        "an exporter crashes in a loop, and never gets an answer",
        NEVER_READY,
        ((NEVER_READY, f"max_over_time({LAST_SUCCESS}[5m])", LAST_SUCCESS),),
    ),
    # Without targets there is no alert: of any job, and of one of several.
    Change(
        "all targets have been gone for more than an hour: one alert, not one more for each job",
        NO_EXPORTERS,
        ((NO_EXPORTERS, f"absent({JOBS}) or on ()", ""),),
    ),
    Change(
        "all targets of one of two jobs are gone from discovery",
        NO_EXPORTERS,
        ((NO_EXPORTERS, f"or on () (last_over_time({WERE_JOBS}[1h]) unless on (job) {JOBS})", ""),),
    ),
    # What a VM showed before it was deleted counts for long.
    Change(
        "a VM is deleted at its NotBefore, before anybody scrapes Started",
        OVERDUE,
        ((OVERDUE, f"last_over_time({NOT_BEFORE}[1m])", f"last_over_time({NOT_BEFORE}[15m])"),),
    ),
    # The notice is that to the present NotBefore.
    Change(
        "an event is moved nearer after it was announced in time",
        SHORT_NOTICE,
        (
            (NOTICE, f"last_over_time({NOTICE}[15m]) and on (event_id) {SHOWN} or on (event_id)", ""),
            (NOTICE, f"and abs(time() - {_NOTICED}) < 60 and on (job, instance) {UP} offset 1m == 1", ""),
            (NOTICE, f"unless on (event_id) {SHOWN} offset 1m", ""),
        ),
    ),
    # The past is that of five minutes.
    Change(
        "no evaluation for six minutes, while the VM reboots",
        REBOOT,
        ((EVENT, "[15m]", "[5m]"), (EVENT, "[1h]", "[5m]")),
    ),
    # A VM that Azure has deleted is expected back.
    Change(
        "a scale-in leaves targets behind",
        DOWN,
        ((DOWN, f'event_type=~"{DELETING}"', 'event_type="none"'),),
    ),
)


def test_changes_are_of_different_stories() -> None:
    """No test is there twice, so that each name says which one fails."""
    names = [str(change) for change in CHANGES]
    assert len(names) == len({*names})


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_story_fails_without_its_rule(change: Change, tmp_path: Path) -> None:
    """With the change, promtool evaluates the rules and finds the checks of the story to fail."""
    path = tmp_path / "changed.json"
    path.write_text(json.dumps({"groups": change.applied()}))
    done = promtool(tmp_path, change.checked(), rules=path)
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert "exp:" in output or "many-to-many matching not allowed" in output, output


def test_only_the_story_that_fails_is_named(tmp_path: Path) -> None:
    """Of stories that are played together, the one whose rule has changed fails, and the one beside it does not."""
    change = next(each for each in CHANGES if each.alert == NEVER_READY)
    beside = STORIES["an exporter crashes in a loop of 300 s and 15 s"]
    path = tmp_path / "changed.json"
    path.write_text(json.dumps({"groups": change.applied()}))
    assert Together((STORIES[change.story], beside)).failures(tmp_path, path).keys() == {change.story}
