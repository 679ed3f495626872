"""The command ``hook``: runs a command before an event of this VM, and again when it is over.

Follows the journal of the running exporter, or polls the metadata service itself. Only re-exports.
"""

from .command import add_arguments, run

__all__ = ["add_arguments", "run"]
