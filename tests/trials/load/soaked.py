"""The exporter as it is, but for the budget of requests: it asks a simulator more often than IMDS
would bear.

Run by :mod:`trials.load.soak`; takes the arguments of ``run``. Refuses any endpoint that is not on
this machine.
"""

import os
import sys
from urllib.parse import urlsplit

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.service import daemon

PER_SECOND = 500


def main() -> int:
    """Run until SIGTERM; return the exit status."""
    flags = {
        name.removeprefix("--"): value
        for name, value in zip(sys.argv[2::2], sys.argv[3::2], strict=True)
    }
    config = resolve(flags, os.environ)
    if urlsplit(config.imds_endpoint).hostname != "127.0.0.1":
        raise SystemExit(
            "soaked: --imds.endpoint must be on 127.0.0.1: a metadata service would be flooded"
        )
    log = logs.set_up(config.log_level, config.log_format)
    return daemon.run(config, log, rate_limiter=RateLimiter(PER_SECOND, 1.0))


if __name__ == "__main__":
    sys.exit(main())
