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
    """What is at ``target`` in a container: a ``file`` of this machine, or a volume.

    Without a ``file`` and without the name of a ``volume``, it is a volume of this container alone.
    """

    target: str
    file: Path | None = None
    volume: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """One service.

    Attributes:
        image: the name of its image, without the tag.
        command: the arguments of ``entrypoint``, or of the image's own where that is empty.
        ports: the port of 127.0.0.1 on which each port of the container is published. A service
            without ports does its work once and ends.
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
    bodies: Any = {}
    for file in (path, *overrides):
        text = _with_variables(file.read_text("utf-8"), variables)
        parsed = yaml.safe_load(text)
        bodies = _merged(bodies, parsed["services"])
    needs = {}
    for name, body in bodies.items():
        needs[name] = body.get("depends_on", ())
    services = {}
    for name in TopologicalSorter(needs).static_order():
        services[name] = _service(path.parent, name, bodies[name])
    return services


def _with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return ``text`` with the value or the default of each ``${NAME:-default}``."""

    def value(found: re.Match[str]) -> str:
        return variables.get(found[1]) or found[2]

    return _VARIABLE.sub(value, text)


def _merged(base: Any, over: Any) -> Any:
    """Return two mappings merged by key, as the Compose Specification says.

    A list of ``over`` replaces that of ``base``, as is right for a command. The specification joins
    lists of volumes and of ports, but no file of ours adds any to a service.
    """
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and key in base:
            merged[key] = _merged(base[key], value)
        else:
            merged[key] = value
    return merged


def _service(folder: Path, name: str, body: Mapping[str, Any]) -> Service:
    """Return the service whose keys are in ``body``; its files are relative to ``folder``."""
    image, _, _ = body["image"].rpartition(":")
    entrypoint = body.get("entrypoint", ())
    command = body.get("command", ())
    environment = {}
    for key, value in body.get("environment", {}).items():
        environment[key] = str(value)
    mounts = [_mount(folder, str(volume)) for volume in body.get("volumes", ())]
    ports = {}
    for port in body.get("ports", ()):
        _, outside, inside = port.split(":")  # after the address of this machine
        ports[int(inside)] = int(outside)
    return Service(
        name=name,
        image=image,
        entrypoint=tuple(entrypoint),
        command=tuple(map(str, command)),
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
