"""Reads the parts of the compose file that programs without containers need.

Starts nothing, writes nothing.

The rest, such as how a container is sealed off, is for a container engine alone.
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
        text = _VARIABLE.sub(
            lambda found: variables.get(found[1]) or found[2], file.read_text("utf-8")
        )
        written = _merged(written, yaml.safe_load(text)["services"])
    order = TopologicalSorter(
        {name: body.get("depends_on", ()) for name, body in written.items()}
    ).static_order()
    return {name: _service(path.parent, name, written[name]) for name in order}


def _merged(base: Any, over: Any) -> Any:
    """Merge mappings by key, as the Compose Specification says.

    No file here adds volumes or ports to a service.
    """
    merges = {key for key, value in over.items() if isinstance(value, dict) and key in base}
    return base | {
        key: _merged(base[key], value) if key in merges else value for key, value in over.items()
    }


def _service(folder: Path, name: str, body: Mapping[str, Any]) -> Service:
    return Service(
        name=name,
        image=body["image"].rpartition(":")[0],
        entrypoint=tuple(body.get("entrypoint", ())),
        command=tuple(map(str, body.get("command", ()))),
        environment={key: str(value) for key, value in body.get("environment", {}).items()},
        mounts=tuple(_mount(folder, str(volume)) for volume in body.get("volumes", ())),
        ports={
            int(inside): int(outside)
            for _, outside, inside in (port.split(":") for port in body.get("ports", ()))
        },
        shown=body.get("attach", True),
    )


def _mount(folder: Path, volume: str) -> Mount:
    source, colon, rest = volume.partition(":")
    target = rest.partition(":")[0] if colon else source
    if source.startswith("."):
        return Mount(target, file=folder / source)
    return Mount(target, volume=source if colon else None)
