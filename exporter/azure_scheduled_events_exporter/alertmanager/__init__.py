"""Alerts that go to Alertmanager without waiting for a scrape: which an event raises, and how they are delivered.

Must not poll, or decide about the life of an event. The daemon starts it only if there is an Alertmanager to push to;
``doctor`` uses its HTTP configuration.
"""
