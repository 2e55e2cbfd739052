"""What the test kit costs a test: python -m odradek.benchmarks.kit

Goals: from the start of a broker to its first acknowledged record 100 ms, a reset 5 ms, 60 MiB, and 200 tests of
pytest with a broker each 10 s on two cores. Where the machine is busy, the CPU time beside a figure says more.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

from confluent_kafka import Producer

BROKERS = 200
RESETS = 50
_MANY = f"""
import pytest

@pytest.mark.parametrize("number", range({BROKERS}))
def test_it(kafka_factory, number):
    assert kafka_factory().address
"""


def run() -> None:
    """Measure, and print each figure beside its goal."""
    print(_import_time())
    from odradek.testing import LocalKafka

    before_kib = getrusage(RUSAGE_SELF).ru_maxrss
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with LocalKafka() as kafka:
        producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 0})
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        first_ms, cpu_ms = (time.perf_counter() - began_s) * 1000, (time.process_time() - began_cpu_s) * 1000
        print(f"start to the first acknowledged record {first_ms:.0f} ms, {cpu_ms:.0f} ms CPU (goal 100)")
        # Otherwise it would look for its broker for as long as this runs.
        del producer
        resets = [_reset_ms(kafka) for _ in range(RESETS)]
        print(f"reset of three topics {statistics.median(resets):.1f} ms (goal 5)")
        print(f"memory of the kit {(getrusage(RUSAGE_SELF).ru_maxrss - before_kib) / 1024:.0f} MiB beside its imports")
    print(f"start of a cluster of three {_cluster_start_ms():.0f} ms")
    print(f"{BROKERS} tests with a broker each, in two workers, {_tests_s():.1f} s (goal 10)")


def _import_time() -> str:
    """Return how long a process with bytecode takes to import the kit.

    pip compiles what it installs, so users have it from the start.
    """
    code = (
        "import time; began_s, began_cpu_s = time.perf_counter(), time.process_time(); "
        "from odradek.testing import LocalKafka; "
        "print(f'import {(time.perf_counter() - began_s) * 1000:.0f} ms, "
        "{(time.process_time() - began_cpu_s) * 1000:.0f} ms CPU')"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", code]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def _cluster_start_ms() -> float:
    from odradek.testing import KafkaCluster

    began_s = time.perf_counter()
    with KafkaCluster():
        return (time.perf_counter() - began_s) * 1000


def _tests_s() -> float:
    """Return how long pytest takes for many tests with a broker each, with its own start."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_many.py").write_text(_MANY)
        options = ["-q", "-n", "2", "-p", "no:cacheprovider", "-p", "no:asyncio"]
        command = [sys.executable, "-m", "pytest", *options]
        began_s = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began_s


def _reset_ms(kafka: object) -> float:
    from odradek.testing import LocalKafka

    assert isinstance(kafka, LocalKafka)
    for name in ("a", "b", "c"):
        kafka.create_topic(name)
    began_s = time.perf_counter()
    kafka.reset()
    return (time.perf_counter() - began_s) * 1000


if __name__ == "__main__":
    run()
