"""The command line: one module a command.

Parses, calls, prints; decides nothing about events.
"""
