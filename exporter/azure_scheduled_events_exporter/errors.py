"""The exceptions that reach a person: each is one line that says what was wrong, where, and what to do."""


class ExporterError(Exception):
    """Something the user has to know about; the command ends with exit status 1."""

    exit_status = 1

    def __str__(self) -> str:
        """Return the message; what it quotes of others may hold line breaks and controls, which stand escaped."""
        text = super().__str__()
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class UsageError(ExporterError):
    """A flag, environment variable or file says something impossible; exit status 2."""

    exit_status = 2
