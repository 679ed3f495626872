"""One source of alerts: rules, paging and scrape configuration are generated from it.

Only re-exports.
"""

from .generate import GENERATED, render
from .settings import SETTINGS, Settings, load, resolve

__all__ = ["GENERATED", "SETTINGS", "Settings", "load", "render", "resolve"]
