"""Leaders move and die under the sink, on three brokers and a ZooKeeper: each batch is in the topic exactly once.

The driver and the tasks are those of Spark's sink, without Spark: tests/client/spark/test_writers.py moves leaders
within one process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")
pytest.importorskip("pyarrow", reason="the sink needs pyarrow (extra `spark`)")

import pyarrow as pa
from odradek.client import NewTopic, TopicPartition
from odradek.client.blocking import Admin, Consumer
from odradek.client.errors import KafkaError
from odradek.client.spark.options import parse_sink_options
from odradek.client.spark.sink import columns_of_rows
from odradek.client.spark.writers import TaskPlace, TaskResult, end, write_task
from odradek.tests.support.clusters.cluster import ClusterProcesses, cluster_processes
from odradek.tests.support.clusters.zookeeper import why_missing
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

ROWS = StructType([StructField("value", StringType()), StructField("partition", IntegerType())])
TOPIC, TRANSACTIONS = "t", "__transaction_state"
PARTITIONS = (0, 1)
TASKS = 2
MAX_RUNS = 5
WITHIN_S = 30.0

# What happens to the leader of a topic, and when: between two rows of a task, when all tasks have written, or while the
# driver commits. The leader of __transaction_state is the coordinator.
FAULTS = [
    *((topic, moment, "moves") for topic in (TOPIC, TRANSACTIONS) for moment in ("rows", "written", "commit")),
    (TOPIC, "written", "dies"),
    (TRANSACTIONS, "commit", "dies"),
]


class Sink:
    """Plays batches of a query as Spark's driver and its tasks do."""

    def __init__(self, cluster: ClusterProcesses, admin: Admin) -> None:
        self.cluster = cluster
        self.admin = admin
        texts = {"kafka.bootstrap.servers": cluster.addresses, "topic": TOPIC, "transactional": "required"}
        self.options = parse_sink_options(texts)
        self.columns = columns_of_rows(ROWS, self.options)
        self.runs = 0
        self.committed: list[str] = []

    def lead(self, topic: str, node: int) -> None:
        """Make a broker the leader of every partition of a topic."""
        others = [each for each in self.cluster.brokers if each != node]
        partitions = [TopicPartition(topic, each) for each in range(len(self.leaders(topic)))]
        self.admin.alter_partition_reassignments({each: [node, *others] for each in partitions})
        self.admin.elect_leaders(partitions)
        # A broker learns of it a little later than the controller.
        deadline = time.monotonic() + WITHIN_S
        while set(self.leaders(topic)) != {node}:
            assert time.monotonic() < deadline, f"broker {node} does not lead {topic}"
            time.sleep(0.05)

    def leaders(self, topic: str) -> list[int]:
        return [each.leader for each in self.admin.describe_topics(topic)[topic].partitions]

    def play(self, batch: int, moment: str, fault: Callable[[], None]) -> None:
        """Play a batch until it is committed, and let `fault` happen once."""
        once = [fault]

        def now() -> None:
            if once:
                once.pop()()

        expected = [f"{batch} {task} {number}" for task in range(TASKS) for number in range(4)]
        for _ in range(MAX_RUNS):
            self.runs += 1
            if self.is_committed(batch, moment, now):
                break
            # A commit of which the driver learned nothing may have come to pass.
            assert self.visible() in (self.committed, sorted([*self.committed, *expected]))
        else:
            pytest.fail(f"batch {batch} fails again and again")
        self.committed = sorted([*self.committed, *expected])
        assert self.visible() == self.committed
        assert not once

    def is_committed(self, batch: int, moment: str, now: Callable[[], None]) -> bool:
        """Play a batch once, as one start of the driver does."""
        run, results = f"run-{self.runs}", list[TaskResult]()
        try:
            for task in range(TASKS):
                rows = self.rows(batch, task, now if moment == "rows" else lambda: None)
                results.append(write_task(rows, self.columns, self.options, TaskPlace("q", run, batch, f"{task}.0")))
            if moment == "written":
                now()
            if any(each.transaction is not None for each in results):
                assert self.visible() == self.committed
            self.commit(results, now if moment == "commit" else lambda: None)
        except KafkaError:
            end(results, self.options, commit=False)
            return False
        return True

    def commit(self, results: list[TaskResult], meanwhile: Callable[[], None]) -> None:
        errors: list[KafkaError] = []

        def committing() -> None:
            try:
                end(results, self.options, commit=True)
            except KafkaError as error:
                errors.append(error)

        thread = threading.Thread(target=committing)
        thread.start()
        meanwhile()
        thread.join(WITHIN_S)
        assert not thread.is_alive()
        if errors:
            raise errors[0]

    def rows(self, batch: int, task: int, between: Callable[[], None]) -> Iterator[Any]:
        """Yield the rows of a task as Arrow batches, with a row for each partition."""
        for number in (0, 2):
            values = [f"{batch} {task} {number + partition}" for partition in PARTITIONS]
            yield pa.record_batch({"value": values, "partition": pa.array(PARTITIONS, pa.int32())})
            between()

    def visible(self) -> list[str]:
        """Return the values that a read_committed reader finds, sorted."""
        partitions = [TopicPartition(TOPIC, each) for each in PARTITIONS]
        with Consumer(bootstrap_servers=self.cluster.addresses, isolation_level="read_committed") as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends, found = consumer.end_offsets(partitions), list[str]()
            while any(consumer.position(each) < ends[each] for each in partitions):
                for records in consumer.getmany(timeout_ms=1000).values():
                    found += [str(record.value, "utf-8") for record in records]
        return sorted(found)


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
def test_a_batch_is_committed_whole_or_comes_again_whole_when_its_leaders_move_or_die(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster, Admin(cluster.addresses) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=len(PARTITIONS), replication_factor=3)])
        sink = Sink(cluster, admin)
        sink.play(0, "written", lambda: None)
        for batch, (topic, moment, what) in enumerate(FAULTS, 1):
            old, new = batch % 3 + 1, (batch + 1) % 3 + 1
            sink.lead(topic, old)
            broker = cluster.brokers[old]
            sink.play(batch, moment, broker.kill if what == "dies" else lambda to=new, of=topic: sink.lead(of, to))
            if not broker.is_running:
                broker.start()
