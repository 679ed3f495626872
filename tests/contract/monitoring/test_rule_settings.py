"""Rules with other settings than the shipped ones: rare scrapes and evaluations, short memories."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from alerts import resolve
from alerts.prometheus import prometheus_rules
from support.monitoring.alert_scenarios import DOWN, REBOOT, REDEPLOY, UNREACHABLE, Exporter, Seen, Story, one
from support.monitoring.promtool import ALERTING, Evaluations, promtool
from support.monitoring.stories.expected_alerts import NEVER_READY, NOT_APPROVED, NOT_BACK, SCALE_SET_HIT
from support.monitoring.stories.fleets import DAY


@dataclass(frozen=True)
class Case:
    """A story that rules with ``settings`` must tell, whichever order their groups are evaluated in."""

    settings: Mapping[str, str]
    story: Story
    evaluations: Evaluations = Evaluations()  # noqa: RUF009 - it cannot change


def every(step: int, begin: int, end: int) -> tuple[int, ...]:
    """Return the moments of a span."""
    return tuple(range(begin, end + 1, step))


_ENDED = Seen(not_before=1500, gone=100)
_POLICY = Exporter(policy="maintenance-window")
_DUE = Seen(announced=120, not_before=2000, approval_due=130, gone=130)

CASES = (
    Case(
        {"evaluation.slow-interval": "1m", "memory": "2m"},
        Story(
            "an event is three days ahead, and its VM goes away: it is never near",
            one(Seen("Redeploy", announced=40, not_before=3 * DAY, saw_scheduled=True), down=((105, 100_000),)),
            quiet={REDEPLOY: every(5, 40, 600)},
            every=5,
        ),
        Evaluations((("recordings", 50), ("shown", 50)), frozenset({"times", "shown"})),
    ),
    *(
        Case(
            {"longest": longest, "memory": memory},
            Story(
                f"an event has ended, and its VM goes away: the event does not return (longest {longest})",
                one(event, down=((150, 100_000),)),
                quiet={REBOOT: every(5, 180, 600)},
                every=5,
            ),
        )
        for longest, memory, event in (
            ("2m", "5m", _ENDED),
            ("5m", "2m", replace(_ENDED, not_before=60, started=60, saw_scheduled=True)),
        )
    ),
    Case(
        {"longest": "2m", "memory": "15m"},
        Story(
            "a VM leaves an event, and fails by itself later: it is not hit",
            (
                Exporter(events=(Seen(resources="vmss_0,vmss_1", gone=100),), down=((400, 100_000),)),
                Exporter("vmss_1", (Seen(resources="vmss_0,vmss_1"),), down=((90, 100_000),)),
                Exporter(
                    "vmss_2",
                    (
                        Seen(resources="vmss_0,vmss_1", scope="peer", gone=100),
                        Seen(resources="vmss_1", scope="peer", announced=100),
                    ),
                ),
                Exporter("vmss_3"),
            ),
            quiet={SCALE_SET_HIT: every(15, 180, 1000)},
            every=15,
        ),
    ),
    Case(
        {"labels.keep": "team", "longest": "20m"},
        Story(
            "the event of two teams is over, and the VM of the second one does not come back: the page stays one",
            tuple(
                Exporter(
                    vm,
                    (Seen(not_before=300, started=300, resources="vmss_0,vmss_1", gone=420),),
                    target={"team": team},
                    down=((305, back),),
                )
                for vm, team, back in (("vmss_0", "search", 400), ("vmss_1", "shop", 100_000))
            ),
            steady={NOT_BACK: (1260, 2400)},
            every=15,
        ),
    ),
    *(
        Case(
            {"scrape.interval": "2m"},
            Story(
                f"{name} between two scrapes, two minutes apart, and is no {alert.removeprefix('AzureScheduledEvent')}",
                (exporter,),
                quiet={alert: every(30, 0, 1200)},
                every=30,
                scrape=120,
            ),
        )
        for name, alert, exporter in (
            (
                "an event is approved when that is due,",
                NOT_APPROVED,
                replace(_POLICY, events=(_DUE, replace(_DUE, announced=130, gone=900, approved=1))),
            ),
            (
                "IMDS fails and answers again",
                UNREACHABLE,
                Exporter(more={"up": lambda now: 0 if now == 480 else 1}),
            ),
        )
    ),
    Case(
        {"scrape.interval": "1m", "exporter-down.for": "20s", "never-ready.for": "5m"},
        Story(
            "an exporter never gets an answer from IMDS",
            (Exporter(fresh=((0, 100_000),)),),
            steady={NEVER_READY: (600, 1200)},
            every=30,
            scrape=60,
        ),
    ),
    Case(
        {"maintenance.longest.freeze": "5s"},
        Story(
            "a pause may take less than the time between two evaluations, and the VM does not come back",
            one(Seen("Freeze", not_before=300, started=300), down=((305, 100_000),)),
            steady={NOT_BACK: (450, 900)},
            every=5,
        ),
    ),
    Case(
        {"scrape.interval": "2m", "exporter-down.for": "1m"},
        Story(
            "an exporter misses a scrape",
            (Exporter(down=((480, 600),)),),
            quiet={DOWN: every(30, 0, 1200)},
            every=30,
            scrape=120,
        ),
    ),
)


@pytest.mark.parametrize("names", [ALERTING, ALERTING[::-1]], ids=("in order", "reversed"))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story.name)
def test_other_settings(case: Case, names: tuple[str, ...], tmp_path: Path) -> None:
    """What must not page does not, and what must is not lost, also with settings that are far from the shipped ones."""
    rules = tmp_path / "rules.yml"
    rules.write_text(prometheus_rules(resolve(case.settings)))
    done = promtool(tmp_path, case.story, rules=rules, names=names, evaluations=case.evaluations)
    assert done.returncode == 0, done.stdout + done.stderr
