"""One running exporter: threads, signals, privileges, and notifications to the service manager.

The only package that connects the others. Must not decide what an event means.
"""
