"""The queries about the exporters themselves by name: is the watcher well."""

from .event_queries import BLIND_SINCE
from .selection import (
    ANSWER_AGE,
    BLIND,
    DOWN,
    RATE,
    SEEING,
    SELECTED,
    here,
    mine,
    or_quiet,
    over,
    placed,
    series,
)
from .style import UNKNOWN


def _named(vector: str) -> str:
    """``vector`` with ``vm_name``, which is the instance's where an exporter does not know its VM."""
    unnamed = f'label_replace({vector}, "vm_name", "$1", "instance", "(.*)")'
    return f"({placed(f'({vector})', 'vm_name')} or on (job, instance) {unnamed})"


def _rate(name: str, *matchers: str, function: str = "rate") -> str:
    return here(over(function, name, *matchers, window=RATE))


TRUST = f"count({BLIND}) or on () 0 * count({SEEING}) or on () vector({UNKNOWN:.0f})"
WATCHING = f"count({SEEING}) or on () vector(0)"
OLDEST_ANSWER = f"max({ANSWER_AGE} or on (job, instance) {BLIND_SINCE})"
ANSWER_AGES = _named(f"topk(10, {ANSWER_AGE})")
SIGHT = f"max by (job, instance) ({mine('up')} + 1 or on (job, instance) {DOWN})"
"""For each exporter 0 cannot be scraped, 1 IMDS fails, 2 sees."""

_POLLS = _rate("polls_total")
_FAILED = _rate("polls_total", 'outcome!="ok"')
_THROTTLED = _rate("polls_total", 'outcome="throttled"')
POLLS_BY_OUTCOME = f"sum by (outcome) ({_POLLS})"
FAILED_POLLS = _named(f"sum by (job, instance) ({_FAILED}) / sum by (job, instance) ({_POLLS})")
THROTTLED = _named(f"sum by (job, instance) ({_THROTTLED})")
PACE = f"min(sum by (job, instance) ({_POLLS}) * on (job, instance) {series('poll_interval_seconds')})"
"""Polls made for each that was due, of the slowest exporter: 1 when all keep the pace."""


def poll_duration(share: float) -> str:
    """Return a quantile of how long polls take."""
    return f"histogram_quantile({share}, sum by (le) ({_rate('poll_duration_seconds_bucket')}))"


JOURNALS_DOWN = or_quiet(f"count({mine('journal_up')} == 0)")
JOURNALS = _named(f"max by (job, instance) ({mine('journal_up')})")
JOURNAL_ERRORS = _named(f"sum by (job, instance) ({_rate('journal_errors_total')})")
SPANS_WAITING = f"sum({mine('spans_queued')})"
SPANS_QUEUED = _named(f"topk(10, {mine('spans_queued')})")
SPANS_BY_OUTCOME = f"sum by (outcome) ({_rate('spans_total')})"
DOCUMENT_CHANGES = f"sum({_rate('document_changes_total')})"
APPROVAL_REQUESTS = f"sum by (outcome) ({_rate('approval_requests_total', function='increase')})"
TRANSITIONS = f"sum by (transition) ({_rate('transitions_total', function='increase')})"
_OURS = f"on (job, instance) {series('build_info')}"
CPU = _named(here(f"rate(process_cpu_seconds_total{{{SELECTED}}}[{RATE}]) and {_OURS}"))
MEMORY = _named(here(f"process_resident_memory_bytes{{{SELECTED}}} and {_OURS}"))
POLICIES = f"count by (policy) ({mine('approval_policy_info')})"
VERSIONS = f"count by (version, python_version) ({mine('build_info')})"
