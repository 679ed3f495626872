"""Chromium without a window, for tests of pages and for pictures."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--no-sandbox",  # which Chromium insists on as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_POOR_CONTRAST = """() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const found = channels(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
  };
  const hidden = ".unseen, .skip, script, style";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const poor = [];
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement;
    const style = getComputedStyle(element);
    if (!node.nodeValue.trim() || !element.checkVisibility() || element.closest(hidden)) continue;
    const [a, b] = [light(channels(style.color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const enough = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if (ratio < enough) poor.push(`${ratio.toFixed(2)}: ${node.nodeValue}`);
  }
  return poor;
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, or say how to get it."""
    path = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if path is None:
        message = (
            "Chromium is missing: run scripts/tools chromium, or put one of these on the PATH: "
            + ", ".join(_PROGRAMS)
        )
        raise FileNotFoundError(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield browser
        browser.close()


def poor_contrast(page: Page) -> list[str]:
    """Return the texts with too little contrast to their background.

    WCAG 2 AA asks for 4.5, and for 3 where the text is large.
    """
    found: list[str] = page.evaluate(_POOR_CONTRAST)
    return found
