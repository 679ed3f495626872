"""What is shipped besides the program: dashboards, alert rules, runbooks, how to deploy.

Finds and exports it.

In an installed wheel, assets are in ``assets/`` beside this module; in a source tree, in their
source folders.
"""

import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from .errors import ExporterError

_PACKAGE = Path(__file__).parent
_SOURCE = _PACKAGE.parent.parent
KINDS: Mapping[str, tuple[str, str]] = {
    "dashboards": ("dashboards/json", "Grafana dashboards and their provisioning"),
    "alerts": (
        "alerts/generated",
        "Prometheus rules, Alertmanager, Grafana, Azure Monitor, scrape configurations",
    ),
    "runbooks": ("docs/runbooks", "one page per alert: what it means and what to do"),
    "metadata-security-protocol": (
        "deploy/metadata-security-protocol",
        "who may use Scheduled Events, for Azure's Guest Proxy Agent",
    ),
    "systemd": ("deploy/systemd", "the systemd unit and its settings"),
    "helm": ("deploy/helm", "the Helm chart"),
    "examples": (
        "deploy/examples",
        "approval policies, drain scripts and their systemd units, roll-outs to a fleet",
    ),
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
    raise ExporterError(
        f"this installation has no {kind}: install the wheel, or run from a whole source tree"
    )


def files() -> Iterator[tuple[str, Path, Path]]:
    """Yield every asset: its kind, its path within the kind, and its location."""
    for kind in KINDS:
        root = folder(kind)
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield kind, path.relative_to(root), path


def export(
    target: Path, rendered: Mapping[str, str], private: Collection[str], only: tuple[str, ...]
) -> list[Path]:
    """Write every asset below ``target``, in a folder for each kind; return what was written.

    Symbolic links below ``target`` are replaced, not followed.

    Args:
        target: the folder; it is created if it does not exist.
        rendered: texts by their path below ``target``, for assets that are not copied as they are.
        private: the paths below ``target`` that only this user may read.
        only: what the paths below ``target`` begin with; others are not written.

    Raises:
        ExporterError: something cannot be written.
    """
    written = []
    for kind, name, source in files():
        inside = f"{kind}/{name.as_posix()}"
        if not inside.startswith(only):
            continue
        path = target / inside
        try:
            _make_folder(target, path.parent)
            content = rendered[inside].encode() if inside in rendered else source.read_bytes()
            mode = 0o600 if inside in private else stat.S_IMODE(source.stat().st_mode)
            _replace(path, content, mode)
        except OSError as error:
            raise ExporterError(f"{path}: cannot be written: {error.strerror or error}") from None
        written.append(path)
    return written


def _make_folder(target: Path, folder: Path) -> None:
    """Make ``folder`` and those between ``target`` and it; replace symbolic links among them.

    ``target`` itself may be a link: the user has named it.
    """
    target.mkdir(parents=True, exist_ok=True)
    each = target
    for name in folder.relative_to(target).parts:
        each /= name
        if each.is_symlink():
            each.unlink()
        each.mkdir(exist_ok=True)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Write a new file beside ``path`` and rename it.

    A failure leaves the old file. A symbolic link is replaced, not followed.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.chmod(mode)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
