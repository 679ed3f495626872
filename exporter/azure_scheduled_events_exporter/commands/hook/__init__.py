"""The command ``hook``: runs a command before an event of this VM, and again when it is over."""
