"""Builds HTML from templates and elements.

Plain text is always escaped, so no text can become markup.

Must not depend on the content of a page.
"""

import html
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is already HTML. Only this module and constants of this project may create it."""

    text: str


Child = Markup | str | None


def tag(name: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return the element ``name`` with ``children`` and ``attributes``.

    An attribute's name is written without an underscore at its end, and with hyphens for other
    underscores: ``class_`` becomes ``class``, ``data_now`` becomes ``data-now``. Children that are
    None are left out, as are attributes that are None or False. True gives an attribute without a
    value.
    """
    head = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        head += f" {key.rstrip('_').replace('_', '-')}"
        if value is not True:
            head += f'="{html.escape(str(value))}"'
    return Markup(f"<{head}>{joined(*children).text}</{name}>")


def joined(*children: Child, between: str = "") -> Markup:
    """Return ``children`` one after another, with the text ``between`` between them."""
    texts = []
    for child in children:
        if isinstance(child, Markup):
            texts.append(child.text)
        elif child is not None:
            texts.append(html.escape(child))
    return Markup(html.escape(between).join(texts))


def filled(template: str, **values: Child) -> Markup:
    """Return the file ``template`` beside this module with ``values`` in place of its ``$names``.

    Every name of the file needs a value; None stands for no text.
    """
    texts = {name: joined(value).text for name, value in values.items()}
    return Markup(_template(template).substitute(texts))


@cache
def _template(name: str) -> Template:
    """Return the file without line breaks and indentation, which would be text of the page."""
    return Template(re.sub(r"\n\s*", "", file_text(name)))


@cache
def file_text(name: str) -> str:
    """Return the text of a file beside this module, which is read once."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
