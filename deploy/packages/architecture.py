"""The processors for which there are packages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Architecture:
    """A processor, by its two usual names."""

    debian: str
    """As ``dpkg --print-architecture`` says it."""

    machine: str
    """As ``uname -m`` says it."""


ARCHITECTURES = (
    Architecture(debian="amd64", machine="x86_64"),
    Architecture(debian="arm64", machine="aarch64"),
)
