"""Measure this broker and Apache Kafka in turn, scenario by scenario.

    python -m benchmarks                      all scenarios, three rounds, median; Kafka too if KAFKA_LIB names its
                                              jars
    python -m benchmarks --only produce       the scenarios whose name contains the word
    python -m benchmarks --bars --rounds 5    the scenarios with a goal beside Kafka, and the echo that bounds some
    python -m benchmarks --only cli           a million lines in and out, beside kcat
    python -m benchmarks --only clients       the client's CPU time a record, beside aiokafka's and confluent-kafka's
    python -m benchmarks --only echo          one request in flight without a broker: what no broker can pass
    python -m benchmarks --beside ../before   beside another checkout's broker (goals are still Kafka's)
    python -m benchmarks security             what TLS, ACLs and quotas cost (security.py)
    python -m benchmarks archive              an archive beside what pyarrow alone needs (archive.py)
    python -m benchmarks.archive_spark        an archive by Spark beside one process (archive_spark.py)
    python -m benchmarks --write              also writes benchmarks/results.md

Nothing else should run on the machine meanwhile. Figures differ from machine to machine, so compare the ratios.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import clients, command_line, echo, recovery, report, security
from .brokers import Broker, Kafka, Odradek, Rate
from .scenarios import KCAT, SCENARIOS, Scenario

# The broker is not warm while one more run is better than all before by this share. A load of few requests a second,
# which Java takes minutes to compile, must end at some time.
STILL_BETTER = 1.05
WARM_UP_MAX_S = 90.0
# What --only looks in: the scenarios of a broker, and the measures that make their own.
NAMES = (*(each.name for each in SCENARIOS), "kill -9", "echo", "cli beside kcat", "clients")
RESULTS = Path(__file__).with_name("results.md")


def main() -> None:
    """See the module's text."""
    if sys.argv[1:2] == ["security"]:
        security.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["archive"]:
        from . import archive  # with packages of an extra

        archive.main(sys.argv[2:])
        return
    parser = report.arguments(__doc__, RESULTS)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--bars", action="store_true", help="the scenarios with a goal beside Kafka, and the echo")
    parser.add_argument("--rounds", type=int, default=3)
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--no-kafka", action="store_true", help="measure Odradek alone")
    other.add_argument("--beside", type=Path, metavar="CHECKOUT", help="compare with that checkout, not with Kafka")
    arguments = parser.parse_args()
    if not any(arguments.only in name for name in NAMES):
        parser.error(f"no scenario's name contains {arguments.only!r}; the names are: {', '.join(NAMES)}")
    jars = None if arguments.no_kafka or arguments.beside else os.environ.get("KAFKA_LIB")
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        brokers = _brokers(Path(folder), jars)
        if arguments.beside:
            brokers.append(Odradek(Path(folder) / "beside", arguments.beside))
        chosen = [each for each in SCENARIOS if arguments.only in each.name and (each.goal or not arguments.bars)]
        rows = measure(brokers, chosen, arguments.rounds)
        if arguments.bars:
            rows.append(echoed(Path(folder), arguments.rounds))
        else:
            rows += without_scenario(arguments.only, Path(folder), jars, arguments.rounds, compared=len(brokers) > 1)
        text = reported(rows, [broker.name for broker in brokers], arguments.rounds)
        if arguments.only in "clients" and not arguments.bars:
            text += "\n" + clients.measure(Path(folder) / "clients", arguments.rounds)
    report.publish(text, arguments.write)


def measure(brokers: list[Broker], chosen: list[Scenario], rounds: int) -> list[list[str]]:
    """Return one row for each scenario. The brokers take turns within it."""
    began = time.perf_counter()
    starts = {broker.name: [broker.start()] for broker in brokers}
    for broker in brokers:
        for _ in range(rounds - 1):
            broker.stop()
            starts[broker.name].append(broker.start())
    start = Scenario("start to the first connection", "s", lambda _: 0.0, less=True)
    rows = [row(start, [starts[broker.name] for broker in brokers])]
    # What runs the same code of a broker warms it once.
    warmed: set[str] = set()
    for scenario in filter(_possible, chosen):
        try:
            if scenario.warm:
                for broker in brokers:
                    warm_up(scenario, broker, 0.0 if scenario.warm in warmed else broker.warm_up_s)
                warmed.add(scenario.warm)
            figures = _figures(scenario, brokers, rounds)
        except subprocess.CalledProcessError as error:
            # The failure is printed, and the other scenarios are still measured.
            print(f"{scenario.name}: failed: {error}", file=sys.stderr)
            rows.append([scenario.name, scenario.unit, "failed", *["", "", ""][: 3 * (len(brokers) - 1)]])
            continue
        rows.append([*row(scenario, figures), *cpu_cells(figures)])
        print(f"after {time.perf_counter() - began:.0f} s: ", "  ".join(rows[-1]), file=sys.stderr)
    for broker in brokers:
        broker.stop()
    return rows


def without_scenario(only: str, folder: Path, jars: str | None, rounds: int, compared: bool) -> list[list[str]]:
    """Return the rows of measures that start brokers of their own, or need none."""
    rows: list[list[str]] = []
    if only in "kill -9":
        rows += crash(folder, jars, rounds)
    if only in "echo":
        rows.append(echoed(folder, rounds))
    if only in "cli beside kcat" and command_line.KCAT is not None:
        rows += beside_kcat(folder, rounds, compared)
    return rows


def _figures(scenario: Scenario, brokers: list[Broker], rounds: int) -> list[list[float]]:
    """Return the figures of each broker, one a round. That of a rate has the broker's CPU time in it."""
    figures: list[list[float]] = [[] for _ in brokers]
    for _ in range(rounds):
        for at, broker in enumerate(brokers):
            before_s = broker.cpu_s()
            figure = scenario.measure(broker)
            if isinstance(figure, Rate) and figure.units:
                figure.cpu_us = (broker.cpu_s() - before_s) / figure.units * 1e6
            figures[at].append(figure)
    return figures


def cpu_cells(figures: list[list[float]]) -> list[str]:
    """Return the median of the broker's CPU time for one unit of a rate, in microseconds, a broker; else nothing."""
    times = [[each.cpu_us for each in of_broker if isinstance(each, Rate)] for of_broker in figures]
    return [f"{statistics.median(each):,.4g}" if each else "" for each in times]


def warm_up(scenario: Scenario, broker: Broker, at_least_s: float) -> None:
    """Run the load of a scenario once, uncounted, then for that time, and on while the broker still gets faster."""
    started = time.perf_counter()
    best = scenario.measure(broker)
    grows = False
    while (spent := time.perf_counter() - started) < at_least_s or (grows and spent < WARM_UP_MAX_S):
        figure = scenario.measure(broker)
        grows = figure * STILL_BETTER < best if scenario.less else figure > best * STILL_BETTER
        best = min(best, figure) if scenario.less else max(best, figure)


def crash(folder: Path, jars: str | None, rounds: int) -> list[list[str]]:
    """Kill the brokers with so much in one partition; return the seconds until a record can be read and written.

    Checks that no record is missing. Each broker has a data directory of its own, which is removed afterwards.
    """
    rows: list[list[str]] = []
    for gigabytes in recovery.SIZES_GB:
        name = f"kill -9 with {gigabytes:g} GB in the log, to serving again"
        figures: list[list[float]] = []
        for broker in _brokers(folder / f"crash-{gigabytes:g}", jars):
            figures.append(recovery.crashes(broker, gigabytes, rounds))
            broker.remove()
        rows.append(row(Scenario(name, "s", lambda _: 0.0, less=True), figures))
        print("  ".join(rows[-1]), file=sys.stderr)
    return rows


def echoed(folder: Path, rounds: int) -> list[str]:
    """Return how long one request in flight takes where there is no broker."""
    found = ["an echo without a broker, 1 in flight: p50", "us", f"{echo.measure(folder / 'echo', rounds):,.4g}"]
    print("  ".join(found), file=sys.stderr)
    return found


def beside_kcat(folder: Path, rounds: int, compared: bool) -> list[list[str]]:
    """Return how much longer than kcat our commands take for a million lines, in and out."""
    rest = ["", "", f"{command_line.GOAL:g}"] if compared else []
    rows: list[list[str]] = []
    for way, (ours, kcat) in command_line.measure(folder / "cli", rounds).items():
        rows.append([f"cli beside kcat: a million lines {way}", "of kcat's time", f"{ours / kcat:.2f}", *rest])
        print("  ".join(rows[-1]), f"({ours:.2f} s, kcat {kcat:.2f} s)", file=sys.stderr)
    return rows


def _brokers(folder: Path, jars: str | None) -> list[Broker]:
    brokers: list[Broker] = [Odradek(folder / "odradek")]
    return [*brokers, Kafka(folder / "kafka", Path(jars))] if jars else brokers


def row(scenario: Scenario, figures: list[list[float]]) -> list[str]:
    """Return a row: name, unit, a median a broker, the ratio (above 1: better than the second) and the goal."""
    medians = [statistics.median(each) for each in figures]
    cells = [scenario.name, scenario.unit, *(f"{median:,.4g}" for median in medians)]
    if len(medians) == 2:
        ours, theirs = medians
        ratio = theirs / ours if scenario.less and ours else ours / theirs if theirs else 0.0
        cells += [f"{ratio:.2f}", f"{scenario.goal:g}" if scenario.goal else ""]
    return cells


def reported(rows: list[list[str]], names: list[str], rounds: int) -> str:
    """Return a table in Markdown with the machine and the date."""
    cpu = [f"{each}: us CPU a unit" for each in names]
    head = ["what", "unit", *names, *(["ratio", "goal"] if len(names) > 1 else []), *cpu]
    note = (
        "The ratio is turned where less is better: above 1, Odradek is ahead. "
        "Clients run on the same cores. CPU is the broker's, user and system, for one request or MB of a rate.\n"
    )
    table = report.table(head, rows)
    return f"# Measured\n\n`make bench` on {report.place()}, median of {rounds} rounds. {note}\n{table}"


def _possible(scenario: Scenario) -> bool:
    if scenario.needs == "kcat":
        return KCAT is not None
    return scenario.needs is None or scenario.needs in os.environ


if __name__ == "__main__":
    main()
