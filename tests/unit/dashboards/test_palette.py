"""The colors of the dashboards and of the status page: text can be read on each, and people can
tell them apart.
"""

import math
import re
from itertools import combinations

import pytest

from dashboards import style
from support.monitoring.board_reader import BOARDS, load
from support.paths import ROOT

CSS = (ROOT / "exporter" / "azure_scheduled_events_exporter" / "web" / "status.css").read_text(
    "utf-8"
)
LIGHT_TEXT = "#F7F8FA"
DARK_TEXT = "#202226"
"""What Grafana writes on a background with: dark if the background's brightness is over 180, else
light.
"""
TEXT_CONTRAST = 4.5
"""https://www.w3.org/TR/WCAG22/#contrast-minimum"""
APART = 15.0
"""The least difference in CIELAB; 2.3 is just noticeable."""
# Linear RGB as people with a color blindness see it, after Machado, Oliveira and Fernandes (2009),
# with the severity 1.0.
SIGHTS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
Rgb = tuple[float, ...]


def channels(color: str) -> Rgb:
    """Return red, green and blue from 0 to 255 of ``#rrggbb``."""
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def linear(color: str) -> Rgb:
    """Return linear red, green and blue from 0 to 1, by the standard of sRGB, IEC 61966-2-1."""
    parts = (each / 255 for each in channels(color))
    return tuple(
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colors, as WCAG 2.2 defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    """Return the relative luminance of a color, as WCAG 2.2 defines it."""
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lab(rgb: Rgb) -> Rgb:
    """Return the CIELAB values of linear RGB: by way of CIE XYZ, for the white point D65."""
    red, green, blue = rgb
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.0888
    fx, fy, fz = (as_perceived(each) for each in (x, y, z))
    return (116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz))


def as_perceived(part: float) -> float:
    """Return the function of CIELAB for a part of the light of white: a cube root, but near 0."""
    part = max(0.0, part)  # the matrices of SIGHTS give a little less than 0
    if part > 0.008856:
        return math.cbrt(part)
    return 7.787 * part + 16 / 116


def difference(one: str, other: str, sight: str) -> float:
    """Return how far apart two colors look to people with one of SIGHTS, in CIELAB."""
    return math.dist(lab(seen(one, sight)), lab(seen(other, sight)))


def seen(color: str, sight: str) -> Rgb:
    """Return a color as people with one of SIGHTS see it, in linear RGB: matrix times vector."""
    rgb = linear(color)
    return tuple(
        sum(weight * part for weight, part in zip(row, rgb, strict=True)) for row in SIGHTS[sight]
    )


@pytest.mark.parametrize("color", style.PALETTE)
def test_text_can_be_read_on_every_color(color: str) -> None:
    """Grafana's text on the color has a contrast of at least 4.5:1; a background is the same in
    both themes.
    """
    red, green, blue = channels(color)
    brightness = (299 * red + 587 * green + 114 * blue) / 1000
    text = DARK_TEXT if brightness > 180 else LIGHT_TEXT
    assert contrast(color, text) >= TEXT_CONTRAST


@pytest.mark.parametrize("sight", SIGHTS)
def test_colors_differ_for_everybody(sight: str) -> None:
    """Any two colors are far apart, also for people with one of the three color blindnesses."""
    assert all(
        difference(one, other, sight) >= APART for one, other in combinations(style.PALETTE, 2)
    )


def test_the_boards_use_no_other_color_and_color_no_text() -> None:
    """A text in a color could not be read in one of the themes, so color is only a background or a
    bar.
    """
    for name in BOARDS:
        written = str(load(name)["panels"])
        assert set(re.findall(r"#[0-9A-Fa-f]{6}", written)) <= set(style.PALETTE)
        assert "color-text" not in written
        assert "palette-classic" not in written


def _variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6})\b", css))


def test_the_status_page_has_the_same_colors() -> None:
    """Both themes of the page take the boards' colors; its contrast is measured in a browser."""
    of_light, _, behind = CSS.partition("@media (prefers-color-scheme: dark)")
    of_dark, _, _ = behind.partition("* {")
    light = _variables(of_light)
    dark = {**light, **_variables(of_dark)}  # which changes some of the light ones
    of_boards = {
        "wait": style.WAITING,
        "impact": style.HAPPENING,
        "blind": style.FAILED,
        "fine": style.FINE,
        "past": style.NEUTRAL,
    }
    for theme in (light, dark):
        assert {name: theme[name].upper() for name in of_boards} == of_boards
