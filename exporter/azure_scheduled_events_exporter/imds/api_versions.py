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
_MOST_OFFERED = 3


class ApiVersions:
    """The versions to ask one path of IMDS with.

    The first one that is answered is used from then on.

    Args:
        versions: the preferred one first. After :data:`UNSPECIFIED` come the newest ones that IMDS
            then offers.
        tell: is called with the version that was found, if there was a choice.
    """

    def __init__(self, *versions: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._versions = versions
        self._tell = tell
        self._next = [*versions]
        self.found = versions[0] if len(versions) == 1 else None
        """The version that is used from now on; None until one was answered."""

    @property
    def current(self) -> str:
        """The version to ask with now."""
        return self._next[0] if self.found is None else self.found

    @property
    def usable(self) -> str:
        """The version for a request that is not repeated with another one."""
        return self.found or self._versions[-1]

    def answered(self) -> None:
        """Use the current version from now on."""
        if self.found is None:
            self.found = self.current
            self._tell(self.found)

    def refused(self, offered: Iterable[str] = ()) -> bool:
        """Go on to the next version; return False if all were asked."""
        if self.found is not None:
            return False
        if self._next.pop(0) == UNSPECIFIED:
            newer = sorted((each for each in offered if each > self._versions[-1]), reverse=True)
            self._next = sorted({*newer[:_MOST_OFFERED], *self._next}, reverse=True)
        if self._next:
            return True
        self._next = [*self._versions]  # for the next time: the service may only have been moving
        return False


def event_versions(setting: str, tell: Callable[[str], None] = lambda _: None) -> ApiVersions:
    """Return the versions of Scheduled Events for a value of ``--imds.api-version``."""
    if setting != AUTO:
        return ApiVersions(setting)
    return ApiVersions(UNSPECIFIED, ADVISORY_API_VERSION, API_VERSION, tell=tell)


def offered_in(content: object) -> tuple[str, ...]:
    """Return the versions that the error body ``content`` of IMDS names."""
    offered = content.get("newest-versions") if isinstance(content, dict) else None
    if not isinstance(offered, list):
        return ()
    return tuple(each for each in offered[:20] if isinstance(each, str) and _DATE.fullmatch(each))
