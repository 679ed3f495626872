"""Recognizes an answer that does not come from IMDS: another cloud, a proxy, another server.

Every statement has its evidence in the answer. Pure.
"""

from http import HTTPStatus

from azure_scheduled_events_exporter.errors import one_line
from azure_scheduled_events_exporter.http_client.web_page import is_web_page

from .answer import Answer

_OTHER_CLOUD = "this is not an Azure VM"
_OTHER_SERVER = "a proxy or another server answers"
_CHECK = "check --imds.endpoint"
_AZURE_SERVERS = ("imds", "microsoft-")
"""How the header Server of IMDS begins, in lower case."""

_CLOUD_SERVERS = {
    "ec2ws": "Amazon EC2's metadata service answers",
    "metadata server for vm": "Google Cloud's metadata server answers",
}
"""Who sends this header Server, in lower case."""

_LONGEST_NAME = 40  # characters of a header that a message quotes


def foreign(answer: Answer) -> str:
    """Return who answers instead of IMDS, and what to do; ``""`` without evidence for that."""
    return _other_cloud(answer) or _other_server(answer)


def _other_cloud(answer: Answer) -> str:
    """Return which other cloud's metadata server answers; ``""`` if none is recognized."""
    flavor = answer.headers.get("Metadata-Flavor", "").strip()
    if flavor:
        shown = one_line(flavor, _LONGEST_NAME)
        return f"{_OTHER_CLOUD}: the metadata server of {shown} answers (header Metadata-Flavor)"
    server = answer.headers.get("Server", "").strip()
    cloud = _CLOUD_SERVERS.get(server.lower())
    return f"{_OTHER_CLOUD}: {cloud} (header Server: {server})" if cloud else ""


def _other_server(answer: Answer) -> str:
    """Return that a proxy or another server answers, and what shows it; ``""`` if nothing does."""
    via = one_line(answer.headers.get("Via", ""), _LONGEST_NAME)
    server = answer.headers.get("Server", "").strip()
    is_azures = not server or server.lower().startswith(_AZURE_SERVERS)
    # Whether there is this evidence, what else it may mean, and how it is described. The first
    # counts.
    rows = (
        (_is_redirect(answer.status), "", " with a redirect, which is never followed"),
        # A proxy adds Via, and IMDS is reached without one.
        (bool(via), "", f" (header Via: {via})"),
        (answer.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, "", ", and wants a user"),
        (
            is_web_page(answer.headers, answer.body or b""),
            f"{_OTHER_CLOUD}, or ",
            " with a web page",
        ),
        (_is_xml(answer), "", " with XML"),
        (
            not is_azures,
            f"{_OTHER_CLOUD}, or ",
            f" (header Server: {one_line(server, _LONGEST_NAME)})",
        ),
    )
    for is_evident, before, evidence in rows:
        if is_evident:
            return f"{before}{_OTHER_SERVER}{evidence}; {_CHECK}"
    return ""


def _is_xml(answer: Answer) -> bool:
    return (answer.body or b"").lstrip().startswith(b"<")


def _is_redirect(status: int) -> bool:
    """Return whether the status leads elsewhere; a 304 (unchanged) does not."""
    is_3xx = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    return is_3xx and status != HTTPStatus.NOT_MODIFIED
