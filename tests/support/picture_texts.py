"""The words of the pictures in ``docs/images``, each beside its picture, so that a stale picture is
noticed.
"""

import hashlib
import re
from collections.abc import Iterable
from html import unescape
from pathlib import Path

from support.paths import ROOT

IMAGES = ROOT / "docs" / "images"


def keep(picture: Path, words: Iterable[str]) -> None:
    """Write the words of a picture that was just drawn beside it."""
    picture.with_suffix(".txt").write_text(text_of(picture, words), "utf-8")


def text_of(picture: Path, words: Iterable[str]) -> str:
    """Return the text beside a picture: its checksum and its words."""
    return "\n".join([f"sha256 {hashlib.sha256(picture.read_bytes()).hexdigest()}", *words, ""])


def words_of_page(page: bytes) -> list[str]:
    """Return the words of an HTML page, and its style, in which the colors are."""
    html = page.decode()
    style = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    body = re.sub(r"<(style|script)\b.*?</\1>", " ", html, flags=re.DOTALL)
    colors = re.findall(r"--[a-z-]+: #[0-9a-f]{3,6}", style)
    return [*colors, *filter(None, (unescape(part).strip() for part in re.split(r"<[^>]*>", body)))]
