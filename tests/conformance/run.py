"""`make conformance`: other people's suites and tools against our broker, and one table; and docs/conformance.md.

    python tests/conformance/run.py [--only PART]

Starts a broker of its own, and notes what every client asks: with the part `clients` it writes docs/conformance.md
(table.py); each part that ran gets its lines there (suites.py). librdkafka's tests build themselves once (librdkafka.py
says what that takes); Kafka's tools need Java and KAFKA_LIB, a folder with the jars of Apache Kafka 4.4.0, and those of
the release before KAFKA_LIB_BEFORE, with the jars of 4.3.1. What cannot run is in the table as skipped, with the
reason. Exit status 1 where something fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from odradek.broker.network.routes import LONE_ROUTES, ROUTES  # noqa: E402
from odradek.tests.conformance import dump_rows, go_clients, group_rows, kafka_python, librdkafka, suites, table  # noqa: E402 -- a script: the path comes first
from odradek.tests.support.brokers.process import BrokerProcess, broker_process, free_port  # noqa: E402
from odradek.tests.support.clients.kafka_tools import kafka_tool  # noqa: E402
from odradek.tests.support.clients.others import CODECS, consume, create_topic, jars  # noqa: E402

# Each API of the table must be usable by Kafka's own client.
PROMISED = [route.key.name.title().replace("_", "") for route in (*ROUTES, *LONE_ROUTES)]
# What the suites expect of a broker.
SETTINGS = {"num_partitions": 4, "group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 1000}
CLIENTS_WITHIN_S = 1800
# It reads what this run writes.
TABLE_TEST = "tests/conformance/test_table.py"
LINES = [f"key{number}\tvalue {number} {'x' * number}" for number in range(50)]

# How the result of a row begins that is no failure. Only "passed" counts as passed.
FINE = ("passed", "skipped", "given up")

Row = tuple[str, str]


def main() -> None:
    parts: dict[str, Callable[[BrokerProcess], Iterator[Row]]] = {
        "api-versions": api_versions,
        "console": console,
        "dump": dump_rows.rows,
        # Before the tests of this folder: it fetches what they skip without.
        "go": go_clients.of_each_client,
        "clients": real_clients,
        "compatibility": client_compatibility,
        "before": release_before,
        "kafka-python": kafka_python_tests,
        "groups": group_rows.rows,
        "librdkafka": librdkafka_tests,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=parts, action="append")
    chosen = parser.parse_args().only or list(parts)
    ran: dict[str, list[Row]] = {name: [] for name in chosen}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        trace.touch()
        os.environ["ODRADEK_TEST_TRACE"] = str(trace)
        os.environ["ODRADEK_LANGUAGES"] = "all"
        process = broker_process(Path(folder), **SETTINGS).start()
        try:
            for name in chosen:
                for row in run_part(parts[name], name, process):
                    ran[name].append(row)
                    print(f"{time.monotonic() - began:5.0f} s  {row[0]:<44} {row[1]}", file=sys.stderr, flush=True)
        finally:
            process.close()
        if "clients" in chosen:
            ran["clients"].append(write_page(Path(folder), trace))
    before = page_before()
    table.PAGE.write_text(suites.with_suites(before, before, ran))
    rows = [row for part in ran.values() for row in part]
    print_table(rows)
    sys.exit(any(not result.startswith(FINE) for _, result in rows))


def run_part(part: Callable[[BrokerProcess], Iterator[Row]], name: str, process: BrokerProcess) -> Iterator[Row]:
    """The rows of a part; a part that breaks is a row too."""
    try:
        yield from part(process)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        yield name, f"failed: {error}"


def real_clients(process: BrokerProcess) -> Iterator[Row]:
    """The tests of this folder, which start brokers of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/conformance", "--ignore", TABLE_TEST]
    # Mostly they wait: two at a time, as `make test` runs them.
    command += ["--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CLIENTS_WITHIN_S, check=False)
    last = re.findall(r"^(.*) in [\d.]+s", done.stdout, re.MULTILINE)[-1:]
    print(done.stdout[-10_000:] if done.returncode else "", file=sys.stderr)
    yield "real clients (tests/conformance)", f"{'failed' if done.returncode else 'passed'}: {''.join(last)}"


def write_page(folder: Path, trace: Path) -> Row:
    """docs/conformance.md, from what this run has seen."""
    pairs = folder / "pairs"
    os.environ.pop("ODRADEK_TEST_TRACE")
    table.run_tests(pairs)
    text = table.page(table.covered(pairs, [trace]))
    table.PAGE.write_text(suites.with_suites(text, page_before(), {}))
    results = table.held(text)
    bad = [f"{key} v{version}" for (key, version), result in results.items() if result != "passed"]
    row = f"docs/conformance.md: {len(results)} (API, version) pairs"
    return row, f"failed: {', '.join(bad[:10])}" if bad else "passed"


def page_before() -> str:
    return table.PAGE.read_text() if table.PAGE.exists() else ""


def print_table(rows: list[Row]) -> None:
    width = max(len(name) for name, _ in rows)
    print(f"| {'check':<{width}} | result |")
    print(f"|{'-' * (width + 2)}|--------|")
    for name, result in rows:
        print(f"| {name:<{width}} | {result} |")
    kinds = Counter(next((kind for kind in FINE if result.startswith(kind)), "failed") for _, result in rows)
    print(f"\n{', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}")


def api_versions(process: BrokerProcess) -> Iterator[Row]:
    if not jars():
        yield "BrokerApiVersionsCommand", "skipped: no KAFKA_LIB"
        return
    said = kafka_tool("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", process.address)
    offered = dict(re.findall(r"^\s+(\w+)\(\d+\): [\d to]+ \[usable: (\d+)\]", said, re.MULTILINE))
    for api in PROMISED:
        yield f"BrokerApiVersionsCommand: {api}", f"passed: {offered[api]}" if api in offered else "failed: not usable"


def console(process: BrokerProcess) -> Iterator[Row]:
    """Kafka's console tools in every codec; snappy from Java comes in a framing of its own."""
    for codec in CODECS:
        name = f"ConsoleProducer to ConsoleConsumer: {codec}"
        if not jars():
            yield name, "skipped: no KAFKA_LIB"
            continue
        topic = create_topic(process.address, f"console-{codec}")
        where = ("--bootstrap-server", process.address, "--topic", topic)
        options = ("--compression-codec", codec, "--reader-property", "parse.key=true")
        kafka_tool("org.apache.kafka.tools.ConsoleProducer", *where, *options, sent="\n".join(LINES) + "\n")
        options = ("--from-beginning", "--max-messages", str(len(LINES)), "--formatter-property", "print.key=true")
        read = kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *options)
        by_librdkafka = [
            f"{(key or b'').decode()}\t{(value or b'').decode()}"
            for key, value, _ in consume("confluent-kafka", process.address, topic, len(LINES))
        ]
        same = read.splitlines() == LINES and by_librdkafka == LINES
        yield name, "passed" if same else "failed: other records come back"


def client_compatibility(process: BrokerProcess) -> Iterator[Row]:
    """Kafka's check of its own client against brokers of other versions."""
    if not jars():
        yield "ClientCompatibilityTest", "skipped: no KAFKA_LIB"
        return
    features = ("offsets-for-times", "cluster-id", "create-topics", "describe-configs", "describe-acls")
    features += ("idempotent-producer",)
    options = [word for feature in features for word in (f"--{feature}-supported", "true")]
    options += ["--expect-record-too-large-exception", "false"]
    options += ["--num-cluster-nodes", "1", "--topic", "compatibility", "--bootstrap-server", process.address]
    said = kafka_tool("org.apache.kafka.tools.ClientCompatibilityTest", *options)
    yield "ClientCompatibilityTest", "passed" if "SUCCESS" in said else f"failed: {said[-300:]}"


def release_before(_: BrokerProcess) -> Iterator[Row]:
    """The client and the tools of the release before, at a broker where no topic is yet."""
    folder, newest = os.environ.get("KAFKA_LIB_BEFORE"), os.environ.get("KAFKA_LIB")
    if not folder:
        yield "Kafka 4.3.1", "skipped: no KAFKA_LIB_BEFORE"
        return
    os.environ["KAFKA_LIB"] = folder
    try:
        with broker_with(**SETTINGS) as process:
            for part in (api_versions, console, client_compatibility):
                yield from part(process)
    finally:
        os.environ.pop("KAFKA_LIB")
        os.environ.update({"KAFKA_LIB": newest} if newest else {})


def kafka_python_tests(_: BrokerProcess) -> Iterator[Row]:
    """A broker as kafka-python's tests set theirs up."""
    address = f"127.0.0.1:{free_port()}"
    settings = SETTINGS | {"node_id": 0, "advertised_listeners": f"PLAINTEXT://{address}"}
    with broker_with(address, **settings) as process:
        for name, result in kafka_python.run(process.address).items():
            yield f"kafka-python: {name}", result


@contextmanager
def broker_with(address: str = "127.0.0.1:0", **settings: object) -> Iterator[BrokerProcess]:
    """A broker of other settings than the one that the parts share."""
    with tempfile.TemporaryDirectory() as folder:
        process = broker_process(Path(folder), **settings)
        process.address = address
        process.start()
        try:
            yield process
        finally:
            process.close()


def librdkafka_tests(process: BrokerProcess) -> Iterator[Row]:
    """Test by test; a test that needs no broker is left out."""
    yield from librdkafka_rows(process, librdkafka.TESTS)
    yield from librdkafka_rows(process, librdkafka.ONE_REPLICA, replicas=" with one replica")
    with broker_with(auto_create_topics_enable="false", group_initial_rebalance_delay_ms=0) as strict:
        yield from librdkafka_rows(strict, librdkafka.NO_AUTO_CREATE)
        yield from librdkafka_rows(strict, librdkafka.NO_AUTO_CREATE_ONE_REPLICA, replicas=" with one replica")
    with broker_with(num_partitions=4) as patient:
        yield from librdkafka_rows(patient, librdkafka.PATIENT)
    for name, why in librdkafka.GIVEN_UP.items():
        yield f"librdkafka: {name}", f"given up: {why}"


def librdkafka_rows(process: BrokerProcess, tests: tuple[str, ...], replicas: str = "") -> Iterator[Row]:
    scenario = "noautocreate" if process.settings.get("auto_create_topics_enable") == "false" else "default"
    for test in tests:
        if test in librdkafka.NEEDS_JAVA and not (jars() and shutil.which("javac")):
            yield f"librdkafka: {test}", "skipped: no KAFKA_LIB, or no javac"
            continue
        found = librdkafka.run(process.address, test, scenario)
        for name, result in found.items():
            if result != "SKIPPED":
                yield f"librdkafka: {name}{replicas}", "passed" if result == "PASSED" else f"failed: {result}"
        if set(found.values()) == {"SKIPPED"}:
            yield f"librdkafka: {test}", "skipped: it says so itself"


if __name__ == "__main__":
    main()
