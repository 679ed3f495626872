"""Reads the parts of the compose file that programs without containers need.

The rest, such as how a container is sealed off, is for a container engine alone. Starts nothing,
writes nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

_VARIABLE = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Mount:
    """What is at ``target`` in a container: a file here, a named volume, or one of its own."""

    target: str
    file: Path | None = None
    volume: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """One service.

    Attributes:
        command: the arguments of ``entrypoint``, or of the image's own where that is empty.
        ports: what it listens on, each with the port of 127.0.0.1 where that is published; none: it
            does its work once.
        shown: whether people are to see what it prints.
    """

    name: str
    image: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    ports: Mapping[int, int]
    shown: bool


def read(path: Path, variables: Mapping[str, str], *overrides: Path) -> dict[str, Service]:
    """Return the services of the compose file at ``path``, each after what it needs.

    ``overrides`` are compose files of the same folder, which change and add services as a container
    engine merges them.
    """
    written: Any = {}
    for file in (path, *overrides):
        text = _with_variables(file.read_text("utf-8"), variables)
        parsed = yaml.safe_load(text)
        written = _merged(written, parsed["services"])
    needs = {}
    for name, body in written.items():
        needs[name] = body.get("depends_on", ())
    services = {}
    for name in TopologicalSorter(needs).static_order():
        services[name] = _service(path.parent, name, written[name])
    return services


def _with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Replace each ``${NAME:-default}``."""

    def value(found: re.Match[str]) -> str:
        return variables.get(found[1]) or found[2]

    return _VARIABLE.sub(value, text)


def _merged(base: Any, over: Any) -> Any:
    """Merge mappings by key, as the Compose Specification says.

    No file here adds volumes or ports to a service.
    """
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and key in base:
            merged[key] = _merged(base[key], value)
        else:
            merged[key] = value
    return merged


def _service(folder: Path, name: str, body: Mapping[str, Any]) -> Service:
    image, _, _ = body["image"].rpartition(":")
    environment = {}
    for key, value in body.get("environment", {}).items():
        environment[key] = str(value)
    mounts = [_mount(folder, str(volume)) for volume in body.get("volumes", ())]
    ports = {}
    for port in body.get("ports", ()):
        _, outside, inside = port.split(":")
        ports[int(inside)] = int(outside)
    return Service(
        name=name,
        image=image,
        entrypoint=tuple(body.get("entrypoint", ())),
        command=tuple(map(str, body.get("command", ()))),
        environment=environment,
        mounts=tuple(mounts),
        ports=ports,
        shown=body.get("attach", True),
    )


def _mount(folder: Path, volume: str) -> Mount:
    """Return the mount that is written ``./FILE:TARGET``, ``VOLUME:TARGET`` or ``TARGET``.

    ``:ro`` may follow.
    """
    source, colon, rest = volume.partition(":")
    if not colon:
        return Mount(volume)
    target, _, _ = rest.partition(":")
    if source.startswith("."):
        return Mount(target, file=folder / source)
    return Mount(target, volume=source)
