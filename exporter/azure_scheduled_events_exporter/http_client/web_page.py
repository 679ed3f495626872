"""Recognizes a web page that is sent in place of an answer: a sign-in page, or a proxy's.

Pure. Must not know who should have answered.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Mapping

WEB_PAGE = "a web page (text/html)"
"""How messages name such an answer."""

_TYPES = ("text/html", "application/xhtml+xml")
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The beginning of HTML, after an XML declaration and a comment if there are any."""
_BEGINNING = 2048  # bytes of a body that are looked at


def is_web_page(headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether an answer is a web page, and not that of an API.

    ``headers`` must ignore the case of their names. Content-Type alone tells too little: some
    servers send a page without it or with another one, and some web frameworks send an empty answer
    with that of a page.
    """
    text = body.removeprefix(BOM_UTF8)
    if _HTML.match(text[:_BEGINNING]):
        return True
    kind, _, _ = headers.get("content-type", "").partition(";")
    return kind.strip().lower() in _TYPES and text.lstrip().startswith(b"<")
