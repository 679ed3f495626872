"""A running ``events --follow``, what it has printed, and events for it to print."""

import json
from pathlib import Path
from typing import Any

from support.events.imds_bodies import entry
from support.programs import COMMAND, Program, eventually

NOT_BEFORE = "Mon, 11 Apr 2072 22:26:58 GMT"
FAST = ("--poll.interval", "250ms")
Line = dict[str, Any]


def event(
    name: str,
    status: str = "Scheduled",
    vm: str = "vmss_0",
    not_before: str = NOT_BEFORE,
    kind: str = "Reboot",
) -> dict[str, object]:
    """Return an event to place by hand."""
    return entry(
        EventId=name,
        EventType=kind,
        EventStatus=status,
        Resources=[vm],
        NotBefore="" if status == "Started" else not_before,
    )


class Follower(Program):
    """A running ``events --follow``; its standard error is in the same output."""

    def __init__(self, url: str, state: Path | str, output: Path, *flags: str, **env: str) -> None:
        command = [
            COMMAND,
            "events",
            "--follow",
            "--imds.endpoint",
            url,
            "--journal.path",
            str(state),
        ]
        super().__init__([*command, *FAST, *flags], output, **env)

    @property
    def printed(self) -> list[Line]:
        """The complete lines of JSON so far, without standard error."""
        lines = self.log.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    @property
    def transitions(self) -> list[tuple[str, str]]:
        """EventId and transition of each line."""
        return [(line["event_id"], line["transition"]) for line in self.printed]

    def wait_for(self, *expected: tuple[str, str]) -> None:
        """Wait until the printed transitions are exactly ``expected``."""
        eventually(
            lambda: self.transitions == list(expected) or len(self.transitions) > len(expected),
            f"{expected}",
        )
        assert self.transitions == list(expected)


def wait_until_it_follows(follower: Follower) -> None:
    """Wait until the follower has found its place: it must print every later transition."""
    follower.wait_for_line("following the journal from ")
