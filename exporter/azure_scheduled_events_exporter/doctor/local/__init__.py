"""Checks of this VM: the exporter's settings, the metadata service, the journal, the exporter's port, and traces.

It does not know the servers that scrape the exporter.
"""
