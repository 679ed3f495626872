"""PromQL fragments about exporters, VMs and labels that several rules share. Must not depend on a rule.

Fragments take and return PromQL text. Two rules hold for all of them. First, no fragment can fail, whatever labels a
target carries: sets are combined by ``and``, ``or`` and ``unless``, and arithmetic has an aggregation on both sides.
Second, an exporter that cannot reach IMDS (``up`` 0) still shows its last events, so it is used only if no exporter
with IMDS access covers the event. Which exporters those are is recorded: asking all exporters in each rule would be
half of what the rules of a large fleet cost.
"""

from collections.abc import Callable

from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from ..settings import Settings
from .rule import expression
from .series import EVENT, HOST, INFO, INSTANCE, SEEN, SHOWN, UNCONFIRMED, VM_TARGET, WITHOUT_IMDS


def slow_interval(settings: Settings) -> str:
    """Return the interval of rules that no new event waits for; never shorter than that of the others."""
    return format_duration(max(settings.seconds("evaluation.interval"), settings.seconds("evaluation.slow-interval")))


def over_scrapes(settings: Settings, least: int) -> str:
    """Return the window of an increase or rate: ``least`` seconds, or longer so that it has several scrapes."""
    return format_duration(max(least, 4 * settings.seconds("scrape.interval")))


def lately(series: str, settings: Settings, before: str = "") -> str:
    """Return the last values of ``series``, also of exporters that stopped answering before a rule recorded them.

    Recording takes up to three evaluations where one recording reads another one, of another group, from a store.
    ``before``: how long ago, as Prometheus writes durations; "" for now.
    """
    ago = f" offset {before}" if before else ""
    return f"last_over_time({series}[{format_duration(lately_seconds(settings))}]{ago})"


def since_recorded(series: str, settings: Settings) -> str:
    """Return the last values of ``series`` for a recording, also of exporters that answered after its last evaluation.

    This reads half as many samples as :func:`lately`, which also covers recordings that read this one.
    """
    seconds = parse_duration(slow_interval(settings)) + 3 * settings.seconds("scrape.interval")
    return f"last_over_time({series}[{format_duration(seconds)}])"


def at_last_scrapes(series: str, settings: Settings, before: str = "") -> str:
    """Return ``series`` of exporters that answered at one of their last two scrapes.

    If an exporter stops answering, the plain selector loses its series one scrape earlier. But Prometheus reads the
    samples of five minutes for it, which takes more than twice the time. ``before``: how long ago, as Prometheus writes
    durations; "" for now.
    """
    ago = f" offset {before}" if before else ""
    return f"last_over_time({series}[{two_scrapes(settings)}]{ago})"


def two_scrapes(settings: Settings) -> str:
    """Return the length of two scrape intervals, or of two evaluation intervals if those are longer."""
    return format_duration(2 * max(settings.seconds("evaluation.interval"), settings.seconds("scrape.interval")))


def lately_at(series: str, settings: Settings) -> str:
    """Return when the last values of ``series`` were scraped, of the same exporters as :func:`lately`."""
    seconds = lately_seconds(settings)
    step = format_duration(min(settings.seconds("evaluation.interval"), settings.seconds("scrape.interval")))
    return f"last_over_time(timestamp({series})[{format_duration(seconds)}:{step}]) > time() - {seconds:g}"


def lately_seconds(settings: Settings) -> float:
    """Return how many seconds :func:`lately` looks back."""
    return 3 * parse_duration(slow_interval(settings)) + 3 * settings.seconds("scrape.interval")


def outlasting(seconds: float, settings: Settings) -> str:
    """Return a window that still has a sample of an event when all else that is remembered for ``seconds`` is gone.

    Recordings remember an event from up to :func:`lately_seconds` after an exporter last showed it, and both the one
    that is read and the one that it has to outlast may be one evaluation old.
    """
    return format_duration(seconds + lately_seconds(settings) + 2 * parse_duration(slow_interval(settings)))


def at_least_two_scrapes(name: str, settings: Settings) -> float:
    """Return the seconds of the setting ``name``, but no fewer than two scrapes take.

    Otherwise one late or failed scrape would look like a state that lasts.
    """
    return max(settings.seconds(name), 2 * settings.seconds("scrape.interval"))


def with_imds(series: str, without: str = WITHOUT_IMDS) -> str:
    """Return ``series`` of exporters with IMDS access: those whose last poll was answered.

    A recording that others read passes ``UP == 0`` for ``without``, so that no chain of recordings is longer than two.
    """
    return f"({series} unless on (job, instance) {without})"


def confirmed(selector: str, settings: Settings) -> str:
    """Return ``selector`` as :func:`lately`, without events that an exporter has from its journal only.

    If its VM was off, such an event may be over for long.
    """
    unconfirmed = lately(UNCONFIRMED, settings)
    by_event = "unless on (event_id, job, instance)"
    return f"({selector} {by_event} {UNCONFIRMED} or ({lately(selector, settings)} {by_event} {unconfirmed}))"


def seen_lately(series: str, settings: Settings, late: float) -> str:
    """Return the last values of ``series``, as :func:`lately`, of exporters whose polls were answered lately.

    ``late``: after how many seconds it is late; what was seen half as long ago does not show that.

    An exporter that lately had no IMDS access counts only with what it shows now, since the past values may be from
    before it lost access. What one shows from its journal, nobody has seen.
    """
    period = format_duration(min(lately_seconds(settings), late / 2))
    before = f"last_over_time({series}[{period}]) unless on (job, instance) {lately(WITHOUT_IMDS, settings)}"
    return f"(({with_imds(series)} or ({before})) unless on (event_id, job, instance) {UNCONFIRMED})"


def identified(filtered: str = "", shown: Callable[[str], str] = str) -> str:
    """Return instance_info with ``vm_id`` filled in, by names where IMDS gave none; ``filtered`` narrows it.

    ``shown`` returns which values of a series count, such as those of :func:`lately`.
    """
    narrowed = f" {filtered}" if filtered else ""
    named, unnamed = (shown(f'{INSTANCE}{{vm_id{operator}""}}') for operator in ("!=", "="))
    return expression(f"""
        (
          {named}{narrowed}
          or
          label_join({unnamed}{narrowed}, "vm_id", "/", "subscription_id", "resource_group", "vm_name")
        )
    """)


def with_computer_name(targets: str, hosts: str = HOST) -> str:
    """Return one row with the value 1 for each target, with the label ``computer_name`` that ``hosts`` have for it.

    A target that is not in ``hosts`` keeps its own label of this name, if it has one.
    """
    return f"topk by (job, instance) (1, {hosts} or on (job, instance) {targets})"


def named(rows: Callable[[str], str]) -> str:
    """Return ``rows`` with each VM of Resources in ``vm_name``; ``rows`` returns the series that a matcher selects."""
    return "\nor\n".join(
        f'label_replace({rows(_names(number + 1))}, "vm_name", "$1",'
        f' "resources", "(?:[^,]+,){{{number}}}([^,]+)(?:,.*)?")'
        for number in range(RESOURCES_SHOWN)
    )


def left_resources(known: str) -> str:
    """Return the VMs, by name, that an exporter names in Resources, and those with IMDS access have no more.

    The later one of two values is when exporters with IMDS access last named the VM: the other is a count, and less
    than any time. Of an event with as many VMs as an exporter names, or more, nobody knows. ``known``: how long ago
    the VMs may have been named, as Prometheus writes durations.
    """
    either = f'__name__=~"{SHOWN}|{SEEN}"'
    return expression(f"""
        (
          max by (event_id, vm_name) (
            {named(lambda some: f"last_over_time({{{either},{some}}}[{known}])")}
          )
          < on (event_id) group_left () max by (event_id) (last_over_time({SEEN}[{known}]))
          unless on (event_id) last_over_time({SHOWN}{{{_names(RESOURCES_SHOWN)}}}[{known}])
        )
    """)


def _names(least: int) -> str:
    """Return the matcher of series whose Resources have at least so many names."""
    return f'resources=~"([^,]+,){{{least - 1}}}.+"' if least > 1 else 'resources!=""'


def answering(ignored: str = "", settings: Settings | None = None) -> str:
    """Return what takes VMs whose exporter answers out of a set with ``vm_id``: less than :func:`identified` costs.

    Exporters of the series ``ignored`` do not count as answering. With ``settings``, those count that answered at one
    of their last two scrapes, see :func:`at_last_scrapes`.
    """
    named, unnamed = (f'{INSTANCE}{{vm_id{operator}""}}' for operator in ("!=", "="))
    if settings:
        named, unnamed = at_last_scrapes(named, settings), at_last_scrapes(unnamed, settings)
    names = f'label_join({unnamed}, "vm_id", "/", "subscription_id", "resource_group", "vm_name")'
    if not ignored:
        return f"unless on (vm_id) {named}\nunless on (vm_id) {names}"
    return f"unless on (vm_id) (({named} or {names}) unless on (job, instance) {ignored})"


def kept(settings: Settings, *but: str) -> tuple[str, ...]:
    """Return the labels that alerts carry from targets, besides ``but``."""
    priority = () if settings.text("spot.severity") == "by-type" else ("priority",)
    every = dict.fromkeys((*settings.items("labels.keep"), *priority))
    return tuple(label for label in every if label not in but)


def known_vms(settings: Settings) -> str:
    """Return one row per VM by name: its target now, or the last one that it had."""
    names = "subscription_id, resource_group, vm_name"
    return expression(f"""
        topk by ({names}) (1,
          {INSTANCE}{{vm_name!=""}}
          or on ({names})
          last_over_time({VM_TARGET}[{settings.duration("memory")}])
        )
    """)


def with_kept_labels(text: str, settings: Settings, event_type: str = "") -> str:
    """Return ``text``, one row per event, with the labels that alerts carry: as recorded, else of the VM's own target.

    Every event that ``text`` can have is in the last set, so that no row is lost. ``event_type``: a label matcher.
    """
    if not (labels := ", ".join(kept(settings))):
        return text
    every = lately(f"{INFO}{{{event_type}}}" if event_type else INFO, settings)
    own = lately(f'{INFO}{{scope="self"{event_type and f",{event_type}"}}}', settings)
    return expression(f"""
        (
        {text}
        )
        * on (event_id) group_left ({labels})
        group by (event_id, {labels}) (
          topk by (event_id) (1, {EVENT})
          or on (event_id)
          {_labels_of_most(own, labels, settings)}
          or on (event_id)
          {_labels_of_most(every, labels, settings)}
          or on (event_id)
          group by (event_id) ({every})
          or on (event_id)
          group by (event_id) (last_over_time({SHOWN}[{settings.duration("memory")}]))
        )
    """)


def _labels_of_most(shown: str, labels: str, settings: Settings) -> str:
    """Return one row per event, with the ``labels`` that most exporters have whose series are in ``shown``.

    Exporters that are down count with the labels of their last scrapes.
    """
    return expression(f"""
        topk by (event_id) (1, count by (event_id, {labels}) (
          max by (event_id, job, instance) ({shown})
          * on (job, instance) group_left ({labels})
          topk by (job, instance) (1, {lately(INSTANCE, settings)} and on (job, instance) {shown})
        ))
    """)
