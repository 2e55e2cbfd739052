"""A broker at a ZooKeeper that is reached by TLS, or that asks for a login, and who may change its znodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from odradek.broker import Broker, BrokerConfig
from odradek.broker.log_dirs.data_dir import StartError
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.secure_zookeeper import PASSWORD, SecureZooKeeper, secure_zookeeper
from odradek.tests.support.clusters.zookeeper import why_missing

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing())


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    with secure_zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


def broker(folder: Path, connect: str, **configs: str) -> Broker:
    config, warnings = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "broker.id": "1",
            "log.dirs": str(folder / "data"),
            "zookeeper.connect": f"{connect}/{folder.parent.name}-{folder.name}",
            "zookeeper.connection.timeout.ms": "15000",
            "controlled.shutdown.enable": "false",
            **configs,
        }
    )
    assert warnings == []
    return Broker(config)


async def works(made: Broker) -> None:
    async with made, await Raw.connect(made.address) as raw:
        assert (await raw.create_topic("t")).error_code == 0


def stranger(ensemble: SecureZooKeeper, folder: Path) -> KazooClient:
    client = KazooClient(f"{ensemble.address}/{folder.parent.name}-{folder.name}")
    client.start(60)
    return client


async def test_tls_with_a_certificate_and_znodes_of_the_broker_alone(ensemble: SecureZooKeeper, tmp_path: Path) -> None:
    await works(broker(tmp_path, ensemble.tls_address, **ensemble.tls_configs(), **{"zookeeper.set.acl": "true"}))
    check_owned(stranger(ensemble, tmp_path))


async def test_a_login_and_znodes_of_the_broker_alone(ensemble: SecureZooKeeper, tmp_path: Path) -> None:
    configs = {"java.security.auth.login.config": str(ensemble.client_jaas()), "zookeeper.set.acl": "true"}
    await works(broker(tmp_path, ensemble.address, **configs))
    check_owned(stranger(ensemble, tmp_path))


def check_owned(client: KazooClient) -> None:
    """Others may read most of it, and change nothing but offsets of Kafka 0.8."""
    try:
        assert client.get("/brokers/topics/t")[0]
        for path in ("/brokers/topics/t", "/config/changes"):
            with pytest.raises(NoAuthError):
                client.set(path, b"x")
        for path in ("/config/users", "/config/brokers"):
            with pytest.raises(NoAuthError):
                client.get_children(path)
        client.create("/consumers/g", b"")
    finally:
        client.stop()
        client.close()


async def test_without_an_acl_znodes_are_open(ensemble: SecureZooKeeper, tmp_path: Path) -> None:
    configs = {**ensemble.tls_configs(), "zookeeper.ssl.keystore.location": ""}
    del configs["zookeeper.ssl.keystore.location"]
    await works(broker(tmp_path, ensemble.tls_address, **configs))
    client = stranger(ensemble, tmp_path)
    client.set("/config/changes", b"x")
    client.stop()
    client.close()


async def test_a_wrong_password_ends_the_start(
    ensemble: SecureZooKeeper, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configs = {"java.security.auth.login.config": str(ensemble.client_jaas("guessed"))}
    with pytest.raises(StartError, match="refuses the login of this session"):
        await broker(tmp_path, ensemble.address, **configs).start()
    assert "guessed" not in caplog.text and PASSWORD not in caplog.text


async def test_a_certificate_that_is_not_trusted_is_named(ensemble: SecureZooKeeper, tmp_path: Path) -> None:
    configs = {"zookeeper.ssl.client.enable": "true", "zookeeper.connection.timeout.ms": "1000"}
    with pytest.raises(StartError, match=r"no ZooKeeper answers .*certificate verify failed"):
        await broker(tmp_path, ensemble.tls_address, **configs).start()
