"""A target that breaks its promise, so that a test can see it found."""

import json

from fuzz.target import Target


def check(data: bytes) -> None:
    """Promise, wrongly, that no document has the incarnation -1."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(content, dict) and content.get("DocumentIncarnation") == -1:
        raise AssertionError("the planted breach")


TARGETS = {"planted": Target(check, lambda: [b'{"DocumentIncarnation": 1}'])}
