"""Go's clients against our broker: every check of each program, at a broker of its own, a secure one, and a killed one.

With ODRADEK_TEST_REAL_KAFKA=1 and KAFKA_LIB the same checks ask a real Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.tests.conformance.go_clients import CLIENTS, require_go, rows
from odradek.tests.support.brokers.process import BrokerProcess, broker_process
from odradek.tests.support.security.certificates import Certificates
from odradek.tests.support.security.secure_kafka import SecureBroker, SecureKafka

# Members of the newer groups learn of changes with their next heartbeat.
SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_min_heartbeat_interval_ms": 200,
    "group_consumer_heartbeat_interval_ms": 200,
    "group_consumer_assignment_interval_ms": 0,
    "group_share_min_heartbeat_interval_ms": 200,
    "group_share_heartbeat_interval_ms": 200,
}
clients = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(autouse=True, scope="module")
def needs_go() -> None:
    require_go()


@pytest.fixture
def broker(needs_go: None, tmp_path: Path) -> Iterator[BrokerProcess]:
    process = broker_process(tmp_path, **SETTINGS).start()
    yield process
    process.close()


@pytest.fixture(scope="module")
def secure(needs_go: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka | SecureBroker]:
    folder = tmp_path_factory.mktemp("secure")
    kind = SecureKafka if os.environ.get("ODRADEK_TEST_REAL_KAFKA") else SecureBroker
    process = kind(folder, Certificates(folder / "tls"))
    try:
        process.start()
        yield process
    finally:
        process.close()


def failures(client: str, *options: str, broker: BrokerProcess | None = None) -> dict[str, str]:
    """Run the checks, and return those that failed. There must be some. `broker` is killed and started on request."""

    def restart() -> None:
        assert broker
        broker.kill()
        broker.start()

    found = dict(rows(client, *options, restart=restart))
    assert found
    return {name: result for name, result in found.items() if result != "passed"}


@clients
def test_all_that_a_client_does(broker: BrokerProcess, client: str) -> None:
    assert failures(client, "-broker", broker.address) == {}


@clients
def test_secure_listeners(secure: SecureKafka | SecureBroker, client: str) -> None:
    options = ("-tls", secure.at("TLS"), "-sasl", secure.at("AUTHTLS"), "-ca", str(secure.certificates.authority))
    assert failures(client, "-broker", secure.address, *options, "-only", "secure") == {}


@clients
def test_a_broker_that_is_killed_and_comes_back(broker: BrokerProcess, client: str) -> None:
    assert failures(client, "-broker", broker.address, "-only", "restart", broker=broker) == {}
