"""A cluster of three that goes from PLAINTEXT to SASL_SSL broker by broker, while clients write.

Each stage restarts every broker once, in an order and with a stop or a kill by seed:

    ADDED      the listener SECURE is there beside PLAINTEXT
    SWITCHED   brokers reach each other at SECURE
    CLOSED     PLAINTEXT is gone; clients have moved to SECURE before
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from odradek.tests.support.brokers.process import BrokerProcess, free_port
from odradek.tests.support.clusters.cluster import SETTINGS
from odradek.tests.support.clusters.cluster_chaos import (
    PARTITIONS,
    TOPIC,
    WAIT_S,
    History,
    Load,
    check,
    check_replicas,
    read_all,
)
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess, zookeeper
from odradek.tests.support.security.certificates import Certificates

BROKER, PASSWORD = "broker", "between brokers"
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")


class Stage(IntEnum):
    """How far the change has come."""

    PLAIN = 0
    ADDED = 1
    SWITCHED = 2
    CLOSED = 3


class RollingBroker(BrokerProcess):
    """A broker whose configs follow the stage that it is started in."""

    def __init__(self, folder: Path, number: int, connect: str, certificates: Certificates, mechanism: str) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True)
        self.stage = Stage.PLAIN
        self.ports = {"PLAINTEXT": free_port(), "SECURE": free_port()}
        self.more: dict[str, object] = {}
        self._number, self._connect = number, connect
        self._certificates, self._mechanism = certificates, mechanism

    def configs(self) -> dict[str, object]:
        """Return server.properties of the present stage."""
        names = [
            *(["PLAINTEXT"] if self.stage is not Stage.CLOSED else []),
            *(["SECURE"] if self.stage is not Stage.PLAIN else []),
        ]
        module = "org.apache.kafka.common.security"
        own = f'username="{BROKER}" password="{PASSWORD}"'
        prefix = "listener.name.secure"
        secure: dict[str, object] = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._certificates.with_key(self._certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._certificates.authority,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": self._mechanism,
            f"{prefix}.plain.sasl.jaas.config": (
                f'{module}.plain.PlainLoginModule required {own} user_{BROKER}="{PASSWORD}";'
            ),
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required {own};",
        }
        return {
            **{name.replace("_", "."): value for name, value in SETTINGS.items()},
            "broker.id": self._number,
            "zookeeper.connect": self._connect,
            "log.dirs": self.data_dir,
            "listeners": ",".join(f"{name}://127.0.0.1:{self.ports[name]}" for name in names),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
            "inter.broker.listener.name": "SECURE" if self.stage >= Stage.SWITCHED else "PLAINTEXT",
            **(secure if self.stage is not Stage.PLAIN else {}),
            **self.more,
        }

    def command(self) -> list[str]:
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self.configs().items()))
        return [sys.executable, *self.program(), "serve", "--config", str(properties)]


class RollingChange:
    """One change by seed."""

    def __init__(self, folder: Path, ensemble: ZooKeeperProcess, seed: int) -> None:
        self.random = random.Random(seed)
        self.mechanism = self.random.choice(MECHANISMS)
        self.steps: list[str] = [f"by {self.mechanism}"]
        self._certificates = Certificates(folder / "certificates")
        self.brokers = {
            number: RollingBroker(
                folder / f"broker-{number}", number, f"{ensemble.address}/kafka", self._certificates, self.mechanism
            )
            for number in (1, 2, 3)
        }

    def run(self) -> None:
        """Go through all stages. Raises AssertionError where a write is lost."""
        for each in self.brokers.values():
            each.start()
        self._create()
        load = Load(self._addresses("PLAINTEXT"))
        load.start()
        for stage in (Stage.ADDED, Stage.SWITCHED):
            self._roll(stage, load.history)
        history = load.finish()
        load = Load(self._addresses("SECURE"), self._security, history)
        load.start()
        self._roll(Stage.CLOSED, load.history)
        history = load.finish()
        self._wait("the partitions are not whole at the end", self._is_whole)
        check(history, read_all(self._addresses("SECURE"), security=self._security))
        check_replicas([each.data_dir for each in self.brokers.values()])

    def close(self) -> None:
        """End every broker that runs."""
        for each in self.brokers.values():
            if each.is_running:
                each.kill()

    # -- Steps

    def _create(self) -> None:
        admin = self._admin()
        self._wait("not all brokers are there", lambda: len(admin.list_topics(timeout=5).brokers) == 3)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(WAIT_S)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(BROKER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([wanted])[BROKER].result(WAIT_S)

    def _roll(self, stage: Stage, history: History) -> None:
        numbers = list(self.brokers)
        self.random.shuffle(numbers)
        for number in numbers:
            self._wait_for_progress(history)
            broker, is_killed = self.brokers[number], self.random.random() < 0.5
            self.steps.append(f"{'kill' if is_killed else 'stop'} {number} for {stage.name}")
            if is_killed:
                broker.kill()
            else:
                broker.stop()
            broker.stage = stage
            broker.start()
            self._wait("the partitions are not whole again", self._is_whole)
        self._wait_for_progress(history)

    # -- Waiting

    def _wait_for_progress(self, history: History) -> None:
        before = [len(each) for each in history.acknowledged]
        self._wait(
            f"nothing is acknowledged any more ({history.errors[:3]})",
            lambda: all(len(now) > then for now, then in zip(history.acknowledged, before, strict=True)),
        )

    def _is_whole(self) -> bool:
        try:
            topics = self._admin().list_topics(timeout=5).topics
        except KafkaException:
            return False
        found = list(topics[TOPIC].partitions.values()) if TOPIC in topics else []
        return len(found) == PARTITIONS and all(each.leader > 0 and len(each.isrs) == 3 for each in found)

    def _wait(self, what: str, is_true: Any) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_true():
            words = "; ".join(f"broker {number}: {each.last_words()[-600:]}" for number, each in self.brokers.items())
            assert time.monotonic() < deadline, f"{what} after {self.steps}. {words}"
            time.sleep(0.1)

    # -- Clients

    @property
    def _security(self) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.username": BROKER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self._certificates.authority),
        }

    def _addresses(self, listener: str) -> str:
        return ",".join(f"localhost:{each.ports[listener]}" for each in self.brokers.values())

    def _admin(self) -> AdminClient:
        # A broker that has PLAINTEXT no more is told of by the others at SECURE only.
        is_secure = all(each.stage >= Stage.ADDED for each in self.brokers.values())
        security = self._security if is_secure else {}
        addresses = self._addresses("SECURE" if is_secure else "PLAINTEXT")
        return AdminClient({"bootstrap.servers": addresses, "log_level": 0, **security})


@contextmanager
def rolling_change(folder: Path, seed: int) -> Iterator[RollingChange]:
    """Yield a change that has not begun."""
    with zookeeper(folder / "zookeeper") as ensemble:
        change = RollingChange(folder, ensemble, seed)
        try:
            yield change
        finally:
            change.close()
