"""Share consumers of librdkafka and, where Java is installed and KAFKA_LIB names Kafka's jars, of Java."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from odradek.client import Acl, ConfigResource, NewTopic, TopicPartition
from odradek.client.blocking import Admin, Consumer, Producer
from odradek.tests.support.brokers.process import BrokerProcess, KafkaProcess, broker_process, java, javac
from odradek.tests.support.clients.kafka_tools import config_command
from odradek.tests.support.clients.others import create_topic, require

TOOLS = "org.apache.kafka.tools."
WITHIN_S = 90
COUNT = 1_000


def ran(address: str, tool: str, *arguments: str) -> str:
    """Return what a tool prints; it must end well."""
    require("java")
    command = [*java(), TOOLS + tool, "--bootstrap-server", address, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def filled(address: str, topic: str) -> str:
    create_topic(address, topic, 2)
    with Producer(address) as producer:
        producer.send_many(topic, ((None, b"%d" % number) for number in range(COUNT)))
    return topic


def offsets(lines: list[dict[str, Any]], name: str) -> Counter[tuple[int, int]]:
    """Return how often each record is told of, by partition and offset."""
    told = (part for line in lines if line["name"] == name for part in line["partitions"])
    return Counter((part["partition"], offset) for part in told for offset in part["offsets"])


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_verifiable_share_consumer(address: str, mode: str) -> None:
    topic = filled(address, f"share-{mode}")
    arguments = ["--topic", topic, "--group-id", topic, "--offset-reset-strategy", "earliest"]
    arguments += ["--max-messages", str(COUNT), "--acknowledgement-mode", mode]
    lines = [json.loads(line) for line in ran(address, "VerifiableShareConsumer", *arguments).splitlines()]
    for name in ("records_consumed", "offsets_acknowledged"):
        seen = offsets(lines, name)
        assert (len(seen), set(seen.values())) == (COUNT, {1}), name
    described = ran(address, "consumer.group.ShareGroupCommand", "--describe", "--group", topic)
    lags = [line.split()[-1] for line in described.splitlines() if line.startswith(topic)]
    assert lags == ["0", "0"]


def test_console_share_consumer(address: str) -> None:
    topic = filled(address, "share-console")
    configs = ["--alter", "--entity-type", "groups", "--entity-name", topic]
    configs += ["--add-config", "share.auto.offset.reset=earliest"]
    require("java")
    subprocess.run([*java(), config_command(), "--bootstrap-server", address, *configs], check=True, timeout=WITHIN_S)
    arguments = ["--topic", topic, "--group", topic, "--max-messages", str(COUNT)]
    printed = ran(address, "consumer.ConsoleShareConsumer", *arguments)
    assert sorted(printed.split()) == sorted(str(number) for number in range(COUNT))


def begin(address: str, topic: str, count: int, **configs: str) -> None:
    """Write numbers to a topic of two partitions, all of which are for the share group of the same name."""
    with Admin(address) as admin, Producer(address) as producer:
        admin.create_topics([NewTopic(topic, 2)])
        admin.alter_configs({ConfigResource.group(topic): {"share.auto.offset.reset": "earliest"} | configs})
        producer.send_many(topic, ((None, b"%d" % number) for number in range(count)))


def lag(address: str, group: str) -> int:
    with Admin(address) as admin:
        return sum(each.lag or 0 for each in admin.list_share_group_offsets(group).values())


def test_java_accepts_rejects_releases_and_renews_one_by_one(tmp_path: Path) -> None:
    require("java")
    broker = BrokerProcess(tmp_path, group_share_min_record_lock_duration_ms=1_000).start()
    begin(broker.address, "jobs", 40, **{"share.record.lock.duration.ms": "1000"})
    (tmp_path / "classes").mkdir()
    classes = javac("ShareWorker", tmp_path / "classes")
    command = [*java(classes), "ShareWorker", broker.address, "jobs", "jobs", "40"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stderr
    delivered = Counter(int(line.split()[0]) for line in ended.stdout.splitlines())
    assert delivered == {number: 2 if number % 4 == 2 else 1 for number in range(40)}
    assert lag(broker.address, "jobs") == 0
    broker.close()


NAME, FLAG = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.group.enable"
AUTO = "errors.deadletterqueue.auto.create.topics.enable"
LETTERS = [*((number, "2", "Offset delivery count exceeded the threshold.") for number in range(2, 40, 4)),
           *((number, "1", "Offset rejected by client.") for number in range(1, 40, 4))]  # fmt: skip
# The topic of dead letters, its configs unless it is missing, and whether the broker may create it.
QUEUES: dict[str, tuple[str, dict[str, str] | None, bool]] = {
    "allowed": ("dlq.allowed", {FLAG: "true"}, False),
    "created": ("dlq.created", None, True),
    "missing": ("dlq.missing", None, False),
    "not-allowed": ("dlq.not-allowed", {}, True),
    "no-prefix": ("no-prefix.dlq", {FLAG: "true"}, True),
    "compacted": ("dlq.compacted", {FLAG: "true", "cleanup.policy": "compact"}, True),
    "denied": ("dlq.denied", {FLAG: "true"}, True),
    "not-created": ("dlq.not-created", None, True),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Path]]:
    """Yield a broker with an authorizer, and where its worker is. Clients have its own principal."""
    require("javac")
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow_everyone_if_no_acl_found": "true",
        "share_coordinator_state_topic_replication_factor": 1,
        "share_coordinator_state_topic_min_isr": 1,
    }
    broker = broker_process(tmp_path_factory.mktemp("guarded"), **settings).start()
    yield broker, javac("ShareWorker", tmp_path_factory.mktemp("classes"))
    broker.close()


@pytest.mark.parametrize("case", QUEUES)
def test_what_becomes_of_the_dead_letters_of_javas_member(guarded: tuple[BrokerProcess, Path], case: str) -> None:
    broker, classes = guarded
    topic, configs, may_create = QUEUES[case]
    with Admin(broker.address) as admin:
        if configs is not None:
            admin.create_topics([NewTopic(topic, 1, configs=configs)])
        admin.alter_configs({ConfigResource.broker(1): {AUTO: str(may_create).lower()}})
        denied = {"denied": "write", "not-created": "create"}.get(case)
        if denied is not None:
            admin.create_acls(Acl("User:ANONYMOUS", denied, "topic", topic, "deny"))
    begin(broker.address, case, 40, **{"share.delivery.count.limit": "2", NAME: topic})
    command = [*java(classes), "ShareWorker", broker.address, case, case, "40", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stderr
    delivered = Counter(int(line.split()[0]) for line in ended.stdout.splitlines())
    assert delivered == {number: 2 if number % 4 == 2 else 1 for number in range(40)}
    # Whatever becomes of them, nothing is left.
    until(lambda: lag(broker.address, case) == 0)
    found = letters(broker.address, topic, case)
    assert found == (sorted(LETTERS) if case in ("allowed", "created") else [])
    if not isinstance(broker, KafkaProcess):
        told = [line for line in broker.log.read_text().splitlines() if f"dead letter in topic {topic}" in line]
        assert bool(told) == (not found)
        assert all(" ERROR " in line for line in told)


def letters(address: str, topic: str, queue: str) -> list[tuple[int, str, str]]:
    """Return number, delivery count and message of the dead letters of a queue, whose values are numbers."""
    with Consumer(bootstrap_servers=address) as reader, Admin(address) as admin:
        if topic not in admin.list_topics():
            return []
        numbers = {(each.partition, each.offset): int(each.value or b"") for each in records(reader, queue)}
        headers = [
            {name.removeprefix("__dlq.errors."): (value or b"").decode() for name, value in each.headers}
            for each in records(reader, topic)
        ]
    return sorted(
        (numbers[int(each["partition"]), int(each["offset"])], each["delivery.count"], each["message"])
        for each in headers
    )


def records(reader: Consumer[Any, Any], topic: str) -> list[Any]:
    """Return all records of a topic."""
    places = [TopicPartition(topic, index) for index in reader.partitions_for(topic)]
    reader.assign(places)
    reader.seek_to_beginning(*places)
    ends = reader.end_offsets(places)
    found: list[Any] = []
    while len(found) < sum(ends.values()):
        found += [each for some in reader.getmany(timeout_ms=1_000).values() for each in some]
    return found


class Worker:
    """A share consumer of librdkafka in a thread. `act` says what becomes of a message, None in the implicit mode."""

    def __init__(self, address: str, group: str, act: Callable[[Any], Any] | None = None) -> None:
        self.seen: list[tuple[int, int]] = []
        self.stopped = threading.Event()
        mode = "implicit" if act is None else "explicit"
        self._config = {"bootstrap.servers": address, "group.id": group, "share.acknowledgement.mode": mode}
        self._act = act
        self._thread = threading.Thread(target=self._run, args=(group,))
        self._thread.start()

    def _run(self, topic: str) -> None:
        with confluent_kafka.ShareConsumer(self._config) as consumer:
            consumer.subscribe([topic])
            while not self.stopped.is_set():
                for message in consumer.poll(0.2):
                    assert message.error() is None, message.error()
                    self.seen.append((int(message.value() or b""), message.delivery_count() or 0))
                    if self._act is not None:
                        consumer.acknowledge(message, self._act(message))
                consumer.commit_sync(30)

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join(WITHIN_S)


def test_members_of_librdkafka_take_each_record_once(address: str) -> None:
    begin(address, "rdkafka-implicit", COUNT)
    workers = [Worker(address, "rdkafka-implicit") for _ in range(3)]
    until(lambda: sum(len(each.seen) for each in workers) >= COUNT)
    for each in workers:
        each.stop()
    assert Counter(number for each in workers for number, _ in each.seen) == dict.fromkeys(range(COUNT), 1)
    assert lag(address, "rdkafka-implicit") == 0


def test_librdkafka_accepts_rejects_and_releases_one_by_one(address: str) -> None:
    begin(address, "rdkafka-explicit", 40)
    types = confluent_kafka.AcknowledgeType

    def act(message: Any) -> Any:
        kind = int(message.value()) % 4
        if kind == 1:
            return types.REJECT
        return types.RELEASE if kind == 2 and message.delivery_count() == 1 else types.ACCEPT

    worker = Worker(address, "rdkafka-explicit", act)
    until(lambda: len(worker.seen) >= 50)
    worker.stop()
    again = [(number, 2) for number in range(40) if number % 4 == 2]
    assert sorted(worker.seen) == sorted([(number, 1) for number in range(40)] + again)
    assert lag(address, "rdkafka-explicit") == 0


def until(true: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < ends_s
        time.sleep(0.05)
