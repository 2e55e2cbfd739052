"""What security costs: TLS beside Kafka's, handshakes beside a plain client, and requests with and without ACLs.

    make bench ARGS=security                          all of it; Kafka too if KAFKA_LIB names its jars
    make bench ARGS="security --only cost"            one part: cost, handshakes or tls
    make bench ARGS="security --write"                also writes benchmarks/security.md

`cost` compares with the last commit before there was any security, which git unpacks. It counts CPU time in short turns
(request_cost.py), so other programs disturb it little. The rates and the handshakes want a quiet machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from odradek.broker.security.authority import Authority
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from odradek.protocol.messages.metadata import MetadataRequest

from . import report, request_cost
from .brokers import Broker, Kafka, Odradek, kafkas
from .load import WARM_UP_S, Wire, in_own_process, request

PARTS = ("cost", "handshakes", "tls")
# The last commit whose broker knew no security.
BEFORE = "276e5d0"
ACLS = 1_000
# How much dearer a request may be than at that commit, and with ACLs than without.
MAX_SINCE, MAX_BY_ACLS = 1.03, 1.10
MOST_P99_MS = 20.0
RATE_SECONDS = 2.0
# How long Java compiles the loads' code before it is measured.
WARM_UP_RUN_S = 15.0
# The name of a load, its requests in flight, and the figure of it that counts.
RATES = {
    "TLS: batches of 1 MB, 5 in flight": ("produce-1mb", 5, "sent_mb_per_s"),
    "TLS: fetch of 1 MB pieces, walking": ("fetch-walk", 2, "answered_mb_per_s"),
}
AT_ONCE = 200
STORMS = 20
# Between two storms, in which the figures of a quiet broker are taken.
PAUSE_S = 0.3
# Between two requests of the plain client.
REQUEST_PAUSE_S = 0.001
RESULTS = Path(__file__).with_name("security.md")
_ROOT = Path(__file__).parents[1]


def main(arguments: list[str]) -> None:
    """See the module's text."""
    parser = report.arguments(__doc__, RESULTS, "security")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--turns", type=int, default=request_cost.TURNS, help="of each broker, for the cost of requests"
    )
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT")
    options = parser.parse_args(arguments)
    parts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as name:
        folder = Path(name)
        if options.only in (None, "cost"):
            parts.append(cost(folder, options.before, options.turns))
        if options.only in (None, "handshakes", "tls"):
            parts += beside_kafka(folder, options.only, options.rounds)
    head = f"# What security costs\n\n`make bench ARGS=security` on {report.place()}. CPU is the broker's. "
    report.publish(f"{head}Figures in bold miss their goals.\n\n" + "\n".join(parts), options.write)


# -- The cost of requests


def cost(folder: Path, commit: str, turns: int) -> str:
    """Return what small requests cost: before, now, and now with ACLs."""
    checkout = folder / "before" / commit
    checkout.mkdir(parents=True)
    unpacked = subprocess.run(["git", "archive", commit], cwd=_ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(checkout)], input=unpacked.stdout, check=True)
    # The address of the benchmark has an ACL that allows everything on topics and groups. On the cluster there is none.
    guarded = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    before, now = Odradek(folder / "old", checkout), Odradek(folder / "now")
    with_acls = Odradek(folder / "acls", settings=guarded)
    with before, now, with_acls:
        _add_acls(with_acls)
        since = request_cost.measure([before, now], turns)
        by_acls = request_cost.measure([now, with_acls], turns)
    head = ["us CPU a request", commit, "now", "ratio", "goal", "without ACLs", f"with {ACLS:,}", "ratio", "goal"]
    rows = [
        [one.name, *_costs(one, MAX_SINCE), *_costs(two, MAX_BY_ACLS)] for one, two in zip(since, by_acls, strict=True)
    ]
    return f"## Requests without TLS\n\n{report.table(head, rows)}"


def _costs(found: request_cost.Cost, most: float) -> list[str]:
    ratio = found.ratios[1]
    return [
        *(f"{us:.2f}" for us in found.medians_us),
        report.marked(f"{ratio:.3f}", ratio <= most),
        f"at most {most:g}",
    ]


def _add_acls(broker: Broker) -> None:
    """Create ACLs of other users, of prefixes too, and one that lets everybody in to topics and groups."""
    kinds = {2: "topic", 3: "group"}
    creations = [AclCreation(kind, "*", 3, "User:ANONYMOUS", "*", 2, 3) for kind in kinds]
    for number in range(ACLS - len(creations)):
        kind, pattern = (2, 3)[number % 2], (3, 4)[number // 2 % 2]
        name = f"{kinds[kind]}-{number:x}-" + "x" * (number % 7)
        creations.append(AclCreation(kind, name, pattern, f"User:user-{number % 50}", "*", 3, 3))
    wire = Wire(broker.address)
    found: Any = wire.ask(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(creations), CreateAclsResponse)
    assert not any(each.error_code for each in found.results), "an ACL was rejected"


# -- TLS


def beside_kafka(folder: Path, only: str | None, rounds: int) -> list[str]:
    """Return the parts that need a broker with TLS: ours, and Kafka where its jars are."""
    authority, key_store = folder / "ca.pem", folder / "broker.pem"
    Authority.open(folder).keep_certificate(key_store, ["127.0.0.1", "localhost"])
    brokers: list[Broker] = [Odradek(folder / "odradek", key_store=key_store)]
    brokers += kafkas(folder, key_store)
    parts: list[str] = []
    with ExitStack() as running:
        for each in brokers:
            running.enter_context(each)
        if only != "handshakes":
            parts.append(_rates(brokers, authority, rounds))
        if only != "tls":
            parts.append(_handshakes(brokers, authority, rounds))
    return parts


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
    count = f"{AT_ONCE} handshakes at once"
    columns = ["p99 of a plain client in ms", "worst", "p99 between", f"{count}: s", "us CPU a handshake", "goal"]
    rows: list[list[str]] = []
    for each in brokers:
        if each.warm_up_s:
            noticed(each, authority)
        runs = [noticed(each, authority) for _ in range(rounds)]
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


class Noticed(NamedTuple):
    """What a plain client waited for its responses, and what the handshakes cost."""

    p99_ms: float
    worst_ms: float
    quiet_p99_ms: float
    storm_s: float
    # The broker's CPU time for a handshake, in microseconds.
    cpu_us: float


def noticed(broker: Broker, authority: Path) -> Noticed:
    """Have storms of handshakes beside a client that sends one small request after the other without TLS."""
    wire = Wire(broker.address)
    data = request(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    command = [sys.executable, "-m", "benchmarks.security", "storms", broker.tls_address, str(authority)]
    # When each was sent, and how long it took.
    asked: list[tuple[float, float]] = []
    before_s = broker.cpu_s()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as storming:
        while storming.poll() is None:
            sent = time.perf_counter()
            wire.send(data)
            wire.receive()
            asked.append((sent, time.perf_counter() - sent))
            time.sleep(REQUEST_PAUSE_S)
        assert storming.stdout is not None
        storms: list[list[float]] = json.loads(storming.stdout.read())
    cpu_s = broker.cpu_s() - before_s - _cost_s(broker, wire, data, len(asked))
    return _summed(asked, storms, cpu_s)


def _cost_s(broker: Broker, wire: Wire, data: bytes, count: int) -> float:
    """Return the broker's CPU time for so many requests of the plain client."""
    tried = min(count, 1000)
    before_s = broker.cpu_s()
    for _ in range(tried):
        wire.send(data)
        wire.receive()
        time.sleep(REQUEST_PAUSE_S)
    return (broker.cpu_s() - before_s) / tried * count


def _summed(asked: list[tuple[float, float]], storms: list[list[float]], cpu_s: float) -> Noticed:
    beside = sorted(took for sent, took in asked if any(began <= sent <= ended for began, ended in storms))
    quiet = sorted(took for sent, took in asked if all(sent + took < began or ended < sent for began, ended in storms))
    lengths = sorted(ended - began for began, ended in storms)
    return Noticed(
        beside[len(beside) * 99 // 100] * 1000,
        beside[-1] * 1000,
        quiet[len(quiet) * 99 // 100] * 1000,
        lengths[len(lengths) // 2],
        cpu_s / len(storms) / AT_ONCE * 1e6,
    )


async def _storm(host: str, port: int, context: ssl.SSLContext) -> None:
    async def shake_hands() -> None:
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
        writer.transport.abort()

    await asyncio.gather(*(shake_hands() for _ in range(AT_ONCE)))


async def _storms(address: str, authority: str) -> list[tuple[float, float]]:
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=authority)
    times: list[tuple[float, float]] = []
    for _ in range(STORMS):
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        await _storm(host, int(port), context)
        times.append((began, time.perf_counter()))
    await asyncio.sleep(PAUSE_S)
    return times


if __name__ == "__main__" and sys.argv[1] == "storms":
    # In a process of its own: prints when each storm of handshakes began and ended.
    print(json.dumps(asyncio.run(_storms(sys.argv[2], sys.argv[3]))))
