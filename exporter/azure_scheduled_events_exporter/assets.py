"""Finds and exports what is shipped besides the program, such as dashboards and alert rules.

In an installed wheel, these files (assets) are in ``assets/`` beside this module; in a source tree,
they are in their source folders. Must not render an asset: a caller hands over changed texts.
"""

import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .errors import ExporterError

_PACKAGE = Path(__file__).parent
_SOURCE = _PACKAGE.parent.parent


class Kind(NamedTuple):
    """One kind of assets."""

    source: str
    """Its folder in a source tree."""
    description: str
    """What its files are, for the list that ``assets`` prints."""


KINDS: Mapping[str, Kind] = {
    "dashboards": Kind("dashboards/json", "Grafana dashboards and their provisioning"),
    "alerts": Kind(
        "alerts/generated",
        "Prometheus rules, Alertmanager, Grafana, Azure Monitor, scrape configurations",
    ),
    "runbooks": Kind("docs/runbooks", "one page per alert: what it means and what to do"),
    "metadata-security-protocol": Kind(
        "deploy/metadata-security-protocol",
        "who may use Scheduled Events, for Azure's Guest Proxy Agent",
    ),
    "systemd": Kind("deploy/systemd", "the systemd unit and its settings"),
    "helm": Kind("deploy/helm", "the Helm chart"),
    "examples": Kind(
        "deploy/examples",
        "approval policies, drain scripts and their systemd units, roll-outs to a fleet",
    ),
}
"""The kinds by name, which is their folder in a wheel and in an export.

pyproject.toml adds the same source folders to the wheel.
"""


def folder(kind: str) -> Path:
    """Return the folder that holds assets of ``kind``.

    Raises:
        ExporterError: this installation has none.
    """
    for candidate in (_PACKAGE / "assets" / kind, _SOURCE / KINDS[kind].source):
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
    """Write assets below ``target``, in a folder for each kind; return the paths of the files.

    Symbolic links below ``target`` are replaced, not followed.

    Args:
        target: the folder; it is created if it does not exist.
        rendered: texts that are written in place of an asset's own content, by the path of the
            asset below ``target``.
        private: the paths below ``target`` that only this user may read.
        only: prefixes of paths below ``target``: an asset is written if its path begins with one
            of them; ``("",)`` writes all.

    Raises:
        ExporterError: something cannot be written.
    """
    written = []
    for kind, name, source in files():
        relative = f"{kind}/{name.as_posix()}"
        if not relative.startswith(only):
            continue
        path = target / relative
        try:
            _make_folder(target, path.parent)
            content = source.read_bytes()
            if relative in rendered:
                content = rendered[relative].encode()
            mode = stat.S_IMODE(source.stat().st_mode)
            if relative in private:
                mode = 0o600
            _replace(path, content, mode)
        except OSError as error:
            raise ExporterError(f"{path}: cannot be written: {error.strerror or error}") from None
        written.append(path)
    return written


def _make_folder(target: Path, innermost: Path) -> None:
    """Make ``target``, ``innermost`` below it, and the folders between the two.

    Symbolic links are replaced by folders, except ``target`` itself: the user has named it.
    """
    target.mkdir(parents=True, exist_ok=True)
    current = target
    for name in innermost.relative_to(target).parts:
        current /= name
        if current.is_symlink():
            current.unlink()
        current.mkdir(exist_ok=True)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Write ``content`` to ``path``: to a new file beside it, which is then renamed.

    A failure leaves the old file as it was. A symbolic link is replaced, not followed.
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
