"""What a severity means to routes: it pages, makes a ticket, or only shows.

The table of alerts has three levels. A company may have words of its own for them: the setting
``severities`` gives a word to a level or to a single alert, and ``severities.paging`` says which
words page.
"""

from .settings import Settings

CRITICAL = "critical"
"""The level that pages."""
WARNING = "warning"
"""The level that makes tickets."""
INFO = "info"
"""The level that only shows."""
LEVELS = (CRITICAL, WARNING, INFO)


def word_of(level: str, settings: Settings) -> str:
    """Return the company's word for a level."""
    return settings.pairs("severities").get(level, level)


def paging(settings: Settings) -> tuple[str, ...]:
    """Return the severities that page: those of ``severities.paging``, or the word of critical."""
    return settings.items("severities.paging") or (word_of(CRITICAL, settings),)


def pages(severity: str, settings: Settings) -> bool:
    """Return whether alerts with ``severity`` page."""
    return severity in paging(settings)


def notifies(severity: str, settings: Settings) -> bool:
    """Return whether alerts with ``severity`` page or make a ticket."""
    return severity != word_of(INFO, settings) or pages(severity, settings)


def paging_matcher(settings: Settings) -> str:
    """Return Alertmanager's matcher of the severities that page."""
    return f"severity=~{_regex(settings)}"


def other_matcher(settings: Settings) -> str:
    """Return Alertmanager's matcher of all other severities."""
    return f"severity!~{_regex(settings)}"


def _regex(settings: Settings) -> str:
    """Return the severities that page as a quoted regular expression.

    The settings allow no character in a severity that a regular expression treats specially.
    """
    return f'"{"|".join(paging(settings))}"'
