"""Adds what was measured on this VM to its events: pauses, and what the kernel counted.

Pure. Must not decide when an event begins or ends (``core.presence``, ``core.absence``).
"""

from dataclasses import replace

from .document import Scope
from .impact import Counted
from .lifecycle import Lifecycle, Lifecycles, State
from .pause import NOISE_SECONDS, Pause


def record_pause(known: Lifecycles, pause: Pause | None) -> Lifecycles:
    """Return ``known`` with ``pause`` added to the Started events of this VM.

    If nothing changes, it is ``known`` itself.
    """
    if pause is None:
        return known
    extended = []
    for before in known.current.values():
        if before.state is State.STARTED:
            # An earlier document has shown it Started, so it does not begin now.
            after = paused(before, pause, is_beginning_watched=False)
            if after is not before:
                extended.append(after)
    if not extended:
        return known
    return known.updated(extended)


def record_impact(known: Lifecycles, counted: Counted | None) -> Lifecycles:
    """Return ``known`` with the impact of each Started event up to the readings ``counted``.

    If nothing changes, it is ``known`` itself.
    """
    if counted is None:
        return known
    renewed = []
    for life in known.current.values():
        if life.impact is not None and life.state is State.STARTED:
            impact = life.impact.until(counted.now)
            if impact is not life.impact:
                renewed.append(replace(life, impact=impact))
    if not renewed:
        return known
    return known.updated(renewed)


def paused(life: Lifecycle, pause: Pause | None, *, is_beginning_watched: bool) -> Lifecycle:
    """Return ``life`` with ``pause`` added; ``life`` itself if nothing changes.

    A life whose start nobody watched stays unmeasured, because its pause may have been before
    anybody measured. A boot is added all the same: it takes longer than whatever was missed.

    Args:
        life: an event that has started; only one of this VM is measured.
        pause: the longest pause since the last document; None if it was not measured.
        is_beginning_watched: whether the event began since the last document, and somebody watched.
    """
    if pause is None or life.scope is not Scope.SELF:
        return life
    if life.observed_pause is None and not is_beginning_watched and not pause.is_boot:
        return life
    count = life.pauses
    if pause.seconds >= NOISE_SECONDS:
        count += 1
    if life.observed_pause is None or pause.seconds > life.observed_pause:
        life = replace(life, observed_pause=pause.seconds, pause_ended=pause.ended)
    if count != life.pauses:
        life = replace(life, pauses=count)
    return life
