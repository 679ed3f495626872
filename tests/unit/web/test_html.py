"""Text in HTML."""

import html

from hypothesis import given
from hypothesis import strategies as st

from azure_scheduled_events_exporter.web.html import tag


@given(st.text(alphabet="&<>\"';ab"))
def test_text_is_escaped_as_python_does(text: str) -> None:
    """Whatever stands in an element or an attribute is text and no markup, as Python's own ``html.escape`` has it."""
    escaped = html.escape(text)
    assert tag("p", text, title=text).text == f'<p title="{escaped}">{escaped}</p>'
