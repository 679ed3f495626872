"""The configuration: one table of settings, and one frozen result.

``settings`` has the table and the result, ``parsers`` what each value may be, ``flags`` the flags
of commands, and ``resolution`` finds the value of each setting. Must not start or open anything
that it configures.
"""
