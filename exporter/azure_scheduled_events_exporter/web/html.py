"""Builds HTML from elements. Plain text is always escaped, so no text can become markup.

Must not depend on the content of a page.
"""

from dataclasses import dataclass

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As ``html.escape`` does. That module has a table of all named characters: 0.3 MiB of memory."""


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
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{head}>{joined(*children).text}</{name}>")


def joined(*children: Child, between: str = "") -> Markup:
    """Return ``children`` one after another, with ``between`` between them."""
    texts = (child.text if isinstance(child, Markup) else _escaped(child) for child in children if child is not None)
    return Markup(_escaped(between).join(texts))


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
