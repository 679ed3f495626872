"""How often a Prometheus scrapes, by its own header, and when it has gone."""

from azure_scheduled_events_exporter.alertmanager.scrapes import SCRAPER_HEADER, Scrapes

SCRAPER = {SCRAPER_HEADER: "10"}


def test_people_are_no_scrapers() -> None:
    """A request without Prometheus' header is not a scrape."""
    scrapes = Scrapes()
    scrapes.seen("10.0.0.1", {"user-agent": "curl"}, 0.0)
    assert scrapes.interval(1.0) == 0


def test_interval() -> None:
    """The interval is that of the slowest scraper; one that came once counts as scraping each minute."""
    scrapes = Scrapes()
    scrapes.seen("10.0.0.1", SCRAPER, 0.0)
    assert scrapes.interval(1.0) == 60
    for now in (5.0, 10.0):
        scrapes.seen("10.0.0.1", SCRAPER, now)
    assert scrapes.interval(10.0) == 5
    scrapes.seen("10.0.0.2", SCRAPER, 0.0)
    scrapes.seen("10.0.0.2", SCRAPER, 30.0)
    assert scrapes.interval(30.0) == 30


def test_gone() -> None:
    """A scraper that stays away for more than two of its intervals is gone."""
    scrapes = Scrapes()
    for now in (0.0, 5.0):
        scrapes.seen("10.0.0.1", SCRAPER, now)
    assert scrapes.interval(24.0) == 5
    assert scrapes.interval(26.0) == 0


def test_last_run() -> None:
    """After a restart, the scraper of the last run is expected for two of its intervals."""
    scrapes = Scrapes(60.0, 1000.0)
    assert scrapes.interval(1001.0) == 60
    assert scrapes.interval(1131.0) == 0


def test_many_scrapers() -> None:
    """However many addresses ask, a few are remembered."""
    scrapes = Scrapes()
    for number in range(1000):
        scrapes.seen(str(number), SCRAPER, 0.0)
    assert len(scrapes._seen) == 16


def _every(seconds: float, client: str = "10.0.0.1") -> Scrapes:
    """Return what is known after scrapes at 0, ``seconds``, and so on, up to a hundred."""
    scrapes = Scrapes()
    for number in range(int(100 / seconds) + 1):
        scrapes.seen(client, SCRAPER, number * seconds)
    return scrapes


def test_nobody_scrapes() -> None:
    """Without a scraper, nobody is waited for, and nor is one that has gone."""
    assert Scrapes().seen_by_all(5.0, 6.0) == 5.0
    assert _every(20.0).seen_by_all(101.0, 151.0) == 101.0


def test_change_is_scraped() -> None:
    """A change counts as scraped one interval after it, as the answer to a scrape before that may have been lost."""
    scrapes = _every(20.0)
    assert scrapes.seen_by_all(101.0, 119.0) is None
    scrapes.seen("10.0.0.1", SCRAPER, 120.0)
    assert scrapes.seen_by_all(101.0, 120.0) == 121.0


def test_late_scrape() -> None:
    """A scraper that misses its turn is waited for."""
    scrapes = _every(20.0)
    assert scrapes.seen_by_all(101.0, 139.0) is None
    scrapes.seen("10.0.0.1", SCRAPER, 143.0)
    assert scrapes.seen_by_all(101.0, 144.0) == 144.0  # the gap of 43 s may be the interval
    scrapes = _every(20.0)
    scrapes.seen("10.0.0.2", SCRAPER, 100.0)
    scrapes.seen("10.0.0.1", SCRAPER, 120.0)
    assert scrapes.seen_by_all(101.0, 125.0) is None, "the second scraper has not come"


def test_change_before_a_restart() -> None:
    """What changed before a restart is shown only since, and the scraper of the last run is waited for."""
    scrapes = Scrapes(30.0, 1000.0)
    assert scrapes.seen_by_all(900.0, 1069.0) is None
    assert scrapes.seen_by_all(900.0, 1071.0) == 1000.0, "it has not come: it is gone"
    scrapes.seen("10.0.0.1", SCRAPER, 1071.0)
    assert scrapes.seen_by_all(900.0, 1072.0) == 1071.0
