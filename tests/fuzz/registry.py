"""All targets by name. A module is imported only when one of its targets is wanted."""

import importlib

from fuzz.target import Target

_MODULES = {
    "document": "documents",
    "identity": "documents",
    "policy": "written",
    "configuration": "written",
    "web_config": "written",
    "values": "written",
}
NAMES = tuple(_MODULES)
PLANTED = "planted"
"""A target with a breach that must be found; it shows that fuzzing finds any."""


def target(name: str) -> Target:
    """Return the target called ``name``."""
    module = importlib.import_module(f"fuzz.targets.{_MODULES.get(name, name)}")
    found: Target = module.TARGETS[name]
    return found
