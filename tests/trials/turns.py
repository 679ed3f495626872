"""Two VMs with ``documented-all``, and the exporter of the one that a User event is about has ended: who approves when.

In real time, so the other VM's turn takes one to two minutes; its short form has a policy whose turns are seconds.
"""

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine, What
from support.programs import PATIENCE, Exporter, Scrape, eventually
from trials.trial import POLL, Crew, Order, Row, polls_on

NAMES = ("vmss_0", "vmss_2")
VMS = tuple(VirtualMachine(name, scale_set="vmss") for name in NAMES)
QUIET = Scenario("quiet", "Nothing happens by itself.", VMS, ())
SHORT = """\
rules:
  - {name: all, match: {event_source: User, scope: [self, peer]}, action: approve, leader_only: true, takeover: 10s}
"""
LONGEST_TURN_SECONDS = 120.0
BUSY_SECONDS = 15.0  # by which a busy machine may come late


def user_event(order: Order) -> Scenario:
    """Return a User event of the first VM; it begins before the other VM has its turn."""
    delay, lasting = order.pick(20.0, 0.5), order.pick(10.0, 5.0)
    requested = PlannedEvent(
        "Reboot", NAMES[:1], source="User", announced_at=0.0, approval_delay=delay, started_for=lasting
    )
    return Scenario("requested", "Somebody restarts the first VM.", VMS, (requested,))


def seen_and_due(scrape: Scrape) -> tuple[float, float] | None:
    """Return when the exporter first saw the event that another VM may approve, and when its own turn is."""
    seen = scrape.value("event_first_seen_timestamp_seconds")
    due = scrape.value("event_approval_due_timestamp_seconds")
    return (seen, due) if seen and due and scrape.total("pending", scope="peer") == 1 else None


def posts(simulator: Simulator) -> list[tuple[str, float]]:
    """Return which VM sent an approval, and when."""
    return [(seen.vm, seen.at) for seen in simulator.requests if seen.method == "POST"]


def ends(exporter: Exporter, count: int) -> None:
    """Wait until so many events are over."""
    eventually(lambda: exporter.scrape().transitions().get("completed") == count, "the end", 2 * PATIENCE)


def run(order: Order) -> Row:
    """Let the first VM approve an event of its own, end its exporter, and see who approves the next one."""
    policy = "documented-all"
    if order.short:
        order.folder.joinpath("policy.yaml").write_text(SHORT)
        policy = str(order.folder / "policy.yaml")
    with Simulator(QUIET) as simulator, Crew(order.folder) as crew:
        first, second = (
            crew.start(simulator.vm_url(name), *POLL, "--instance.name", name, "--approval.policy", policy)
            for name in NAMES
        )
        for exporter in (first, second):
            exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
        simulator.play(user_event(order))
        ends(second, 1)
        assert [vm for vm, _ in posts(simulator)] == [NAMES[0]], "a VM approves its own event, and nobody else does"
        first.kill()
        order.say("the first exporter has ended")
        simulator.play(user_event(order))
        found = second.shows("the event", seen_and_due)
        assert found
        seen, due = found
        turn = due - seen
        eventually(lambda: len(posts(simulator)) == 2, "the approval", LONGEST_TURN_SECONDS + BUSY_SECONDS)
        _, (vm, at) = posts(simulator)
        assert vm == NAMES[1]
        assert turn - 1 <= at - seen <= turn + BUSY_SECONDS, (turn, at - seen)
        polls_on(second, 3)
        ends(second, 2)
        sent = len(posts(simulator)) - 1
        assert sent == 1, "one POST is enough"
        assert [each.vm for each in simulator.record if each.what is What.APPROVED] == list(NAMES)
    return Row(
        "turns",
        f"two exporters with {'turns of 10 s' if order.short else '`documented-all`'}, the first SIGKILLed, then a "
        "User event of the first VM",
        f"before, the first approved its own event with one POST; then the second approved after {at - seen:.1f} s, in "
        f"its turn of {turn:.1f} s, with {sent} POST",
    )
