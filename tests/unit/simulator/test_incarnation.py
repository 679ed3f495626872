"""DocumentIncarnation against the events, for any story and any moments of looking."""

from hypothesis import given
from hypothesis import strategies as st

from azure_scheduled_events_exporter.simulator.scenario import PlannedEvent, Scenario, Starts, VirtualMachine
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage

TENTHS = st.integers(0, 3000).map(lambda tenths: tenths / 10)


@st.composite
def planned(draw: st.DrawFn) -> PlannedEvent:
    """Any possible event, as a file may say it."""
    kind = draw(st.sampled_from(["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"]))
    announced_at, notice = draw(TENTHS), draw(TENTHS)
    starts = draw(st.sampled_from(list(Starts)))
    cancelled_at = announced_at + notice / 2 if starts is not Starts.AT_ONCE and draw(st.booleans()) else None
    if starts is Starts.NEVER or (cancelled_at is not None and not notice):
        starts, cancelled_at = Starts.NEVER, announced_at + notice + 1
    return PlannedEvent(
        kind,
        ("vm_0",),
        announced_at=announced_at,
        notice=notice,
        starts=starts,
        started_for=draw(TENTHS),
        approval_delay=draw(st.sampled_from([0.0, 5.0])),
        cancelled_at=cancelled_at,
    )


STAGES = st.builds(
    lambda events, loop, speed: Stage(
        Playlist((Scenario("any", "", (VirtualMachine("vm_0"),), tuple(events)),), speed, loop), at=0, seed="s"
    ),
    st.lists(planned(), max_size=4),
    st.booleans(),
    st.sampled_from([1.0, 7.0]),
)
ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 400).map(lambda tenths: tenths / 10),
        st.sampled_from(["look", "approve", "place", "clear", "play"]),
    ),
    max_size=30,
)


@given(STAGES, ACTIONS)
def test_incarnation_changes_exactly_when_the_events_change(played: Stage, actions: list[tuple[float, str]]) -> None:
    """Between any two looks the incarnation is the same if nothing changed, and never the same if the events differ."""
    now, shown = 0.0, {played.incarnation: played.events}
    highest = played.incarnation
    for wait, action in actions:
        now += wait
        changes = len(played.record)
        before = (played.incarnation, played.events)
        played.advance(now)
        if len(played.record) == changes:
            assert (played.incarnation, played.events) == before
        act(played, action, now)
        assert shown.setdefault(played.incarnation, played.events) == played.events
        assert played.incarnation >= highest
        highest = played.incarnation


def act(played: Stage, action: str, now: float) -> None:
    """Do what a client or a tester might do at that moment."""
    if action == "approve" and played.events:
        played.approve(str(played.events[0]["EventId"]), "vm_0", now)
    elif action == "place":
        played.place([{"EventId": "A", "EventType": "Freeze"}], now)
    elif action == "clear":
        played.place(None, now)
    elif action == "play":
        played.play(played.playlist, now)
