"""What is shipped besides the program: dashboards, alert rules, runbooks, how to deploy. Finds and exports it.

In an installed wheel, assets are in ``assets/`` beside this module; in a source tree, in their source folders.
"""

import importlib
import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import ExporterError

_PACKAGE = Path(__file__).parent
_SOURCE = _PACKAGE.parent.parent
KINDS: Mapping[str, tuple[str, str]] = {
    "dashboards": ("dashboards/json", "Grafana dashboards and their provisioning"),
    "alerts": ("alerts/generated", "Prometheus rules, Alertmanager, Grafana alerting, scrape configurations"),
    "runbooks": ("docs/runbooks", "one page per alert: what it means and what to do"),
    "systemd": ("deploy/systemd", "the systemd unit and its settings"),
    "helm": ("deploy/helm", "the Helm chart"),
    "examples": ("deploy/examples", "approval policies, drain scripts and their systemd units, roll-outs to a fleet"),
}
"""Each kind with its folder in a source tree; pyproject.toml adds the same folders to the wheel."""


def folder(kind: str) -> Path:
    """Return the folder that holds assets of ``kind``.

    Raises:
        ExporterError: this installation has none.
    """
    for candidate in (_PACKAGE / "assets" / kind, _SOURCE / KINDS[kind][0]):
        if candidate.is_dir():
            return candidate
    raise ExporterError(f"this installation has no {kind}: install the wheel, or run from a whole source tree")


def files() -> Iterator[tuple[str, Path, Path]]:
    """Yield every asset: its kind, its path within the kind, and its location."""
    for kind in KINDS:
        root = folder(kind)
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield kind, path.relative_to(root), path


def export(target: Path) -> list[Path]:
    """Copy every asset below ``target``, in a folder for each kind; return what was written.

    Raises:
        ExporterError: something cannot be written.
    """
    written = []
    for kind, name, source in files():
        path = target / kind / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
            shutil.copymode(source, path)
        except OSError as error:
            raise ExporterError(f"{path}: cannot be written: {error.strerror or error}") from None
        written.append(path)
    return written


def generator(module: str) -> Any:  # noqa: ANN401 - a module
    """Return a module that generates the alerts: inside the package in a wheel, beside it in a source tree.

    Raises:
        ExporterError: this installation has none.
    """
    inside = "azure_scheduled_events_exporter.alerts"
    package = inside if importlib.util.find_spec(inside) else "alerts"
    try:
        return importlib.import_module(f"{package}.{module}")
    except ModuleNotFoundError:
        raise ExporterError("this installation cannot change settings of the alerts: install the wheel") from None
