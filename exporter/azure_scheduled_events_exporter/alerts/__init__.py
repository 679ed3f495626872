"""One table of alerts: rules, paging and scrape configuration are generated from it.

``formats`` has one module for each format. Must not evaluate rules or talk to a server.
"""

from .generate import GENERATED, render
from .settings import SETTINGS, Settings, load, resolve

__all__ = ["GENERATED", "SETTINGS", "Settings", "load", "render", "resolve"]
