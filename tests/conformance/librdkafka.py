"""Runs librdkafka 2.0.2's own tests against a broker: python tests/conformance/librdkafka.py HOST:PORT [TEST...]

The runner is built once (a C++ compiler, make and zlib's headers are needed, lz4's and zstd's are welcome) from the
source in Debian into `.cache/librdkafka`, or into LIBRDKAFKA_DIR where that is set. It expects topics to be created by
themselves with four partitions (`--set num.partitions=4`). Each test runs in a process of its own, because a hung one
would take the others with it. Parts that need no broker are skipped; what is not run, and why, is in GIVEN_UP. The
source is changed at one place: tests that ask for topics of three replicas are run with one, and their rows say so.
Exit status 1 where one does not pass.
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
    *("m_unsubscribe", "s_subscribe", "v_commit", "x_incremental"),
    # u_multiple_subscription_changes, which takes five minutes, in two halves.
    *("use_rebalance_cb: 1", "use_rebalance_cb: 0"),
)
# The parts of 0081 that a real Kafka without ACLs passes.
ADMIN = (
    *("unclean_destroy", "CreateTopics", "DeleteTopics", "CreatePartitions", "DescribeConfigs", "DeleteRecords"),
    *("ListConsumerGroups", "DescribeConsumerGroups", "DeleteGroups", "DeleteConsumerGroupOffsets"),
    *("AlterConsumerGroupOffsets", "ListConsumerGroupOffsets"),
)
# The fast ones first. 0034 and 0054 ask for offsets by reset and by time; 0052 for timestamps, which needs Produce 0-2
# (Kafka 4 cannot pass it any more); 0081 administers; 0103 has transactions.
TESTS = (
    *("0012", "0001", "0002", "0003", "0005", "0007", "0008", "0011", "0013", "0016", "0017", "0021", "0022", "0029"),
    *("0031", "0035", "0036", "0039", "0048", "0057", "0064", "0065", "0073", "0090"),
    *("0020", "0034", "0040", "0042", "0044", "0053", "0054", "0059", "0060", "0063", "0067", "0070", "0082", "0085"),
    *("0099", "0112", "0014", "0083", "0086", "0110", "0130"),
    *(f"0103/do_test_{part}" for part in ("misuse_txn", "fenced_txn")),
    *(f"0081/do_test_{part}" for part in ADMIN),
    *("0015", "0038", "0041", "0052", "0084", "0125", "0137"),
    *("0114", "0123", "0093", "0055"),
    *("0049", "0068", "0075", "0088", "0094", "0076"),
    # Groups.
    *("0030", "0018", "0019", "0026", "0033", "0045", "0050", "0051", "0056", "0061", "0069", "0089", "0091"),
    *("0122", "0132", *(f"0113/{part}" for part in COOPERATIVE)),
)
# These ask for topics of three replicas, which no single node gives them, Kafka's neither: they get topics of one.
ONE_REPLICA = (
    "0098",
    *(f"0103/do_test_{part}" for part in ("basic", "consumer_producer", "fatal_idempo", "empty", "wmark")),
)
# These have Java programs that produce: KAFKA_LIB names the jars, and javac is needed.
NEEDS_JAVA = ("0098",)
# These delay and cut their own connections.
SOCKETS = ("0049", "0068", "0075", "0076", "0088", "0094")
# With a broker that creates no topic by itself.
NO_AUTO_CREATE = ("0045/do_test_non_exist",)
NO_AUTO_CREATE_ONE_REPLICA = ("0111",)
# With a broker that awaits the first members of a group for as long as Kafka does by default: they want both of two
# members to be in the first generation.
PATIENT = ("0113/l_unsubscribe", "0113/t_max_poll", "0118", "0102")
# Not run, and why.
GIVEN_UP = {
    "0045/do_test_topic_remove": "with a real Kafka, too, this client does not close once its topic is gone",
    "0077": "asks for segments of 10,000 bytes, which Kafka refuses since 4.0, too",
    "0081/do_test_AlterConfigs": "sets sasl.kerberos.min.time.before.relogin: a config that is not acted on is refused",
    "0081/do_test_CreateAcls, DescribeAcls, DeleteAcls": "needs an authorizer, and there is none yet",
    "0092": "sets message.format.version, which is gone since Kafka 4.0, too",
    "0097": "wants a listener with TLS",
    "0101": "fetches from followers: there are none",
    "0107": "this client does not close once its topic was gone, though it is there again and all was consumed",
    "0109, 0115, 0119": "needs an authorizer, and there is none yet",
    "0113/h_delete_topic, i_delete_topic_2, j_delete_topic, n_wildcard": "it hangs when a topic goes, with Kafka too",
    "0113/o_java_interop": "it skips itself where the client could do SASL",
    "0126": "wants a server for OAuth",
    "0129": "asks for segments of 20,000 bytes, which Kafka refuses since 4.0, too",
    "0135": "wants a listener with SASL",
}
# 0102 races with itself: it wants a member that was evicted to be back before the other has joined again, which a real
# Kafka does not give it every time either.
# 0055 wants the client to wake up ten times or more for ten records: a fast answer spares it some.
TRIES = {"0102": 4, "0055": 3}
# What is added to the source, so that tests which ask for three replicas can be run with one.
ONE_REPLICA_ASKED = "TEST_ONE_REPLICA"
CREATES_TOPICS = "        rkqu = rd_kafka_queue_new(rk);\n\n        newt[0] =\n"
ONE_REPLICA_SOURCE = f"""        if (test_getenv("{ONE_REPLICA_ASKED}", NULL))
                replication_factor = 1;

"""
SLOWEST_TEST_S = 300
PRETENDED_KAFKA = "3.9.0"
BUILD = (
    ["./configure", "--disable-gssapi"],
    ["make", "-j1", "libs"],
    ["make", "-C", "tests", "-j1", "build"],
)
# Where the tests look for Kafka's scripts.
KAFKA_PATH = Path(__file__).with_name("kafka")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument(
        "--scenario", choices=("default", "noautocreate"), default="default", help="what the broker does"
    )
    parser.add_argument("tests", nargs="*", metavar="TEST", default=(*TESTS, *ONE_REPLICA))
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
            # Where their Java programs find the jars to be compiled against.
            "KAFKA_JARS": os.environ.get("KAFKA_LIB", ""),
        }
        if part:
            environment["SUBTESTS"] = part
        if test in (*ONE_REPLICA, *NO_AUTO_CREATE_ONE_REPLICA):
            environment[ONE_REPLICA_ASKED] = "1"
        # Without -L it would run what needs no broker, too; without -E, what disturbs its own sockets.
        command = ["./test-runner", "-L", *([] if number in SOCKETS else ["-E"]), "-p1"]
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
    if not folder.exists():
        unpack(folder)
    adapted = adapt(folder / "tests" / "test.c")
    if adapted or not (folder / "tests" / "test-runner").exists():
        with (CACHE / "build.log").open("wb") as log:
            for command in BUILD if not (folder / "Makefile.config").exists() else BUILD[1:]:
                print(f"building librdkafka: {' '.join(command)}", file=sys.stderr, flush=True)
                subprocess.run(["nice", "-n", "15", *command], cwd=folder, stdout=log, stderr=log, check=True)
    return folder


def adapt(source: Path) -> bool:
    """Lets the tests ask for one replica (`ONE_REPLICA_SOURCE`). False where they could already."""
    text = source.read_text()
    if ONE_REPLICA_SOURCE in text:
        return False
    assert text.count(CREATES_TOPICS) == 1, f"{source} is not what it was"
    source.write_text(text.replace(CREATES_TOPICS, ONE_REPLICA_SOURCE + CREATES_TOPICS))
    return True


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
