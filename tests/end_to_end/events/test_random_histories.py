"""Random histories of IMDS through a whole exporter, journal and restarts included, against an independent oracle."""

import json
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.events.life_oracle import LifeOracle, Shown
from support.events.machine import START, Machine

HISTORIES = int(os.environ.get("LIFE_HISTORIES", "25"))
IDS = tuple(f"602D9444-D2CD-49C7-8624-8643E717129{number}" for number in range(3))
STEPS = (1, 1, 2, 3, 5, 30, 60, 61, 120, 900)


class RandomImds:
    """What IMDS shows of three events: they come, move, start, go, and come back, in any order."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.shown: dict[str, Shown] = {}
        self._kinds = {
            name: (dice.choice(["Reboot", "Redeploy", "Freeze", "Preempt"]), dice.choice(["Platform", "User"]))
            for name in IDS
        }
        self._own = {name: dice.random() < 0.7 for name in IDS}

    def goes_on(self, at: float) -> None:
        """Change any of the events."""
        for name in IDS:
            if self._dice.random() < 0.6:
                continue
            status = self._dice.choice(["Scheduled", "Scheduled", "Started", "gone", "gone"])
            if status == "gone":
                self.shown.pop(name, None)
                continue
            before = self.shown.get(name)
            not_before = None if status == "Started" else before.not_before if before else None
            if status == "Scheduled" and (not_before is None or self._dice.random() < 0.2):
                not_before = self._dice.choice([None, int(at) + self._dice.choice([0, 4, 30, 300, 900, 259200])])
            kind, source = self._kinds[name]
            self.shown[name] = Shown(status, kind, source, self._own[name], not_before)

    def entries(self) -> Iterator[dict[str, object]]:
        """Yield the events in the form of a document."""
        for name, each in self.shown.items():
            due = "" if each.not_before is None else formatdate(START + each.not_before, usegmt=True)
            yield entry(
                EventId=name if self._dice.random() < 0.8 else name.lower(),
                EventStatus=each.status,
                EventType=each.kind,
                Resources=["vmss_0" if each.own else "vmss_1"],
                NotBefore=due,
                EventSource=each.source,
            )


def plays(machine: Machine, dice: random.Random) -> LifeOracle:
    """Play one history to the exporter and to the oracle; return the oracle."""
    imds, oracle = RandomImds(dice), LifeOracle()
    at = 0.0
    for _ in range(dice.randrange(8, 40)):
        step = dice.choice(STEPS)
        happens = dice.random()
        if happens < 0.15:
            boot = at + step * dice.random() if dice.random() < 0.6 else None
            machine.restarts(boots_at=boot)
            oracle.restarts(boot)
        at += step
        if dice.random() < 0.5:
            imds.goes_on(at)
        entries = list(imds.entries())
        if dice.random() < 0.25:
            machine.polls(at, b"", *entries)
            oracle.sees(at, None, partly_unreadable=False)
            continue
        broken = dice.random() < 0.1
        body = json.dumps({"DocumentIncarnation": 1, "Events": [*entries, *([None] if broken else [])]})
        machine.polls(at, body.encode(), *entries)
        oracle.sees(at, imds.shown, partly_unreadable=broken)
    if machine.exporter is None:
        machine.polls(at, b"")
        oracle.sees(at, None, partly_unreadable=False)
    return oracle


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_history(seed: int, tmp_path: Path) -> None:
    """Every event is reported as the design's rules say, transition by transition, over restarts and boots."""
    with ExitStack() as stack:
        imds = stack.enter_context(Simulator(requests_per_second=100_000))
        machine = Machine(imds, tmp_path / "state", stack, "documented")
        oracle = plays(machine, random.Random(seed))
        assert machine.exporter
        records = [record for _, record in machine.exporter.journal.transitions(0, 10_000)]
        reported = {
            name: [str(record["transition"]) for record in records if record["event_id"] == name]
            for name in oracle.lives
        }
        assert reported == {name: life.reported for name, life in oracle.lives.items()}
        last = {str(record["event_id"]): record["approved_by"] for record in records}
        assert last == {name: life.approved_by for name, life in oracle.lives.items()}
        counted: dict[str, int] = {}
        for life in oracle.lives.values():
            for transition in life.reported:
                counted[transition] = counted.get(transition, 0) + 1
        assert machine.transitions == counted
