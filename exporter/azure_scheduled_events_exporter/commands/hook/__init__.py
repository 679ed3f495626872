"""The command ``hook``: runs a command before an event of this VM, and again when it is over.

Polls the metadata service itself, so that no other process or disk delays it. Only re-exports.
"""

from .command import add_arguments, run

__all__ = ["add_arguments", "run"]
