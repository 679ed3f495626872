"""The labels by which a team's own alerts name a VM: the setting ``maintenance.equal``.

Must not know which alerts an inhibition is about.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .settings import Settings
from .settings_table import EQUAL_SOURCE

_HOST = r"(\[.+\]|[^:]+)"
"""The host of an instance. An IPv6 address is in brackets if a port follows."""
_PORT = r"(:[0-9]+)?"
_WHOLE = r"(.+)"


@dataclass(frozen=True, slots=True)
class VmLabel:
    """A label of a team's alerts, and where the rules take its value from.

    Attributes:
        name: the label of the team's alerts.
        source: a label of the exporter's series, or ``host``, which is their label ``instance``
            without the port. ``""`` if these series have the label ``name`` with the same value.
        suffix: what follows the value of the source, such as ``:9100``.
    """

    name: str
    source: str
    suffix: str

    @property
    def series_label(self) -> str:
        """The label of an exporter's series that has the value; ``""`` without a ``source``."""
        if self.source == "host":
            return "instance"
        return self.source

    @property
    def series_pattern(self) -> str:
        """The regular expression of ``series_label`` whose first group is the value.

        Each backslash in it is doubled, as a quoted string of PromQL needs it.
        """
        if self.source == "host":
            return (_HOST + _PORT).replace("\\", "\\\\")
        return _WHOLE

    @property
    def form(self) -> str:
        """How the label looks, for people, such as ``instance=HOST:9100``."""
        if not self.source:
            return f"{self.name}=the exporter's own"
        return f"{self.name}={self.source.upper()}{self.suffix}"

    def may_have(self, value: str) -> bool:
        """Return whether the rules may give the label this value, judged by its form alone."""
        if not value.endswith(self.suffix):
            return False
        pattern = _WHOLE
        if self.source == "host":
            pattern = _HOST
        return re.fullmatch(pattern, value.removesuffix(self.suffix)) is not None


def vm_labels(settings: Settings) -> Iterator[VmLabel]:
    """Yield the labels of the setting, each once; the last item about a label counts.

    An item is a label, such as ``vm_name``; or a label and its source, which a suffix may follow,
    such as ``instance=host:9100``.
    """
    origins: dict[str, str] = {}  # the source with its suffix, by the name of the label
    for item in settings.items("maintenance.equal"):
        name, _, origin = item.partition("=")
        origins[name] = origin
    for name, origin in origins.items():
        source = EQUAL_SOURCE.match(origin)  # a name; the suffix begins where the name ends
        if source is None:
            yield VmLabel(name, source="", suffix="")
        else:
            yield VmLabel(name, source=source[0], suffix=origin[source.end() :])
