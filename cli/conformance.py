"""`odradek conformance`: does a broker do what Kafka promises? Black-box checks, as a report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .connection_options import connection_options
from .errors import CliError
from .output import chosen, print_rows, row_options
from .session import client_options, run

if TYPE_CHECKING:
    from ..testing.conformance import Outcome


@click.command(short_help="Check that a broker does what Kafka promises.")
@click.option("--only", metavar="TEXT", default="", help="Only the checks with this text in their names.")
@click.option("--junit", metavar="FILE", help="Also write the report as JUnit XML.")
@row_options
@connection_options("admin", "consumer", "producer")
def command(only: str, junit: str | None, bootstrap_server: str) -> None:
    """Check that a broker does what Kafka promises: topics, records, transactions, groups. Status 1 if a check fails.

    Every check makes topics and groups of its own, named odradek-conformance-..., and they are removed at the end.
    With --json the report is one list of {name, outcome, reason}.

    \b
    Examples:
      odradek conformance -b kafka-1:9092
      odradek conformance -b kafka-1:9092 --only transactions
      odradek conformance -b kafka-1:9092 --json
      odradek conformance -b kafka-1:9092 --junit report.xml
    """
    outcomes = _run(bootstrap_server, only)
    if chosen("json"):
        click.echo(
            json.dumps([{"name": each.name, "outcome": each.outcome, "reason": each.reason} for each in outcomes])
        )
    else:
        print_rows(("name", "outcome", "reason"), ((each.name, each.outcome, each.reason) for each in outcomes))
    if junit is not None:
        _write_junit(junit, outcomes)
    if any(each.outcome == "failed" for each in outcomes):
        raise click.exceptions.Exit(1)


def _run(bootstrap_server: str, only: str) -> list[Outcome]:
    from ..testing import conformance
    from ..testing.checks import CHECKS

    checks = [(name, check) for name, check in CHECKS if only in name]
    if not checks:
        raise click.UsageError(f"no check has {only!r} in its name; there are {', '.join(name for name, _ in CHECKS)}")

    async def main() -> list[Outcome]:
        async with conformance.Target(bootstrap_server, client_options) as target:
            return await conformance.run(target, checks)

    return run(main())


def _write_junit(path: str, outcomes: Sequence[Outcome]) -> None:
    """Write the report as JUnit XML, as continuous integration reads it."""
    from xml.etree import ElementTree

    given = list(outcomes)
    counts = {kind: str(sum(each.outcome == kind for each in given)) for kind in ("failed", "skipped")}
    suite = ElementTree.Element(
        "testsuite",
        name="odradek conformance",
        tests=str(len(given)),
        failures=counts["failed"],
        skipped=counts["skipped"],
    )
    for each in given:
        case = ElementTree.SubElement(suite, "testcase", classname="odradek.conformance", name=each.name)
        if each.outcome != "passed":
            tag = "failure" if each.outcome == "failed" else "skipped"
            ElementTree.SubElement(case, tag, message=each.reason)
    try:
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise CliError(f"--junit {path} cannot be written: {(error.strerror or str(error)).lower()}") from error
