"""One running exporter: its threads, its signals, its rights, and what the service manager is told.

The only package that puts the others together.
"""
