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
    assert len(scrapes._seen) == len(scrapes._gaps) == 16
