"""The alerts that can be pushed, as generated with the rules: labels, texts and thresholds. Reads no file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlertText:
    """The labels and annotations of one rule.

    Attributes:
        labels: those besides name, event and kept labels.
        spot_severity: the severity for VMs whose priority is Spot or Low.
        annotations: with their placeholders.
    """

    labels: Mapping[str, str]
    spot_severity: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Alerts by name, and the settings that they share with the rules, in seconds.

    Attributes:
        kept: names of the labels that alerts carry from targets and from this VM's description.
        memory: how long an event is remembered after the last exporter that showed it stopped answering.
        longest: how long a VM may be away for an event that has started.
        scrape_interval: between scrapes, as the rules assume it; evaluation_interval: between their evaluations.
        slow_interval: between evaluations of the rules that end alerts.
        degraded_host_notice: more notice than this means a degraded host.
        short_freeze: announced freezes below this notify nobody.
    """

    alerts: Mapping[str, AlertText]
    kept: tuple[str, ...]
    memory: float
    longest: float
    scrape_interval: float
    evaluation_interval: float
    slow_interval: float
    degraded_host_notice: float
    short_freeze: float


def parse_catalog(text: str) -> Catalog:
    """Parse the catalog from ``text``, generated JSON."""
    content = json.loads(text)
    seconds = content["seconds"]
    return Catalog(
        {
            name: AlertText(each["labels"], each["spot_severity"], each["annotations"])
            for name, each in content["alerts"].items()
        },
        tuple(content["labels"]),
        memory=seconds["memory"],
        longest=seconds["longest"],
        scrape_interval=seconds["scrape.interval"],
        evaluation_interval=seconds["evaluation.interval"],
        slow_interval=seconds["evaluation.slow-interval"],
        degraded_host_notice=seconds["degraded-host.notice"],
        short_freeze=seconds["freeze.short"],
    )
