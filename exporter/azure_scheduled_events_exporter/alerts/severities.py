"""What a severity means to routes: it pages, makes a ticket, or only shows.

A company may use words of its own: the setting ``severities`` gives them to alerts, and
``severities.paging`` says which of them page.
"""

from .groups import alerts
from .settings import Settings

WARNING = "warning"
"""Makes a ticket, as any word does that neither pages nor only shows."""
INFO = "info"
"""Only shows, unless ``severities.paging`` names it."""


def pages(severity: str, settings: Settings) -> bool:
    """Return whether alerts with ``severity`` page."""
    return severity in settings.items("severities.paging")


def notifies(severity: str, settings: Settings) -> bool:
    """Return whether alerts with ``severity`` page or make a ticket."""
    return severity != INFO or pages(severity, settings)


def unrouted(settings: Settings) -> tuple[str, ...]:
    """Return the severities of alerts that no shipped route names: their alerts make tickets."""
    known = {WARNING, INFO, *settings.items("severities.paging")}
    words = {each.severity for each in alerts(settings)}
    return tuple(sorted(words - known))


def paging_matcher(settings: Settings) -> str:
    """Return Alertmanager's matcher of the severities that page."""
    return f"severity=~{_regex(settings)}"


def other_matcher(settings: Settings) -> str:
    """Return Alertmanager's matcher of all other severities."""
    return f"severity!~{_regex(settings)}"


def _regex(settings: Settings) -> str:
    return f'"{"|".join(settings.items("severities.paging"))}"'
