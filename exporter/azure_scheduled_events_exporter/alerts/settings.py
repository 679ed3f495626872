"""What users may change: labels, severities, addresses and receivers, in one table.

Thresholds and times of the rules are constants beside them, with their reason. Knows no rule. An
impossible value is refused by name, so that no generated file can be nonsense.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from azure_scheduled_events_exporter import DOCUMENTATION, yaml_file
from azure_scheduled_events_exporter.errors import UsageError, closest
from azure_scheduled_events_exporter.times import format_duration, parse_duration

PLACEHOLDERS = ("REPLACE", "example.com")
"""The placeholders of addresses and keys that only the owner of a fleet knows."""
_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
_RESERVED = (
    "alertname|alertstate|severity|component|scope|kind|drill|vm_id|vm_name|computer_name|job"
    "|instance|subscription_id|resource_group|scale_set|phase|outcome|__.*|event_.*"
)
"""Labels that the rules use themselves.

A label of a target cannot have their place. One that every alert gets would make the alerts of two
VMs or scale sets equal: an engine refuses such a rule as a whole.
"""
_LABEL = rf"(?!(?:{_RESERVED})(?:=|$)){_NAME}"
_NOT_RESERVED = "but none of those that the rules set themselves"
_ALERT = r"[A-Za-z]+"
_URL = (r"(https?://\S+)?", "an address that begins with http:// or https://")
"""Of an address: ``pattern`` and ``possible`` of :class:`Setting`."""

EQUAL_SOURCE = re.compile(_NAME)
"""The part of a form of ``maintenance.equal`` that stands for a value of the VM."""
# LABEL, or LABEL=SOURCE with an optional suffix, which no character of the source begins.
_EQUAL = rf"{_NAME}(={_NAME}([^a-zA-Z0-9_\s\"'\\{{}}$,][^\s\"'\\{{}}$,]*)?)?"
MATCHER = re.compile(
    r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:\"([^\"\\]*)\"|([^\s\"\\{},=~!]+))\s*"
)
"""A matcher of Alertmanager: label, operator, and value, which is the third group if it has quotes.

Without quotes it is the fourth.
"""
_TARGET = rf"[a-zA-Z][a-zA-Z0-9_-]*|{MATCHER.pattern}(?:,{MATCHER.pattern})*"
MAINTENANCE_TARGETS: Mapping[str, str] = {
    "node-exporter": "InstanceDown|NodeDown|HostDown|NodeExporterDown|PrometheusTargetMissing",
    "kube-prometheus": "KubeNodeNotReady|KubeNodeUnreachable|KubeNodeReadinessFlapping|KubeletDown",
    "blackbox": "ProbeFailed|BlackboxProbeFailed|BlackboxProbeHttpFailure|EndpointDown",
}
"""The usual names of alerts that say no more than that a VM is away."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    ``pattern`` is the regular expression of a text, or of an item of a list or map, and
    ``possible`` the same for people. A value of the form list is a text with a line for each item,
    and that of a map one with lines KEY=VALUE. ``limits`` make it a duration, and bound it
    (seconds). ``regexps`` finds the regular expressions in a value; its default matches nowhere.
    """

    name: str
    default: str
    help: str
    pattern: str = ""
    possible: str = "text"
    form: Literal["text", "list", "map"] = "text"
    limits: tuple[float, float] = (0.0, 0.0)
    regexps: str = "(?!)"

    def check(self, text: str) -> str:
        """Return ``text`` as the files have it; UsageError: it is not a possible value."""
        if self.form != "text":
            return self._check_items(text)
        if any(character in text for character in '"\\\n{}'):
            raise UsageError(
                f"{self.name}: must not contain quotes, backslashes, braces or line breaks"
            )
        if any(self.limits):
            try:
                value = parse_duration(text)
            except ValueError as error:
                raise UsageError(f"{self.name}: {error}") from None
            if not self.limits[0] <= value <= self.limits[1]:
                raise UsageError(f"{self.name}: {text} is out of range: {self.range}")
            return format_duration(value)
        self._check_item(text)
        return text

    @property
    def range(self) -> str:
        """The possible values, as error messages and pages show them."""
        if any(self.limits):
            return " to ".join(map(format_duration, self.limits))
        return self.possible

    def _check_items(self, text: str) -> str:
        # Several matchers with commas are one item: taken apart, each of them would select more
        # alerts.
        separator = "\n" if "\n" in text or re.fullmatch(self.pattern, text.strip()) else ","
        items = [item.strip() for item in text.split(separator) if item.strip()]
        for item in items:
            self._check_item(item)
        # The last item with a key of a map replaces those before it.
        by_key = {item.partition("=")[0] if self.form == "map" else item: item for item in items}
        return "".join(f"{item}\n" for item in by_key.values())

    def _check_item(self, text: str) -> None:
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise UsageError(f"{self.name}: '{text}' is not possible: {self.possible}")
        for each in re.findall(self.regexps, text):
            try:
                re.compile(each)
            except re.error as error:
                raise UsageError(
                    f"{self.name}: '{each}' is no regular expression: {error}"
                ) from None


_TABLE = (
    Setting(
        "job",
        ".*azure-scheduled-events.*",
        "The scrape jobs of the exporters, a regular expression.",
        regexps="^.*$",
    ),
    Setting(
        "alerts.disabled",
        "",
        "Alerts that the rules leave out.",
        _ALERT,
        "a list of names of alerts",
        "list",
    ),
    Setting(
        "severities",
        "",
        "Your company's words for the levels critical, warning and info, or for single alerts. A"
        " word makes a ticket, unless severities.paging names it. The word of info only shows.",
        rf"{_ALERT}=[a-zA-Z0-9_-]+",
        "critical, warning, info or names of alerts, each with a word",
        "map",
    ),
    Setting(
        "severities.paging",
        "",
        "Severities that page. Routes, inhibitions, doctor and the drill follow. If the list is"
        " empty, the word of critical pages.",
        r"[a-zA-Z0-9_-]+",
        "a list of severities",
        "list",
    ),
    Setting(
        "labels.add",
        "",
        "Labels that every alert gets, such as the team that owns the fleet.",
        rf"{_LABEL}=[^\s\"\\{{}}][^\"\\{{}}]*",
        f"names of labels, each with a value, {_NOT_RESERVED}",
        "map",
    ),
    Setting(
        "labels.keep",
        "",
        "Labels of targets that alerts about events and VMs carry, such as team or env.",
        _LABEL,
        f"a list of names of labels, {_NOT_RESERVED}",
        "list",
    ),
    Setting(
        "labels.metadata",
        "",
        "Labels of the objects for the Prometheus operator, which selects by them, such as"
        " release=monitoring. No alert gets them.",
        r"[a-zA-Z0-9][a-zA-Z0-9./_-]*=[a-zA-Z0-9._-]*",
        "names of labels, each with a value",
        "map",
    ),
    Setting(
        "runbooks.url",
        f"{DOCUMENTATION}runbooks",
        "Address of the runbooks; an alert's page is URL/NAME.md.",
    ),
    Setting(
        "dashboards.url",
        "https://grafana.example.com/d",
        "Where Grafana shows dashboards; URL/UID.",
    ),
    Setting("grafana.datasource", "prometheus", "The uid of Grafana's Prometheus data source."),
    Setting(
        "scrape.interval",
        "5s",
        "Time between scrapes, in the examples of scrape configurations.",
        limits=(1, 120),
    ),
    Setting(
        "evaluation.interval",
        "5s",
        "Time between evaluations of the rules about events. Those about VMs are evaluated every"
        " third time, late ones every sixth, those about exporters every twelfth, but each minute"
        " at least.",
        limits=(1, 60),
    ),
    Setting(
        "maintenance.equal",
        "instance\n",
        "Labels by which your own alerts name a VM, and where their values come from.",
        _EQUAL,
        "a list of labels: LABEL, or LABEL=SOURCE and a suffix, such as instance=host:9100",
        "list",
    ),
    Setting(
        "maintenance.within",
        "",
        "Labels that both alerts must also have in common. Needed if VMs of different clusters"
        " share names or addresses.",
        _NAME,
        "a list of names of labels, such as cluster",
        "list",
    ),
    Setting(
        "maintenance.targets",
        "",
        "The team's own alerts that are inhibited while their VM is in maintenance.",
        _TARGET,
        f"a list of {', '.join(MAINTENANCE_TARGETS)}, names of alerts, or matchers",
        "list",
        regexps=r"[=!]~\s*\"?([^\"\\{},]*)",
    ),
    Setting(
        "group.wait", "30s", "Wait before the first notification of a warning.", limits=(0, 3600)
    ),
    Setting(
        "group.interval", "30s", "Time between notifications about one event.", limits=(1, 86_400)
    ),
    Setting(
        "group.repeat", "4h", "Time before a notification is repeated.", limits=(60, 30 * 86_400)
    ),
    Setting(
        "pager.pagerduty-key",
        "REPLACE-WITH-PAGERDUTY-ROUTING-KEY",
        "The routing key of PagerDuty's Events API v2. If it is empty, PagerDuty is left out.",
    ),
    Setting(
        "pager.opsgenie-key",
        "REPLACE-WITH-OPSGENIE-API-KEY",
        "The API key of Opsgenie. If it is empty, Opsgenie is left out.",
    ),
    Setting(
        "pager.webhook-url",
        "https://pager.example.com/webhook",
        "Address that gets pages. If it is empty, no webhook gets them.",
        *_URL,
    ),
    Setting(
        "chat.slack-url",
        "https://hooks.slack.com/services/REPLACE/WITH/YOURS",
        "Address of a Slack webhook. If it is empty, Slack is left out.",
        *_URL,
    ),
    Setting(
        "chat.slack-channel", "#azure-maintenance", "Slack channel that gets pages and tickets."
    ),
    Setting(
        "tickets.webhook-url",
        "https://tickets.example.com/webhook",
        "Address that gets tickets. If it is empty, no webhook gets them.",
        *_URL,
    ),
    Setting(
        "tickets.email-to",
        "on-call@example.com",
        "Address of the e-mails for tickets. If it is empty, no e-mail is sent.",
    ),
    Setting("tickets.email-from", "alertmanager@example.com", "Sender of these e-mails."),
    Setting(
        "tickets.email-smarthost",
        "smtp.example.com:587",
        "Mail server that sends them.",
        r"\S+:\d+",
        "HOST:PORT",
    ),
)
SETTINGS: Mapping[str, Setting] = {each.name: each for each in _TABLE}


@dataclass(frozen=True, slots=True)
class Settings:
    """All values, every one checked."""

    values: Mapping[str, str] = field(
        default_factory=lambda: {name: each.default for name, each in SETTINGS.items()}
    )

    def text(self, name: str) -> str:
        """Return the value as it is written."""
        return self.values[name]

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a list."""
        return tuple(self.values[name].splitlines())

    def pairs(self, name: str) -> dict[str, str]:
        """Return a map."""
        return dict(item.split("=", 1) for item in self.items(name))


def resolve(
    values: Mapping[str, str], places: Mapping[str, str] = MappingProxyType({})
) -> Settings:
    """Return the defaults with ``values`` over them.

    An entry of a map may have a name of its own: ``severities.X``. ``places`` says where names
    stand in a file, such as ``values.yaml:3: ``.

    Raises:
        UsageError: a name is unknown or a value impossible; it begins with the place of the name,
            if there is one.
    """
    found = {name: each.check(each.default) for name, each in SETTINGS.items()}
    name = ""  # the setting that an error is about
    try:
        for name, value in values.items():
            setting, key = _setting(name)
            text = value
            if key:  # one more line of the map
                text = f"{found[setting.name]}{key}={value}\n"
            found[setting.name] = setting.check(text)
        settings = Settings(found)
        name = "maintenance.equal"
        _check_sources(settings)
        name = "labels.keep"
        _check_added(settings)
        name = "severities.info"
        _check_info(settings)
    except UsageError as error:
        raise UsageError(f"{places.get(name, '')}{error}") from None
    return settings


def _setting(name: str) -> tuple[Setting, str]:
    """Return the setting called ``name``, and the key of its map that follows its name."""
    if name in SETTINGS:
        return SETTINGS[name], ""
    for setting in SETTINGS.values():
        if setting.form == "map" and name.startswith(f"{setting.name}."):
            return setting, name.removeprefix(f"{setting.name}.")
    similar = closest(name, SETTINGS)
    hint = f"; did you mean '{similar}'?" if similar else f"; there are: {', '.join(SETTINGS)}"
    raise UsageError(f"'{name}' is no setting of the alerts{hint}")


def _check_sources(settings: Settings) -> None:
    """Raise UsageError for a form of ``maintenance.equal`` that names what is not known of a VM."""
    known = (
        "host",
        "instance",
        "vm_id",
        "vm_name",
        "computer_name",
        *settings.items("labels.keep"),
    )
    for item in settings.items("maintenance.equal"):
        source = EQUAL_SOURCE.match(item.partition("=")[2])
        if source and source[0] not in known:
            raise UsageError(
                f"maintenance.equal: '{item}' needs '{source[0]}': there are {', '.join(known)}"
            )


def _check_added(settings: Settings) -> None:
    """Raise UsageError for a label that every alert gets, although teams differ in it.

    The alerts of two teams would become equal, and an engine refuses such a rule as a whole.
    """
    kept = settings.items("labels.keep")
    for label in settings.pairs("labels.add"):
        if label in kept:
            raise UsageError(
                f"labels.keep: '{label}' is in labels.add too, which gives every alert one value:"
                " leave it out of one of them"
            )


def _check_info(settings: Settings) -> None:
    """Raise UsageError if info has the word of another level, whose alerts then notify nobody."""
    words = settings.pairs("severities")
    info = words.get("info", "info")
    for level in ("critical", "warning"):
        if words.get(level, level) == info:
            raise UsageError(
                f"severities: '{info}' is the word of {level} and of info, so alerts of the level"
                f" {level} would notify nobody: give info a word of its own"
            )


def load(path: Path, more: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the values file at ``path``, ``more`` over them.

    Its keys are dotted or nested.

    Raises:
        UsageError: the file cannot be read, a key is unknown or a value impossible.
    """
    more = more or {}
    found = yaml_file.load(path).flat(lists=True)
    places = {name: f"{path}:{line}: " for name, (_, line) in found.items() if name not in more}
    return resolve({**{name: text for name, (text, _) in found.items()}, **more}, places)
