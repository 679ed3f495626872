"""Translates the settings of containers for ``make stack``, which runs services without containers.

Names of services become addresses of 127.0.0.1, and mounts become files in a folder. A line that
names a service which does not run here is left out. Starts nothing, and writes only the files that
a service mounts.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from .compose import Mount, Service

# Debian's builds have no web pages for people, or older ones. Their APIs have the same data: the
# path that replaces that of a page.
_PAGES = {
    "docker.io/prom/prometheus": {"/alerts": "/api/v1/alerts"},
    "docker.io/prom/alertmanager": {"/#/alerts": "/api/v2/alerts"},
    "docker.io/victoriametrics/victoria-metrics": {"/alerts": "/api/v1/alerts"},
}


class Wiring:
    """Knows where on this machine everything is that texts for containers name.

    Args:
        services: all that the compose file has.
        absent: the names of those that do not run here.
        ports: the port of 127.0.0.1 that replaces each published one.
        folder: where volumes and translated files are.
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
        of_absent: list[str] = []
        for name, service in services.items():
            if name in absent:
                of_absent.extend(_addresses_of(service))
            else:
                self._add_addresses(service)
        # Whole addresses only: not the end of a longer name, nor the beginning of a longer port.
        self._absent_address = re.compile(rf"(?<![\w.-])(?:{_any_of(of_absent)})(?!\d)")

    def _add_addresses(self, service: Service) -> None:
        """Note what replaces the addresses of ``service``, and those of its pages.

        Other services name it by its name, and people by the port where it is published.
        """
        pages = _PAGES.get(service.image, {})
        for inside, outside in service.ports.items():
            here = self._local(outside)
            published = f"127.0.0.1:{outside}"
            self._addresses[f"{service.name}:{inside}"] = here
            self._addresses[published] = here
            for path, data in pages.items():
                self._addresses[f"{published}{path}"] = f"{here}{data}"

    def command(self, service: Service) -> list[str]:
        """Return entrypoint and arguments of ``service``, without those about an absent one."""
        found = []
        for written in (*service.entrypoint, *service.command):
            text = self._text(service, written)
            if text:
                found.append(text)
        return found

    def environment(self, service: Service) -> dict[str, str]:
        """Return the variables of ``service``, without those about an absent one."""
        found = {}
        for name, written in service.environment.items():
            text = self._text(service, written)
            if text:
                found[name] = text
        return found

    def prepare(self, service: Service) -> None:
        """Make the folders that ``service`` mounts, and write the files, translated."""
        for mount in service.mounts:
            path = self._path(service, mount)
            if mount.file is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                text = self._text(service, mount.file.read_text("utf-8"))
                path.write_text(text, "utf-8")

    def _text(self, service: Service, text: str) -> str:
        """Return ``text`` for ``service`` here, without the lines about absent services."""
        kept = ""
        for line in text.splitlines(keepends=True):
            if not self._absent_address.search(line):
                kept += line
        here = self._here(service)
        # Of two names of which one begins with the other, the longer one is meant.
        longest_first = sorted(here, key=len, reverse=True)
        any_of_them = _any_of([re.escape(each) for each in longest_first])
        # Whole names only: not a part of a longer one.
        whole = re.compile(rf"(?<![\w.-])(?:{any_of_them})(?![\w-])")
        return whole.sub(lambda found: here[found[0]], kept)

    def _here(self, service: Service) -> dict[str, str]:
        """Return what each path and address in the texts of ``service`` is on this machine."""
        here: dict[str, str] = {}
        for mount in service.mounts:
            here[mount.target] = str(self._path(service, mount))
        for inside, outside in service.ports.items():
            here[f":{inside}"] = self._local(outside)  # as its own flags write it
        return here | self._addresses

    def _path(self, service: Service, mount: Mount) -> Path:
        """Return the file or folder of this machine that replaces a mount."""
        if mount.volume is not None:
            return self._folder / "volumes" / mount.volume
        return self._folder / service.name / mount.target.lstrip("/")

    def ports(self, service: Service) -> list[int]:
        """Return where ``service`` listens on 127.0.0.1."""
        return [self._ports[published] for published in service.ports.values()]

    def _local(self, published: int) -> str:
        """Return the address here of what is published on a port."""
        return f"127.0.0.1:{self._ports[published]}"


def _addresses_of(service: Service) -> Iterator[str]:
    """Yield regular expressions of the addresses by which others name ``service``."""
    yield rf"{re.escape(service.name)}:\d+"
    for port in service.ports.values():
        yield rf"127\.0\.0\.1:{port}"


def _any_of(expressions: Sequence[str]) -> str:
    """Return a regular expression that matches any of ``expressions``.

    If there are none, it matches nothing.
    """
    if not expressions:
        return "(?!)"
    return "|".join(expressions)
