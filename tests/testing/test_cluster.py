"""Three brokers of this process: leaders move, brokers die and come back, and what was acknowledged stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer
from odradek.client.blocking import Consumer
from odradek.testing import KafkaCluster
from odradek.testing.errors import Unavailable


@pytest.fixture(scope="module")
def running() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(running: KafkaCluster) -> Iterator[KafkaCluster]:
    yield running
    running.reset()
    assert (running.nodes, running.topics(), running.groups()) == ([1, 2, 3], [], [])


def produce(cluster: KafkaCluster, topic: str, value: bytes, **options: object) -> ConfluentError | None:
    """Produce one record with librdkafka; return the error of its delivery."""
    outcomes: list[ConfluentError | None] = []
    producer = ConfluentProducer({"bootstrap.servers": cluster.address, "retry.backoff.ms": 10, **options})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(40) == 0
    return outcomes[0]


def values(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    return [each.value for each in cluster.records(topic)]


def test_a_topic_has_its_replicas(cluster: KafkaCluster) -> None:
    cluster.create_topic("t", partitions=2, replication_factor=2)
    cluster.create_topic("u")
    assert (len(cluster.replicas("t")), len(cluster.replicas("u"))) == (2, 3)
    assert cluster.isr("t", 1) == set(cluster.replicas("t", 1))
    assert len(cluster.address.split(",")) == 3


def test_a_leader_moves_under_a_client(cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    producer = ConfluentProducer({"bootstrap.servers": cluster.address, "retry.backoff.ms": 10})
    for number, node in enumerate((1, 2, 3)):
        cluster.move_leader("t", to=node)
        assert cluster.leader("t") == node
        producer.produce("t", str(number).encode())
        assert producer.flush(40) == 0
    assert values(cluster, "t") == [b"0", b"1", b"2"]


def test_a_record_survives_the_death_of_its_leader(cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    assert produce(cluster, "t", b"before") is None
    dead = cluster.leader("t")
    cluster.kill(dead)
    assert cluster.leader("t") != dead and cluster.nodes == sorted({1, 2, 3} - {dead})
    assert produce(cluster, "t", b"after") is None
    cluster.restart(dead)
    assert cluster.isr("t") == {1, 2, 3}
    cluster.move_leader("t", to=dead)
    assert values(cluster, "t") == [b"before", b"after"]


def test_too_few_replicas_refuse_acks_all(cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    for node in sorted({1, 2, 3} - {cluster.leader("t")}):
        cluster.kill(node)
    error = produce(cluster, "t", b"v", **{"message.timeout.ms": 3000, "enable.idempotence": False})
    assert error is not None
    assert produce(cluster, "t", b"w", **{"acks": 1, "enable.idempotence": False}) is None


def test_an_isolated_leader_learns_that_it_leads_no_more(cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    assert produce(cluster, "t", b"before") is None
    old = cluster.leader("t")
    producer = ConfluentProducer(
        {"bootstrap.servers": cluster.broker(old).address, "acks": 1, "enable.idempotence": False}
    )
    producer.produce("t", b"first")
    assert producer.flush(40) == 0
    cluster.isolate(old)
    # It still believes that it leads, and acknowledges what only it has.
    producer.produce("t", b"lost")
    assert producer.flush(40) == 0
    new = cluster.leader("t")
    assert new != old and old not in cluster.isr("t")
    cluster.heal(old)
    assert cluster.isr("t") == {1, 2, 3}
    assert produce(cluster, "t", b"after") is None
    assert values(cluster, "t") == [b"before", b"first", b"after"]


def test_a_follower_that_lags_leaves_the_isr(cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    lagging = next(iter({1, 2, 3} - {cluster.leader("t")}))
    cluster.hold_back(lagging)
    assert produce(cluster, "t", b"1", **{"acks": 1, "enable.idempotence": False}) is None
    cluster.advance(seconds=31)
    cluster.wait_for_isr("t", isr=sorted({1, 2, 3} - {lagging}))
    cluster.heal(lagging)
    assert cluster.isr("t") == {1, 2, 3}


def test_a_coordinator_moves_under_a_group(cluster: KafkaCluster) -> None:
    cluster.put("t", ["1"])
    # librdkafka's commit that waits can hang for a session time-out when the coordinator moves.
    options = {"bootstrap_servers": cluster.address, "group_id": "g", "auto_offset_reset": "earliest"}
    with Consumer("t", enable_auto_commit=False, **options) as consumer:
        consumer.getone()
        consumer.commit()
        for node in (1, 2, 3):
            cluster.move_coordinator("g", to=node)
            assert cluster.coordinator("g") == node
            cluster.put("t", ["more"])
            consumer.getone()
            consumer.commit()
            assert cluster.committed("g") == {("t", 0): node + 1}


def test_a_transaction_survives_a_move_of_its_coordinator(cluster: KafkaCluster) -> None:
    producer = ConfluentProducer({"bootstrap.servers": cluster.address, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"v")
    producer.flush()
    old = cluster.coordinator(transactional_id="x")
    cluster.move_coordinator(transactional_id="x", to=old % 3 + 1)
    producer.commit_transaction()
    assert values(cluster, "t") == [b"v"]


def test_faults_meet_clients_and_no_brokers(cluster: KafkaCluster) -> None:
    cluster.create_topic("t")
    with cluster.requests() as seen, cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, must_fire=True):
        assert produce(cluster, "t", b"v") is None
    assert "Fetch" not in seen.apis()
    with cluster.fail("Fetch", "UNKNOWN_SERVER_ERROR"):
        assert produce(cluster, "t", b"w") is None


def test_wrong_names_say_what_there_is(cluster: KafkaCluster) -> None:
    cluster.create_topic("t", replication_factor=1)
    with pytest.raises(Unavailable, match="the ISR is"):
        cluster.move_leader("t", to=next(iter({1, 2, 3} - cluster.isr("t"))))
    with pytest.raises(Unavailable, match="broker 7 is none of"):
        cluster.kill(7)
    with pytest.raises(Unavailable, match="has no partition 3"):
        cluster.leader("t", 3)
    with pytest.raises(AssertionError, match=r"not the ISR \[7\] of t-0: brokers \[1, 2, 3\] run; .*t-0 leader"):
        cluster.wait_for_isr("t", isr=[7], within=0)


def test_brokers_keep_their_data_below_a_directory_of_the_test(tmp_path: Path) -> None:
    with KafkaCluster({"log.dirs": tmp_path}) as cluster:
        cluster.create_topic("t")
    assert sorted(each.parent.name for each in tmp_path.glob("*/t-0")) == ["1", "2", "3"]
