"""One table of alerts: rules, paging and scrape configuration are generated from it.

``formats`` has one module for each format. Must not evaluate rules or talk to a server.
"""

from .generate import GENERATED, render
from .settings import Settings, load, resolve
from .settings_table import ALERT_SETTINGS

__all__ = ["ALERT_SETTINGS", "GENERATED", "Settings", "load", "render", "resolve"]
