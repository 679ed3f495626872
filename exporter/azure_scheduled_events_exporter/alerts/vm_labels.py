"""The labels by which a team's own alerts name a VM: the setting ``maintenance.equal``.

Must not know which alerts an inhibition is about.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .settings import Settings
from .settings_table import EQUAL_SOURCE

_HOST: Final = r"(\\[.+\\]|[^:]+)"
_PORT: Final = r"(:[0-9]+)?"


@dataclass(frozen=True, slots=True)
class VmLabel:
    """A label of the alerts of a team, and where the rules take its value from.

    Attributes:
        name: that of the label.
        source: a label of the exporter's VM, or ``host``: its instance without the port.
            ``""`` if the VM has the label ``name`` as it is.
        suffix: what follows the value of the source, such as ``:9100``.
    """

    name: str
    source: str
    suffix: str

    @property
    def series_label(self) -> str:
        """The label of an exporter's series that has the value."""
        return "instance" if self.source == "host" else self.source

    @property
    def series_pattern(self) -> str:
        """The regular expression, as a string of PromQL, whose first group is the value.

        An IPv6 address with a port has brackets. One without them has no port.
        """
        return _HOST + _PORT if self.source == "host" else "(.+)"

    @property
    def form(self) -> str:
        """How the label looks, for people, such as ``instance=HOST:9100``."""
        source = self.source.upper() if self.source else "the exporter's own"
        return f"{self.name}={source}{self.suffix}"

    def may_have(self, value: str) -> bool:
        """Return whether the rules can give the label this value."""
        if not value.endswith(self.suffix):
            return False
        first = value.removesuffix(self.suffix)
        pattern = _HOST.replace("\\\\", "\\") if self.source == "host" else ".+"
        return re.fullmatch(pattern, first) is not None


def vm_labels(settings: Settings) -> Iterator[VmLabel]:
    """Yield the labels of the setting, each once; the last item about a label counts."""
    forms = dict(item.partition("=")[::2] for item in settings.items("maintenance.equal"))
    for name, form in forms.items():
        source = EQUAL_SOURCE.match(form)
        yield VmLabel(
            name,
            source[0] if source else "",
            form[source.end() :] if source else "",
        )
