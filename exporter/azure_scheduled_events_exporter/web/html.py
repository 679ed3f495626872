"""Builds HTML from elements. Plain text is always escaped, so no text can become markup.

Must not depend on the content of a page.
"""

import html
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is already HTML. Only :func:`tag` and constants of this project may create it."""

    text: str


Child = Markup | str | None


def tag(name: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return the element ``name``; ``class_`` becomes ``class``, ``data_now`` becomes ``data-now``.

    Children that are None are left out, as are attributes that are None or False. True gives an attribute without a
    value.
    """
    head = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{head}>{joined(*children).text}</{name}>")


def joined(*children: Child, between: str = "") -> Markup:
    """Return ``children`` one after another, with ``between`` between them."""
    texts = (child.text if isinstance(child, Markup) else html.escape(child) for child in children if child is not None)
    return Markup(html.escape(between).join(texts))
