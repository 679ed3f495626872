"""Makes the error for an answer other than 200: one line for people, with the cause and what to do.

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
from .foreign import who_answers_instead

NO_ROUTE = (
    "this is not an Azure VM, or it has no route to IMDS, and something on the way answers instead"
)
API_VERSION_FLAG = "--imds.api-version"
INSTANCE_NAME_FLAG = "--instance.name"
ADVICE: Mapping[str, str] = {
    API_VERSION_FLAG: f"set {API_VERSION_FLAG} to {AUTO}, or to another version",
    INSTANCE_NAME_FLAG: f"give this VM's name as it appears in Resources: {INSTANCE_NAME_FLAG}",
}
"""What to do if IMDS does not know the api-version, by the setting that helps.

No setting changes the api-version of the instance metadata. The exporter reads this VM's name
there, so the setting that gives the name helps instead.
"""

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
"""The hints for each status that Azure documents as temporary."""

_HINTS: Mapping[int, str] = {
    **_TEMPORARY,
    HTTPStatus.BAD_REQUEST: f"{UNKNOWN}; a proxy that adds X-Forwarded-For is one that is known",
}
"""The hints for a request for a document or the instance metadata, by the status."""

_APPROVAL_HINTS: Mapping[int, str] = {
    **_HINTS,
    HTTPStatus.BAD_REQUEST: (
        "an event may be over: compare the EventIds with azure-scheduled-events-exporter events"
    ),
}
"""The hints for an approval, where a 400 may be about an EventId."""

_MAY_BE_THE_VERSION = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})
"""The statuses whose cause may be the api-version of the request."""

_DETAIL_BYTES = 4096  # so much of a body is read
_MOST_NAMED = 5  # api-versions that a message names
_MARKUP = re.compile(r"<(script|style)\b.*?(</\1>|$)|<[^>]*(>|$)", re.DOTALL | re.IGNORECASE)
"""A script or a style with its content, or one tag; also one whose end was cut off."""


def refusal(
    asked: str, path: str, answer: Answer, *, version: str | None = None, flag: str = ""
) -> ImdsError:
    """Return the error for ``answer``, which is no 200.

    Args:
        asked: the address that the message names.
        path: what was asked for, as the rules of the Guest Proxy Agent name it.
        answer: what came.
        version: the api-version of the request, :data:`UNSPECIFIED` if it names none; None for an
            approval, which nothing repeats with another version.
        flag: the setting that helps if IMDS does not know this version, a key of :data:`ADVICE`;
            ``""`` for an approval.
    """
    text, content = _read_body(answer)
    offered = offered_in(content)
    phrase = _unusual_phrase(answer)
    hint = _who_refuses(answer, path, phrase, content)
    if not hint and version is not None:
        hint = _about_version(answer.status, text, version, offered, flag)
    is_temporary = False  # the hints above are about causes that may last
    if not hint:
        hint = _about_status(answer.status, version, flag)
        is_temporary = answer.status in _TEMPORARY
    outcome = Outcome.HTTP_ERROR
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        outcome = Outcome.THROTTLED
    return ImdsError(
        outcome,
        f"{asked} answered {answer.status}",
        "; ".join(part for part in (phrase, one_line(_without_markup(text))) if part),
        answer.status,
        offered=offered,
        hint=hint,
        is_temporary=is_temporary,
    )


def _read_body(answer: Answer) -> tuple[str, Any]:
    """Return the text of an answer's error, and the JSON of its body; None if it is no JSON."""
    body = answer.body or b""
    text = body[:_DETAIL_BYTES].decode("utf-8", "replace")
    content = _json(text)
    if isinstance(content, dict) and isinstance(content.get("error"), str):
        text = content["error"]
    return text, content


def _who_refuses(answer: Answer, path: str, phrase: str, content: Any) -> str:
    """Return who refuses if it is not IMDS, and what to do; ``""`` if nothing says so.

    ``phrase`` is the reason phrase if it is unusual, and ``content`` the JSON of the body.
    """
    if isinstance(content, dict) and "error" in content:  # the form of IMDS' own errors
        return ""
    other = who_answers_instead(answer)
    if other:
        return other
    if answer.body != b"":  # None is a body that is too large
        return ""
    if phrase and answer.status == HTTPStatus.FORBIDDEN:
        return NO_ROUTE  # IMDS and the Guest Proxy Agent send the usual phrase
    if not phrase and guest_proxy_agent.is_refusal(answer.status):
        return guest_proxy_agent.hint(answer.status, path)
    return ""


def _unusual_phrase(answer: Answer) -> str:
    """Return the reason phrase, ``""`` if it is the one that HTTP gives to the status."""
    usual = responses.get(answer.status, "")
    if answer.phrase.lower() == usual.lower():
        return ""
    return one_line(answer.phrase)


def _without_markup(text: str) -> str:
    """Return the words of a web page or of XML, other text as it is."""
    if not text.lstrip().startswith("<"):
        return text
    return _MARKUP.sub(" ", text)


def _json(text: str) -> Any:
    """Return what the JSON ``text`` contains; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _about_version(
    status: int, text: str, version: str, offered: tuple[str, ...], flag: str
) -> str:
    """Return what an answer says about the api-version, with advice; ``""`` if it says nothing."""
    if status not in _MAY_BE_THE_VERSION:
        return ""
    name = version or "none"
    finding = ""
    if offered:
        known = ", ".join(offered[:_MOST_NAMED])
        finding = f"api-version {name} is unknown to this IMDS: it offers {known}"
    elif "version" in text.lower():
        finding = f"api-version {name} may be unknown"
    if not finding:
        return ""
    return f"{finding}; {ADVICE[flag]}"


def _about_status(status: int, version: str | None, flag: str) -> str:
    """Return the hint for an answer that says nothing about its cause but the status.

    ``version`` and ``flag`` are those of :func:`refusal`.
    """
    if version is None:
        return _APPROVAL_HINTS.get(status, UNKNOWN)
    hint = _HINTS.get(status, UNKNOWN)
    may_be_set = flag == API_VERSION_FLAG and version != UNSPECIFIED
    if may_be_set and status in _MAY_BE_THE_VERSION:
        hint += f"; also check {flag} ({version})"
    return hint
