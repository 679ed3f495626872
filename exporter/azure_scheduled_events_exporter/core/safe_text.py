"""Makes text from outside safe to show: in an exposition, a log line, a message or a database.

Pure. IMDS, or whoever answers instead, may send any characters.
"""

# Control characters would end an exposition or a log line early, or steer a terminal (U+009B begins
# a sequence). Line feeds and tabs may stay: exposition and log escape them.
_CONTROLS = {
    code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}


def clean_text(value: object) -> str:
    """Return a value of JSON as text that any exposition, log or database accepts.

    It has no lone surrogates, and no control characters but line feeds and tabs. A number becomes
    text. Any other value that is no text becomes ``""``.
    """
    if isinstance(value, str):
        clean = value.encode("utf-8", "replace").decode().translate(_CONTROLS)
        if clean == value:
            return value  # not the copy, which would take as much memory again
        return clean
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return ""


def excerpt(text: str, length: int = 60) -> str:
    """Return the first ``length`` characters of ``text``, in quotes and in ASCII, for a message."""
    if len(text) > length:
        text = text[: length - 3] + "..."
    return ascii(text)
