"""What Azure does to VMs, one alert per event: in one group, so that no page waits for a second evaluation."""

from types import MappingProxyType

from .event_recordings import ANNOUNCED, DURATION, LEFT, event_recordings
from .rule import PREFIX, Alert, Dashboard, Group, Recording, expression
from .settings import Settings

_WHO = "{{ $labels.resources }}{{ with $labels.scale_set }} of scale set {{ . }}{{ end }}"
_WHEN = (
    "It {{ if gt $value 0.0 }}begins in {{ $value | humanizeDuration }}, or sooner if approved"
    "{{ else if eq $value 0.0 }}has begun{{ else }}may begin at any moment{{ end }}."
)
_EVENT = "Event {{ $labels.event_id }}."
_KNOWN = "Preempt|Terminate|Redeploy|Reboot|Freeze"
_REQUESTED = ("Terminate", "Redeploy", "Reboot")

_LOSSES = {
    "Preempt": "The VM is deleted or deallocated: memory and ephemeral disks are lost, and nothing stops it.",
    "Terminate": "The VM is deleted: memory, ephemeral disks and the disks set to be deleted with it are lost.",
    "Redeploy": "The VM starts anew on another host: memory and ephemeral disks (temporary and local) are lost.",
    "Reboot": "The VM restarts: memory is lost, disks are kept.",
    "Freeze": "The VM is paused: memory, files and connections are kept, but nothing answers meanwhile.",
}
_VERBS = {
    "Preempt": "is evicted",
    "Terminate": "is deleted",
    "Redeploy": "is moved to another host",
    "Reboot": "is rebooted",
    "Freeze": "is paused",
}
_SUMMARIES = {
    "Preempt": "Azure evicts a Spot VM.",
    "Terminate": "A VM is being deleted.",
    "Redeploy": "Azure moves a VM to another host.",
    "Reboot": "Azure reboots a VM.",
    "Freeze": "Azure pauses a VM.",
}
_REQUESTED_SUMMARIES = {
    "Terminate": "A user has a VM deleted.",
    "Redeploy": "A user has a VM moved to another host.",
    "Reboot": "A user has a VM rebooted.",
}


def event_group(settings: Settings) -> Group:
    """Return the group of the events themselves."""
    rules: tuple[Recording | Alert, ...] = (
        *event_recordings(settings),
        _preempt(settings),
        *(rule for event_type in _REQUESTED for rule in _by_source(event_type, settings)),
        *_freezes(settings),
        _without_notice(),
        _unknown_type(settings),
    )
    return Group("azure-scheduled-events", settings.duration("evaluation.interval"), rules)


def _soon(selector: str, settings: Settings) -> str:
    """The rows that are no degraded host, which is told by an alert of its own."""
    return f"{LEFT}{{{selector}}} <= {settings.number('degraded-host.notice')}"


def _alert(event_type: str, text: str, severity: str, summary: str, addition: str = "") -> Alert:
    description = f"{_WHO} {_VERBS[event_type]}. {_WHEN} {_LOSSES[event_type]} {addition}{_EVENT}"
    return Alert(PREFIX + event_type, text, severity, summary, description, Dashboard.VM)


def _preempt(settings: Settings) -> Alert:
    text = _soon('event_type="Preempt"', settings)
    return _alert("Preempt", text, settings.text("preempt.severity"), _SUMMARIES["Preempt"])


def _by_source(event_type: str, settings: Settings) -> tuple[Alert, Alert]:
    """What Azure does on its own pages; what a user asked for is no surprise."""
    text = _soon(f'event_type="{event_type}",event_source!="User"', settings)
    if event_type != "Terminate":  # told by WithoutNotice instead, so that one event is one page
        text += f"\nand on (event_id) {ANNOUNCED}"
    asked = _soon(f'event_type="{event_type}",event_source="User"', settings)
    severity = settings.text(f"{event_type.lower()}.severity")
    return (
        _alert(event_type, text, severity, _SUMMARIES[event_type]),
        Alert(
            f"{PREFIX}{event_type}Requested",
            asked,
            settings.text("requested.severity"),
            _REQUESTED_SUMMARIES[event_type],
            f"{_WHO} {_VERBS[event_type]} as a user asked. {_WHEN} {_LOSSES[event_type]} {_EVENT}",
            Dashboard.VM,
        ),
    )


def _freezes(settings: Settings) -> tuple[Alert, Alert]:
    freeze, short = _soon('event_type="Freeze"', settings), settings.number("freeze.short")
    long = expression(f"""
        {freeze}
        unless on (event_id) {DURATION} < {short}
    """)
    brief = expression(f"""
        {freeze}
        and on (event_id) {DURATION} < {short}
    """)
    return (
        _alert("Freeze", long, settings.text("freeze.severity"), _SUMMARIES["Freeze"]),
        Alert(
            f"{PREFIX}ShortFreeze",
            brief,
            "info",
            "Azure pauses a VM for some seconds.",
            f"{_WHO} is paused for less than {settings.duration('freeze.short')}. {_WHEN} {_LOSSES['Freeze']} {_EVENT}",
            Dashboard.VM,
        ),
    )


def _without_notice() -> Alert:
    return Alert(
        f"{PREFIX}WithoutNotice",
        expression(f"""
            {LEFT}{{event_type=~"Reboot|Redeploy",event_source!="User"}} == 0
            unless on (event_id) {ANNOUNCED}
        """),
        "critical",
        "A VM went down without notice, as it does when its host fails.",
        f"{_WHO} is down: the first word of the {{{{ $labels.event_type }}}} was that it has begun. "
        f"Memory is lost; after a Redeploy ephemeral disks are lost too. {_EVENT}",
        Dashboard.VM,
        labels=MappingProxyType({"event_status": "Started"}),
    )


def _unknown_type(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}UnknownType",
        _soon(f'event_type!~"{_KNOWN}"', settings),
        "warning",
        "Azure announces an event of a type that these rules do not know.",
        f"{_WHO} is about to meet a {{{{ $labels.event_type }}}}. {_WHEN} What will be lost is not known. {_EVENT}",
        Dashboard.VM,
    )
