"""Recognizes an answer that does not come from IMDS: another cloud, a proxy, another server.

Every statement has its evidence in the answer. Pure.
"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple

from azure_scheduled_events_exporter.errors import one_line
from azure_scheduled_events_exporter.http_client.web_page import is_web_page

from .answer import Answer

_OTHER_CLOUD = "this is not an Azure VM"
_OTHER_SERVER = "a proxy or another server answers"
_CHECK = "check --imds.endpoint"
_AZURE_SERVERS = ("imds", "microsoft-")
"""The beginnings that the header Server of IMDS can have, in lower case."""

_CLOUD_SERVERS = {
    "ec2ws": "Amazon EC2's metadata service answers",
    "metadata server for vm": "Google Cloud's metadata server answers",
}
"""What another cloud's header Server, in lower case, says."""

_LONGEST_NAME = 40  # characters of a header that a message quotes


class _Evidence(NamedTuple):
    """What shows that a proxy or another server has answered.

    Attributes:
        shown: how a message goes on after "answers".
        may_be_other_cloud: whether another cloud's metadata service may answer so too.
    """

    shown: str
    may_be_other_cloud: bool = False


def who_answers_instead(answer: Answer) -> str:
    """Return who answers instead of IMDS, and what to do; ``""`` without evidence for that."""
    return _other_cloud(answer) or _other_server(answer)


def _other_cloud(answer: Answer) -> str:
    """Return which other cloud's metadata server answers; ``""`` if none is recognized."""
    flavor = answer.headers.get("Metadata-Flavor", "").strip()
    if flavor:
        shown = one_line(flavor, _LONGEST_NAME)
        return f"{_OTHER_CLOUD}: the metadata server of {shown} answers (header Metadata-Flavor)"
    server = answer.headers.get("Server", "").strip()
    cloud_answers = _CLOUD_SERVERS.get(server.lower())
    if cloud_answers is None:
        return ""
    return f"{_OTHER_CLOUD}: {cloud_answers} (header Server: {server})"


def _other_server(answer: Answer) -> str:
    """Return that a proxy or another server answers, and what shows it; ``""`` if nothing does."""
    first = next(_evidence(answer), None)
    if first is None:
        return ""
    who = _OTHER_SERVER
    if first.may_be_other_cloud:
        who = f"{_OTHER_CLOUD}, or {_OTHER_SERVER}"
    return f"{who}{first.shown}; {_CHECK}"


def _evidence(answer: Answer) -> Iterator[_Evidence]:
    """Yield what shows that a proxy or another server has answered, the clearest first."""
    if _is_redirect(answer.status):
        yield _Evidence(" with a redirect, which is never followed")
    via = one_line(answer.headers.get("Via", ""), _LONGEST_NAME)
    if via:  # a proxy adds it, and IMDS is reached without one
        yield _Evidence(f" (header Via: {via})")
    if answer.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        yield _Evidence(", and wants a user")
    if is_web_page(answer.headers, answer.body or b""):
        yield _Evidence(" with a web page", may_be_other_cloud=True)
    if _is_xml(answer):
        yield _Evidence(" with XML")
    server = answer.headers.get("Server", "").strip()
    if server and not server.lower().startswith(_AZURE_SERVERS):
        shown = one_line(server, _LONGEST_NAME)
        yield _Evidence(f" (header Server: {shown})", may_be_other_cloud=True)


def _is_xml(answer: Answer) -> bool:
    """Return whether the body begins as XML does."""
    return (answer.body or b"").lstrip().startswith(b"<")


def _is_redirect(status: int) -> bool:
    """Return whether the status leads elsewhere; a 304 (unchanged) does not."""
    is_3xx = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    return is_3xx and status != HTTPStatus.NOT_MODIFIED
