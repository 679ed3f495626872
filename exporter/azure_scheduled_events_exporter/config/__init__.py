"""The configuration: one table of settings, and one frozen result.

Must not start or open anything that it configures.
"""
