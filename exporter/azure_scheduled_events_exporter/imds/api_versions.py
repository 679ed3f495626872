"""Which api-version to ask IMDS with: the configured one, or the newest one that this IMDS answers.

Must not send requests: ``imds.client`` does, and tells which version was answered or refused.

An IMDS that does not know a version answers 400 with the versions that it has, or 404.
Source: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service (Versions)
"""

import re
from collections.abc import Callable, Iterable

from azure_scheduled_events_exporter.core.event_types import ADVISORY_API_VERSION, API_VERSION

AUTO = "auto"
UNSPECIFIED = ""
"""For a request without a version: IMDS refuses it, and names the versions that it has."""

INSTANCE_API_VERSIONS = ("2021-02-01", "2017-12-01", "2017-08-01")
"""The versions to ask for ``/metadata/instance`` with: the answers to all have ``compute.name``."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)  # the form of a version
_MOST_TRIED = 3  # how many of the versions that IMDS offers are tried, newest first
_MOST_READ = 20  # entries of IMDS' list of versions that are read


class ApiVersions:
    """The versions to ask one path of IMDS with.

    Ask with :attr:`current`, and call :meth:`answered` or :meth:`refused` after each request. The
    first version that is answered is used from then on.

    Args:
        versions: the preferred one first, the oldest one last. If the first is
            :data:`UNSPECIFIED`, the newest of those that IMDS offers in its refusal are merged with
            the others given here, and all are tried, newest first. Only an offered version that is
            newer than the oldest given one counts.
        tell: is called once, with the version that was found, if there was a choice.
    """

    def __init__(self, *versions: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._versions = versions
        self._tell = tell
        self._untried = list(versions)  # those that were not refused, in the order of asking
        self.found: str | None = None
        """The version that is used from now on.

        It is None until one was answered, unless only one is given, which is used from the start.
        """
        if len(versions) == 1:
            self.found = versions[0]

    @property
    def current(self) -> str:
        """The version to ask with now."""
        if self.found is not None:
            return self.found
        return self._untried[0]

    @property
    def usable(self) -> str:
        """The version for a request that is not repeated with another one."""
        return self.found or self._versions[-1]  # the oldest, which is known most widely

    def answered(self) -> None:
        """Use the current version from now on: it was answered."""
        if self.found is None:
            self.found = self.current
            self._tell(self.found)

    def refused(self, offered: Iterable[str] = ()) -> bool:
        """Go on to the next version: the current one was refused. Return whether there is one.

        If there is none, the first one is the current version again, and a later request begins
        anew, because IMDS also answers 404 for a moment while Azure moves the service. After
        :meth:`answered`, the version that was found stays, whatever is refused.

        ``offered``: the versions that IMDS has named in its refusal.
        """
        if self.found is not None:
            return False
        refused = self._untried.pop(0)
        if refused == UNSPECIFIED:
            # Versions are dates, so their order as texts is that of their age.
            newer = [version for version in offered if version > self._versions[-1]]
            newest = sorted(newer, reverse=True)[:_MOST_TRIED]
            self._untried = sorted({*newest, *self._untried}, reverse=True)
        if self._untried:
            return True
        self._untried = list(self._versions)
        return False


def event_versions(setting: str, tell: Callable[[str], None] = lambda _: None) -> ApiVersions:
    """Return the versions of Scheduled Events for a value of ``--imds.api-version``."""
    if setting != AUTO:
        return ApiVersions(setting)
    return ApiVersions(UNSPECIFIED, ADVISORY_API_VERSION, API_VERSION, tell=tell)


def offered_in(content: object) -> tuple[str, ...]:
    """Return the versions that IMDS names in ``content``, the JSON of its refusal."""
    if not isinstance(content, dict):
        return ()
    offered = content.get("newest-versions")
    if not isinstance(offered, list):
        return ()
    texts = [each for each in offered[:_MOST_READ] if isinstance(each, str)]
    return tuple(text for text in texts if _DATE.fullmatch(text))
