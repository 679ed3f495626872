"""The status page in a real browser: ``run`` against the simulator, looked at with Chromium."""

import re
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from azure_scheduled_events_exporter.simulator import Simulator
from azure_scheduled_events_exporter.web.status_page import page as status_page
from azure_scheduled_events_exporter.web.status_page import page_headers
from azure_scheduled_events_exporter.web.wording import ago, left, length
from support.browser import chromium, poor_contrast
from support.events.imds_bodies import entry
from support.events.status_scene import NOW, SCENES
from support.programs import PATIENCE, Exporter
from support.quiet import QUIET
from support.servers.http_peer import HttpServer, Request, Response

Start = Callable[..., Exporter]


def event(**changes: object) -> dict[str, object]:
    """Return a new, announced Reboot of this VM in an hour, as IMDS sends it."""
    due = formatdate(time.time() + 3600, usegmt=True)
    return (
        entry(EventId=str(uuid.uuid4()).upper(), Resources=["vm_0", "vm_1"], NotBefore=due)
        | changes
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with chromium() as started:
        yield started


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile with script."""
    with browser.new_context() as fresh:
        fresh.set_default_timeout(PATIENCE * 1000)
        yield fresh


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulator, Exporter]]:
    """A simulator in which nothing happens by itself, and an exporter on its ``vm_0``."""
    log = tmp_path_factory.mktemp("status-page") / "exporter.log"
    with (
        Simulator(QUIET) as simulator,
        Exporter(simulator.url, log, "--poll.interval", "250ms") as exporter,
    ):
        yield simulator, exporter


@pytest.fixture
def simulator(running: tuple[Simulator, Exporter]) -> Simulator:
    """The simulator, with nothing to say and no fault."""
    simulator, _ = running
    simulator.heal()
    simulator.set_document([])
    return simulator


@pytest.fixture
def exporter(simulator: Simulator, running: tuple[Simulator, Exporter]) -> Exporter:  # noqa: ARG001 - it comes first
    """The exporter, when it has seen that nothing is announced."""
    _, exporter = running
    exporter.shows("no event", lambda now: now.value("up") == 1 and not now.series("event_info"))
    return exporter


@pytest.fixture(autouse=True)
def _patience() -> None:
    expect.set_options(timeout=PATIENCE * 1000)


def opened(context: BrowserContext, url: str) -> Page:
    """Return the page at ``url``, which knows from then on whether it was ever loaded anew."""
    page = context.new_page()
    page.goto(url)
    page.evaluate("window.mark = 'still the same page'")
    return page


def assert_never_reloaded(page: Page) -> None:
    """The page is the one that was opened."""
    assert page.evaluate("window.mark") == "still the same page"


def seconds_in(words: str) -> int:
    """Return the seconds that a countdown shows."""
    sizes = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * sizes[unit] for number, unit in re.findall(r"(\d+)([hms])\b", words))


def test_event_appears_and_goes_without_a_reload(
    simulator: Simulator, exporter: Exporter, context: BrowserContext
) -> None:
    """A new event shows by itself, also in the history, and is announced to a screen reader; when
    it ends, only the history has it.
    """
    page = opened(context, exporter.url)
    expect(page.locator("h1")).to_have_text("vm_0")
    expect(page.locator("#events")).to_contain_text("No events: Azure has announced nothing")
    reboot = event()
    in_history = page.locator(f"li[id^=life-{str(reboot['EventId']).replace('-', '').lower()}]")
    simulator.set_document([reboot])
    expect(page.locator("article")).to_contain_text("Restarts this VM.")
    expect(page).to_have_title("Reboot Scheduled - vm_0")
    expect(page.get_by_role("status")).to_contain_text(
        "IMDS answers, 1 event: Reboot of this VM and 1 more VM at "
    )
    expect(in_history).to_contain_text("Scheduled now")
    simulator.set_document([])
    expect(page.locator("article")).to_have_count(0)
    expect(in_history).to_contain_text("cancelled")
    expect(page.get_by_role("status")).to_have_text("IMDS answers, no events")
    assert_never_reloaded(page)


def test_countdown_runs(simulator: Simulator, exporter: Exporter, context: BrowserContext) -> None:
    """The countdown goes down by itself and is right in a browser whose clock is not. Text that
    the reader has selected stays selected.
    """
    not_before = int(time.time()) + 3000
    reboot = event(NotBefore=formatdate(not_before, usegmt=True))
    simulator.set_document([reboot])
    exporter.shows(
        "the event", lambda now: now.value("pending", event_type="Reboot", scope="self") == 1
    )
    # The browser's clock is two hours slow.
    context.add_init_script("const real = Date.now; Date.now = () => real() - 7200e3;")
    page = opened(context, exporter.url)
    timer = page.get_by_role("timer")
    page.locator("dd code").first.select_text()
    shown = [timer.inner_text()]
    for _ in range(4):
        expect(timer).not_to_have_text(shown[-1])
        shown.append(timer.inner_text())
    seconds = [seconds_in(words) for words in shown]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == pytest.approx(not_before - time.time(), abs=10)
    assert str(reboot["EventId"]) in str(page.evaluate("getSelection().toString()"))
    assert_never_reloaded(page)


def test_works_without_script(simulator: Simulator, exporter: Exporter, browser: Browser) -> None:
    """With JavaScript switched off, the page shows the events and updates by loading itself
    again.
    """
    simulator.set_document([event()])
    exporter.shows(
        "the event", lambda now: now.value("pending", event_type="Reboot", scope="self") == 1
    )
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(exporter.url)
        expect(page.locator("article")).to_contain_text("Restarts this VM.")
        expect(page.locator("article")).to_contain_text(re.compile(r"in 59m \d+s"))
        simulator.set_document([])
        expect(page.locator("#events")).to_contain_text("No events")


def test_exporter_that_cannot_be_reached(
    simulator: Simulator, start_exporter: Start, context: BrowserContext
) -> None:
    """While the exporter hangs or is down, the page and its title say so, and say "no events" no
    more. The page recovers.
    """
    exporter = start_exporter(simulator.url)
    exporter.shows("a poll", lambda now: now.value("up") == 1)
    page = opened(context, exporter.url)
    alert = page.get_by_role("alert")
    quiet = page.locator(".quiet")
    unsure = page.locator(".unsure")
    expect(quiet).to_be_visible()
    expect(alert).to_be_hidden()
    exporter.process.send_signal(signal.SIGSTOP)
    expect(alert).to_have_text(
        "The exporter cannot be reached (no answer in time). Nobody knows what IMDS says now."
    )
    expect(quiet).to_be_hidden()
    expect(unsure).to_be_visible()
    expect(page.get_by_text("IMDS answers", exact=True)).to_be_hidden()
    exporter.process.send_signal(signal.SIGCONT)
    expect(quiet).to_be_visible()
    expect(alert).to_be_hidden()
    exporter.kill()
    expect(alert).to_have_text(
        "The exporter cannot be reached (no connection). Nobody knows what IMDS says now."
    )
    expect(page.locator("#lost")).to_contain_text(re.compile(r"state of \d+s ago"))
    expect(page).to_have_title("Exporter not reached - vm_0")
    expect(quiet).to_be_hidden()
    expect(page.locator("h1")).to_have_text("vm_0")
    assert_never_reloaded(page)


def test_keyboard_and_screen_reader(
    simulator: Simulator, exporter: Exporter, context: BrowserContext
) -> None:
    """The first key leads past everything to the events, focus can be seen, and all parts have
    names and headings.
    """
    simulator.set_document([event()])
    page = opened(context, exporter.url)
    expect(page.get_by_role("article", name="Reboot")).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the current events")
    expect(skip).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#events")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="What to do", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    focused = page.get_by_role("navigation").get_by_role("link", name="Metrics")
    expect(focused).to_be_focused()
    with page.expect_response(exporter.url + "/"):
        pass  # until the page has updated itself
    expect(focused).to_be_focused()
    roles: tuple[Literal["banner", "main", "navigation", "contentinfo"], ...] = (
        "banner",
        "main",
        "navigation",
        "contentinfo",
    )
    for role in roles:
        expect(page.get_by_role(role)).to_have_count(1)
    headings = [page.get_by_role("heading", level=level).count() for level in (1, 2, 3)]
    assert headings == [1, 2, 1], "the VM; current events and history; the event"
    focused.click()
    expect(page.locator("pre")).to_contain_text("azure_scheduled_events_up 1.0")


def test_script_and_server_tell_times_alike(exporter: Exporter, context: BrowserContext) -> None:
    """The words of a time do not change when the script takes over from the server."""
    page = opened(context, exporter.url)
    # Seconds on both sides of a second, a minute, an hour, a day, and of the days shown as such.
    moments = [0, 0.4, 0.9, 1, 59.9, 60, 872.5, 3599, 3600, 3604, 3661, 7259]
    moments += [86399, 86405, 93784, 259200, 1e7]
    moments += [-moment for moment in moments]
    by_script = page.evaluate(
        "(all) => all.map((one) => [length(Math.abs(one)), countdown(one), ago(one)])", moments
    )
    by_server = [[length(abs(moment)), left(moment), ago(moment)] for moment in moments]
    assert by_script == by_server


class Scenes(HttpServer):
    """Serves /busy, /quiet and /blind as the exporter would at a fixed moment."""

    protocol = "HTTP/1.0"  # no connection outlives :meth:`stop`

    def respond(self, request: Request) -> Response:
        """Return the page."""
        headers = {"Content-Type": "text/html; charset=utf-8", **dict(page_headers())}
        scene = SCENES.get(request.path[1:])
        return (
            Response(200, status_page(scene, NOW, "/metrics"), headers) if scene else Response(404)
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 900])
def test_readable_on_every_screen(
    browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    """In light and dark, on a desk and on a telephone, all text has the contrast of WCAG AA and
    nothing is cut off.
    """
    size = ViewportSize(width=width, height=1250)
    with Scenes() as scenes, browser.new_context(viewport=size, color_scheme=scheme) as context:
        page = context.new_page()
        for scene in SCENES:
            page.goto(f"{scenes.url}/{scene}")
            assert poor_contrast(page) == []
            scroll_width = page.evaluate("document.documentElement.scrollWidth")
            assert scroll_width == width, "nothing reaches beyond the right edge"
        scenes.stop()  # the page asks again by itself
        expect(page.get_by_role("alert")).to_be_visible()
        assert poor_contrast(page) == []
