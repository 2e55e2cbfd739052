"""Runs librdkafka 2.0.2's own tests against a broker: python tests/conformance/librdkafka.py HOST:PORT [TEST...]

The runner is built once (a C++ compiler, make and zlib's headers are needed, lz4's and zstd's are welcome) from the
source in Debian into `.cache/librdkafka`, or into LIBRDKAFKA_DIR where that is set. It expects topics to be created by
themselves with four partitions (`--set num.partitions=4`). Each test runs in a process of its own, because a hung one
would take the others with it. Parts that need no broker are skipped. Exit status 1 where one does not pass.
`0113/f_assign` is a part of test 0113: the functions whose name contains that.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

SOURCE = "http://deb.debian.org/debian/pool/main/libr/librdkafka/librdkafka_2.0.2.orig.tar.gz"
SHA256 = "f321bcb1e015a34114c83cf1aa7b99ee260236aab096b85c003170c90a47ca9d"
CACHE = Path(os.environ.get("LIBRDKAFKA_DIR") or Path(__file__).parents[2] / ".cache" / "librdkafka")
# The cooperative rebalance, by the parts that one real Kafka passes.
COOPERATIVE = (
    *("a_assign_tests", "b_subscribe", "c_subscribe", "d_change", "e_change", "f_assign", "g_incremental", "k_add"),
    *("m_unsubscribe", "s_subscribe", "t_max_poll", "v_commit", "x_incremental"),
    # u_multiple_subscription_changes, which takes five minutes, in two halves.
    *("use_rebalance_cb: 1", "use_rebalance_cb: 0"),
)
TESTS = (
    *("0012", "0001", "0002", "0005", "0011", "0013", "0017", "0073", "0039"),
    # Offsets by time and reset; timestamps, which needs Produce 0-2 (Kafka 4 cannot pass it any more).
    *("0034", "0054", "0052"),
    # Groups.
    *("0030", "0018", "0019", "0026", "0033", "0044", "0045", "0050", "0051", "0056", "0061", "0069", "0089", "0091"),
    *("0099", "0102", *(f"0113/{part}" for part in COOPERATIVE), "0118", "0122", "0130", "0132"),
)
# With a broker that creates no topic by itself.
# With a real Kafka, too, the other part (a topic is removed) ends in a client that does not close.
NO_AUTO_CREATE = ("0045/do_test_non_exist",)
# 0102 races with itself: it wants a member that was evicted to be back before the other has joined again, which a real
# Kafka does not give it every time either.
TRIES = {"0102": 4}
SLOWEST_TEST_S = 300
PRETENDED_KAFKA = "3.9.0"
# Where the tests look for Kafka's scripts.
KAFKA_PATH = Path(__file__).with_name("kafka")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument(
        "--scenario", choices=("default", "noautocreate"), default="default", help="what the broker does"
    )
    parser.add_argument("tests", nargs="*", metavar="TEST", default=TESTS)
    options = parser.parse_args()
    results: dict[str, str] = {}
    for test in options.tests:
        found = run(options.address, test, options.scenario)
        print("".join(f"{name:<40} | {result}\n" for name, result in found.items()), end="", flush=True)
        results |= found
    sys.exit(any(result not in ("PASSED", "SKIPPED") for result in results.values()))


def run(address: str, test: str, scenario: str = "default") -> dict[str, str]:
    """Runs a test by its number, and its parts: name -> PASSED, FAILED, SKIPPED, HUNG or CRASHED."""
    found: dict[str, str] = {}
    for _ in range(TRIES.get(test, 1)):
        found = run_once(address, test, scenario)
        if all(result in ("PASSED", "SKIPPED") for result in found.values()):
            break
    return found


def run_once(address: str, test: str, scenario: str) -> dict[str, str]:
    folder = built()
    number, _, part = test.partition("/")
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch) / "test.conf"
        settings.write_text(f"bootstrap.servers={address}\nbroker.address.family=v4\n")
        environment = os.environ | {
            "RDKAFKA_TEST_CONF": str(settings),
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "TESTS": number,
            "TEST_SCENARIO": scenario,
            "TEST_KAFKA_VERSION": PRETENDED_KAFKA,
            "KAFKA_PATH": str(KAFKA_PATH),
            "BROKERS": address,
            "ODRADEK_PYTHON": sys.executable,
        }
        if part:
            environment["SUBTESTS"] = part
        command = ["./test-runner", "-L", "-E", "-p1"]
        log = CACHE / f"{re.sub(r'[^A-Za-z0-9]+', '-', test)}.log"
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    cwd=folder / "tests",
                    env=environment,
                    stdout=output,
                    stderr=output,
                    timeout=SLOWEST_TEST_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {test: "HUNG"}
    text = log.read_text(errors="replace")
    found = results_of(text)
    if part:
        # A part whose name fits nothing would pass.
        passed = ": PASS (" in text and {"FAILED", "RUNNING"}.isdisjoint(found.values())
        return {test: "PASSED" if passed else f"FAILED (see {log})"}
    return found or {test: f"CRASHED (status {done.returncode}, see {log})"}


def results_of(text: str) -> dict[str, str]:
    """The `| name | PASSED | 1.0s |` lines of tests that began. The exit status of the runner says nothing."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    rows = re.findall(r"^\|\s*(\d{4}_\S+)\s*\|\s*([A-Z]+)\s*\|", plain, re.MULTILINE)
    return {name: result for name, result in rows if result != "DNS"}


def built() -> Path:
    """The folder with a built runner."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / "librdkafka-2.0.2"
    if not (folder / "tests" / "test-runner").exists():
        if not folder.exists():
            unpack(folder)
        with (CACHE / "build.log").open("wb") as log:
            for command in (
                ["./configure", "--disable-gssapi"],
                ["make", "-j1", "libs"],
                ["make", "-C", "tests", "-j1", "build"],
            ):
                print(f"building librdkafka: {' '.join(command)}", file=sys.stderr, flush=True)
                subprocess.run(["nice", "-n", "15", *command], cwd=folder, stdout=log, stderr=log, check=True)
    return folder


def unpack(folder: Path) -> None:
    archive = CACHE / "librdkafka_2.0.2.orig.tar.gz"
    if not archive.exists():
        print(f"fetching {SOURCE}", file=sys.stderr, flush=True)
        urllib.request.urlretrieve(SOURCE, archive)
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        archive.unlink()
        raise SystemExit(f"{SOURCE} is not the file that it was")
    with tarfile.open(archive) as packed:
        packed.extractall(folder.parent, filter="data")


if __name__ == "__main__":
    main()
