"""The rules on Prometheus, with Alertmanager: each event is one notification and one resolve.

The same story on VictoriaMetrics is a trial: ``tests/trials/monitoring/test_victoria.py``.
"""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from support.monitoring.paging import Stack
from support.monitoring.stand_in import StandIn, imds_time
from support.monitoring.victoria import VictoriaStack
from support.programs import eventually

FAST = {
    "scrape.interval": "1s",
    "evaluation.interval": "1s",
    "group.wait": "0s",
    "group.interval": "1s",
}
ALERT_SECONDS = 90
"""How long a notification may take on a busy machine."""
AWAY = 25
"""Scrapes that fail while a VM is away: more than an engine takes to read its recordings back."""


class Play:
    """Five VMs and a chain from the engine to the receivers behind them."""

    def __init__(self, engine: str, folder: Path, stack: ExitStack) -> None:
        self.vms = [stack.enter_context(StandIn(f"vm_{number}")) for number in range(5)]
        for vm in self.vms:
            vm.show()
        targets = [vm.target for vm in self.vms]
        self.chain: Stack | VictoriaStack
        if engine == "prometheus":
            self.chain = stack.enter_context(Stack(folder, FAST, targets))
        else:
            self.chain = stack.enter_context(VictoriaStack(folder, FAST, targets))
        self.url = self.chain.prometheus.url if isinstance(self.chain, Stack) else self.chain.url
        self.expected: Counter[tuple[str, str, str]] = Counter()

    def expect(self, status: str, *alerts: str) -> None:
        """Wait until all notifications have come that were expected before, and one for each of
        ``alerts``, such as ``Reboot critical``.
        """
        for alert in alerts:
            name, severity = alert.split()
            self.expected[f"AzureScheduledEvent{name}", severity, status] += 1
        self.chain.receiver.wait_for(list(self.expected.elements()), ALERT_SECONDS)

    def notifications(self) -> Counter[tuple[str, str, str]]:
        """Return how often each notification came: alert, severity and status."""
        receiver = self.chain.receiver
        return Counter([*receiver.notified("/pager"), *receiver.notified("/tickets")])

    def wait_while_away(self, vm: StandIn) -> None:
        """Wait until AWAY scrapes of ``vm`` have failed."""
        failed = f'count_over_time((up{{instance="{vm.target}"}} == 0)[10m:1s])'
        eventually(
            lambda: [value for _, value in self.chain_query(failed) if value >= AWAY],
            "it is away",
            ALERT_SECONDS,
        )

    def chain_query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Ask the engine's store."""
        chain = self.chain
        return (
            chain.prometheus.query(expression)
            if isinstance(chain, Stack)
            else chain.query(expression)
        )


def test_one_notification_an_event(tmp_path: Path) -> None:
    """VMs that go away, an end that a blind peer misses, an event that comes near and returns: no
    page too many.
    """
    with ExitStack() as stack:
        follow_events(Play("prometheus", tmp_path, stack))


def follow_events(play: Play) -> None:
    """Play events on five VMs, and check every notification.

    ``show`` takes what the exporter of a VM exposes: of a current event its id, its type and its
    kind, and of one that is over its id and when it ended.

    ``evicted`` and ``rebooted`` go away with their events. ``called_off`` and ``blind`` have the
    same Freeze, which is called off; ``blind`` has no answer of IMDS (``up=0``), so it misses that.
    The event of ``moved`` is far ahead at first, comes near, ends, and returns.
    """
    evicted, rebooted, called_off, blind, moved = play.vms
    evicted.show("P Preempt announced")
    rebooted.show("R Reboot announced")
    called_off.show("C Freeze announced")
    blind.show("C Freeze announced", up=0)
    moved.show("D Redeploy far_ahead")
    play.expect(
        "firing", "Preempt warning", "Reboot critical", "Freeze warning", "DegradedHost warning"
    )
    evicted.go_away()
    rebooted.go_away()
    called_off.show(f"C ended {imds_time()}")
    moved.show("D Redeploy announced")
    play.expect("firing", "Redeploy critical")
    play.expect("resolved", "Freeze warning", "DegradedHost warning")
    play.wait_while_away(rebooted)
    assert play.notifications() == play.expected, "alerts about VMs that are away are not resolved"
    now = imds_time()
    # The evicted VM is gone for good: the one that came back tells how both events ended.
    rebooted.show(f"R ended {now}", f"P ended {now}")
    moved.show(f"D ended {now}")
    play.expect("resolved", "Preempt warning", "Reboot critical", "Redeploy critical")
    moved.show("D Redeploy announced")
    play.expect("firing", "Redeploy critical")
    moved.show(f"D ended {imds_time()}")
    play.expect("resolved", "Redeploy critical")
    assert play.notifications() == play.expected
