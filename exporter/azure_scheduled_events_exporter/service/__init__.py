"""One running exporter: threads, signals, privileges, and notifications to the service manager.

Connects the parts of a running exporter. Must not decide what an event means.
"""
