"""The facts in the texts of alerts, which each engine and each pushed alert fills in.

In the texts of the table of alerts (``alerts.groups``), these facts stand in braces:

- ``{vms}``: the VMs of the event and their resource group; ``{when}``: when its impact begins or
  began, with the word that fits. Exporters that push alerts fill them in with the same words.
- ``{event_type}``: its type, cut so that a title stays short; ``{loss}``: what such an event costs.
- ``{vm}``: the VM of an exporter, with its resource group and its address.
- ``{ahead}``: what to do about an event of this type that is days ahead.
- ``{away}``: VMs of a scale set that are away, at most ten, each with the time of its impact.
- ``{paused_vm}``: the VM of an exporter; ``{announced}``: the pause that Azure had announced for
  the event. The text says "Azure had announced {announced}", so an engine that cannot look the
  pause up writes "less".
- ``{begun}``: when the event began; ``{seconds}``: the alert's value, in seconds.
- ``{refused}``: a sentence about the event whose approval was refused: its VMs and its time.
- ``{hook_vm}``, ``{hook_state}``: the VM of a hook, and in which state it may be;
  ``{hook_outcome}``, ``{hook_event}``: what the hook did, and before or after which event;
  ``{by_hand}``: what is to be done instead of it.
- ``{place}``: the resource group of a VM, in parentheses; ``{time}``: the alert's value as a time.
- ``{value FORMAT}``: the value of the expression; another word: the label with that name.

How each engine writes these facts is a ``Form``: ``rule_texts``, ``grafana_texts`` and
``azure_monitor_texts`` have one each. Some facts have no query of their own: they come with the
query of another fact, which must stand in the same text. ``{when}`` needs ``{vms}``,
``{announced}`` needs ``{paused_vm}``, and ``{hook_event}`` needs ``{hook_vm}``.
"""

import re
from dataclasses import dataclass, field

OF_TARGETS = ("{vm}", "{paused_vm}", "{hook_vm}")
"""Facts that name the VM of an exporter; an alert with one of them is about that exporter."""

_FACT = re.compile(r"(?<!\{)\{(\w+)(?: (\w+))?\}")
"""A fact in single braces. Its groups: the name, and the FORMAT of ``{value FORMAT}``."""


@dataclass(frozen=True, slots=True)
class Form:
    """How one engine writes facts.

    Attributes:
        facts: the template of each fact that is neither a label nor the value.
        preludes: by the name of a fact, the query with which each text begins that has this fact.
            It sets the variables (``$vms``) that the templates in ``facts`` use. If a text has
            several, they keep the order of this dictionary.
        label: what precedes the name of a label.
        value: the value of the alert.
        escape: the function that escapes a label in an address, with a space after its name; "" if
            there is none.
        event_board: the end of the address of an event's dashboard.
        event_prelude: the query that sets the variables of ``event_board``.
    """

    facts: dict[str, str]
    preludes: dict[str, str] = field(default_factory=dict)
    label: str = "$labels."
    value: str = "$value"
    escape: str = "urlquery "
    event_board: str = "fleet"
    event_prelude: str = ""

    def text(self, text: str) -> str:
        """Return the template of a text with facts in braces."""
        names = {found[1] for found in _FACT.finditer(text)}
        preludes = [prelude for name, prelude in self.preludes.items() if name in names]
        return "".join(preludes) + _FACT.sub(self._fact, text)

    def dashboard(self, board: str, url: str) -> str:
        """Return the template of a dashboard's address.

        ``board`` is as in ``Alert.dashboard``: ``event``, or the name of a dashboard, which may
        have variables with the labels that fill them, such as ``vm?vm=vm_name``.
        """
        prefix = f"{url}/azure-scheduled-events-"
        if board == "event":
            return f"{self.event_prelude}{prefix}{self.event_board}"
        name, _, variables = board.partition("?")
        if not variables:
            return prefix + name
        parameters = []
        for each in variables.split("&"):
            variable, _, label = each.partition("=")
            parameters.append(f"var-{variable}={{{{ {self.escape}{self.label}{label} }}}}")
        return f"{prefix}{name}?{'&'.join(parameters)}"

    def _fact(self, found: re.Match[str]) -> str:
        """Return the template of the fact that ``_FACT`` has found."""
        name = found[1]
        value_format = found[2]
        if name in self.facts:
            return self.facts[name]
        if value_format:
            return f"{{{{ {self.value} | {value_format} }}}}"
        return f"{{{{ {self.label}{name} }}}}"


def filled(text: str, facts: dict[str, str]) -> str:
    """Return the text of a pushed alert. What a fact contains is not replaced again."""
    return _FACT.sub(lambda found: facts.get(found[1], found[0]), text)
