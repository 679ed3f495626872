"""What is recorded and what fires: the rules as values, in PromQL. Knows no file format. Only re-exports."""

from .groups import alerts, groups

__all__ = ["alerts", "groups"]
