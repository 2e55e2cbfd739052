"""TLS and users: every client connects with the options that the kit gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer
from odradek.client import Producer
from odradek.client.errors import AuthenticationFailed
from odradek.testing import Kafka, KafkaCluster, KafkaProcess, LocalKafka
from odradek.testing.errors import Unavailable

Factory = Callable[..., LocalKafka]
KINDS: dict[str, Callable[..., Any]] = {"local": LocalKafka, "process": KafkaProcess, "cluster": KafkaCluster}
USERS = {"alice": 'se"cret\\', "bob": "b"}
HOW = [{}, {"tls": True}, {"users": USERS}, {"tls": True, "users": USERS}]


@pytest.mark.parametrize("how", HOW, ids=lambda how: "+".join(how) or "plain")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # kafka-python reads its resources in an old way
async def test_every_client_connects(kind: str, how: dict[str, Any]) -> None:
    with KINDS[kind](**how) as kafka:
        await every_client_writes(kafka)


async def every_client_writes(kafka: Kafka) -> None:
    import kafka as kafka_python

    confluent = ConfluentProducer(kafka.options("confluent-kafka"))
    confluent.produce("t", b"confluent-kafka")
    assert confluent.flush(20) == 0
    python = kafka_python.KafkaProducer(**kafka.options("kafka-python"))
    python.send("t", b"kafka-python").get(20)
    python.close()
    async with AIOKafkaProducer(**kafka.options("aiokafka")) as asyncio_producer:
        await asyncio_producer.send_and_wait("t", b"aiokafka")
    async with Producer(**kafka.options("odradek")) as own:
        await (await own.send("t", b"odradek"))
    assert [each.value for each in kafka.records("t")] == [b"confluent-kafka", b"kafka-python", b"aiokafka", b"odradek"]


async def test_a_wrong_password_is_refused(kafka_factory: Factory) -> None:
    kafka = kafka_factory(users=USERS)
    options = {**kafka.options("odradek", user="bob"), "sasl_plain_password": "wrong"}
    with pytest.raises(AuthenticationFailed):
        async with Producer(**options):
            pass


def test_acls_bind_users_and_not_the_kit(kafka_factory: Factory) -> None:
    configs = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:alice"}
    kafka = kafka_factory(users=USERS, **{name.replace(".", "_"): value for name, value in configs.items()})
    kafka.create_topic("t")
    errors: list[ConfluentError | None] = []
    for user in ("alice", "bob"):
        producer = ConfluentProducer(kafka.options("confluent-kafka", user))
        producer.produce("t", user.encode(), on_delivery=lambda error, _: errors.append(error))
        producer.flush(20)
    assert errors[0] is None and errors[1] is not None
    assert errors[1].code() == ConfluentError.TOPIC_AUTHORIZATION_FAILED
    assert [each.value for each in kafka.records("t")] == [b"alice"]


def test_a_restart_keeps_address_and_users(kafka_factory: Factory) -> None:
    kafka = kafka_factory(tls=True, users=USERS)
    address = kafka.address
    kafka.restart()
    kafka.reset()
    assert kafka.address == address
    confluent_writes(kafka)


def confluent_writes(kafka: Kafka) -> None:
    producer = ConfluentProducer(kafka.options("confluent-kafka"))
    producer.produce("t", b"v")
    assert producer.flush(20) == 0


@pytest.mark.kafka(topics={"t": 1}, tls=True, users=USERS)
def test_a_killed_process_keeps_address_and_users(kafka_process: KafkaProcess) -> None:
    address = kafka_process.address
    kafka_process.kill()
    kafka_process.restart()
    assert kafka_process.address == address
    confluent_writes(kafka_process)


@pytest.mark.kafka(topics={"t": 1}, tls=True, users=USERS)
def test_a_cluster_keeps_addresses_and_users_when_a_broker_dies(kafka_cluster: KafkaCluster) -> None:
    leader, address = kafka_cluster.leader("t"), kafka_cluster.address
    kafka_cluster.kill(leader)
    confluent_writes(kafka_cluster)
    kafka_cluster.restart(leader)
    kafka_cluster.move_leader("t", to=leader)
    confluent_writes(kafka_cluster)
    assert (kafka_cluster.address, len(kafka_cluster.records("t"))) == (address, 2)


def test_java_options_have_javas_names(kafka_factory: Factory) -> None:
    options = kafka_factory(users=USERS).options("java", "bob")
    assert options["sasl.jaas.config"].endswith('ScramLoginModule required username="bob" password="b";')
    assert options["security.protocol"] == "SASL_PLAINTEXT"


def test_misspelt_names_come_with_the_nearest(kafka_factory: Factory) -> None:
    kafka = kafka_factory(users=USERS)
    with pytest.raises(Unavailable, match="did you mean confluent-kafka"):
        kafka.options("confluent")
    with pytest.raises(Unavailable, match="did you mean alice"):
        kafka.options("odradek", "alicee")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("users", [["alice"], "alice", {"alice": None}], ids=str)
def test_users_without_passwords_are_refused(kind: str, users: Any) -> None:
    with pytest.raises(Unavailable, match="users are passwords by name"):
        KINDS[kind](users=users)
