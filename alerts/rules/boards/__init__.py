"""Recordings that only the dashboards read, so that a board over thousands of VMs opens within seconds.

No alert depends on them. Each reads scraped series, or recordings that read nothing but scraped series. Exporters
without a problem are not recorded one by one: a graph of 10,000 lines shows nothing, and costs the most.
"""
