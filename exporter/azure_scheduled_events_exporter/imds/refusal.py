"""What an answer of IMDS other than 200 means for people: one line with the cause and what to do.

Pure.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses

from azure_scheduled_events_exporter.errors import ImdsError, Outcome, one_line

from .api_versions import AUTO, UNSPECIFIED, offered_in

NO_ROUTE = (
    "this is not an Azure VM, or it has no route to IMDS, and something on the way answers instead"
)
_MOVING = "the service may be moving, which takes up to 70 s"
_HINTS: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "check that no proxy on the way adds X-Forwarded-For",
    HTTPStatus.FORBIDDEN: "the guest proxy agent or a firewall rule keeps this process from IMDS",
    HTTPStatus.NOT_FOUND: f"{_MOVING}; else check --imds.endpoint",
    HTTPStatus.METHOD_NOT_ALLOWED: f"{_MOVING}; else check --imds.endpoint",
    HTTPStatus.GONE: "the service is moving, which takes up to 70 s",
    HTTPStatus.TOO_MANY_REQUESTS: (
        "over 5 requests a second from this VM, all its programs together"
    ),
}
_APPROVAL_HINTS: Mapping[int, str] = {
    **_HINTS,
    HTTPStatus.BAD_REQUEST: (
        "an event may be over: compare the EventIds with azure-scheduled-events-exporter events"
    ),
}


def refusal(
    asked: str, status: int, phrase: str, body: bytes, *, version: str | None = None, flag: str = ""
) -> ImdsError:
    """Return the error for an answer of ``asked`` with this ``status``, reason ``phrase`` and ``body``.

    The request had the api-version ``version``, from the setting ``flag``; None for an approval.
    """
    text = body[:4096].decode("utf-8", "replace")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and isinstance(content.get("error"), str):
        text = content["error"]
    said = "" if phrase.lower() == responses.get(status, "").lower() else one_line(phrase)
    offered = offered_in(content)
    hints = _APPROVAL_HINTS if version is None else _HINTS
    hint = hints.get(status, "")
    if (
        HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
        and status != HTTPStatus.NOT_MODIFIED
    ):
        hint = "a redirect is never followed; check --imds.endpoint"
    elif status == HTTPStatus.FORBIDDEN and not body.strip():
        hint = NO_ROUTE
    elif version is not None and status in {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND}:
        hint = _about_version(text, version, offered, flag, hint)
    detail = "; ".join(part for part in (said, one_line(text)) if part)
    outcome = Outcome.THROTTLED if status == HTTPStatus.TOO_MANY_REQUESTS else Outcome.HTTP_ERROR
    return ImdsError(
        outcome, f"{asked} answered {status}", detail, status, offered=offered, hint=hint
    )


def _about_version(text: str, version: str, offered: tuple[str, ...], flag: str, hint: str) -> str:
    name = version or "none"
    has = f"this IMDS offers {', '.join(offered[:5])}" if offered else ""
    if offered or "version" in text.lower().replace("xml version", ""):
        what = (
            f"api-version {name} is unknown to this IMDS: {has}"
            if has
            else f"api-version {name} may be unknown"
        )
        return f"{what}; set {flag} to {AUTO}, or to another version" if flag else what
    return f"check {flag} ({name}); {hint}" if flag and version != UNSPECIFIED else hint
