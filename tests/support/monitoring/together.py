"""Stories that one Prometheus watches at the same time, which costs little more than one of them.

promtool prints and parses every rule anew at each evaluation, which takes longer than to evaluate it for a few VMs.
So that no story sees another one, each of its series has its name as the label ``story``, and every matching and
aggregation of the rules is by that label, too.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.monitoring.alert_scenarios import Exporter, Story, steady_checks
from support.monitoring.promtool import ALERTING, RULES, promtool

TOGETHER = 25  # stories at most: more save nothing, and are the work of one process
LONGER = 1.5  # times as long as the shortest one together with it may a story be
MANY_ALERTS = 10  # to check more than these takes nearly all rules
_PLAYED = "story_played"  # a series of every story, for what is absent in it
_STRING_OR_LABELS = re.compile(r"""("(?:[^"\\]|\\.)*")|\b(by|on) *\( *(\)?)""")
_ABSENT = re.compile(r"\babsent\(([^()]*)\)")
_FAILED = re.compile(r"(?=^    (?:expr|rule): )", re.MULTILINE)


@dataclass(frozen=True)
class Together:
    """Stories with the same evaluations. Of several, only when their alerts fire is checked, not with which texts."""

    stories: tuple[Story, ...]
    read: frozenset[str] = frozenset()

    @property
    def evaluation(self) -> int:
        """The seconds between evaluations."""
        return self.stories[0].evaluation

    @property
    def checked(self) -> frozenset[str]:
        """The names of the alerts that any story checks."""
        return frozenset[str]().union(*(story.checked for story in self.stories))

    def __str__(self) -> str:
        """Return the name of the only story, or what they have in common."""
        if len(self.stories) == 1:
            return self.stories[0].name
        return f"{len(self.stories)} stories, every {self.evaluation} s, until {self.stories[-1].end} s"

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""
        told = [_told(each) for each in self.stories]
        played = [{"series": f"{_PLAYED}{{{_label(each)}}}", "values": "1x100000"} for each in self.stories]
        return {
            "name": str(self),
            "interval": f"{self.stories[0].scrape}s",
            "input_series": [*played, *(series for each in told for series in each["input_series"])],
            "promql_expr_test": [*self._strays(), *(check for each in self.stories for check in _checks(each))],
        }

    def _strays(self) -> Iterator[dict[str, object]]:
        """Yield the checks that no alert fires without its story, which no check of a story would see."""
        for at in sorted({at for each in self.stories for times in each.quiet.values() for at in times}):
            yield {"expr": 'ALERTS{alertstate="firing",story=""}', "eval_time": f"{at}s", "exp_samples": []}

    def failures(self, folder: Path, rules: Path = RULES, names: tuple[str, ...] = ALERTING) -> dict[str, str]:
        """Return what promtool finds wrong by the name of the story, or by "" if that is not about one of them."""
        if len(self.stories) == 1:
            done = promtool(folder, self.stories[0], rules, names)
            return {self.stories[0].name: done.stdout + done.stderr} if done.returncode else {}
        apart = folder / "rules-apart.json"
        apart.write_text(json.dumps({"groups": _apart(rules)}))
        done = promtool(folder, self, apart, names)
        if not done.returncode:
            return {}
        found: dict[str, str] = {}
        for part in _FAILED.split(done.stdout + done.stderr)[1:]:
            plain = part.replace('\\"', '"')  # promtool quotes expressions, and does not quote errors of rules
            name = next((each.name for each in self.stories if _label(each) in plain), "")
            found[name] = found.get(name, "") + plain
        return found or {"": done.stdout + done.stderr}


def together(stories: Iterable[Story]) -> list[Together]:
    """Return ``stories`` in groups of those that are evaluated at the same times, for about as long, by similar rules.

    A story that checks texts is alone.
    """

    def alike(story: Story) -> tuple[bool, int, int, bool]:
        return bool(story.fires), story.evaluation, story.scrape, len(story.checked) > MANY_ALERTS

    grouped = groupby(sorted(stories, key=lambda story: (*alike(story), story.end)), alike)
    return [Together(tuple(some)) for _, group in grouped for some in _portions(group)]


def hold(stories: Together, subtests: pytest.Subtests, folder: Path, names: tuple[str, ...] = ALERTING) -> None:
    """Assert of each story that it goes as told, with the groups ``names`` of the shipped rules in their order."""
    found = stories.failures(folder, names=names)
    assert "" not in found, found[""]
    for story in stories.stories:
        with subtests.test(story.name):
            assert story.name not in found, found[story.name]


def _portions(stories: Iterable[Story]) -> Iterator[list[Story]]:
    """Yield portions of stories, which are sorted by their end: all rules are evaluated until the last one ends."""
    portion: list[Story] = []
    for story in stories:
        if portion and (story.fires or len(portion) == TOGETHER or story.end > LONGER * portion[0].end):
            yield portion
            portion = []
        portion.append(story)
    yield portion


def _told(story: Story) -> dict[str, Any]:
    def named(exporter: Exporter) -> Exporter:
        return replace(exporter, target={**exporter.target, "story": story.name})

    return replace(story, exporters=tuple(map(named, story.exporters))).to_test()


def _checks(story: Story) -> Iterator[dict[str, object]]:
    moments: dict[int, set[str]] = {}
    for name, times in story.quiet.items():
        for at in times:
            moments.setdefault(at, set()).add(name)
    for at, names in moments.items():
        firing = f'ALERTS{{alertname=~"{"|".join(sorted(names))}",alertstate="firing",{_label(story)}}}'
        yield {"expr": f"group by (alertname, story) ({firing})", "eval_time": f"{at}s", "exp_samples": []}
    for name, (begin, end) in story.steady.items():
        yield from steady_checks(name, begin, end, story.evaluation, f",{_label(story)}")


def _label(story: Story) -> str:
    return f"story={json.dumps(story.name)}"


def _apart(rules: Path) -> list[Mapping[str, Any]]:
    """Return the groups of ``rules`` such that no story sees another one."""
    groups: list[Mapping[str, Any]] = yaml.safe_load(rules.read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        told = _STRING_OR_LABELS.sub(lambda found: found[1] or f"{found[2]} (story{found[3] or ', '}", rule["expr"])
        rule["expr"] = _ABSENT.sub(rf"(group by (story) ({_PLAYED}) unless on (story) \1)", told)
    return groups
