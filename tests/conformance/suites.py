"""The second half of docs/conformance.md: what other people's suites and tools said, part by part of run.py.

    | suite | checks | result |

A line for how many checks of a part passed, and one for each that did not, with its reason. Parts that a run leaves out
keep the lines that they have.
"""

from __future__ import annotations

import re

from odradek.tests.conformance import go_clients

TITLE = "## Other people's suites and tools"
# What the parts of run.py are, in the order of the page.
SUITES = {
    "clients": "real clients",
    "go": f"Go's {', '.join(map(go_clients.with_version, go_clients.CLIENTS))}",
    "kafka-python": "kafka-python's tests",
    "librdkafka": "librdkafka's tests",
    "groups": "groups' transcripts and command",
    "api-versions": "Kafka's BrokerApiVersionsCommand",
    "console": "Kafka's console tools",
    "compatibility": "Kafka's ClientCompatibilityTest",
    "before": "the same client and tools of Kafka 4.3.1",
    "dump": "Kafka's DumpLogSegments",
}

Row = tuple[str, str]


def with_suites(page: str, before: str, ran: dict[str, list[Row]]) -> str:
    """`page` without its second half, and that half made of what `ran` and of what stood in `before`."""
    lines = [line for part, suite in SUITES.items() for line in lines_of(suite, ran.get(part), before)]
    first_half = page.partition(TITLE)[0].rstrip()
    table = ["| suite | checks | result |", "|---|---|---|", *lines]
    return "\n".join([first_half, "", TITLE, "", *explained(), "", *table, ""])


def explained() -> list[str]:
    return [
        "Of each suite: how many checks passed when it was last run by `make conformance`, and each that did not, or",
        "could not be run, with the reason. Nothing that is skipped or given up counts as passed.",
    ]


def lines_of(suite: str, rows: list[Row] | None, before: str) -> list[str]:
    if rows is None:
        return re.findall(rf"^\| {re.escape(suite)} \| .*\|$", before, re.MULTILINE)
    passed = sum(result.startswith("passed") for _, result in rows)
    others = [(re.sub(r"^[\w-]+: ", "", name), result) for name, result in rows if not result.startswith("passed")]
    count = [f"| {suite} | {passed} | passed |"] if passed else []
    return [*count, *sorted(f"| {suite} | {escaped(name)} | {escaped(result)} |" for name, result in others)]


def escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
