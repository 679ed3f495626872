"""How a snapshot looks to a scraper.

Reads snapshots only; must not know HTTP or the poller. Used by ``service``; alerts and dashboards read the table of
metrics in ``collector``.
"""
