"""What one real exporter has served, as a pattern from which the exporters of a fleet are made.

``benchmarks.expositions`` captures it. Imports nothing but Python's library, as the fleet's server,
so that its process stays small.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Names in the captured expositions, which are replaced for each VM of the fleet. Two exporters were
# captured: that of the VM that the event names, and that of a neighbor that sees the event, too.
TARGET = "captured-target"
NEIGHBOR = "captured-neighbor"
SCALE_SET = "captured-set"
EVENT_ID = "0CA97C0E-AB1E-4D00-9E1D-CA97C0E0CA97"

_PREFIX = "azure_scheduled_events_"
# The beginnings of the names of metrics whose series differ from VM to VM.
_OWN = tuple(
    f"{_PREFIX}{name}"
    for name in ("instance_info", "host_info", "event_", "vm_impact_", "peer_impact_")
)
_EVENT_TIMES = {
    "event_first_seen": "first_seen",
    "event_seen": "seen",
    "event_not_before": "not_before",
    "event_seconds_until_not_before": "seconds_left",
    "event_started": "started",
    "event_ended": "ended",
    "event_impact": "impact",
    "vm_impact": "impact",
    "peer_impact": "impact",
}
"""Metrics whose values are moments of an event, or the seconds until one.

Each has the key of its value in the argument of :meth:`Exposition.own`. Metrics of moments have the
suffix ``_timestamp_seconds``, which is left out here.
"""
# The beginnings of the names of metrics that each poll makes larger.
_COUNTERS = (f"{_PREFIX}poll_duration_seconds", f"{_PREFIX}polls_total")
_POLL_CPU_SECONDS = 0.0016
# A line of one of these: its series and its value.
_POLLS = re.compile(rf"^({_PREFIX}poll(?:s_total|_duration_seconds)\S*) (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a line is served, and when its exporter was started; both in Unix seconds."""

    now: float
    started: float

    @property
    def polls(self) -> int:
        """How many polls an exporter has made, one a second."""
        return int(self.now - self.started)


@dataclass(frozen=True, slots=True)
class Counter:
    """A series that each poll makes larger by the same amount."""

    series: str
    step: float

    def line(self, moment: Moment) -> str:
        """Return its line at a moment."""
        value = float(round(self.step * moment.polls, 1))
        return f"{self.series} {value}"


@dataclass(frozen=True, slots=True)
class Clock:
    """A series whose value is the time of the last poll."""

    series: str

    def line(self, moment: Moment) -> str:
        """Return its line at a moment."""
        return f"{self.series} {moment.now:.3f}"


@dataclass(frozen=True, slots=True)
class Start:
    """A series whose value is the time at which the exporter was started."""

    series: str

    def line(self, moment: Moment) -> str:
        """Return its line at a moment."""
        return f"{self.series} {moment.started:.2f}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A line that is always the same."""

    text: str

    def line(self, _: Moment) -> str:
        """Return the line."""
        return self.text


Line = Counter | Clock | Start | Fixed


class Exposition:
    """What one real exporter served, as a pattern: a part for all VMs, and one for each VM.

    A scrape gets both parts one after another, each a member of a gzip stream: so the part for all
    VMs is compressed only once a second.
    """

    def __init__(self, text: str) -> None:
        polls_line = re.search(rf'^{_PREFIX}polls_total{{outcome="ok"}} (\S+)', text, re.MULTILINE)
        assert polls_line is not None
        polls = float(polls_line[1])
        self._common: list[Line] = []
        own = []
        for line in text.splitlines():
            name = _name_of(line)
            if name.startswith(_OWN):
                own.append(line)
            else:
                self._common.append(_line_of(line, name, polls))
        self._own = _pattern(_text(own))
        self._rendered = b""  # the part for all VMs, compressed
        self._rendered_at = 0  # the second for which it was rendered

    def common(self, moment: Moment) -> bytes:
        """Return what is the same for all VMs, compressed; new once a second."""
        second = int(moment.now)
        if second != self._rendered_at:
            lines = [each.line(moment) for each in self._common]
            self._rendered = _gzip(_text(lines))
            self._rendered_at = second
        return self._rendered

    def own(self, values: Mapping[str, object]) -> bytes:
        """Return what is the VM's own, compressed.

        ``values`` has what stands in the placeholders of the pattern: ``vm`` (the VM's name),
        ``vm_id``, ``scale_set`` and ``zone``; ``target``, the name of the VM that the event names,
        or of the VM itself if there is no event; ``event_id``; and the values of ``_EVENT_TIMES``.
        """
        return _gzip(self._own % values)


def with_polls_of(text: str, other: str) -> str:
    """Return the exposition ``text`` with the counts of polls of ``other``.

    When an event of a VM begins or ends, the VM gets another exposition. If all expositions have
    the same counts, each poll adds the same to all, so that no counter of a VM ever falls.
    """
    polls = dict(_POLLS.findall(other))
    return _POLLS.sub(lambda found: f"{found[1]} {polls[found[1]]}", text)


def _name_of(line: str) -> str:
    """Return the name of the metric that a line of an exposition is about."""
    if line.startswith("#"):
        return line.split(" ")[2]
    return re.split(r"[{ ]", line)[0]


def _pattern(text: str) -> str:
    """Return lines of one VM as a format of ``%``, in which values of any VM can be put."""
    pattern = text.replace("%", "%%")
    # These values are replaced in whatever label they are.
    for captured, key in (
        (TARGET, "target"),
        (NEIGHBOR, "vm"),
        (SCALE_SET, "scale_set"),
        (EVENT_ID, "event_id"),
    ):
        pattern = pattern.replace(f'="{captured}"', f'="%({key})s"')
    for label in ("vm_id", "zone"):
        pattern = re.sub(rf'\b{label}="[^"]+"', f'{label}="%({label})s"', pattern)
    for name, key in _EVENT_TIMES.items():
        line = rf"(?m)^({_PREFIX}{name}(?:_timestamp_seconds)?{{.*}}) .*$"
        pattern = re.sub(line, rf"\1 %({key}).3f", pattern)
    return pattern


def _line_of(line: str, name: str, polls: float) -> Line:
    """Return how a line changes as time passes.

    ``name`` is that of its metric, and ``polls`` is how many the exporter had made when it served
    the line.
    """
    if line.startswith("#"):
        return Fixed(line)
    series, _, value = line.rpartition(" ")
    if name == "process_cpu_seconds_total":
        return Counter(series, _POLL_CPU_SECONDS)
    if name == "process_start_time_seconds":
        return Start(series)
    if name == f"{_PREFIX}last_success_timestamp_seconds":
        return Clock(series)
    if name.startswith(_COUNTERS) and float(value):
        return Counter(series, float(value) / polls)
    return Fixed(line)


def _text(lines: Sequence[str]) -> str:
    """Return lines as a text, whose last one ends too."""
    return "".join(f"{line}\n" for line in lines)


def _gzip(text: str) -> bytes:
    """Return a member of a gzip stream, compressed as fast as possible."""
    return zlib.compress(text.encode(), level=1, wbits=31)
