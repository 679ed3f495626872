"""How events look to people: the status page, JSON, and rows of tables for a terminal.

Only formats what it is given; must not depend on HTTP or the poller. Used by ``service`` and
``commands`` only.
"""
