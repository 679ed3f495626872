"""Random fleets, and an oracle that says which pages they deserve. The oracle knows no rule.

A fleet is a placement group of VMs with one or two events. Each exporter polls with a lag of its own; it may lose IMDS
(and then shows what it knew), miss scrapes, be scraped by two jobs, or have its pod replaced. All times are seconds.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from support.monitoring.alert_scenarios import EVALUATION, JOB, STEP
from support.programs import PREFIX

HORIZON = 1500
RESOLVED_WITHIN = 120
REMEMBERED = 880  # as the setting memory, less what a scrape and two evaluations take
PAGES = {
    ("Preempt", "Platform"): "AzureScheduledEventPreempt",
    ("Terminate", "Platform"): "AzureScheduledEventTerminate",
    ("Redeploy", "Platform"): "AzureScheduledEventRedeploy",
    ("Reboot", "Platform"): "AzureScheduledEventReboot",
    ("Reboot", "User"): "AzureScheduledEventRebootRequested",
    ("Freeze", "Platform"): "AzureScheduledEventFreeze",
}

GROUPS = tuple(f"azure-scheduled-events{name}" for name in ("-memory", "-vms", "", "-lives"))
"""The groups of rules whose alerts are about one event, in their order."""

Span = tuple[int, int]


@dataclass(frozen=True)
class Life:
    """An event as it really is: ``started`` is None if it is called off; a host failure starts when it appears."""

    event_id: str
    event_type: str
    source: str
    vm: int
    announced: int
    not_before: int
    started: int | None
    gone: int

    def status(self, now: int) -> str | None:
        """Return its status, None while it is not in the document."""
        if not self.announced <= now < self.gone:
            return None
        return "Started" if self.started is not None and now >= self.started else "Scheduled"

    @property
    def page(self) -> str:
        """The alert that it deserves."""
        if self.started == self.announced:
            return "AzureScheduledEventWithoutNotice"
        return PAGES[self.event_type, self.source]


@dataclass(frozen=True)
class Watcher:
    """An exporter: its lag behind IMDS, and when it is down, blind, or moved to another address."""

    number: int
    lag: int
    down: tuple[Span, ...] = ()
    blind: tuple[Span, ...] = ()
    replaced: int | None = None
    jobs: tuple[str, ...] = (JOB,)

    def is_up(self, now: int) -> bool:
        """Whether a scrape is answered."""
        return not any(begin <= now < end for begin, end in self.down)

    def sees(self, now: int) -> bool:
        """Whether its last poll was answered."""
        return not any(begin <= now < end for begin, end in self.blind)

    def shows(self, life: Life, now: int) -> str | None:
        """Return the status that a scrape shows, None without one."""
        if not self.is_up(now):
            return None
        since = next((begin for begin, end in self.blind if begin <= now < end), now)
        return life.status(since - self.lag)


@dataclass(frozen=True)
class Fleet:
    """One random fleet; the same seed is the same fleet."""

    seed: int
    watchers: tuple[Watcher, ...] = field(default=())
    lives: tuple[Life, ...] = field(default=())

    def expected(self, life: Life) -> tuple[int, int, int] | None:
        """Return when the page must begin, until when it must stay, and from when on it must be gone.

        None if nobody ever shows the event.
        """
        moments = range(0, HORIZON, STEP)
        shown = [now for now in moments if any(each.shows(life, now) for each in self.watchers)]
        if not shown:
            return None
        knew: set[int] = set()
        ended: list[int] = []
        for now in moments:
            knew |= {each.number for each in self.watchers if each.shows(life, now)}
            answering = [each for each in self.watchers if each.is_up(now) and each.sees(now)]
            denied = any(each.number in knew and not each.shows(life, now) for each in answering)
            if denied and not any(each.shows(life, now) for each in answering):
                ended.append(now)
        forgotten = min(HORIZON, max(shown) + REMEMBERED)
        if not ended:
            return shown[0], forgotten, HORIZON
        last = next(
            (
                now
                for now in ended
                if all(
                    not any(each.is_up(t) and each.sees(t) and each.shows(life, t) for each in self.watchers)
                    for t in range(now, HORIZON, STEP)
                )
            ),
            HORIZON,
        )
        return shown[0], min(forgotten, ended[0]), min(HORIZON, last + RESOLVED_WITHIN)

    def checks(self) -> Iterator[dict[str, object]]:
        """Yield what must fire when, as promtool reads it."""
        return (check for life in self.lives for check in self._of(life))

    def _of(self, life: Life) -> Iterator[dict[str, object]]:
        firing = f'ALERTS{{alertstate="firing",event_id="{life.event_id}"'
        told = 'alertname!~".*(ShortNotice|Overdue|StartedTooLong|NotApproved|VmNotBack)"'
        found = self.expected(life)
        if found is None:
            yield _is(f"count(count_over_time({firing}}}[{HORIZON}s]))", HORIZON, None)
            return
        begin, until, gone = found
        yield _is(f'count(count_over_time({firing},{told},alertname!="{life.page}"}}[{HORIZON}s]))', HORIZON, None)
        first = -(-begin // EVALUATION) * EVALUATION
        last = (until - 1) // EVALUATION * EVALUATION
        if last > first:
            held = f'count_over_time({firing},alertname="{life.page}"}}[{last - first}s])'
            yield _is(f"count({held})", last, 1)
            yield _is(f"min({held})", last, (last - first) // EVALUATION + 1)
        if gone < HORIZON - EVALUATION:
            yield _is(f"count(count_over_time({firing}}}[{HORIZON - gone - EVALUATION}s]))", HORIZON, None)

    def inputs(self) -> Iterator[dict[str, str]]:
        """Yield every series, as promtool reads it."""
        for each in self.watchers:
            for job in each.jobs:
                yield from self._target(
                    each, job, f"10.{self.seed}.0.{each.number}:10169", (0, each.replaced or HORIZON + STEP)
                )
                if each.replaced is not None:
                    yield from self._target(
                        each, job, f"10.{self.seed}.1.{each.number}:10169", (each.replaced, HORIZON + STEP)
                    )

    def _target(self, watcher: Watcher, job: str, instance: str, there: Span) -> Iterator[dict[str, str]]:
        target = {"job": job, "instance": instance}

        def series(name: str, labels: dict[str, str], value: object) -> dict[str, str]:
            every = {name: text for name, text in {**target, **labels}.items() if text}
            text = ",".join(f"{label}={json.dumps(content)}" for label, content in every.items())
            values, present = [], False
            for now in range(0, HORIZON + STEP, STEP):
                current = value(now) if there[0] <= now < there[1] else None  # type: ignore[operator]  # a callable
                values.append(("stale" if present else "_") if current is None else f"{current:g}")
                present = current is not None
            return {"series": f"{name}{{{text}}}", "values": " ".join(values)}

        def up(value: float) -> object:
            return lambda now: value if watcher.is_up(now) else None

        yield series("up", {}, lambda now: int(watcher.is_up(now)))
        yield series(f"{PREFIX}up", {}, lambda now: int(watcher.sees(now)) if watcher.is_up(now) else None)
        place = {"vm_name": f"vm_{watcher.number}", "vm_id": f"id-{self.seed}-{watcher.number}", "scale_set": "vm"}
        yield series(f"{PREFIX}instance_info", place, up(1))
        for life in self.lives:
            scope = "self" if watcher.number == life.vm else "peer"
            key = {"event_id": life.event_id, "event_type": life.event_type, "scope": scope}
            info = {**key, "event_source": life.source, "resources": f"vm_{life.vm}"}
            for status in ("Scheduled", "Started"):
                yield series(
                    f"{PREFIX}event_info",
                    {**info, "event_status": status},
                    lambda now, s=status, e=life: 1 if watcher.shows(e, now) == s else None,
                )
            yield series(
                f"{PREFIX}event_not_before_timestamp_seconds",
                key,
                lambda now, e=life: e.not_before if watcher.shows(e, now) == "Scheduled" else None,
            )
            warned = life.started != life.announced
            yield series(
                f"{PREFIX}event_announced",
                key,
                lambda now, e=life, w=warned: int(w) if watcher.shows(e, now) else None,
            )


@dataclass(frozen=True)
class Fleets:
    """Several fleets that one Prometheus watches at the same time, which costs little more than one of them."""

    fleets: tuple[Fleet, ...]
    evaluation: int = EVALUATION

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""
        return {
            "name": f"fleets {', '.join(str(each.seed) for each in self.fleets)}",
            "interval": f"{STEP}s",
            "input_series": [series for each in self.fleets for series in each.inputs()],
            "promql_expr_test": [check for each in self.fleets for check in each.checks()],
        }


def _is(expression: str, at: int, value: float | None) -> dict[str, object]:
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    return {"expr": expression, "eval_time": f"{at}s", "exp_samples": samples}


def fleet(seed: int) -> Fleet:
    """Return the random fleet of ``seed``; its events are called E<seed>-0 and so on."""
    chance = random.Random(seed)
    size = chance.randint(1, 5)
    lives = tuple(_life(chance, f"E{seed}-{number}", size) for number in range(chance.randint(1, 2)))
    return Fleet(seed, tuple(_watcher(chance, number, lives) for number in range(size)), lives)


def _life(chance: random.Random, event_id: str, size: int) -> Life:
    event_type, source = chance.choice(list(PAGES))
    announced = chance.randrange(30, 300, STEP)
    notice = chance.randrange(30, 600, STEP)
    way = chance.choice(("usual", "usual", "early", "called off", "no notice"))
    if way == "no notice" and event_type in {"Reboot", "Redeploy"} and source == "Platform":
        notice = 0
    begins = announced + (notice // 2 // STEP * STEP if way == "early" else notice)
    gone = begins + chance.randrange(60, 400, STEP)
    started: int | None = begins
    if way == "called off":
        started, gone = None, max(announced + STEP, announced + notice // 2)
    return Life(event_id, event_type, source, chance.randrange(size), announced, announced + notice, started, gone)


def _watcher(chance: random.Random, number: int, lives: tuple[Life, ...]) -> Watcher:
    """A VM goes away with an event of its own as often as not; it stays away for minutes."""
    down = [(begin, begin + chance.choice((5, 5, 10, 60))) for begin in _moments(chance, 2)]
    down += [
        (life.started + STEP, life.started + STEP * chance.randint(4, 120))
        for life in lives
        if life.vm == number and life.started is not None and life.event_type != "Freeze" and chance.random() < 0.6
    ]
    blind = [(begin, begin + chance.choice((5, 60, 300, HORIZON))) for begin in _moments(chance, 1)]
    replaced = next(iter(_moments(chance, 1)), None) if chance.random() < 0.3 else None
    jobs = (JOB, f"{JOB}-again") if chance.random() < 0.2 else (JOB,)
    return Watcher(number, chance.choice((0, 0, 5)), tuple(down), tuple(blind), replaced, jobs)


def _moments(chance: random.Random, most: int) -> list[int]:
    return [chance.randrange(0, 900, STEP) for _ in range(chance.randint(0, most))]
