"""When a VM counts as not back from an event, and that the page and the end of the maintenance come together."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support.monitoring.alert_scenarios import MAINTENANCE, Seen, Story, one
from support.monitoring.promtool import RULES, promtool
from support.monitoring.stories.expected_alerts import NOT_BACK
from support.monitoring.stories.not_back import NOT_BACK_STORIES
from support.monitoring.together import Together, hold, together


@pytest.mark.parametrize("stories", together(NOT_BACK_STORIES), ids=str)
def test_story(stories: Together, subtests: pytest.Subtests, tmp_path: Path) -> None:
    """A VM that is away for longer than its event may take pages, until it is back, and no other VM does."""
    hold(stories, subtests, tmp_path)


@dataclass(frozen=True)
class InTurn(Story):
    """A story in which one of two alerts fires at every evaluation of ``span``, and never both."""

    span: tuple[int, int] = (0, 0)

    @property
    def end(self) -> int:
        """The end of the span."""
        return self.span[1]

    @property
    def checked(self) -> frozenset[str]:
        """Both alerts."""
        return frozenset({MAINTENANCE, NOT_BACK})

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it, with the check of both alerts together."""
        begin, end = self.span
        firing = f'count(ALERTS{{alertname=~"{MAINTENANCE}|{NOT_BACK}",alertstate="firing"}})'
        held = f"({firing})[{end - begin}s:{self.evaluation}s]"
        return {
            **super().to_test(),
            "promql_expr_test": [
                _is(f"{how}_over_time({held})", end, value)
                for how, value in (("min", 1), ("max", 1), ("count", (end - begin) // self.evaluation + 1))
            ],
        }


def _is(query: str, at: int, value: int) -> dict[str, object]:
    return {"expr": query, "eval_time": f"{at}s", "exp_samples": [{"labels": "{}", "value": value}]}


def test_not_back_begins_when_maintenance_ends(tmp_path: Path) -> None:
    """The moment at which a team's own alerts are inhibited no more is the one at which VmNotBack fires."""
    away = one(Seen(not_before=300, started=300), down=((305, 100_000),))
    done = promtool(tmp_path, InTurn("in turn", away, every=15, span=(300, 2400)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_not_back_is_sent_first() -> None:
    """Prometheus sends the alerts of a group in their order: VmNotBack, then the end of the maintenance."""
    rules = yaml.safe_load(RULES.read_text())
    (group,) = [each for each in rules["groups"] if NOT_BACK in str(each)]
    assert [rule["alert"] for rule in group["rules"] if "alert" in rule] == [NOT_BACK, MAINTENANCE]
