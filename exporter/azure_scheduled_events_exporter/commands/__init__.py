"""The command line: one module for each command.

Parses, calls, prints; must not decide anything about events.
"""
