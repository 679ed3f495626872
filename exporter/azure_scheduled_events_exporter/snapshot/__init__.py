"""What others may see of the exporter at one moment: an immutable snapshot, and the types in it.

The parts of the exporter fill it, and ``polling`` publishes it. Metrics, pages and pushed alerts
read it. Must not know who fills or reads it: data only, without clock, disk or network.
"""
