"""Several VMs push the alert of one event to one Alertmanager, in time that is only counted.

What they must cause is one page and one resolve, whatever a VM sees of the event, and whenever Alertmanager is away.
The Alertmanager here keeps what Alertmanager keeps of an alert: until when it fires, and when it was posted last.
"""

import logging
from dataclasses import dataclass, field, replace
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.alertmanager.event_alert import EventAlert, Identity
from azure_scheduled_events_exporter.alertmanager.outbox import NOT_ACTIVE
from azure_scheduled_events_exporter.alertmanager.push import AlertPush
from azure_scheduled_events_exporter.alertmanager.pushes import PushOutcome
from azure_scheduled_events_exporter.alertmanager.scrapes import Scrapes
from azure_scheduled_events_exporter.alertmanager.sender import AlertmanagerClient, Posted, PushResult
from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State, Transition
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.service.alert_push import check

EPOCH = 1_700_000_000.0
STEP = 0.25
ANNOUNCED = 5.0
CATALOG = check(resolve({}, {}))
NAMES = ("vmss_0", "vmss_1", "vmss_2", "vmss_3")


@dataclass
class Alertmanager:
    """Alertmanager at ``now`` (seconds), away from ``from_`` to ``until``, and empty afterwards if it ``restarts``."""

    from_: float
    until: float
    restarts: bool
    now: float = 0.0
    alerts: dict[Identity, tuple[float, float]] = field(default_factory=dict)
    notified: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def is_away(self) -> bool:
        """Whether it does not answer."""
        return self.from_ <= self.now < self.until

    def step(self) -> None:
        """Lose the alerts by a restart, and notify of an alert that has reached its end."""
        if self.restarts and self.is_away:
            self.alerts.clear()
        for ends_at, _ in self.alerts.values():
            self._notify(is_firing=ends_at > self.now)

    def take(self, posted: Posted, offset: float) -> None:
        """Take a posted alert, and notify of it if that changes it."""
        ends_at = posted.ends_at + offset - EPOCH
        self.alerts[posted.alert.identity] = (ends_at, self.now)
        self._notify(is_firing=ends_at > self.now)

    def _notify(self, *, is_firing: bool) -> None:
        if is_firing != bool(self.notified and self.notified[-1][1]):
            self.notified.append((self.now, is_firing))


@dataclass
class Vm:
    """A VM that sees the event until ``ends_at``, and does not reach IMDS from ``blind_from`` to ``blind_until``.

    Its wall clock is ``clock_ahead`` until it is ``set_at``.
    """

    name: str
    alertmanager: Alertmanager
    ends_at: float
    blind_from: float
    blind_until: float
    clock_ahead: float
    set_at: float
    due_at: float = 0.0
    life: Lifecycle | None = None

    def __post_init__(self) -> None:
        client = cast("AlertmanagerClient", self)
        self.push_ = AlertPush([client], CATALOG, {}, Scrapes(), lambda _: None, self.clock, logging.getLogger())
        self.push_.sees = lambda: not self.is_blind
        self.push_.update({}, (), ())

    @property
    def is_blind(self) -> bool:
        """Whether it does not reach IMDS."""
        return self.blind_from <= self.alertmanager.now < self.blind_until

    @property
    def ahead(self) -> float:
        """How far its wall clock is ahead."""
        return self.clock_ahead if self.alertmanager.now < self.set_at else 0.0

    def clock(self) -> Timestamp:
        """Return what its clocks say."""
        return Timestamp(EPOCH + self.alertmanager.now + self.ahead, self.alertmanager.now, "boot")

    def step(self) -> None:
        """Poll, and deliver what is due."""
        if not self.is_blind:
            self._poll()
        if self.alertmanager.now >= self.due_at:
            self.due_at = self.alertmanager.now + self.push_.workers[0].deliver()

    def _poll(self) -> None:
        is_shown = ANNOUNCED <= self.alertmanager.now < self.ends_at
        if is_shown and self.life is None:
            event = ScheduledEvent("E", "Reboot", "Scheduled", "Platform", NAMES)
            self.life = Lifecycle(event, State.SCHEDULED, Scope.SELF, self.clock(), own_name=self.name)
            self.push_.update({"E": self.life}, (), {"E"})
            self.due_at = 0.0
        elif not is_shown and self.life is not None and self.life.ended_at is None:
            self.life = replace(self.life, outcome=Transition.CANCELLED, ended_at=self.clock())
            self.push_.update({}, (self.life,), ())
            self.due_at = 0.0

    # What a client of Alertmanager does.

    def push(self, alerts: list[Posted], offset: float) -> PushResult:
        """Post ``alerts``."""
        if self.alertmanager.is_away:
            return PushResult(PushOutcome.ERROR, "away")
        for posted in alerts:
            self.alertmanager.take(posted, offset)
        return PushResult(PushOutcome.ACCEPTED, clock_offset=-self.ahead)

    def posted_at(self, alert: EventAlert) -> float | None:
        """Return when the alert was posted last."""
        if self.alertmanager.is_away:
            return None
        ends_at, posted_at = self.alertmanager.alerts.get(alert.identity, (0.0, 0.0))
        return EPOCH + posted_at if ends_at > self.alertmanager.now else NOT_ACTIVE

    def shows(self, alert: EventAlert, _seconds: float | None = None) -> bool | None:
        """Return whether the alert is active."""
        answer = self.posted_at(alert)
        return None if answer is None else answer != NOT_ACTIVE

    shown = "alertmanager"
    config_error = ""


@settings(max_examples=150)
@given(
    others=st.lists(
        st.tuples(
            st.floats(10, 200),
            st.floats(0, 190),
            st.sampled_from((0.0, 20.0, 60.0, 300.0)),
            st.sampled_from((0.0, -4000.0, 90.0)),
            st.sampled_from((3.0, 40.0, 203.0, 1000.0)),
        ),
        max_size=3,
    ),
    away_from=st.sampled_from((0.0, 4.0, 30.0, 100.0, 190.0, 201.0, 215.0)),
    away_for=st.sampled_from((0.0, 3.0, 20.0, 70.0)),
    restarts=st.booleans(),
)
def test_one_page_and_one_resolve(
    others: list[tuple[float, float, float, float, float]], away_from: float, away_for: float, *, restarts: bool
) -> None:
    """While one VM sees the event, its page stays open; then it is resolved, within 100 s after the last obstacle."""
    over = 200.0
    alertmanager = Alertmanager(away_from, away_from + away_for, restarts)
    vms = [Vm(NAMES[0], alertmanager, over, 0.0, 0.0, 0.0, 0.0)]
    for name, (ends_at, blind_from, blind_for, ahead, set_at) in zip(NAMES[1:], others, strict=False):
        vms.append(Vm(name, alertmanager, ends_at, blind_from, blind_from + blind_for, ahead, set_at))
    while alertmanager.now < 420.0:
        alertmanager.step()
        for vm in vms:
            vm.step()
        alertmanager.now += STEP
    (paged_at, is_firing), (resolved_at, _) = alertmanager.notified
    assert is_firing
    reachable = alertmanager.until if alertmanager.from_ <= ANNOUNCED < alertmanager.until else 0.0
    assert paged_at <= max(ANNOUNCED, reachable) + 16.0
    assert over <= resolved_at <= max(over, alertmanager.until) + 100.0
