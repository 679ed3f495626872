"""How a snapshot looks to a scraper.

Reads snapshots only; knows neither HTTP nor the poller.
"""
