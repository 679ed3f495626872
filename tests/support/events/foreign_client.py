"""A client of Scheduled Events that shares no code with the exporter, with the policy of
Microsoft's Python sample.

It polls the document once a second. It approves what a user requested and every Freeze of less than
9 seconds, whichever VM is affected, and prints each other event once. Run it with the address of
the metadata service.
"""

import json
import sys
import time
import urllib.request

_NOT_SHORT_SECONDS = 9


def ask(address: str, content: object = None) -> bytes:
    """Send a GET, or a POST of ``content`` as JSON; return the body of the answer."""
    url = f"{address}/metadata/scheduledevents?api-version=2020-07-01"
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data=body, headers={"Metadata": "true"})  # noqa: S310 - http only
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        request, timeout=120
    ) as answer:
        return bytes(answer.read())


def say(*words: object) -> None:
    """Write a line."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def is_approved_at_once(event: dict[str, object]) -> bool:
    """Return whether the sample approves ``event`` without preparing for it."""
    duration = event.get("DurationInSeconds")
    # A length of -1 is unknown.
    is_short = isinstance(duration, int) and 0 <= duration < _NOT_SHORT_SECONDS
    return event["EventSource"] == "User" or (event["EventType"] == "Freeze" and is_short)


def main(address: str) -> None:
    """Poll until somebody ends this process; an unchanged incarnation means unchanged events."""
    incarnation = None
    while True:
        document = json.loads(ask(address))
        if document["DocumentIncarnation"] != incarnation:
            incarnation = document["DocumentIncarnation"]
            for event in document["Events"]:
                if event["EventStatus"] != "Scheduled":
                    continue
                if is_approved_at_once(event):
                    ask(address, {"StartRequests": [{"EventId": event["EventId"]}]})
                    say("approved", event["EventType"])
                else:
                    say("waits", event["EventType"], event["NotBefore"])
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
