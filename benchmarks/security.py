"""What security costs: TLS beside Kafka's, and handshakes beside a plain client.

    make bench ARGS=security                          both; Kafka too if KAFKA_LIB names its jars
    make bench ARGS="security --only tls"             one part: handshakes or tls

Both want a quiet machine. security.md has figures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from odradek.broker.security.authority import Authority

from . import handshakes, report
from .brokers import Broker, Kafka, Odradek, kafkas
from .load import WARM_UP_S, in_own_process

MOST_P99_MS = 20.0
RATE_SECONDS = 2.0
# How long Java compiles the loads' code before it is measured.
WARM_UP_RUN_S = 15.0
# The name of a load, its requests in flight, and the figure of it that counts.
RATES = {
    "TLS: batches of 1 MB, 5 in flight": ("produce-1mb", 5, "sent_mb_per_s"),
    "TLS: fetch of 1 MB pieces, walking": ("fetch-walk", 2, "answered_mb_per_s"),
}


def main(arguments: list[str]) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(
        "security", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("handshakes", "tls"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as name, ExitStack() as running:
        folder = Path(name)
        authority, key_store = folder / "ca.pem", folder / "broker.pem"
        Authority.open(folder).keep_certificate(key_store, ["127.0.0.1", "localhost"])
        brokers = [Odradek(folder / "odradek", key_store=key_store), *kafkas(folder, key_store)]
        for each in brokers:
            running.enter_context(each)
        print(f"`make bench ARGS=security` on {report.place()}. CPU is the broker's. Figures in bold miss their goals.")
        if options.only != "handshakes":
            print(_rates(brokers, authority, options.rounds))
        if options.only != "tls":
            print(_handshakes(brokers, authority, options.rounds))


def _rates(brokers: list[Broker], authority: Path, rounds: int) -> str:
    columns = [cell for each in brokers for cell in (f"{each.name}: MB/s", "us CPU a MB")]
    rows: list[list[str]] = []
    for name, (kind, in_flight, figure) in RATES.items():
        found: list[list[tuple[float, float]]] = [[] for _ in brokers]
        for each in brokers:
            if each.warm_up_s:
                _load(each, authority, kind, in_flight, figure, WARM_UP_RUN_S)
        for _ in range(rounds):
            for at, each in enumerate(brokers):
                found[at].append(_load(each, authority, kind, in_flight, figure, RATE_SECONDS))
        medians = [tuple(map(statistics.median, zip(*each, strict=True))) for each in found]
        cells = [cell for rate, us in medians for cell in (f"{rate:,.0f}", f"{us:,.0f}")]
        rows.append([name, *cells, _beside(medians, brokers)])
    return f"## 1 MB by TLS\n\n{report.table(['', *columns, 'rate, CPU by Kafka'], rows)}"


def _beside(medians: list[tuple[float, ...]], brokers: list[Broker]) -> str:
    """Return how our rate and our CPU time compare with Kafka's. Both should be at least as good."""
    if not isinstance(brokers[-1], Kafka):
        return ""
    (rate, us), (kafkas_rate, kafkas_us) = medians[0], medians[-1]
    return ", ".join(report.marked(f"{ratio:.2f}", ratio >= 1) for ratio in (rate / kafkas_rate, kafkas_us / us))


def _load(
    broker: Broker, authority: Path, kind: str, in_flight: int, figure: str, seconds: float
) -> tuple[float, float]:
    """Return the MB/s of a load, and the broker's microseconds of CPU a MB."""
    os.sync()  # as scenarios.load does
    options = "--tls", authority, "--in-flight", in_flight, "--seconds", seconds
    before_s = broker.cpu_s()
    rate = in_own_process("load", broker.tls_address, kind, *options)[figure]
    # The uncounted run before it has the same rate, more or less.
    return rate, (broker.cpu_s() - before_s) / (rate * (seconds + WARM_UP_S)) * 1e6


def _handshakes(brokers: list[Broker], authority: Path, rounds: int) -> str:
    count = f"{handshakes.AT_ONCE} handshakes at once"
    columns = ["p99 of a plain client in ms", "worst", "p99 between", f"{count}: s", "us CPU a handshake", "goal"]
    rows: list[list[str]] = []
    for each in brokers:
        if each.warm_up_s:
            handshakes.measure(each, authority)
        runs = [handshakes.measure(each, authority) for _ in range(rounds)]
        p99, worst, quiet, storm_s, cpu_us = map(statistics.median, zip(*runs, strict=True))
        goal = f"p99 at most {MOST_P99_MS:g}" if isinstance(each, Odradek) else ""
        cells = [
            report.marked(f"{p99:.1f}", p99 <= MOST_P99_MS),
            f"{worst:.1f}",
            f"{quiet:.1f}",
            f"{storm_s:.2f}",
            f"{cpu_us:.0f}",
        ]
        rows.append([each.name, *cells, goal])
    return f"## Handshakes\n\n{report.table([count, *columns], rows)}"
