"""The values of all settings of the alerts: the defaults, and over them what a user has written.

The row of a setting says what is possible (``settings_table``). This module adds what settings must
not be together. Knows no rule, and no file format but that of the values file.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.errors import UsageError, closest

from .settings_table import ALERT_SETTINGS, EQUAL_SOURCE, AlertSetting


@dataclass(frozen=True, slots=True)
class Settings:
    """The value of every setting, as text; by default, that of its row.

    :func:`resolve` makes them from what a user has written, and checks it.
    """

    values: Mapping[str, str] = field(
        default_factory=lambda: {name: each.default for name, each in ALERT_SETTINGS.items()}
    )

    def text(self, name: str) -> str:
        """Return the value as it is written."""
        return self.values[name]

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a setting of the form ``list``."""
        return tuple(self.values[name].splitlines())

    def pairs(self, name: str) -> dict[str, str]:
        """Return the keys and values of a setting of the form ``map``."""
        return dict(item.split("=", 1) for item in self.items(name))


def resolve(
    values: Mapping[str, str], places: Mapping[str, str] = MappingProxyType({})
) -> Settings:
    """Return the defaults with ``values`` over them.

    A map can be given as a whole (``severities``), and one entry of it by a name of its own
    (``severities.X``). If both are given, the later one in ``values`` counts for this entry.
    ``places`` says where names stand in a file, such as ``values.yaml:3: ``.

    Raises:
        UsageError: a name is unknown or a value impossible. The message begins with the place of
            the name, if ``places`` has it.
    """
    found = dict(Settings().values)
    for name, value in values.items():
        with _naming(places.get(name, "")):
            setting, key = _setting(name)
            text = value
            if key:  # one more line of the map
                text = f"{found[setting.name]}{key}={value}\n"
            found[setting.name] = setting.check(text)
    settings = Settings(found)
    for name, check in _CHECKS.items():
        with _naming(places.get(name, "")):
            check(settings)
    return settings


def load(path: Path, more: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the values file at ``path``, ``more`` over them.

    Its keys are dotted or nested.

    Raises:
        UsageError: the file cannot be read, a key is unknown or a value impossible.
    """
    more = more or {}
    found = yaml_file.load(path).flat(lists=True)
    places = {name: f"{path}:{line}: " for name, (_, line) in found.items() if name not in more}
    values = {name: text for name, (text, _) in found.items()}
    return resolve({**values, **more}, places)


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Begin the message of a UsageError with ``place``."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place}{error}") from None


def _setting(name: str) -> tuple[AlertSetting, str]:
    """Return the setting called ``name``, and ``""``.

    If ``name`` is that of one entry of a map, such as ``severities.Reboot``, return the setting of
    the map, and the key of the entry.
    """
    if name in ALERT_SETTINGS:  # first: severities.paging is no entry of the map severities
        return ALERT_SETTINGS[name], ""
    for setting in ALERT_SETTINGS.values():
        if setting.form == "map" and name.startswith(f"{setting.name}."):
            return setting, name.removeprefix(f"{setting.name}.")
    similar = closest(name, ALERT_SETTINGS)
    hint = f"there are: {', '.join(ALERT_SETTINGS)}"
    if similar:
        hint = f"did you mean '{similar}'?"
    raise UsageError(f"'{name}' is no setting of the alerts; {hint}")


def _check_sources(settings: Settings) -> None:
    """Raise UsageError for an item of ``maintenance.equal`` with a source that no series has.

    An item is LABEL, or LABEL=SOURCE and a suffix, such as ``instance=host:9100``.
    """
    known = (
        "host",
        "instance",
        "vm_id",
        "vm_name",
        "computer_name",
        *settings.items("labels.keep"),
    )
    for item in settings.items("maintenance.equal"):
        _, _, source_and_suffix = item.partition("=")
        source = EQUAL_SOURCE.match(source_and_suffix)  # None for an item without a source
        if source and source[0] not in known:
            raise UsageError(
                f"maintenance.equal: '{item}' needs '{source[0]}': there are {', '.join(known)}"
            )


def _check_added(settings: Settings) -> None:
    """Raise UsageError for a label that every alert gets, although teams differ in it.

    With ``labels.keep: [team]`` and ``labels.add: {team: web}``, the alerts of two teams would get
    equal labels. An engine then refuses the whole rule.
    """
    kept = settings.items("labels.keep")
    for label in settings.pairs("labels.add"):
        if label in kept:
            raise UsageError(
                f"labels.keep: '{label}' is in labels.add too, which gives every alert one value:"
                " leave it out of one of them"
            )


def _check_info(settings: Settings) -> None:
    """Raise UsageError if info has the word of another level, whose alerts then notify nobody."""
    words = settings.pairs("severities")
    info = words.get("info", "info")
    for level in ("critical", "warning"):
        if words.get(level, level) == info:
            raise UsageError(
                f"severities: '{info}' is the word of {level} and of info, so alerts of the level"
                f" {level} would notify nobody: give info a word of its own"
            )


_CHECKS: Mapping[str, Callable[[Settings], None]] = {
    "maintenance.equal": _check_sources,
    "labels.keep": _check_added,
    "severities.info": _check_info,
}
"""The checks of several settings together, by the setting whose place in a file an error names."""
