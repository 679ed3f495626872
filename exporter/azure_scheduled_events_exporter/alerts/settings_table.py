"""The table of what users may change: labels, severities, addresses and receivers.

Each row has its default and says what is possible, so that no generated file can be nonsense.
Thresholds and times of the rules are constants beside them, with their reason. Knows no rule, and
nothing of what several settings together exclude (``settings``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from azure_scheduled_events_exporter import DOCUMENTATION
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.times import format_duration, parse_duration

PLACEHOLDERS = ("REPLACE", "example.com")
"""A default with one of these stands for what only the owner of a fleet knows."""
_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
RESERVED_LABELS = (
    "alertname|alertstate|severity|component|scope|kind|drill|vm_id|vm_name|computer_name|job"
    "|instance|subscription_id|resource_group|scale_set|phase|outcome|__.*|event_.*"
)
"""Labels that the rules use themselves.

``labels.keep`` must name none of them: a label of a target cannot have their place. Nor must
``labels.add``: with one value for all, the alerts of two VMs or scale sets would be equal, and an
engine refuses such a rule as a whole.
"""
# The lookahead refuses the reserved names, as a whole item or as the key of KEY=VALUE.
_LABEL = rf"(?!(?:{RESERVED_LABELS})(?:=|$)){_NAME}"
_NOT_RESERVED = "but none of those that the rules set themselves"
_ALERT = r"[A-Za-z]+"
_URL = r"(https?://\S+)?"
_POSSIBLE_URL = "an address that begins with http:// or https://"

EQUAL_SOURCE = re.compile(_NAME)
"""SOURCE in an item LABEL=SOURCE of ``maintenance.equal``, whose value the label gets."""
# LABEL, or LABEL=SOURCE. A suffix may follow SOURCE: it begins with no character of a name, so that
# it can be told from the source.
_EQUAL = rf"{_NAME}(={_NAME}([^a-zA-Z0-9_\s\"'\\{{}}$,][^\s\"'\\{{}}$,]*)?)?"
MATCHER = re.compile(
    r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:\"([^\"\\]*)\"|([^\s\"\\{},=~!]+))\s*"
)
"""A matcher of Alertmanager. Its groups: label, operator, a value in quotes, a value without."""
_TARGET = rf"[a-zA-Z][a-zA-Z0-9_-]*|{MATCHER.pattern}(?:,{MATCHER.pattern})*"
MAINTENANCE_TARGETS: Mapping[str, str] = {
    "node-exporter": "InstanceDown|NodeDown|HostDown|NodeExporterDown|PrometheusTargetMissing",
    "kube-prometheus": "KubeNodeNotReady|KubeNodeUnreachable|KubeNodeReadinessFlapping|KubeletDown",
    "blackbox": "ProbeFailed|BlackboxProbeFailed|BlackboxProbeHttpFailure|EndpointDown",
}
"""The usual names of alerts that say no more than that a VM is away."""


_NOT_IN_RE2 = re.compile(r"\(\?(?:[=!>(#]|<[=!]|P=)")
"""Groups of Python's regular expressions that those of Prometheus and Alertmanager do not have.

Source: https://github.com/google/re2/wiki/Syntax
"""


@dataclass(frozen=True, slots=True)
class AlertSetting:
    """One row of the table.

    Attributes:
        name: its key in a values file.
        default: the value without a values file; a list has a line for each item, and a map one
            with KEY=VALUE.
        help: what it is for.
        pattern: the regular expression that the text, or each item of a list or map, must match;
            "" for any text.
        possible: the same for people.
        form: how its value is read.
        limits: the least and the greatest duration, in seconds; (0, 0) if it is no duration.
        regexps: a pattern that finds regular expressions in the value, which are then checked; the
            default finds none.
    """

    name: str
    default: str
    help: str
    pattern: str = ""
    possible: str = "text"
    form: Literal["text", "list", "map"] = "text"
    limits: tuple[float, float] = (0.0, 0.0)
    regexps: str = "(?!)"

    @property
    def range(self) -> str:
        """The possible values, as error messages and pages show them."""
        if any(self.limits):
            return " to ".join(map(format_duration, self.limits))
        return self.possible

    def check(self, text: str) -> str:
        """Return ``text`` in the form that ``default`` has, such as 60s as 1m.

        Raises:
            UsageError: it is not a possible value.
        """
        if self.form != "text":
            return self._check_items(text)
        if any(character in text for character in '"\\\n{}'):
            raise UsageError(
                f"{self.name}: must not contain quotes, backslashes, braces or line breaks"
            )
        if any(self.limits):
            return self._check_duration(text)
        self._check_item(text)
        return text

    def _check_duration(self, text: str) -> str:
        shortest, longest = self.limits
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            raise UsageError(f"{self.name}: {error}") from None
        if not shortest <= seconds <= longest:
            raise UsageError(f"{self.name}: {text} is out of range: {self.range}")
        return format_duration(seconds)

    def _check_items(self, text: str) -> str:
        # An item of a list may contain commas: several matchers of `maintenance.targets`. It stays
        # whole, because each of the matchers alone would select more alerts.
        is_one_item = self.form == "list" and re.fullmatch(self.pattern, text.strip())
        separator = ","
        if is_one_item or "\n" in text:
            separator = "\n"
        by_key = {}  # the last item with a key of a map replaces those before it
        for part in text.split(separator):
            item = part.strip()
            if not item:
                continue
            self._check_item(item)
            key = item
            if self.form == "map":
                key, _, _ = item.partition("=")
            by_key[key] = item
        return "".join(f"{item}\n" for item in by_key.values())

    def _check_item(self, text: str) -> None:
        if self.pattern and not re.fullmatch(self.pattern, text):
            shown = f"'{text}'"
            if self.pattern == _URL:  # the address of a webhook is a secret
                shown = "its value"
            raise UsageError(f"{self.name}: {shown} is not possible: {self.possible}")
        for each in re.findall(self.regexps, text):
            try:
                re.compile(each)
            except re.error as error:
                raise UsageError(
                    f"{self.name}: '{each}' is no regular expression: {error}"
                ) from None
            if unknown := _NOT_IN_RE2.search(each):
                raise UsageError(
                    f"{self.name}: '{each}' is no regular expression of Prometheus, which has no"
                    f" {unknown[0]}"
                )


_TABLE = (
    AlertSetting(
        "job",
        ".*azure-scheduled-events.*",
        "The scrape jobs of the exporters.",
        pattern=r".+",
        possible="a regular expression",
        regexps="^.*$",
    ),
    AlertSetting(
        "alerts.disabled",
        "",
        "Alerts that the rules leave out.",
        pattern=_ALERT,
        possible="a list of names of alerts",
        form="list",
    ),
    AlertSetting(
        "severities",
        "",
        "Your company's words for the levels critical, warning and info, or for single alerts. A"
        " word makes a ticket, unless severities.paging names it. The word of info only shows.",
        pattern=rf"{_ALERT}=[a-zA-Z0-9_-]+",
        possible="critical, warning, info or names of alerts, each with a word",
        form="map",
    ),
    AlertSetting(
        "severities.paging",
        "",
        "Severities that page. Routes, inhibitions, doctor and the drill follow. If the list is"
        " empty, the word of critical pages.",
        pattern=r"[a-zA-Z0-9_-]+",
        possible="a list of severities",
        form="list",
    ),
    AlertSetting(
        "labels.add",
        "",
        "Labels that every alert gets, such as the team that owns the fleet.",
        pattern=rf"{_LABEL}=[^\s\"\\{{}}][^\"\\{{}}]*",
        possible=f"names of labels, each with a value, {_NOT_RESERVED}",
        form="map",
    ),
    AlertSetting(
        "labels.keep",
        "",
        "Labels of targets that alerts about events and VMs carry, such as team or env.",
        pattern=_LABEL,
        possible=f"a list of names of labels, {_NOT_RESERVED}",
        form="list",
    ),
    AlertSetting(
        "labels.metadata",
        "",
        "Labels of the objects for the Prometheus operator, which selects by them, such as"
        " release=monitoring. No alert gets them.",
        pattern=r"[a-zA-Z0-9][a-zA-Z0-9./_-]*=[a-zA-Z0-9._-]*",
        possible="names of labels, each with a value",
        form="map",
    ),
    AlertSetting(
        "runbooks.url",
        f"{DOCUMENTATION}runbooks",
        "Address of the runbooks; an alert's page is URL/NAME.md.",
    ),
    AlertSetting(
        "dashboards.url",
        "https://grafana.example.com/d",
        "Where Grafana shows dashboards; URL/UID.",
    ),
    AlertSetting(
        "grafana.datasource", "prometheus", "The uid of Grafana's Prometheus data source."
    ),
    AlertSetting(
        "scrape.interval",
        "5s",
        "Time between your scrapes, also in the examples of scrape configurations. By it, the rules"
        " know how long one failed scrape leaves a VM without an answer.",
        limits=(1, 120),
    ),
    AlertSetting(
        "evaluation.interval",
        "5s",
        "Time between evaluations of the rules about events. Those about VMs are evaluated every"
        " third time, late ones every sixth, those about exporters every twelfth, but each minute"
        " at least.",
        limits=(1, 60),
    ),
    AlertSetting(
        "maintenance.equal",
        "instance\n",
        "Labels by which your own alerts name a VM, and where their values come from.",
        pattern=_EQUAL,
        possible=(
            "a list of labels: LABEL, or LABEL=SOURCE and a suffix, such as instance=host:9100"
        ),
        form="list",
    ),
    AlertSetting(
        "maintenance.within",
        "",
        "Labels that both alerts must also have in common. Needed if VMs of different clusters"
        " share names or addresses.",
        pattern=_NAME,
        possible="a list of names of labels, such as cluster",
        form="list",
    ),
    AlertSetting(
        "maintenance.targets",
        "",
        "The team's own alerts that are inhibited while their VM is in maintenance.",
        pattern=_TARGET,
        possible=f"a list of {', '.join(MAINTENANCE_TARGETS)}, names of alerts, or matchers",
        form="list",
        regexps=r"[=!]~\s*\"?([^\"\\{},]*)",
    ),
    AlertSetting(
        "group.wait", "30s", "Wait before the first notification of a warning.", limits=(0, 3600)
    ),
    AlertSetting(
        "group.interval", "30s", "Time between notifications about one event.", limits=(1, 86_400)
    ),
    AlertSetting(
        "group.repeat", "4h", "Time before a notification is repeated.", limits=(60, 30 * 86_400)
    ),
    AlertSetting(
        "pager.pagerduty-key",
        "REPLACE-WITH-PAGERDUTY-ROUTING-KEY",
        "The routing key of PagerDuty's Events API v2. If it is empty, PagerDuty is left out.",
    ),
    AlertSetting(
        "pager.opsgenie-key",
        "REPLACE-WITH-OPSGENIE-API-KEY",
        "The API key of Opsgenie. If it is empty, Opsgenie is left out.",
    ),
    AlertSetting(
        "pager.webhook-url",
        "https://pager.example.com/webhook",
        "Address that gets pages. If it is empty, no webhook gets them.",
        pattern=_URL,
        possible=_POSSIBLE_URL,
    ),
    AlertSetting(
        "chat.slack-url",
        "https://hooks.slack.com/services/REPLACE/WITH/YOURS",
        "Address of a Slack webhook. If it is empty, Slack is left out.",
        pattern=_URL,
        possible=_POSSIBLE_URL,
    ),
    AlertSetting(
        "chat.slack-channel", "#azure-maintenance", "Slack channel that gets pages and tickets."
    ),
    AlertSetting(
        "tickets.webhook-url",
        "https://tickets.example.com/webhook",
        "Address that gets tickets. If it is empty, no webhook gets them.",
        pattern=_URL,
        possible=_POSSIBLE_URL,
    ),
    AlertSetting(
        "tickets.email-to",
        "on-call@example.com",
        "Address of the e-mails for tickets. If it is empty, no e-mail is sent.",
    ),
    AlertSetting(
        "tickets.email-from",
        "alertmanager@example.com",
        "Sender of these e-mails.",
        pattern=".+",
        possible="an address",
    ),
    AlertSetting(
        "tickets.email-smarthost",
        "smtp.example.com:587",
        "Mail server that sends them.",
        pattern=r"\S+:\d+",
        possible="HOST:PORT",
    ),
)
ALERT_SETTINGS: Mapping[str, AlertSetting] = {each.name: each for each in _TABLE}
