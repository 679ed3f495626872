"""Checks of this VM: the exporter's settings, the metadata service, the journal, the exporter's port, and traces.

Must not depend on the servers that scrape the exporter.
"""
