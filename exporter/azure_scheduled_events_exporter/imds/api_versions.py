"""Which api-version to ask IMDS with: the configured one, or the newest one that this IMDS answers.

Must not send requests: ``imds.client`` does, and reports what was refused.

An IMDS that does not know a version answers 400 with the versions that it has, or 404.
Source: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service (Versions)
"""

import re
from collections.abc import Callable, Iterable

from azure_scheduled_events_exporter.core.event_types import ADVISORY_API_VERSION, API_VERSION

AUTO = "auto"
UNSPECIFIED = ""
"""For a request without a version: IMDS refuses it, and names the versions that it has."""

INSTANCE_API_VERSIONS = ("2021-02-01", "2017-12-01", "2017-08-01")  # all have ``compute.name``
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOST_OFFERED = 3  # of the versions that IMDS offers, so many are tried
_MOST_READ = 20  # entries of IMDS' list of versions that are read


class ApiVersions:
    """The versions to ask one path of IMDS with.

    The first one that is answered is used from then on.

    Args:
        versions: the preferred one first, the oldest one last. If the first is
            :data:`UNSPECIFIED`, the newest of those that IMDS offers in its refusal are tried next.
        tell: is called with the version that was found, if there was a choice.
    """

    def __init__(self, *versions: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._versions = versions
        self._tell = tell
        self._next = list(versions)  # those still to ask with, in this order
        self.found: str | None = None
        """The version that is used from now on; None until one was answered."""
        if len(versions) == 1:
            self.found = versions[0]

    @property
    def current(self) -> str:
        """The version to ask with now."""
        return self._next[0] if self.found is None else self.found

    @property
    def usable(self) -> str:
        """The version for a request that is not repeated with another one."""
        return self.found or self._versions[-1]  # the oldest, which is known most widely

    def answered(self) -> None:
        """Use the current version from now on."""
        if self.found is None:
            self.found = self.current
            self._tell(self.found)

    def refused(self, offered: Iterable[str] = ()) -> bool:
        """Go on to the next version; return False if all were asked.

        ``offered``: the versions that IMDS has named in its refusal.
        """
        if self.found is not None:
            return False
        asked = self._next.pop(0)
        if asked == UNSPECIFIED:
            newer = [each for each in offered if each > self._versions[-1]]  # dates, as texts
            newest = sorted(newer, reverse=True)[:_MOST_OFFERED]
            self._next = sorted({*newest, *self._next}, reverse=True)  # the newest first
        if self._next:
            return True
        # For the next time: the service may only have been moving.
        self._next = list(self._versions)
        return False


def event_versions(setting: str, tell: Callable[[str], None] = lambda _: None) -> ApiVersions:
    """Return the versions of Scheduled Events for a value of ``--imds.api-version``."""
    if setting != AUTO:
        return ApiVersions(setting)
    return ApiVersions(UNSPECIFIED, ADVISORY_API_VERSION, API_VERSION, tell=tell)


def offered_in(content: object) -> tuple[str, ...]:
    """Return the versions that the error body ``content`` of IMDS names."""
    if not isinstance(content, dict):
        return ()
    offered = content.get("newest-versions")
    if not isinstance(offered, list):
        return ()
    texts = [each for each in offered[:_MOST_READ] if isinstance(each, str)]
    return tuple(text for text in texts if _DATE.fullmatch(text))
