"""Renders a snapshot as metrics.

Reads snapshots only; must not depend on HTTP or the poller. Used by ``service`` and ``doctor``;
alerts and dashboards read the table of metrics in ``collector``.
"""
