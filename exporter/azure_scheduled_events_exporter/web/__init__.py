"""How a snapshot looks to a person, and to a program that reads JSON.

Reads snapshots only; must not know HTTP or the poller. Used by ``service``.
"""
