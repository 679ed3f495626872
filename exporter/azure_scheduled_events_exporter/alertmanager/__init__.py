"""Pushes alerts to Alertmanager without waiting for a scrape: decides which alerts an event raises, and delivers them.

Must not poll, or decide about the life of an event. The daemon starts it only if there is an Alertmanager to push to.
"""
