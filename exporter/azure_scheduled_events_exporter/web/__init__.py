"""Renders a snapshot as the status page and as JSON.

Reads snapshots only; must not depend on HTTP or the poller. Used by ``service`` and ``commands``
only.
"""
