"""docs/conformance.md: each (API, version) that is served, the tests that ask it, the clients that used it.

Made by `make conformance` from what really ran: the lines of recorder.py and of traced_broker.py. suites.py adds to it.
tests/conformance/test_table.py holds the dispatch table against the page.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from odradek.broker.network.routes import LONE_ROUTES, ROUTES
from odradek.protocol.apis import ApiKey

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"
TESTS = ("tests/broker/network/test_dispatcher.py", "tests/broker/handlers", "tests/adversity/test_wire_pitfalls.py")
TESTS_WITHIN_S = 600

Pair = tuple[int, int]

# Client ids as real clients write them -> the client.
CLIENTS = (
    (re.compile(r"^rdkafka|^librdkafka"), "librdkafka"),
    (re.compile(r"^kafka-python"), "kafka-python"),
    (re.compile(r"^aiokafka"), "aiokafka"),
    (re.compile(r"^(consumer|producer|adminclient|console|admin|broker-api|perf)-|^java-"), "Java"),
    (re.compile(r"^kgo$"), "franz-go"),
    (re.compile(r"^sarama$"), "Sarama"),
    (re.compile(r".*segmentio/kafka-go"), "kafka-go"),
    (re.compile(r"^odradek"), "odradek.client"),
)


class Covered(NamedTuple):
    """The tests that asked a pair, by how they ended, and the clients that used it."""

    passed: list[str]
    failed: list[str]
    clients: set[str]


def run_tests(lines: Path) -> None:
    """Runs the tests that speak in messages; their pairs go to `lines`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "odradek.tests.conformance.recorder",
        "--pairs",
        str(lines),
        *TESTS,
    ]
    subprocess.run(command, cwd=ROOT, timeout=TESTS_WITHIN_S, check=False, stdout=sys.stderr)


def covered(lines: Path, traces: list[Path]) -> dict[Pair, Covered]:
    found: dict[Pair, Covered] = defaultdict(lambda: Covered([], [], set()))
    for line in lines.read_text().splitlines():
        test, outcome, pairs = json.loads(line)
        for key, version in pairs:
            tests = found[key, version].passed if outcome == "passed" else found[key, version].failed
            tests.append(test)
    for trace in traces:
        for line in trace.read_text().splitlines():
            key, version, client_id = line.split(" ", 2)
            for pattern, client in CLIENTS:
                if pattern.search(client_id):
                    found[int(key), int(version)].clients.add(client)
    return found


def page(found: dict[Pair, Covered]) -> str:
    """The page's text."""
    rows = [
        row(route.key, version, found.get((int(route.key), version), Covered([], [], set())))
        for route in (*ROUTES, *LONE_ROUTES)
        for version in route.versions
    ]
    when = time.strftime("%Y-%m-%d")
    made = f"Made by `make conformance` on {when}."
    return "\n".join(
        [
            "# Conformance: what is served, and what shows it",
            "",
            f"{made} A row is an API at a version that ApiVersions offers. *Tests*: how many",
            "tests asked it over a socket and read the answer in that version, and one of them. *Clients*: which real",
            "clients used it in the same run; each takes the highest version it knows, so that low ones are for old",
            "clients.",
            "",
            "| API | key | version | tests | such as | clients | result |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def row(key: ApiKey, version: int, one: Covered) -> str:
    tests = len(one.passed) + len(one.failed)
    result = "failed" if one.failed else "passed" if one.passed else "not covered"
    # A test of the handler says more than one of another, and that more than one that asks everything of everybody.
    own = f"handlers/test_{key.name.lower()}.py"
    tests_of = one.failed or one.passed or ["-"]
    example = min(tests_of, key=lambda test: (own not in test, "test_dispatcher" in test, test))
    short = re.sub(r"^tests/broker/", "", example).replace("|", "\\|")
    name = key.name.title().replace("_", "")
    clients = ", ".join(sorted(one.clients)) or "-"
    return f"| {name} | {int(key)} | {version} | {tests} | {short} | {clients} | {result} |"


def held(text: str) -> dict[Pair, str]:
    """(key, version) -> result, as the page says."""
    pattern = r"^\| \w+ \| (\d+) \| (\d+) \| .* \| ([a-z ]+) \|$"
    return {(int(key), int(version)): result for key, version, result in re.findall(pattern, text, re.MULTILINE)}
