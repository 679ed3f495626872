"""The counters of TCP that the kernel has, by which the exporter measures what an event did to
connections: before it, and since it began.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.polling.kernel import NETWORK, Kernel, tcp_counter

SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoMin MaxConn RetransSegs InErrs
Tcp: 200 -1 {} 0
"""
NETSTAT = """TcpExt: SyncookiesSent TCPTimeouts
TcpExt: 0 {}
IpExt: InOctets
IpExt: 5
"""


@dataclass
class Network:
    """A folder as /proc/net, and a clock."""

    folder: Path
    seconds: float = 0.0

    def write_counters(self, retransmitted: int, timeouts: int) -> None:
        """Write the counters: so many retransmitted segments and timeouts since the boot."""
        (self.folder / "snmp").write_text(SNMP.format(retransmitted))
        (self.folder / "netstat").write_text(NETSTAT.format(timeouts))

    def now(self) -> Timestamp:
        """Return this moment."""
        return Timestamp(1000.0 + self.seconds, self.seconds, "boot")


@pytest.fixture
def network(tmp_path: Path) -> Network:
    """Counters at 0."""
    found = Network(tmp_path)
    found.write_counters(0, 0)
    return found


def test_the_minute_before(network: Network) -> None:
    """A look returns three readings of the counters: of now, of the previous look, and of a minute
    before the previous look.

    ``is_changed`` says that the document has changed. Without a change, the counters are read only
    every 5 s.
    """
    kernel = Kernel(network.now, network.folder)
    for second in range(91):
        network.seconds = second
        network.write_counters(second, second * 2)
        counted = kernel.look(is_changed=True)
    assert counted is not None
    assert counted.last is not None
    assert counted.minute_ago is not None
    # Each second counted 1 segment and 2 timeouts, so the counters tell when they were read: the
    # last look was in second 90.
    readings = (counted.now, counted.last, counted.minute_ago)
    assert [(each.retransmitted, each.timeouts) for each in readings] == [
        (90, 2 * 90),
        (89, 2 * 89),
        (89 - 60, 2 * (89 - 60)),
    ]


def test_counters_are_read_every_five_seconds(network: Network) -> None:
    """While the document does not change, the counters are read every 5 s. So there is a reading of
    a minute before an event, too, although nothing has announced it.
    """
    kernel = Kernel(network.now, network.folder)
    read_at = []
    for second in range(121):
        network.seconds = second
        if kernel.look(is_changed=False) is not None:
            read_at.append(second)
    assert read_at == [*range(0, 121, 5)]
    counted = kernel.look(is_changed=True)
    assert counted is not None
    assert counted.minute_ago is not None
    assert counted.minute_ago.at.monotonic == 120 - 60


def test_no_such_files(tmp_path: Path) -> None:
    """Where the kernel has no such files, nothing is known, and nothing fails."""
    counted = Kernel(Network(tmp_path).now, tmp_path).look(is_changed=True)
    assert counted is not None
    assert (counted.now.retransmitted, counted.now.timeouts) == (None, None)


@pytest.mark.parametrize(
    "text", [b"", b"Tcp: RetransSegs\n", b"Tcp: A\nTcp: 1\n", b"Tcp: RetransSegs\nTcp: x\n"]
)
def test_a_counter_that_is_not_there(text: bytes) -> None:
    """A text without the counter, or cut off, has none."""
    assert tcp_counter(text, b"Tcp", b"RetransSegs") is None


@pytest.mark.skipif(not NETWORK.exists(), reason="no Linux")
def test_this_machine() -> None:
    """The files of this machine's kernel have both counters, under the names that are read."""
    counted = Kernel(lambda: Timestamp(0.0)).look(is_changed=True)
    assert counted is not None
    assert counted.now.retransmitted is not None
    assert counted.now.timeouts is not None
