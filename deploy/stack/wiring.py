"""Translates the settings of containers for this machine.

Names become addresses of 127.0.0.1, and mounts become files.

Decides; the only thing that it writes is the files that a service mounts, translated. A line that
names a service which is not here is left out.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from .compose import Mount, Service

# Debian's builds have no web pages for people, or older ones: the same data comes from their APIs.
_PAGES = {
    "docker.io/prom/prometheus": {"/alerts": "/api/v1/alerts"},
    "docker.io/prom/alertmanager": {"/#/alerts": "/api/v2/alerts"},
    "docker.io/victoriametrics/victoria-metrics": {"/alerts": "/api/v1/alerts"},
}


class Wiring:
    """Knows where everything is.

    Args:
        services: all that the compose file has.
        absent: the names of those that do not run here.
        ports: the port of 127.0.0.1 that replaces each published one.
        folder: where volumes and translated files lie.
    """

    def __init__(
        self,
        services: Mapping[str, Service],
        absent: Collection[str],
        ports: Mapping[int, int],
        folder: Path,
    ) -> None:
        self._folder = folder
        self._ports = ports
        self._addresses: dict[str, str] = {}
        gone = []
        for name, service in services.items():
            if name in absent:
                gone += [
                    *(rf"127\.0\.0\.1:{port}" for port in service.ports.values()),
                    rf"{re.escape(name)}:\d+",
                ]
                continue
            for inside, outside in service.ports.items():
                here = self._local(outside)
                self._addresses |= {f"{name}:{inside}": here, f"127.0.0.1:{outside}": here}
                shown = _PAGES.get(service.image, {}).items()
                self._addresses |= {
                    f"127.0.0.1:{outside}{path}": f"{here}{other}" for path, other in shown
                }
        self._gone = re.compile(rf"(?<![\w.-])(?:{'|'.join(gone) or '(?!)'})(?!\d)")

    def command(self, service: Service) -> list[str]:
        """Return entrypoint and arguments of ``service``."""
        texts = (*service.entrypoint, *service.command)
        return [found for text in texts if (found := self._text(service, text))]

    def environment(self, service: Service) -> dict[str, str]:
        """Return its variables, without those that are about an absent service."""
        texts = service.environment.items()
        return {name: found for name, text in texts if (found := self._text(service, text))}

    def prepare(self, service: Service) -> None:
        """Make the folders of its volumes, and write the files that it mounts, translated."""
        for mount in service.mounts:
            path = self._path(service, mount)
            if mount.file is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._text(service, mount.file.read_text("utf-8")), "utf-8")

    def _text(self, service: Service, text: str) -> str:
        """Return ``text`` for ``service`` here, without the lines about absent services."""
        lines = [line for line in text.splitlines(keepends=True) if not self._gone.search(line)]
        paths = {mount.target: str(self._path(service, mount)) for mount in service.mounts}
        listens = {f":{inside}": self._local(outside) for inside, outside in service.ports.items()}
        known = paths | listens | self._addresses
        longest_first = "|".join(sorted(map(re.escape, known), key=len, reverse=True)) or "(?!)"
        return re.sub(
            rf"(?<![\w.-])(?:{longest_first})(?![\w-])",
            lambda found: known[found[0]],
            "".join(lines),
        )

    def _path(self, service: Service, mount: Mount) -> Path:
        if mount.volume is not None:
            return self._folder / "volumes" / mount.volume
        return self._folder / service.name / mount.target.lstrip("/")

    def ports(self, service: Service) -> list[int]:
        """Return where ``service`` listens on 127.0.0.1."""
        return [self._ports[published] for published in service.ports.values()]

    def _local(self, published: int) -> str:
        return f"127.0.0.1:{self._ports[published]}"
