"""Generated YAML as people like to read it: keys in the order given, long texts as blocks."""

import re
from typing import Any

import yaml

NOTE = (
    "Generated. `azure-scheduled-events-exporter assets export DIR --values FILE` writes it with"
    " settings of your own."
)
"""What the head of a file says of its source: who reads it has exported it, or may do so."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write each value in full: in a part that people copy, an alias leads nowhere."""
        return True


_Dumper.add_representer(
    str,
    lambda to, text: to.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:bool",  # any tag but that of a text, which is then quoted
    re.compile(
        r"^(?:[yn]|[-+]?0[xob]\w+|[-+]?(?:\.[0-9_]+|[0-9][0-9_]*\.?[0-9_]*)(?:e[-+]?[0-9]+)?)$",
        re.IGNORECASE,
    ),
    list("yYnN-+.0123456789"),
)
"""Plain texts that PyYAML reads as texts, but Helm and kubectl as booleans or numbers."""


def to_yaml(data: Any, *comments: str, note: bool = True) -> str:
    """Return ``data`` as YAML, below a head of ``comments``, one a line.

    With ``note``, the head ends with the note that the text is generated. If ``data`` is None, the
    head is all.
    """
    lines = list(comments)
    if note:
        lines.append(NOTE)
    head = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    if data is None:
        return head
    # The width keeps each text on one line: PyYAML would fold it at 80 characters.
    return head + yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
