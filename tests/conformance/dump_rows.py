"""Kafka's own reader of segments and indexes on our files: DumpLogSegments, as rows of the conformance table.

Logs in each codec with their indexes and snapshots, transactions with their index, and what a cleaning has left of a
log and of both internal topics, which are read with Kafka's decoders. A file is good if nothing is complained of and
what it says is what was written.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
from odradek.tests.support.brokers.process import BrokerProcess, broker_process
from odradek.tests.support.clients.kafka_tools import DUMP, WITHIN_S, dumped, kafka_tool
from odradek.tests.support.clients.keyed import (
    ROLL,
    Kept,
    Pair,
    Round,
    compacted,
    last_of,
    until_cleaned,
    write,
)
from odradek.tests.support.clients.others import CODECS, Record, create_topic, jars, produce

Row = tuple[str, str]

# Internal topics in segments of a few milliseconds, cleaned whenever there is anything to clean.
CLEANING = {
    "log_cleaner_backoff_ms": 50,
    "log_cleaner_min_cleanable_ratio": 0.01,
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "log_roll_ms": 20,
    "group_initial_rebalance_delay_ms": 0,
}
COMPLAINTS = re.compile(r"isvalid: false|mismatch|corrupt|Could not|failed|out of order|Invalid", re.IGNORECASE)
COMMITS = 100
INTERNAL = {"__consumer_offsets", "__transaction_state"}
SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}


def rows(process: BrokerProcess) -> Iterator[Row]:
    """All of them; `process` is stopped meanwhile."""
    if not jars():
        yield "DumpLogSegments", "skipped: no KAFKA_LIB"
        return
    yield from written(process)
    with tempfile.TemporaryDirectory() as folder:
        yield from cleaned(Path(folder))


# What was written.


def written(process: BrokerProcess) -> Iterator[Row]:
    topics = {create_topic(process.address, f"dump-{codec}"): codec for codec in CODECS}
    for topic, codec in topics.items():
        for _ in range(20):
            records: list[Record] = [(b"key", b"%d" % number * 50, [("h", b"1")]) for number in range(50)]
            # kafka-python is idempotent by itself, so that there is a producer in the snapshot.
            client = "kafka-python" if codec == "none" else "confluent-kafka"
            produce(client, process.address, topic, records, codec)
    commit_in_a_group(process.address, next(iter(topics)))
    abort_and_commit(process.address, create_topic(process.address, "dump-transactions"))
    process.stop()
    try:
        for topic in topics:
            for path, said in dumped(files(process.data_dir / f"{topic}-0"), "--deep-iteration").items():
                yield named(path), judge(said) or judge_records(said, path)
        for path, said in dumped(files(process.data_dir / "dump-transactions-0"), "--deep-iteration").items():
            yield named(path), judge(said) or judge_transactions(said, path)
        yield from internal(process.data_dir)
    finally:
        process.start()


def commit_in_a_group(address: str, topic: str) -> None:
    settings = {"bootstrap.servers": address, "group.id": "dumped", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    assert len(consumer.consume(10, WITHIN_S)) == 10
    consumer.commit(asynchronous=False)
    consumer.close()


def abort_and_commit(address: str, topic: str) -> None:
    """Three transactions, the middle one committed; a fourth stays open."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": "dumped"})
    producer.init_transactions(WITHIN_S)
    for commit in (False, True, False, None):
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.flush(WITHIN_S)
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(WITHIN_S)


def internal(data_dir: Path) -> Iterator[Row]:
    """Both internal topics by Kafka's decoders of their records; most partitions are empty."""
    for topic, option, word in (
        ("__consumer_offsets", "--offsets-decoder", '"group":"'),
        ("__transaction_state", "--transaction-log-decoder", '"transactionalId":"'),
    ):
        paths = [path for path in sorted(data_dir.glob(f"{topic}-*/0*.log")) if path.stat().st_size]
        if not paths:
            yield f"DumpLogSegments: {topic}", "failed: nothing was written there"
            continue
        said = "".join(dumped(paths, option).values())
        # What is not a record of its kind comes as it is, without the words that the decoder puts around it.
        records = len(re.findall(r"^\| offset: ", said, re.MULTILINE))
        known = len(re.findall(f"{word}|endTxnMarker", said))
        short = f"failed: {known} of {records} records are known" if known < records else ""
        yield f"DumpLogSegments: {topic}", judge(said) or short or f"passed: {records} records in {len(paths)} files"


# What a cleaning has left.


def cleaned(folder: Path) -> Iterator[Row]:
    process = broker_process(folder, **CLEANING).start()
    try:
        kept = fill_and_clean(process.address)
        clean_internal(process)
    finally:
        process.close()
    found = dumped(files(process.data_dir / "dump-cleaned-0"), "--deep-iteration", "--print-data-log")
    offsets: list[int] = []
    for path, said in found.items():
        if path.suffix == ".log":
            # Markers are told as records with a key, but are none of ours.
            offsets += [int(each) for each in re.findall(r"^\| offset: (\d+) .* key: [abc]\d*\b", said, re.MULTILINE)]
        yield named(path), judge(said) or f"passed: {len(said.splitlines()) - 1} lines"
    expected = [each.offset for each in kept]
    yield "DumpLogSegments: offsets after a cleaning", "passed" if offsets == expected else f"failed: {offsets}"
    yield from verified(process.data_dir)
    for name, result in internal(process.data_dir):
        yield f"{name}, cleaned", result


def fill_and_clean(address: str) -> list[Kept]:
    """What is left of some keys, a tombstone, and transactions of both kinds."""
    topic = compacted(address, "dump-cleaned", index_interval_bytes="200")
    many: list[Pair] = [(b"c%d" % (number % 20), b"%d" % number * 30) for number in range(60)]
    plain = Round("plain", [*many, (b"b", None)])
    write("confluent-kafka", address, topic, [plain])
    rounds = [Round("commit", [(b"a", b"committed")]), Round("abort", [(b"a", b"aborted")])]
    first, _ = write("confluent-kafka", address, topic, rounds)
    kept = last_of([*plain.pairs, (b"a", b"committed")], [*range(len(plain.pairs)), first])
    write("confluent-kafka", address, topic, [ROLL])
    until_cleaned(address, topic, kept)
    return kept


def clean_internal(process: BrokerProcess) -> None:
    """Commits and transactions until both internal topics have been cleaned."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": process.address, "group.id": "dumped"})
    producer = confluent_kafka.Producer({"bootstrap.servers": process.address, "transactional.id": "dumped"})
    producer.init_transactions(WITHIN_S)
    for _ in range(COMMITS):
        for number in range(5):
            place = confluent_kafka.TopicPartition("dump-cleaned", 0, number)
            consumer.commit(offsets=[place], asynchronous=False)
        producer.begin_transaction()
        producer.produce("dump-internal", b"value", b"key", partition=0)
        producer.commit_transaction(WITHIN_S)
        if {topic for topic, offset in cleaned_up_to(process.data_dir).items() if offset} >= INTERNAL:
            break
    else:
        raise AssertionError("the internal topics were not cleaned")
    consumer.close()


def cleaned_up_to(data_dir: Path) -> dict[str, int]:
    """How far the cleaner has come with each topic's first partition."""
    path = data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [line.split() for line in lines if line.count(" ") == 2]
    return {topic: int(offset) for topic, partition, offset in found if partition == "0"}


def verified(data_dir: Path) -> Iterator[Row]:
    """The tool's check of an index by its log, entry by entry."""
    paths = [path for path in files(data_dir / "dump-cleaned-0") if path.suffix in (".index", ".timeindex")]
    said = kafka_tool(DUMP, "--verify-index-only", "--files", ",".join(map(str, paths)))
    entries = sum(path.stat().st_size // (8 if path.suffix == ".index" else 12) for path in paths)
    good = f"passed: {entries} entries" if entries > len(paths) else f"failed: but {entries} entries"
    yield "DumpLogSegments: indexes after a cleaning, verified", judge(said) or good


# Judging.


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("0*.*") if path.suffix in SUFFIXES)


def named(path: Path) -> str:
    return f"DumpLogSegments: {path.parent.name}/{path.name}"


def judge(said: str) -> str:
    """The first complaint as a result; '' without one."""
    complaints = [line for line in said.splitlines() if COMPLAINTS.search(line)]
    return f"failed: {complaints[0]}" if complaints else ""


def judge_records(said: str, path: Path) -> str:
    if path.suffix == ".log":
        records = len(re.findall(r"^\| offset: ", said, re.MULTILINE))
        return f"passed: {records} records" if records == 1000 else f"failed: {records} records of 1000"
    return f"passed: {len(said.splitlines()) - 1} lines"


def judge_transactions(said: str, path: Path) -> str:
    """What `abort_and_commit` has left in one of the files of its partition."""
    expected = {
        ".log": [r"endTxnMarker: ABORT", r"endTxnMarker: COMMIT", r"endTxnMarker: ABORT"],
        ".txnindex": [r"firstOffset: 0 lastOffset: 1 lastStableOffset: 2", r"firstOffset: 4 lastOffset: 5 lastStable"],
        ".snapshot": [r"currentTxnFirstOffset: OptionalLong\[6\]"],
    }.get(path.suffix, [])
    found = re.findall("|".join(dict.fromkeys(expected)), said) if expected else []
    return f"failed: {said[-300:]}" if len(found) < len(expected) else "passed"
