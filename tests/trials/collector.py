"""A collector that fails in every way, with kills in between: every span arrives that it does not refuse for good."""

from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle
from azure_scheduled_events_exporter.core.spans import ROOT, span_id
from azure_scheduled_events_exporter.journal.files import read_only
from azure_scheduled_events_exporter.simulator import Simulator
from support.monitoring.collector import ACCEPT, HANG, Collector, Received, Reply, Told
from support.programs import Exporter, eventually
from trials.trial import POLL, Crew, Order, Row, Watch, passes

SCENARIOS = ("rollout", "live-migration", "user-reboot", "host-failure", "cancelled", "double-impact")
SPEED = 300.0
HOUR = 3600.0
_VM = "vmss_0"
BROKEN = Reply(breaks=True)
LATER = (Reply(429), Reply(429, {"Retry-After": "1"}), Reply(502), Reply(503), Reply(504), HANG, BROKEN)
NEVER = (Reply(302, {"Location": "/"}), Reply(400), Reply(404), Reply(500))
PARTIAL = Reply(rejected=1)


@dataclass(frozen=True)
class Sums:
    """Spans by what became of them in some requests."""

    accepted: int
    refused: int


def expected(life: Lifecycle) -> dict[str, str]:
    """Return the spans that a life has that is over, each as what to say of it under its id."""
    names = {"detected", ROOT, "scheduled"}
    if life.started_at is not None:
        names.add("started")
        if life.started_at == life.first_seen:
            names.discard("scheduled")
    if life.approved_by is not None and (life.approved_by is not Approver.DEADLINE or life.started_at is not None):
        names.add("approval")
    return {span_id(life.event_id, _VM, name): f"{name} of {life}" for name in names}


def sums(requests: Iterable[Received]) -> Sums:
    """Return what the exporter has to count after these requests."""
    accepted = refused = 0
    for request in requests:
        reply, count = request.reply, len(request.spans)
        if reply in NEVER:
            refused += count
        elif reply not in LATER:
            refused += min(count, reply.rejected)
            accepted += count - min(count, reply.rejected)
    return Sums(accepted, refused)


@dataclass
class Trial:
    """An exporter that is killed again and again, and a collector in changing moods."""

    order: Order
    crew: Crew
    simulator: Simulator
    collector: Collector
    journal: Path
    kills: int = 0

    def starts(self) -> Exporter:
        """Start it (again)."""
        flags = ("--tracing.scope", "all", "--instance.name", _VM, "--journal.path", str(self.journal))
        env = {"OTEL_EXPORTER_OTLP_TIMEOUT": "5"}
        return self.crew.start(self.simulator.url, *POLL, *flags, "--otlp.endpoint", self.collector.url, **env)

    def mood(self) -> None:
        """Let the collector be of some mood for a moment."""
        chance = self.order.chance
        if chance.random() < 0.2:
            self.collector.stop()
            passes(chance.uniform(0.2, 2))
            self.collector.start()
        replies = chance.choices((*LATER, *LATER, *NEVER, PARTIAL, *[ACCEPT] * 8), k=chance.randrange(1, 4))
        self.collector.answer(*replies)
        passes(chance.uniform(0.2, 1.5))

    def goes_away(self, seconds: float) -> None:
        """Let the collector be away, with a kill in the middle, and come back."""
        self.collector.stop()
        exporter = self.starts()
        passes(seconds / 2)
        exporter.kill()
        self.kills += 1
        exporter = self.starts()
        passes(seconds / 2)
        waiting = exporter.shows("spans that wait", lambda now: now.value("spans_queued"))
        self.collector.answer(ACCEPT)
        self.collector.start()
        all_sent(exporter)
        self.order.say(f"away for {seconds:.0f} s: {waiting:.0f} spans waited")
        exporter.kill()
        self.kills += 1


def all_sent(exporter: Exporter) -> None:
    """Wait until the collector has what the exporter shows to have happened: spans are counted at the end of a poll."""
    polls = exporter.scrape().total("polls_total")
    exporter.shows("none waits", lambda now: now.total("polls_total") > polls and now.value("spans_queued") == 0)


def counts_right(trial: Trial) -> Exporter:
    """Run one process with every answer of a collector once, and compare its counters; return them."""
    begun = len(trial.collector.received)
    trial.collector.answer(*LATER, *NEVER, PARTIAL, ACCEPT)
    exporter = trial.starts()
    with Watch(exporter):
        eventually(lambda: any(each.reply == ACCEPT for each in trial.collector.received[begun:]), "all answers given")
    trial.simulator.play("cancelled", 0.01)  # nothing happens any more
    polls = exporter.scrape().total("polls_total")  # one that is under way may still have shown an event
    exporter.shows("two polls", lambda now: now.total("polls_total") > polls + 1)
    exporter.shows("no event", lambda now: now.value("up") == 1 and not now.series("event_info"))
    all_sent(exporter)
    wanted = sums(trial.collector.received[begun:])
    assert wanted.refused > len(NEVER)
    exporter.shows(
        f"{wanted}",
        lambda now: (
            now.value("spans_total", outcome="exported") == wanted.accepted
            and now.value("spans_total", outcome="failed") == wanted.refused
        ),
    )
    return exporter


def check(trial: Trial) -> tuple[int, int, int]:
    """Every span has arrived or was refused for good; return how many of each, and how many came twice."""
    with closing(read_only(trial.journal)) as store:
        due = {one: said for life in store.history() for one, said in expected(life).items()}
        assert not list(store.current())
    arrived: dict[str, Told] = {}
    refused: set[str] = set()
    again = 0
    for request in trial.collector.received:
        if request.reply in NEVER or request.reply == PARTIAL:
            refused |= {span.span_id for span in request.spans}
        for span in request.spans if request.reply == ACCEPT else ():
            before = arrived.setdefault(span.span_id, span)
            again += before is not span
            same = (before.trace_id, before.name, before.start, before.end) == (
                *(span.trace_id, span.name, span.start, span.end),
            )
            assert same, f"one id, two spans: {before} {span}"
            assert span.start <= span.end
    missing = due.keys() - arrived.keys() - refused
    assert not missing, f"{len(missing)} of {len(due)} spans never arrived: {'; '.join(due[one] for one in missing)}"
    assert arrived.keys() <= due.keys(), "spans that nobody made"
    return len(arrived), len(refused - arrived.keys()), again


def run(order: Order) -> Row:
    """Let the collector fail in turns, be away for an hour of the simulator's, and answer everything once."""
    lives = order.pick(60, 3)
    speed = order.pick(60.0, 600.0)
    with (
        Simulator(SCENARIOS, speed=SPEED, loop=True) as simulator,
        Collector() as collector,
        Crew(order.folder) as crew,
    ):
        trial = Trial(order, crew, simulator, collector, order.folder / "state")
        for number in range(lives):
            exporter = trial.starts()
            trial.mood()
            exporter.kill()
            trial.kills += 1
            if (number + 1) % 10 == 0:
                order.say(f"{trial.kills} kills, {len(collector.received)} requests")
        simulator.play(SCENARIOS, speed, loop=True)
        trial.goes_away(HOUR / speed)
        simulator.play(SCENARIOS, SPEED, loop=True)
        exporter = counts_right(trial)
        exporter.kill()
        with suppress(OSError):
            collector.stop()
        arrived, refused, again = check(trial)
    return Row(
        "collector",
        f"{len(collector.received)} requests to a collector that refuses connections, answers 302, 400, 404, 429, 500, "
        f"502, 503, 504, hangs, accepts in part, breaks off in mid answer, and is away for an hour of the simulator's; "
        f"{trial.kills} SIGKILLs, seed {order.seed}",
        f"{arrived} spans arrived, {refused} were refused for good and counted `failed`, 0 lost; {again} came again "
        "with the same id and content",
    )
