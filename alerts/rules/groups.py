"""Every group of rules, and every alert in them."""

from ..settings import Settings
from .boards import events as event_boards
from .boards import exporters as exporter_boards
from .event_alerts import event_groups
from .event_recordings import event_recordings, memory_groups, vm_groups
from .impact_alerts import impact_groups
from .life_alerts import life_groups
from .maintenance import maintenance_groups
from .not_back import not_back_groups
from .rule import Alert, Group
from .watcher_alerts import watcher_groups


def groups(settings: Settings) -> tuple[Group, ...]:
    """Return every group."""
    settings = settings.with_lasting_memory()
    recordings = (*memory_groups(settings), *vm_groups(settings), *event_recordings(settings))
    events = (*recordings, *event_groups(settings), *life_groups(settings))
    impact = (*impact_groups(settings), *maintenance_groups(settings), *not_back_groups(settings))
    boards = (*event_boards.event_groups(settings), *exporter_boards.exporter_groups(settings))
    return (*events, *impact, *watcher_groups(settings), *boards)


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return every alert."""
    return tuple(alert for group in groups(settings) for alert in group.alerts())
