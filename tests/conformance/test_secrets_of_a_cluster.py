"""Brokers that log in to each other and to ZooKeeper write none of the passwords: not in logs, data or answers.

Needs ZooKeeper, which the jars of Kafka 3.9 bring (KAFKA39_LIB).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.client import ConfigResource, KafkaError, NewTopic, ScramPassword
from odradek.client.blocking import Admin, Producer
from odradek.tests.support.clusters import secure_zookeeper as keeper
from odradek.tests.support.clusters.rolling_change import BROKER, PASSWORD, RollingBroker, Stage
from odradek.tests.support.clusters.secure_zookeeper import SecureZooKeeper, secure_zookeeper
from odradek.tests.support.clusters.zookeeper import why_missing
from odradek.tests.support.documents.command import completed
from odradek.tests.support.security.secrets import Secrets, files_of

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing())

MECHANISM, WAIT_S = "SCRAM-SHA-512", 60
CLIENT, WRONG = "5ecret of a client", "5ecret that is wrong"


class Talkative(RollingBroker):
    """A broker that logs everything."""

    def command(self) -> list[str]:
        return [*super().command(), "--log-level", "debug"]


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[SecureZooKeeper]:
    with secure_zookeeper(tmp_path / "zookeeper") as each:
        yield each


@pytest.fixture
def brokers(ensemble: SecureZooKeeper, tmp_path: Path) -> Iterator[list[Talkative]]:
    made = [_broker(tmp_path, number, ensemble) for number in (1, 2)]
    made[0].command()  # writes the file
    set_password = completed(
        *("users", "set", BROKER, "--password-file", "-", "--mechanism", MECHANISM),
        *("--config", str(made[0].folder / "server.properties")),
        stdin=PASSWORD.encode(),
    )
    assert set_password.returncode == 0, set_password.stderr
    try:
        for each in made:
            each.start()
        yield made
    finally:
        for each in made:
            if each.is_running:
                each.kill()


def _broker(folder: Path, number: int, ensemble: SecureZooKeeper) -> Talkative:
    made = Talkative(folder / f"broker-{number}", number, ensemble.address, ensemble.certificates, MECHANISM)
    made.stage = Stage.SWITCHED
    made.more = {
        "zookeeper.set.acl": "true",
        "default.replication.factor": 2,
        "java.security.auth.login.config": ensemble.client_jaas(),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{BROKER};User:ANONYMOUS",
    }
    return made


def plain(broker: Talkative) -> str:
    return f"127.0.0.1:{broker.ports['PLAINTEXT']}"


def test_no_password_of_brokers_or_of_zookeeper_is_written(
    brokers: list[Talkative], ensemble: SecureZooKeeper, tmp_path: Path
) -> None:
    said: list[tuple[str, bytes]] = []
    with Admin(plain(brokers[0])) as admin:
        until(lambda: len(admin.describe_cluster().nodes) == 2)
        admin.create_topics([NewTopic("t", 2, replication_factor=2)])
        admin.alter_user_scram_credentials(ScramPassword("alice", MECHANISM, CLIENT))
        for number in (1, 2):
            said.append(("configs", repr(admin.describe_configs([ConfigResource.broker(number)])).encode()))
    with Producer(plain(brokers[1])) as producer:
        producer.send_many("t", [(None, b"%d" % number) for number in range(100)])
    for broker in brokers:
        said += [log_in(broker, ensemble, password) for password in (CLIENT, WRONG)]
    brokers[1].kill()
    brokers[1].start()
    said += refused_start(tmp_path, ensemble)
    for each in brokers:
        done = completed("doctor", "--config", str(each.folder / "server.properties"), "-b", plain(each))
        said.append(("doctor", (done.stdout + done.stderr).encode()))
        each.stop()
    secrets = Secrets()
    for name, secret in {"brokers": PASSWORD, "ZooKeeper": keeper.PASSWORD, "alice": CLIENT, "wrong": WRONG}.items():
        secrets.add(f"the password of {name}", secret)
    secrets.add_key("the private key", ensemble.certificates.key(ensemble.certificates.broker).read_text())
    written = [pair for each in brokers for pair in files_of(each.folder, [each.folder / "server.properties"])]
    assert any(b"DEBUG" in data or b"debug" in data for _, data in written), "it logged no details"
    assert secrets.found_in([*said, *written]) == []


def log_in(broker: Talkative, ensemble: SecureZooKeeper, password: str) -> tuple[str, bytes]:
    """Log in as a client; return what a failure says."""
    options: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(ensemble.certificates.authority),
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }
    try:
        with Admin(f"127.0.0.1:{broker.ports['SECURE']}", default_api_timeout_ms=20_000, **options) as admin:
            admin.list_topics()
    except KafkaError as error:
        assert password == WRONG, error
        return "a client", repr(error).encode()
    assert password == CLIENT
    return "a client", b""


def refused_start(folder: Path, ensemble: SecureZooKeeper) -> list[tuple[str, bytes]]:
    """A broker with a wrong password for ZooKeeper, and one whose own line of JAAS cannot be read."""
    found: list[tuple[str, bytes]] = []
    unreadable = f'ScramLoginModule required username="{BROKER}" password="{WRONG}'
    for number, more in (
        (8, {"java.security.auth.login.config": ensemble.client_jaas(WRONG), "zookeeper.connection.timeout.ms": 3_000}),
        (9, {"listener.name.secure.scram-sha-512.sasl.jaas.config": unreadable}),
    ):
        broker = _broker(folder, number, ensemble)
        broker.more |= more
        words = broker.command()
        done = completed(*words[words.index("serve") :])
        assert done.returncode, done
        found.append((f"start {number}", (done.stdout + done.stderr).encode()))
    return found


def until(is_true: Any) -> None:
    ends = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < ends, "it did not come in time"
        time.sleep(0.1)
