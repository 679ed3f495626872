"""The queries about the exporters themselves by name: whether they are well."""

from .queries import MOST, RANGE, TARGET, of, series, trust
from .recorded import (
    ANSWER_AGE,
    APPROVAL_REQUESTS,
    BLIND,
    BLIND_SECONDS,
    BLIND_SHARE,
    CPU,
    EXPORTER_INFO,
    FAILED_POLLS,
    JOURNAL_OFF,
    MEMORY,
    POLL_DURATION,
    POLL_PACE,
    POLLS,
    PUSHED_ALERTS,
    SPANS,
    SPANS_QUEUED,
    THROTTLED_POLLS,
)
from .style import UNKNOWN

JOB = 'job=~"$job"'
_TEN = 10


def _named(vector: str) -> str:
    """``vector`` with the name of the VM that each exporter runs on."""
    return f"{vector} * on (job, instance) group_left (vm_name) {EXPORTER_INFO}"


def _worst(recording: str) -> str:
    """The ten exporters whose recorded problem was worst in the time range."""
    chosen = of(recording, TARGET)
    return f"{chosen} and on (job, instance) topk({_TEN}, max_over_time({chosen}[{RANGE}] @ end()))"


# ---- Now ------------------------------------------------------------------------------------------------------------

_UP = series("up", TARGET)
SEEING = f"{_UP} == 1 unless on (job, instance) {BLIND}"
TRUST = trust(of(BLIND, TARGET), of(BLIND_SHARE, JOB))
WATCHING = f"count({SEEING}) or on () vector(0)"
OLDEST_ANSWER = f"max(time() - {series('last_success_timestamp_seconds', TARGET)}) or on () vector({UNKNOWN:g})"
PACE = f"min({of(POLL_PACE, JOB)})"
JOURNALS_OFF = f"count({of(JOURNAL_OFF, TARGET)}) or on () 0 * count({of(EXPORTER_INFO, TARGET)})"
SPANS_WAITING = f"sum({of(SPANS_QUEUED, JOB)})"
VERSIONS = f"count by (version, python_version) ({series('build_info', TARGET)})"
POLICIES = f"count by (policy) ({series('approval_policy_info', TARGET)})"
BLIND_NOW = _named(f"topk({MOST}, {of(BLIND, TARGET)})")
BLIND_FOR = f"sum_over_time({of(BLIND_SECONDS, TARGET)}[1d]) and on (job, instance) topk({MOST}, {of(BLIND, TARGET)})"
MOST_SPANS = _named(f"topk({_TEN}, {series('spans_queued', TARGET)} > 0)")
_OURS = f"and on (job, instance) {series('build_info', TARGET)}"
MOST_MEMORY = _named(f"topk({_TEN}, process_resident_memory_bytes{{{TARGET}}} {_OURS})")
MOST_CPU = _named(f"topk({_TEN}, rate(process_cpu_seconds_total{{{TARGET}}}[5m]) {_OURS})")
JOURNAL_ERRORS = _named(f"topk({_TEN}, increase({series('journal_errors_total', TARGET)}[1h]) > 0)")

# ---- Over time ------------------------------------------------------------------------------------------------------

SIGHT = _worst(BLIND)
POLLS_BY_OUTCOME = f"sum by (outcome) ({of(POLLS, JOB)})"
FAILED = _worst(FAILED_POLLS)
THROTTLED = _worst(THROTTLED_POLLS)
POLL_TIMES = f"max by (quantile) ({of(POLL_DURATION, JOB)})"
ANSWER_AGES = f"max by (quantile) ({of(ANSWER_AGE, JOB)})"
JOURNALS = _worst(JOURNAL_OFF)
SPANS_OVER_TIME = f"sum({of(SPANS_QUEUED, JOB)})"
PUSHED_BY_OUTCOME = f"sum by (outcome) ({of(PUSHED_ALERTS, JOB)})"
SPANS_BY_OUTCOME = f"sum by (outcome) ({of(SPANS, JOB)})"
REQUESTS = f"sum by (outcome) ({of(APPROVAL_REQUESTS, JOB)})"
CPU_OVER_TIME = f"max by (quantile) ({of(CPU, JOB)})"
MEMORY_OVER_TIME = f"max by (quantile) ({of(MEMORY, JOB)})"
