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
    """A scraper that stays away for more than four minutes, or two of its intervals, is gone."""
    assert _every(5.0).interval(339.0) == 5
    assert _every(5.0).interval(341.0) == 0
    slow = _every(300.0, last=3000.0)
    assert slow.interval(3609.0) == 300
    assert slow.interval(3611.0) == 0


def test_scrapes_that_are_a_little_late() -> None:
    """An interval of five minutes is known although scrapes come a moment late; a longer gap is none."""
    scrapes = Scrapes()
    scrapes.seen("10.0.0.1", SCRAPER, 0.0)
    scrapes.seen("10.0.0.1", SCRAPER, 301.0)
    assert scrapes.interval(400.0) == 301
    scrapes.seen("10.0.0.2", SCRAPER, 0.0)
    scrapes.seen("10.0.0.2", SCRAPER, 400.0)
    assert scrapes.interval(400.0) == 301


def test_last_run() -> None:
    """After a restart, the scraper of the last run is expected for four minutes, or two of its intervals."""
    scrapes = Scrapes(60.0, 1000.0)
    assert scrapes.interval(1239.0) == 60
    assert scrapes.interval(1241.0) == 0
    assert Scrapes(300.0, 1000.0).interval(1609.0) == 300
    assert Scrapes(900.0, 1000.0).interval(1609.0) == 300, "no scraper comes less often"


def test_first_scrape_after_a_restart() -> None:
    """A scraper that has come once is assumed to come as seldom as that of the last run, or each minute."""
    for expected, assumed in ((5.0, 60.0), (120.0, 120.0)):
        scrapes = Scrapes(expected, 1000.0)
        scrapes.seen("10.0.0.1", SCRAPER, 1001.0)
        assert scrapes.interval(1002.0) == assumed


def test_one_address() -> None:
    """Scrapers behind one address are told apart by their program and by their timeout."""
    scrapes = Scrapes()
    for number in range(13):
        scrapes.seen("10.0.0.1", {**SCRAPER, "user-agent": "vmagent"}, 5.0 * number)
        if number % 12 == 0:
            scrapes.seen("10.0.0.1", {**SCRAPER, "user-agent": "Prometheus/2.53"}, 5.0 * number + 1)
    assert scrapes.interval(61.0) == 60
    assert scrapes.seen_by_all(62.0, 120.0) is None


def test_many_scrapers() -> None:
    """However many addresses ask, a few are remembered."""
    scrapes = Scrapes()
    for number in range(1000):
        scrapes.seen("10.0.0.1", SCRAPER, float(number))
        scrapes.seen(f"10.0.1.{number}", SCRAPER, float(number))
    assert len(scrapes._seen) == 16
    assert scrapes.seen_by_all(999.5, 1000.0) is None
    scrapes.seen("10.0.0.1", SCRAPER, 1000.0)
    assert scrapes.seen_by_all(0.0, 1000.0) is not None, "those that came last are remembered"


def _every(seconds: float, last: float = 100.0) -> Scrapes:
    """Return what is known of one scraper that came at 0, ``seconds``, and so on, until ``last``."""
    scrapes = Scrapes()
    for number in range(int(last / seconds) + 1):
        scrapes.seen("10.0.0.1", SCRAPER, number * seconds)
    return scrapes


def test_nobody_scrapes() -> None:
    """Without a scraper, nobody is waited for, and nor is one that has gone."""
    assert Scrapes().seen_by_all(5.0, 6.0) == 5.0
    assert _every(20.0).seen_by_all(101.0, 341.0) == 101.0


def test_change_is_scraped() -> None:
    """A change counts as scraped one interval after it, as the answer to a scrape before that may have been lost."""
    scrapes = _every(20.0)
    assert scrapes.seen_by_all(101.0, 119.0) is None
    scrapes.seen("10.0.0.1", SCRAPER, 120.0)
    assert scrapes.seen_by_all(101.0, 120.0) == 121.0


def test_late_scrape() -> None:
    """A scraper that misses its turn is waited for."""
    scrapes = _every(20.0)
    assert scrapes.seen_by_all(101.0, 339.0) is None
    scrapes.seen("10.0.0.1", SCRAPER, 140.0)
    scrapes.seen("10.0.0.1", SCRAPER, 160.0)
    assert scrapes.seen_by_all(101.0, 161.0) == 141.0, "the gap of 40 s may be the interval"
    scrapes = _every(20.0)
    scrapes.seen("10.0.0.1", SCRAPER, 600.0)
    assert scrapes.seen_by_all(101.0, 601.0) == 600.0
    scrapes = _every(20.0)
    scrapes.seen("10.0.0.2", SCRAPER, 100.0)
    scrapes.seen("10.0.0.1", SCRAPER, 120.0)
    assert scrapes.seen_by_all(101.0, 125.0) is None, "the second scraper has not come"


def test_change_before_a_restart() -> None:
    """What changed before a restart is shown only since, and the scraper of the last run is waited for."""
    scrapes = Scrapes(30.0, 1000.0)
    assert scrapes.seen_by_all(900.0, 1239.0) is None
    assert scrapes.seen_by_all(900.0, 1241.0) == 1000.0, "it has not come: it is gone"
    scrapes.seen("10.0.0.1", SCRAPER, 1100.0)
    assert scrapes.seen_by_all(900.0, 1101.0) == 1100.0


def test_seldom_scraper_after_a_restart() -> None:
    """The scraper of the last run may still come when a more frequent one has come."""
    scrapes = Scrapes(60.0, 1000.0)
    for number in range(10):
        scrapes.seen("10.0.0.1", SCRAPER, 1001.0 + 5 * number)
    assert scrapes.seen_by_all(1030.0, 1047.0) == 1090.0
