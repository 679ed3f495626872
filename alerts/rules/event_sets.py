"""Sets of events as PromQL: those that are current, over, requested by a user, or announced, and when they are due."""

from ..settings import Settings
from .fragments import confirmed, lately, outlasting, with_imds
from .rule import expression
from .series import ANNOUNCED, APPROVED, EVENT, INFO, NOT_BEFORE, OVER, PLANNED, SEEN, SHOWN, WARNED


def current(event_type: str, settings: Settings) -> str:
    """Return one row for each event that is shown or remembered and is not over. ``event_type``: a label matcher."""
    return expression(f"""
        (
          max by (event_id, event_type) (
            {confirmed(f"{INFO}{{{event_type}}}", settings)}
            or on (event_id)
            {EVENT}{{{event_type}}}
          )
          unless on (event_id) {over(settings)}
        )
    """)


def current_requested(event_type: str, settings: Settings) -> str:
    """Return the rows of :func:`current` that a user requested, without reading those that nobody did."""
    by_user = f'{event_type},event_source="User"'
    return expression(f"""
        (
          max by (event_id, event_type) (
            {confirmed(f"{INFO}{{{by_user}}}", settings)}
            or on (event_id)
            ({EVENT}{{{event_type}}} and on (event_id) {_recorded_request(by_user, settings)})
          )
          unless on (event_id) {over(settings)}
        )
    """)


def current_of_platform(event_type: str, settings: Settings, status: str = "") -> str:
    """Return the rows of :func:`current` that no user requested. ``status``: one more label matcher for new events.

    With an old api-version, an exporter does not show the source, and another one may. After two scrapes, every
    exporter has had its turn, and an event whose source nobody shows counts as the platform's.
    """
    new = f"{event_type}{status and f',{status}'}"
    unknown = f'{INFO}{{{new},event_source=""}}'
    return expression(f"""
        (
          max by (event_id, event_type) (
            {confirmed(f'{INFO}{{{new},event_source!=""}}', settings)}
            or on (event_id)
            {EVENT}{{{event_type},event_source!=""}}
            or on (event_id)
            (
              ({confirmed(unknown, settings)} or on (event_id) {EVENT}{{{event_type}}})
              and on (event_id)
              {_known_without_source(unknown, event_type, settings)}
            )
          )
          unless on (event_id) {over(settings)}
          unless on (event_id) {requested(event_type, settings)}
        )
    """)


def source_may_come(event_type: str, settings: Settings) -> str:
    """Return the new events whose source nobody shows yet, although an exporter that is scraped next may show it."""
    unknown = f'{INFO}{{{event_type},event_source=""}}'
    return expression(f"""
        (
          {unknown}
          unless on (event_id) {INFO}{{{event_type},event_source!=""}}
          unless on (event_id) {_known_without_source(unknown, event_type, settings)}
        )
    """)


def _known_without_source(unknown: str, event_type: str, settings: Settings) -> str:
    wait = settings.several("scrape.interval", 2)
    return f"({lately(unknown, settings, wait)} or {EVENT}{{{event_type}}} offset {wait})"


def over(settings: Settings) -> str:
    """Return the events that are over: their end is recorded, and no exporter with IMDS access has shown them since.

    An end is known for as long as anything of an event is remembered.
    """
    period = outlasting_alerts(settings)
    ends, sights = (f"max by (event_id) (last_over_time({series}[{period}]))" for series in (OVER, SEEN))
    return f"({ends} unless on (event_id) ({sights} > on (event_id) {ends}))"


def not_before(event_type: str, settings: Settings, scope: str = "") -> str:
    """Return the NotBefore of events that have not started: the earliest, or else the last one shown.

    Exporters with IMDS access come first. NotBefore is remembered for longer than the event, because an event without
    NotBefore would page even if it is days ahead. ``scope``: one more label matcher for the scraped series.
    """
    scraped = f"{event_type}{scope and f',{scope}'}"
    memory, known = outlasting(settings.seconds("memory"), settings), outlasting_alerts(settings)
    shown = f"{NOT_BEFORE}{{{scraped}}}"
    return expression(f"""
        (
          (
            min by (event_id, event_type) {with_imds(shown)}
            or on (event_id)
            min by (event_id, event_type) (last_over_time({PLANNED}{{{event_type}}}[{memory}]))
            or on (event_id)
            min by (event_id, event_type) ({lately(shown, settings)})
          )
          unless on (event_id) {lately(f'{INFO}{{{scraped},event_status="Started"}}', settings)}
          unless on (event_id) last_over_time({SHOWN}{{{event_type},event_status="Started"}}[{known}])
        )
    """)


def requested(event_type: str, settings: Settings) -> str:
    """Return the events that a user requested."""
    by_user = f'{event_type},event_source="User"'
    return expression(f"""
        (
          {lately(f"{INFO}{{{by_user}}}", settings)}
          or on (event_id)
          {_recorded_request(by_user, settings)}
        )
    """)


def _recorded_request(by_user: str, settings: Settings) -> str:
    return f"last_over_time({SHOWN}{{{by_user}}}[{as_long_as_alerts(settings)}])"


def as_long_as_alerts(settings: Settings) -> str:
    """Return how long to remember the source and the duration of an event: twice as long as its alert can last.

    An exporter with an old api-version does not show them, and may be the only one that still shows the event.
    """
    return outlasting(2 * _longest_alert(settings), settings)


def outlasting_alerts(settings: Settings, more: float = 0.0) -> str:
    """Return a window that reaches back further than the alert of an event can last, by at least ``more`` seconds."""
    return outlasting(_longest_alert(settings) + more, settings)


def _longest_alert(settings: Settings) -> float:
    return max(settings.seconds("longest"), settings.seconds("memory"))


def warned(settings: Settings, event_type: str = "") -> str:
    """Return the events that exporters saw, or approved, before they started. ``event_type``: a label matcher."""
    scheduled = f'{INFO}{{{event_type}{event_type and ","}event_status!="Started"}}'
    announced, approved = (f"{each}{{{event_type}}}" if event_type else each for each in (ANNOUNCED, APPROVED))
    return f"""{lately(scheduled, settings)}
          or on (event_id)
          {lately(announced, settings)} == 1
          or on (event_id)
          {lately(approved, settings)} == 1"""


def announced(event_type: str, settings: Settings) -> str:
    """Return the events that somebody saw, or approved, before they started."""
    return expression(f"""
        (
          {warned(settings, event_type)}
          or on (event_id)
          last_over_time({WARNED}{{{event_type}}}[{as_long_as_alerts(settings)}])
        )
    """)
