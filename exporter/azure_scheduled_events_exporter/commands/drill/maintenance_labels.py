"""The labels of the alert Maintenance, which decide whether it inhibits an alert of the team.

A drill posts an alert with these labels. They have to fit ``own``, the labels of the team's alert
about the same VM. They come from the rules that a Prometheus has loaded, or from the settings that
rules are rendered with. The settings give only the names and the form of the labels, and not the
values of the VM.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import Alert
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.vm_labels import vm_labels
from azure_scheduled_events_exporter.alerts.vms import MADE_PREFIX, MAINTENANCE, of_every_vm
from azure_scheduled_events_exporter.doctor.api import Api, WrongAnswerError
from azure_scheduled_events_exporter.errors import ExporterError, closest
from azure_scheduled_events_exporter.http_client.sessions import NoAnswerError

Labels = Mapping[str, str]
_Value = TypeVar("_Value")


def of_loaded_rules(api: Api, own: Labels) -> Labels:
    """Return the labels of the alert Maintenance as the rules of a Prometheus would yield them now.

    They are for the VM that has the most labels in common with the team's alert ``own``.

    Raises:
        ExporterError: no VM has a label in common with ``own``, the rule is not loaded, or
            Prometheus cannot be asked.
    """
    rule = _loaded_rule(api)
    # The rule's own query would find only VMs that are under maintenance at this moment.
    vms = _asked(api, _vms, "/api/v1/query", query=of_every_vm(rule["query"]))
    found = max(vms, key=lambda vm: len(own.items() & vm.items()), default={})
    if not own.items() & found.items():
        raise ExporterError(_no_vm(own, vms))
    return {**found, **rule.get("labels", {})}


def of_rendered_rules(settings: Settings, own: Labels) -> Labels:
    """Return the labels that rules with ``settings`` would give the alert Maintenance.

    The labels that name the VM have the values that they have in ``own``, if the form of the
    settings allows that. The labels of ``maintenance.within`` are copied from ``own`` too, and the
    rule itself adds others.

    Raises:
        ExporterError: no label of ``own`` has a value that rules with ``settings`` can yield.
    """
    rule = _rendered_rule(settings)
    names = _possible(settings, own)
    if not names:
        forms = " or ".join(label.form for label in vm_labels(settings))
        raise ExporterError(
            f"the rules name a VM by {forms} (maintenance.equal), but your alert has {shown(own)}"
        )
    names += settings.items("maintenance.within")
    equal = {name: own[name] for name in names if name in own}
    return {**equal, **rule.labels, "severity": rule.severity}


def queries(settings: Settings, own: Labels) -> Iterator[str]:
    """Yield queries for Prometheus, one for each label by which the VM of ``own`` may be found.

    The drill prints them if it has no Prometheus to ask, so that its user can run them. A query has
    a result if rules with ``settings`` yield a VM with the value of that label.
    """
    every_vm = " ".join(of_every_vm(_rendered_rule(settings).expression).split())
    for name in _possible(settings, own):
        value = own[name].replace("\\", r"\\").replace('"', r"\"")
        # label_replace makes a series with this one label, which joins the VM that has the same.
        yield f'{every_vm} and on ({name}) label_replace(vector(1), "{name}", "{value}", "", "")'


def shown(labels: Labels) -> str:
    """Return ``labels``, but for the alert's name, for people."""
    pairs = [f"{name}={value}" for name, value in labels.items() if name != "alertname"]
    return ", ".join(pairs) or "no labels"


def _possible(settings: Settings, own: Labels) -> tuple[str, ...]:
    """Return the names of the labels of ``own`` that have a value which the rules can yield."""
    return tuple(
        label.name for label in vm_labels(settings) if label.may_have(own.get(label.name, ""))
    )


def _rendered_rule(settings: Settings) -> Alert:
    """Return the rule of Maintenance. Raises ExporterError: the settings leave it out."""
    for rule in alerts(settings):
        if rule.name == MAINTENANCE:
            return rule
    raise ExporterError(f"alerts.disabled leaves out {MAINTENANCE}, so nothing is inhibited")


def _loaded_rule(api: Api) -> Mapping[str, Any]:
    """Return the rule of Maintenance in Prometheus. Raises ExporterError: it is not loaded."""
    for rule in _asked(api, _rules, "/api/v1/rules"):
        if rule["name"] == MAINTENANCE:
            return rule
    raise ExporterError(
        f"Prometheus at {api.shown} has not loaded the rule {MAINTENANCE}: add the rendered rules"
        " to its rule_files"
    )


def _rules(answer: Any) -> Sequence[Mapping[str, Any]]:
    """Return the rules of all groups in an answer of /api/v1/rules."""
    return [rule for group in answer["data"]["groups"] for rule in group["rules"]]


def _vms(answer: Any) -> Sequence[Labels]:
    """Return the labels of each series in an answer of /api/v1/query."""
    return [row["metric"] for row in answer["data"]["result"]]


def _asked(api: Api, read: Callable[[Any], _Value], path: str, **params: str) -> _Value:
    """Return what ``read`` finds in the answer of Prometheus."""
    try:
        return read(api.data(path, **params))
    except (NoAnswerError, WrongAnswerError) as error:
        raise ExporterError(f"Prometheus at {api.shown}: {error}") from None
    except (LookupError, TypeError):
        raise ExporterError(f"{api.shown}: answers, but not as a Prometheus does") from None


def _no_vm(own: Labels, vms: Sequence[Labels]) -> str:
    """Return why none of ``vms`` is that of ``own``, with the nearest values that there are."""
    if not vms:
        return "Prometheus has scraped no exporter that knows its VM in the last 5 minutes"
    near = []
    for name, value in own.items():
        known = sorted({vm[name] for vm in vms if vm.get(name)})
        if known:
            near.append(f"{name}={closest(value, known) or known[0]}")
    if not near:
        # A label with this prefix is left out: the rules also give the alert the same label without
        # the prefix, under the name that the team uses.
        names = sorted({name for vm in vms for name in vm if not name.startswith(MADE_PREFIX)})
        return (
            f"the loaded rules name a VM by {', '.join(names)}, but your alert has"
            f" {shown(own)}: correct maintenance.equal, render and load the rules"
        )
    return (
        f"the loaded rules yield no VM with {shown(own)}, but for example {', '.join(near)}:"
        " correct maintenance.equal, render and load the rules; or the VM has no exporter"
    )
