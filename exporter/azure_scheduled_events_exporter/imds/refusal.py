"""What an answer of IMDS other than 200 means for people: one line with the cause and what to do.

Every cause has its evidence in the answer; without any, the line says that the cause is unknown.
Sends nothing.
"""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses
from typing import Any

from azure_scheduled_events_exporter.errors import ImdsError, Outcome, one_line

from . import guest_proxy_agent
from .answer import Answer
from .api_versions import AUTO, UNSPECIFIED, offered_in
from .foreign import foreign

NO_ROUTE = (
    "this is not an Azure VM, or it has no route to IMDS, and something on the way answers instead"
)
API_VERSION_FLAG = "--imds.api-version"
INSTANCE_NAME_FLAG = "--instance.name"
ADVICE: Mapping[str, str] = {
    API_VERSION_FLAG: f"set {API_VERSION_FLAG} to {AUTO}, or to another version",
    INSTANCE_NAME_FLAG: f"give this VM's name as it appears in Resources: {INSTANCE_NAME_FLAG}",
}
"""What to do where an api-version is unknown, by the setting."""

UNKNOWN = "the cause is unknown"
_MOVING = "the service may be moving, which takes up to 70 s"
_TEMPORARY: Mapping[int, str] = {
    HTTPStatus.NOT_FOUND: f"{_MOVING}; else check --imds.endpoint",
    HTTPStatus.METHOD_NOT_ALLOWED: f"{_MOVING}; else check --imds.endpoint",
    HTTPStatus.GONE: "the service is moving, which takes up to 70 s",
    HTTPStatus.TOO_MANY_REQUESTS: (
        "over 5 requests a second from this VM, all its programs together"
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: "usually temporary: the next poll asks again",
    HTTPStatus.SERVICE_UNAVAILABLE: "usually temporary: the next poll asks again",
}
"""Hints at what Azure documents as passing."""
_HINTS: Mapping[int, str] = {
    **_TEMPORARY,
    HTTPStatus.BAD_REQUEST: f"{UNKNOWN}; a proxy that adds X-Forwarded-For is one that is known",
}
_APPROVAL_HINTS: Mapping[int, str] = {
    **_HINTS,
    HTTPStatus.BAD_REQUEST: (
        "an event may be over: compare the EventIds with azure-scheduled-events-exporter events"
    ),
}
"""Likewise for an approval, where a 400 may be about an EventId."""

_DETAIL_BYTES = 4096  # of a body that are read
_MOST_NAMED = 5  # api-versions that a message names
_TAG = re.compile(r"<(script|style)\b.*?(</\1>|$)|<[^>]*(>|$)", re.DOTALL | re.IGNORECASE)
"""Markup: a script or a style with its content, or one tag; also one that the text's end cuts."""


def refusal(
    asked: str, path: str, answer: Answer, *, version: str | None = None, flag: str = ""
) -> ImdsError:
    """Return the error for ``answer``, which is no 200, of the address ``asked``.

    ``path`` is what was asked for, as rules of an agent in between name it.

    The request had the api-version ``version``; None for an approval. ``flag`` is the setting that
    helps if this version is unknown there, one of :data:`ADVICE`.
    """
    body = answer.body or b""
    text = body[:_DETAIL_BYTES].decode("utf-8", "replace")
    content = _json(text)
    if isinstance(content, dict) and isinstance(content.get("error"), str):
        text = content["error"]
    offered = offered_in(content)
    said = _own_phrase(answer)
    hint = _cause(answer, path, said, content)
    if not hint and version is not None:
        hint = _about_version(answer.status, text, version, offered, flag)
    if not hint:
        hints = _APPROVAL_HINTS if version is None else _HINTS
        hint = hints.get(answer.status, UNKNOWN)
    is_throttled = answer.status == HTTPStatus.TOO_MANY_REQUESTS
    passing = _TEMPORARY.get(answer.status)
    return ImdsError(
        Outcome.THROTTLED if is_throttled else Outcome.HTTP_ERROR,
        f"{asked} answered {answer.status}",
        "; ".join(part for part in (said, one_line(_without_markup(text))) if part),
        answer.status,
        offered=offered,
        hint=hint,
        # Not if another cause has replaced the hint.
        is_temporary=passing is not None and hint.startswith(passing),
    )


def _cause(answer: Answer, path: str, said: str, content: Any) -> str:
    """Return who refuses if it is not IMDS, ``""`` if nothing says so."""
    if isinstance(content, dict) and "error" in content:  # the form of IMDS' own errors
        return ""
    elsewhere = foreign(answer)
    if elsewhere:
        return elsewhere
    if said and answer.status == HTTPStatus.FORBIDDEN and not answer.body:
        return NO_ROUTE  # IMDS and the Guest Proxy Agent have the usual phrase
    if not said and guest_proxy_agent.is_refusal(answer.status, answer.body or b""):
        return guest_proxy_agent.hint(answer.status, path)
    return ""


def _own_phrase(answer: Answer) -> str:
    """Return the reason phrase, ``""`` if it is the one that HTTP gives to the status."""
    usual = responses.get(answer.status, "")
    return "" if answer.phrase.lower() == usual.lower() else one_line(answer.phrase)


def _without_markup(text: str) -> str:
    """Return the words of a web page or of XML, other text as it is."""
    return _TAG.sub(" ", text) if text.lstrip().startswith("<") else text


def _json(text: str) -> Any:
    """Return what the JSON ``text`` contains; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _about_version(
    status: int, text: str, version: str, offered: tuple[str, ...], flag: str
) -> str:
    """Return what an answer says about the api-version, ``""`` if that cannot be the cause."""
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND}:
        return ""
    name = version or "none"
    parts = []
    if offered:
        known = ", ".join(offered[:_MOST_NAMED])
        parts = [f"api-version {name} is unknown to this IMDS: it offers {known}"]
    elif "version" in text.lower():
        parts = [f"api-version {name} may be unknown"]
    if parts and flag:
        parts.append(ADVICE[flag])
    if not parts and flag == API_VERSION_FLAG and version != UNSPECIFIED:
        parts = [_HINTS[status], f"also check {flag} ({name})"]
    return "; ".join(parts)
