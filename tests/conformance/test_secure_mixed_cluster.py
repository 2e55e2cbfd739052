"""A secure cluster of two brokers of ours and Apache Kafka 3.9.1, and Kafka's own tools on it.

Brokers log in to each other by SCRAM over TLS, and to ZooKeeper by DIGEST-MD5; znodes belong to the brokers alone. The
password of the brokers is there before the first start. ACLs, passwords and quotas that one side writes count at the
other. Needs Java and the jars of Kafka 3.9.1 (KAFKA39_LIB).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clusters.kafka39 import Kafka39Process
from odradek.tests.support.clusters.rolling_change import BROKER, PASSWORD, RollingBroker, Stage
from odradek.tests.support.clusters.secure_zookeeper import SecureZooKeeper, secure_zookeeper
from odradek.tests.support.clusters.zookeeper import why_missing
from odradek.tests.support.security.certificates import Certificates

WAIT_S = 90
WITHOUT_JARS = why_missing() or ("" if os.environ.get("KAFKA39_LIB") else "set KAFKA39_LIB")
pytestmark = pytest.mark.skipif(bool(WITHOUT_JARS), reason=WITHOUT_JARS)

MECHANISM = "SCRAM-SHA-512"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
ACL_COMMAND = "kafka.admin.AclCommand"


class SecureKafka39(Kafka39Process):
    """Apache Kafka 3.9.1 with the configs of one of our brokers."""

    def __init__(self, ours: RollingBroker, jaas: Path) -> None:
        super().__init__(ours.folder, **ours.configs())
        self.ports = ours.ports
        self.address = f"127.0.0.1:{ours.ports['PLAINTEXT']}"
        self.java_options = [f"-Djava.security.auth.login.config={jaas}"]


class MixedCluster:
    """Brokers 1 and 2 are ours, 3 is Kafka."""

    def __init__(self, folder: Path, ensemble: SecureZooKeeper) -> None:
        self.ensemble, self.jaas = ensemble, ensemble.client_jaas()
        self.certificates: Certificates = ensemble.certificates
        self.connect = ensemble.address
        ours = {number: self._broker(folder, number) for number in (1, 2, 3)}
        ours[1].more["java.security.auth.login.config"] = ours[2].more["java.security.auth.login.config"] = self.jaas
        self.kafka = SecureKafka39(ours.pop(3), self.jaas)
        self.brokers: dict[int, BrokerProcess] = {**ours, 3: self.kafka}
        self.ports = {1: ours[1].ports, 2: ours[2].ports, 3: self.kafka.ports}

    def _broker(self, folder: Path, number: int) -> RollingBroker:
        made = RollingBroker(folder / f"broker-{number}", number, self.connect, self.certificates, MECHANISM)
        made.stage = Stage.SWITCHED
        made.more = {
            "zookeeper.set.acl": "true",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER};User:ANONYMOUS",
        }
        return made

    def tool(self, name: str, *arguments: str) -> str:
        """Run a tool of Kafka's, which logs in to ZooKeeper as brokers do."""
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", f"-Djava.security.auth.login.config={self.jaas}"]
        command = ["java", *options, "-cp", f"{os.environ['KAFKA39_LIB']}/*", name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def plain(self, number: int) -> str:
        return f"127.0.0.1:{self.ports[number]['PLAINTEXT']}"

    def client(self, number: int, user: str, password: str) -> dict[str, Any]:
        """Return the settings of a client of one broker that logs in."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports[number]['SECURE']}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.certificates.authority),
            "log_level": 0,
        }

    def close(self) -> None:
        for each in self.brokers.values():
            if each.is_running:
                each.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    folder = tmp_path_factory.mktemp("mixed")
    with secure_zookeeper(folder / "zookeeper") as ensemble:
        made = MixedCluster(folder, ensemble)
        try:
            set_password(made, BROKER, PASSWORD, "--zookeeper", made.connect)
            for each in made.brokers.values():
                each.start()
            admin = AdminClient({"bootstrap.servers": made.plain(1), "log_level": 0})
            until(lambda: len(admin.list_topics(timeout=5).brokers) == 3)
            admin.create_topics([NewTopic("t", 3, 3)])["t"].result(WAIT_S)
            until(lambda: in_sync(admin) == [3, 3, 3])
            yield made
        finally:
            made.close()


def in_sync(admin: AdminClient) -> list[int]:
    """Return how many replicas of each partition are in sync; a broker that was not told of the topic shows none."""
    return [len(each.isrs) for each in admin.list_topics("t").topics["t"].partitions.values()]


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.2)


def set_password(cluster: MixedCluster, user: str, password: str, *where: str) -> None:
    config = f"{MECHANISM}=[iterations=4096,password={password}]"
    cluster.tool(
        CONFIG_COMMAND, *where, "--alter", "--entity-type", "users", "--entity-name", user, "--add-config", config
    )


def may_read(cluster: MixedCluster, number: int, user: str, password: str) -> bool:
    """Ask one broker for the topic as a user. False: it is denied, or the login fails."""
    admin = AdminClient(cluster.client(number, user, password))
    try:
        return admin.list_topics("t", timeout=5).topics["t"].error is None
    except KafkaException:
        return False


def test_each_leads_and_follows_the_other(cluster: MixedCluster) -> None:
    """Partitions are led by all three, so their records go through each broker's connections to the others."""
    admin = AdminClient({"bootstrap.servers": cluster.plain(1), "log_level": 0})
    partitions = admin.list_topics("t").topics["t"].partitions
    assert {each.leader for each in partitions.values()} == {1, 2, 3}
    producer = Producer({"bootstrap.servers": cluster.plain(2), "acks": "all", "log_level": 0})
    errors: list[Any] = []
    for number in range(300):
        producer.produce("t", str(number), partition=number % 3, on_delivery=lambda error, _: errors.append(error))
    producer.flush(WAIT_S)
    assert len(errors) == 300 and not any(errors)


@pytest.mark.parametrize("writer", [1, 3], ids=["ours", "kafkas"])
def test_a_password_of_one_counts_at_the_other(cluster: MixedCluster, writer: int) -> None:
    user = f"user{writer}"
    set_password(cluster, user, "secret", "--bootstrap-server", cluster.plain(writer))
    for number in cluster.brokers:
        # Logged in, and may see nothing.
        admin = AdminClient(cluster.client(number, user, "secret"))
        until(lambda admin=admin: len(admin.list_topics(timeout=5).brokers) == 3)


@pytest.mark.parametrize("pattern", ["literal", "prefixed"])
@pytest.mark.parametrize("writer", [1, 3, 0], ids=["ours", "kafkas", "zookeeper"])
def test_an_acl_of_one_counts_at_the_other(cluster: MixedCluster, writer: int, pattern: str) -> None:
    user = f"reader{writer}{pattern}"
    set_password(cluster, user, "secret", "--bootstrap-server", cluster.plain(1))
    at_zookeeper = ["--authorizer-properties", f"zookeeper.connect={cluster.connect}"]
    where = ["--bootstrap-server", cluster.plain(writer)] if writer else at_zookeeper
    acl = ["--allow-principal", f"User:{user}", "--operation", "Describe", "--topic", "t"]
    acl += ["--resource-pattern-type", pattern]
    assert not any(may_read(cluster, number, user, "secret") for number in cluster.brokers)
    cluster.tool(ACL_COMMAND, *where, "--add", *acl)
    for number in cluster.brokers:
        until(lambda number=number: may_read(cluster, number, user, "secret"))
    for number in (1, 3):
        listed = cluster.tool(
            ACL_COMMAND,
            "--bootstrap-server",
            cluster.plain(number),
            "--list",
            "--topic",
            "t",
            "--resource-pattern-type",
            "any",
        )
        assert f"User:{user}" in listed
    cluster.tool(ACL_COMMAND, *where, "--remove", "--force", *acl)
    for number in cluster.brokers:
        until(lambda number=number: not may_read(cluster, number, user, "secret"))


@pytest.mark.parametrize("writer", [1, 3], ids=["ours", "kafkas"])
def test_a_quota_of_one_is_known_to_the_other(cluster: MixedCluster, writer: int) -> None:
    entity = ["--entity-type", "users", "--entity-name", f"a b{writer}", "--entity-type", "clients", "--entity-default"]
    config = "producer_byte_rate=1024,request_percentage=12.5"
    at = ["--bootstrap-server", cluster.plain(writer)]
    cluster.tool(CONFIG_COMMAND, *at, "--alter", *entity, "--add-config", config)
    for number in cluster.brokers:

        def described(number: int = number) -> str:
            return cluster.tool(CONFIG_COMMAND, "--bootstrap-server", cluster.plain(number), "--describe", *entity)

        until(lambda: "producer_byte_rate=1024.0" in described() and "request_percentage=12.5" in described())


def test_a_killed_broker_comes_back_with_what_was_changed_meanwhile(cluster: MixedCluster) -> None:
    set_password(cluster, "late", "secret", "--bootstrap-server", cluster.plain(3))
    acl = ["--allow-principal", "User:late", "--operation", "Read", "--topic", "t"]
    cluster.tool(ACL_COMMAND, "--bootstrap-server", cluster.plain(2), "--add", *acl)
    cluster.brokers[2].kill()
    denied = ["--deny-principal", "User:late", "--operation", "All", "--topic", "t"]
    cluster.tool(ACL_COMMAND, "--bootstrap-server", cluster.plain(1), "--add", *denied)
    cluster.brokers[2].start()
    until(lambda: not any(may_read(cluster, number, "late", "secret") for number in cluster.brokers))
    consumer = Consumer({**cluster.client(2, "late", "secret"), "group.id": "g"})
    consumer.close()
