"""Exporters that several stories share: a scale set that events hit in part, and exporters that cannot reach IMDS."""

from dataclasses import replace

from support.monitoring.alert_scenarios import Exporter, Seen, Value

DAY = 86_400


def blind(since: int, until: int = 100_000) -> dict[str, Value]:
    """Return the series of an exporter that cannot reach IMDS from ``since`` to ``until``."""
    return {
        "up": lambda now: not since <= now < until,
        "last_success_timestamp_seconds": lambda now: since if since <= now < until else max(now, 1),
    }


def vms(count: int, hit: int, event: Seen, group: str = "E", **more: object) -> tuple[Exporter, ...]:
    """Return a scale set of ``count`` VMs, of which ``hit`` have an event of their own."""
    return tuple(
        Exporter(
            f"vmss_{number}",
            (replace(event, event_id=f"{group}{number}", resources=f"vmss_{number}"),) * (number < hit),
            **more,  # type: ignore[arg-type]  # the fields of Exporter
        )
        for number in range(count)
    )
