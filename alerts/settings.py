"""What users may change: thresholds, intervals, severities and addresses, in one table with their ranges.

Knows no rule. A value outside its range is refused by name, so that no generated file can be nonsense.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from azure_scheduled_events_exporter import DOCUMENTATION, yaml_file
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .setting import Kind, Setting

PLACEHOLDERS = ("REPLACE", "example.com")
"""The placeholders of addresses and keys that only the owner of a fleet knows."""
_DAY = 86_400.0
_LAG_SECONDS = 30.0
_RAREST = 120.0
"""Prometheus shows a sample for five minutes, so two scrapes or evaluations have to fit, and one may be late."""


def _length(name: str, default: str, help_: str, least: float, most: float) -> Setting:
    return Setting(name, default, help_, Kind.DURATION, least, most)


def _number(name: str, default: str, help_: str, least: float, most: float) -> Setting:
    return Setting(name, default, help_, Kind.NUMBER, least, most)


def _severity(name: str, default: str, help_: str) -> Setting:
    return Setting(name, default, help_, Kind.SEVERITY)


def _url(name: str, default: str, help_: str) -> Setting:
    return Setting(
        name, default, help_, form=r"(https?://\S+)?", form_text="an address that begins with http:// or https://"
    )


def _list(
    name: str,
    default: tuple[str, ...],
    help_: str,
    form: str,
    form_text: str,
    regexps: Callable[[str], Iterable[str]] = lambda _: (),
) -> Setting:
    lines = "".join(f"{each}\n" for each in default)
    return Setting(name, lines, help_, form=form, form_text=form_text, is_list=True, regexps=regexps)


def _event_severity(event_type: EventType) -> Setting:
    facts = event_type.facts
    return _severity(f"{event_type.lower()}.severity", facts.severity, f"{event_type}: {facts.severity_reason}")


def _least_notice(event_type: EventType, documented: float) -> Setting:
    """Return the setting for a type's short notice: half a minute less than documented, since polls and scrapes lag."""
    text = f"Less notice than this for a {event_type} is short (documented: {format_duration(documented)})."
    return _length(f"notice.{event_type.lower()}", format_duration(documented - _LAG_SECONDS), text, 0, _DAY)


def _longest_outage(event_type: EventType) -> Setting:
    default = format_duration(event_type.facts.longest_outage)
    return _length(
        f"maintenance.longest.{event_type.lower()}",
        default,
        f"Longest maintenance of a VM for a {event_type}.",
        1,
        _DAY,
    )


_BASE = f"{DOCUMENTATION}runbooks"

_RESERVED = "alertname|severity|component|drill|resources|scale_set|vm_id|vm_name|computer_name|job|instance|phase|__.*"
"""Labels that identify alerts and VMs in the rules, so that a target's label cannot have their place."""

EQUAL_SOURCE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""The part of a form of ``maintenance.equal`` that is replaced by a value of the VM; a suffix may follow."""
_EQUAL = r"[a-zA-Z_][a-zA-Z0-9_]*(=[a-zA-Z_][a-zA-Z0-9_]*([^a-zA-Z0-9_\s\"'\\{}$,][^\s\"'\\{}$,]*)?)?"
MATCHER = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:\"([^\"\\]*)\"|([^\s\"\\{},=~!]+))\s*")
_TARGET = rf"[a-zA-Z][a-zA-Z0-9_-]*|{MATCHER.pattern}(?:,{MATCHER.pattern})*"
MAINTENANCE_TARGETS: Mapping[str, str] = MappingProxyType(
    {
        "node-exporter": "InstanceDown|NodeDown|HostDown|NodeExporterDown|PrometheusTargetMissing",
        "kube-prometheus": "KubeNodeNotReady|KubeNodeUnreachable|KubeNodeReadinessFlapping|KubeletDown",
        "blackbox": "ProbeFailed|BlackboxProbeFailed|BlackboxProbeHttpFailure|EndpointDown",
    }
)
"""The usual names of alerts that say no more than that a VM is away."""

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        each.name: each
        for each in (
            Setting(
                "job",
                ".*azure-scheduled-events.*",
                "The scrape jobs of the exporters, a regular expression.",
                regexps=lambda text: (text,),
            ),
            _list(
                "labels.keep",
                (),
                "Labels of targets, or of instance_info, that alerts about events, scale sets and zones carry.",
                rf"(?!(?:{_RESERVED}|(?i:inf|nan))$|event_)[a-zA-Z_][a-zA-Z0-9_]*",
                "a list of names of labels, but none of those that the rules set themselves",
            ),
            Setting("runbooks.url", _BASE, "Address of the runbooks; an alert's page is URL/NAME.md."),
            Setting("dashboards.url", "https://grafana.example.com/d", "Where Grafana shows dashboards; URL/UID."),
            Setting(
                "status-page.url",
                "",
                "Address of the status page of a VM, with VM in place of its name: http://VM:10169/. Empty: no link.",
                form=r"(https?://[^\s\"'\\{}$]*\bVM\b[^\s\"'\\{}$]*)?",
                form_text="an address that begins with http:// or https:// and contains VM",
            ),
            Setting("grafana.datasource", "prometheus", "The uid of Grafana's Prometheus data source."),
            _length("scrape.interval", "5s", "Time between scrapes of an exporter.", 1, _RAREST),
            _length("evaluation.interval", "5s", "Time between evaluations of the rules about events.", 1, _RAREST),
            _length(
                "evaluation.slow-interval",
                "15s",
                "Time between evaluations of the rules that hold and end alerts and count VMs; "
                "no first page waits for them.",
                1,
                60,
            ),
            _length(
                "evaluation.watcher-interval",
                "30s",
                "Time between evaluations of the rules about late events, approvals and exporters.",
                1,
                300,
            ),
            _length(
                "memory",
                "15m",
                "How long an event is remembered after the last exporter that showed it stopped answering. "
                "If it is shorter than twice the longest of the four intervals, the rules take that instead.",
                20,
                _DAY,
            ),
            _length("longest", "1h", "How long alerts of a started event last while its VM does not answer.", 60, _DAY),
            *(_event_severity(each) for each in reversed(EventType)),
            Setting(
                "spot.severity",
                "by-type",
                "Events of VMs whose priority is Spot or Low, in place of the severity of the type. "
                "DegradedHost, Overdue, NotApproved, StartedTooLong and VmNotBack keep theirs.",
                form="by-type|critical|warning|info",
                form_text="by-type, critical, warning, info",
            ),
            _severity("requested.severity", "warning", "Terminate, Redeploy or Reboot that a user asked for."),
            _severity(
                "not-back.severity",
                "critical",
                "A VM has not come back within maintenance.longest of its type.",
            ),
            _severity("short-notice.severity", "info", "Less notice than documented."),
            _length(
                "freeze.short",
                "9s",
                "Freezes announced as shorter raise the info alert ShortFreeze, which notifies nobody.",
                1,
                600,
            ),
            *(_least_notice(each, each.facts.documented_notice) for each in EventType if each.facts.documented_notice),
            _length("degraded-host.notice", "1d", "More notice than this means a degraded host.", 60, 7 * _DAY),
            _length("not-approved.after", "1m", "How late an approval by the policy may be.", 1, 3600),
            _length(
                "overdue.after",
                "10m",
                "Time after NotBefore at which an event that is still Scheduled raises Overdue.",
                1,
                _DAY,
            ),
            _length("started.limit", "30m", "StartedTooLong fires if an event is Started for longer.", 1, _DAY),
            _number(
                "hit.share",
                "0.25",
                "Share of hit VMs in a scale set or zone from which ScaleSetHit or ZoneHit fires.",
                0.01,
                1,
            ),
            _number(
                "hit.least-vms",
                "2",
                "Fewest hit VMs for ScaleSetHit and ZoneHit, so that small scale sets do not page.",
                1,
                10_000,
            ),
            _length("hit.together", "15m", "Events due within this time count as simultaneous.", 1, _DAY),
            _length(
                "exporter-down.for",
                "5m",
                "How long an exporter must not have answered before ExporterDown fires.",
                1,
                _DAY,
            ),
            _length(
                "imds.for",
                "2m",
                "How long IMDS must not have answered readably before ImdsUnreachable or DocumentInvalid fires.",
                1,
                _DAY,
            ),
            _length(
                "never-ready.for",
                "10m",
                "How long an exporter may be without a first valid answer; the first answer may take two minutes.",
                1,
                _DAY,
            ),
            _number(
                "throttled.share", "0.2", "Throttled fires if IMDS throttles a larger share of the polls.", 0.001, 1
            ),
            _length("throttled.for", "5m", "How long that share must last before Throttled fires.", 1, _DAY),
            _length(
                "journal.for",
                "5m",
                "How long the journal must not have been on disk before JournalNotOnDisk fires.",
                1,
                _DAY,
            ),
            _length(
                "alertmanager.for", "5m", "How long pushes must have failed before AlertsNotPushed fires.", 1, _DAY
            ),
            _number(
                "spans.limit", "100", "SpansPilingUp fires if more trace spans wait for the collector.", 1, 1_000_000
            ),
            _length("spans.for", "15m", "How long so many spans must wait before SpansPilingUp fires.", 1, _DAY),
            _length(
                "clock.tolerance",
                "20s",
                "How far a VM's clock may be from Prometheus'; more than a poll takes.",
                1,
                3600,
            ),
            _length(
                "clock.for",
                "5m",
                "How long the clock must be off before ClockOff fires; after a pause it lags until it is corrected.",
                1,
                _DAY,
            ),
            _length("maintenance.before", "1m", "How long before NotBefore the maintenance of a VM begins.", 0, 3600),
            _length(
                "maintenance.after",
                "5m",
                "How long a VM must have answered after the event for its maintenance to end.",
                1,
                3600,
            ),
            *(_longest_outage(each) for each in EventType),
            _list(
                "maintenance.equal",
                ("instance",),
                "Labels that the team's own alerts have of a VM, and how they are written there.",
                _EQUAL,
                "a list of labels: LABEL, or LABEL=SOURCE and a suffix, such as instance=host:9100",
            ),
            _list(
                "maintenance.within",
                (),
                "Labels that an inhibited alert must share besides, if one VM's label may be another's elsewhere.",
                r"[a-zA-Z_][a-zA-Z0-9_]*",
                "a list of names of labels, such as cluster",
            ),
            _list(
                "maintenance.targets",
                (),
                "The team's own alerts that are inhibited while their VM is in maintenance.",
                _TARGET,
                f"a list of {', '.join(MAINTENANCE_TARGETS)}, names of alerts, or matchers",
                lambda item: [quoted or plain for _, sign, quoted, plain in MATCHER.findall(item) if "~" in sign],
            ),
            _length(
                "group.wait",
                "30s",
                "Wait before the first notification of a warning, unless its event is a Preempt or has started.",
                0,
                3600,
            ),
            _length("group.interval", "30s", "Time between notifications about one event.", 1, _DAY),
            _length("group.exporters-interval", "5m", "Time between notifications about exporters.", 1, _DAY),
            _length("group.repeat", "4h", "Time before a notification is repeated.", 60, 30 * _DAY),
            Setting("pager.pagerduty-key", "REPLACE-WITH-PAGERDUTY-ROUTING-KEY", "Events API v2; empty: no PagerDuty."),
            Setting("pager.opsgenie-key", "REPLACE-WITH-OPSGENIE-API-KEY", "Empty: no Opsgenie."),
            _url("pager.webhook-url", "https://pager.example.com/webhook", "Empty: no webhook for pages."),
            _url("chat.slack-url", "https://hooks.slack.com/services/REPLACE/WITH/YOURS", "Empty: no Slack."),
            Setting("chat.slack-channel", "#azure-maintenance", "Channel for pages and tickets."),
            _url("tickets.webhook-url", "https://tickets.example.com/webhook", "Empty: no webhook for tickets."),
            Setting("tickets.email-to", "on-call@example.com", "Empty: no e-mail."),
            Setting("tickets.email-from", "alertmanager@example.com", "The sender."),
            Setting(
                "tickets.email-smarthost",
                "smtp.example.com:587",
                "The mail server.",
                form=r"\S+:\d+",
                form_text="HOST:PORT",
            ),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Settings:
    """All values, every one checked."""

    values: Mapping[str, str] = field(default_factory=lambda: {name: each.default for name, each in SETTINGS.items()})

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.values.items())

    def text(self, name: str) -> str:
        """Return the value as it is written."""
        return self.values[name]

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a list."""
        return tuple(self.values[name].splitlines())

    def seconds(self, name: str) -> float:
        """Return a duration in seconds."""
        return parse_duration(self.values[name])

    def duration(self, name: str) -> str:
        """Return a duration as Prometheus reads it."""
        return format_duration(self.seconds(name))

    def with_lasting_memory(self) -> "Settings":
        """Return these settings with a ``memory`` of at least two of the longest interval.

        With a shorter one, rules would forget what they recorded before they record it again.
        """
        evaluations = (f"evaluation.{each}interval" for each in ("", "slow-", "watcher-"))
        least = 2 * max(map(self.seconds, ("scrape.interval", *evaluations)))
        memory = format_duration(max(self.seconds("memory"), least))
        return Settings(MappingProxyType({**self.values, "memory": memory}))

    def several(self, name: str, times: int) -> str:
        """Return ``times`` a duration, as Prometheus reads it."""
        return format_duration(self.seconds(name) * times)

    def number(self, name: str) -> str:
        """Return a number, or a duration's seconds, as text for an expression."""
        if SETTINGS[name].kind is Kind.DURATION:
            return f"{self.seconds(name):.15g}"
        return f"{float(self.values[name]):.15g}"


def resolve(values: Mapping[str, str]) -> Settings:
    """Return the defaults with ``values`` over them.

    Raises:
        UsageError: a name is unknown or a value impossible.
    """
    chosen = {name: _setting(name).check(value) for name, value in values.items()}
    checked = {name: each.check(each.default) for name, each in SETTINGS.items()} | chosen
    settings = Settings(MappingProxyType(checked))
    _check_sources(settings)
    return settings


def _setting(name: str) -> Setting:
    if name not in SETTINGS:
        raise UsageError(f"'{name}' is no setting of the alerts; there are: {', '.join(SETTINGS)}")
    return SETTINGS[name]


def _check_sources(settings: Settings) -> None:
    """Raise UsageError for a form of ``maintenance.equal`` that names what is not known of a VM."""
    known = ("host", "vm_id", "vm_name", "computer_name", "node", *settings.items("labels.keep"))
    for item in settings.items("maintenance.equal"):
        form = item.partition("=")[2]
        source = EQUAL_SOURCE.match(form)
        if source and source[0] not in known:
            raise UsageError(f"maintenance.equal: '{item}' needs '{source[0]}': there are {', '.join(known)}")


def load(path: Path, more: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the values file at ``path`` (YAML, dotted or nested keys), ``more`` over them.

    Raises:
        UsageError: the file cannot be read, a key is unknown or a value impossible.
    """
    section = yaml_file.load(path)
    values: dict[str, str] = {}
    for name, (text, line) in section.flat(lists=True).items():
        try:
            values[name] = _setting(name).check(text)
        except UsageError as error:
            raise UsageError(f"{path}:{line}: {error}") from None
    given = {name: _setting(name).check(text) for name, text in (more or {}).items()}
    try:
        return resolve({**values, **given})
    except UsageError as error:  # two values that are possible each, but not together
        raise UsageError(f"{path}: {error}") from None
