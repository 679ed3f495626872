"""The command line: one module for each command.

Parses, calls, prints; decides nothing about events.
"""
