"""Renders a snapshot as metrics.

``table`` has a row for each metric; ``readers`` has the functions of its rows; ``spec`` says what a
row is; ``exposition`` writes the text. Reads snapshots only; must not depend on HTTP or the poller.
"""
