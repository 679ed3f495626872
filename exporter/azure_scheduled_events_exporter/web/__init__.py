"""How a snapshot looks to a person, and to a program that reads JSON.

Reads snapshots only; knows neither HTTP nor the poller.
"""
