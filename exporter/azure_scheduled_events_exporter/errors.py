"""The exceptions that reach a person: each is one line that says what was wrong, where, and what to do."""


class ExporterError(Exception):
    """Something the user has to know about; the command ends with exit status 1."""

    exit_status = 1


class UsageError(ExporterError):
    """A flag, environment variable or file says something impossible; exit status 2."""

    exit_status = 2
