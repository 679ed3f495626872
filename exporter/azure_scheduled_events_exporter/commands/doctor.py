"""The command ``doctor``: prints what the checks of the package ``doctor`` find, as text or JSON.

Must not check anything.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.config.flags import written_flags
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor import chain
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, Mark, counted, wrong
from azure_scheduled_events_exporter.doctor.subject import Servers, subject_of
from azure_scheduled_events_exporter.errors import ExporterError, printable

from .settings import take_environment

DESCRIPTION: Final = """\
Check the whole chain, from the metadata service to the dashboards, and print what is wrong and
what to do. Run it on the VM, as root. It changes nothing; like 'events', its first request enables
Scheduled Events if nothing has asked for them within 24 hours. The exit status is 1 if a line is
marked as wrong.
"""
_SERVERS: Final = ("prometheus", "alertmanager", "grafana")
_WITH_HTTP_CONFIG: Final = {
    "exporter": "the exporter",
    "prometheus": "Prometheus",
    "grafana": "Grafana",
}
"""Servers with a flag for credentials; those for Alertmanager are a setting of the exporter."""
_SIGNS: Final[Mapping[Mark, str]] = {
    Mark.OK: "√",
    Mark.NOTE: "i",
    Mark.SKIPPED: "-",
    Mark.WARNING: "‼",
    Mark.WRONG: "\N{MULTIPLICATION SIGN}",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``doctor`` to ``parser``."""
    add = parser.add_argument
    add("--json", action="store_true", help="Print JSON instead of lines.")
    add(
        "--exporter",
        metavar="URL",
        help="Address of the exporter that runs here. (default: --web.listen-address)",
    )
    for name in _SERVERS:
        more = "" if name in _WITH_HTTP_CONFIG else f" Uses --{name}.http-config.file."
        text = (
            f"Check this {name.capitalize()} too, such as https://USER:PASSWORD@HOST. May be"
            f" repeated.{more}"
        )
        add(f"--{name}", metavar="URL", action="append", default=[], help=text)
    for name, server in _WITH_HTTP_CONFIG.items():
        text = (
            f"Credentials and TLS for {server}, in the format of Prometheus' HTTP client"
            " configuration."
        )
        add(f"--{name}.http-config.file", dest=f"{name}_http", metavar="FILE", help=text)


def run(parsed: argparse.Namespace) -> int:
    """Check the chain and print what is found; return the exit status: 1 if something is wrong.

    Raises:
        UsageError: a flag is impossible.
    """
    # Where each variable is set that comes from an environment file: errors say so.
    places = take_environment(parsed)
    flags = written_flags(parsed)
    resolve(flags, {})  # an invalid flag is a usage error; invalid settings elsewhere are findings
    try:
        config = resolve(flags, os.environ, places)
    except ExporterError as error:
        hint = "Correct it; 'check-config' shows all settings."
        found = wrong("settings", f"The exporter cannot start: {error}.", hint)
        return _report([("This machine", iter([found]))], as_json=parsed.json)
    files = {name: getattr(parsed, f"{name}_http") for name in _WITH_HTTP_CONFIG}
    servers = Servers(
        parsed.exporter,
        parsed.prometheus,
        parsed.alertmanager,
        parsed.grafana,
        {**files, "alertmanager": config.alertmanager_http_config_file},
    )
    subject = subject_of(config, os.environ, servers)
    if not parsed.json:
        print(f"doctor asks: {subject.shown_servers}\n", flush=True)
    return _report(chain.examine(subject), as_json=parsed.json)


def _report(parts: Iterable[tuple[str, Findings]], *, as_json: bool) -> int:
    """Print every finding as soon as its check ends, or all as JSON; return the exit status."""

    def say(text: str) -> None:
        if not as_json:
            print(text, flush=True)

    found = []
    for title, findings in parts:
        say(f"{title}\n{'-' * len(title)}")
        for finding in findings:  # its check runs when the finding is asked for
            found.append({"part": title, **asdict(finding), "page": finding.link})
            say(_lines(finding))
        say("")
    marks = Counter(each["mark"] for each in found)
    counts = {mark: marks[mark] for mark in Mark}
    is_ok = counts[Mark.WRONG] == 0
    skipped = counts[Mark.SKIPPED]
    checks = counted(len(found) - skipped, "check")
    warnings = counted(counts[Mark.WARNING], "warning")
    say(f"{checks}: {counts[Mark.WRONG]} wrong, {warnings}; {skipped} skipped.")
    if as_json:
        report = {"version": __version__, "ok": is_ok, "counts": counts, "findings": found}
        print(json.dumps(report, indent=2))
    return 0 if is_ok else 1


def _lines(finding: Finding) -> str:
    """Return a finding for people: its sign and sentence, the hint, and the page about it."""
    sign = _SIGNS[finding.mark]
    try:
        sign.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # the terminal cannot show the symbol
        sign = "WRONG" if finding.mark is Mark.WRONG else finding.mark
    lines = [f"{sign} {printable(finding.sentence)}"]
    if finding.hint:
        lines.append(f"    {printable(finding.hint)}")
    if finding.link:
        lines.append(f"    See {finding.link}")
    return "\n".join(lines)
