"""`KafkaContainer` in the place of testcontainers': the methods that projects call, without a container."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from socket import socket

import pytest
from confluent_kafka import Producer
from odradek.broker.configs.definition import ConfigError
from odradek.client.schemas import SchemaRegistry
from odradek.testing import LocalKafka
from odradek.testing.containers import KafkaContainer, RedpandaContainer
from odradek.testing.errors import Unavailable


def test_a_container_serves_clients_and_goes() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0") as container:
        producer = Producer({"bootstrap.servers": container.get_bootstrap_server()})
        producer.produce("t", b"v")
        assert producer.flush(20) == 0
        assert [each.value for each in container.kafka.records("t")] == [b"v"]
        host, port = container.get_container_host_ip(), container.get_exposed_port(container.port)
        assert container.get_bootstrap_server() == f"{host}:{port}"
        assert container.kafka.broker.config.group_initial_rebalance_delay_ms == 0
    with pytest.raises(Unavailable, match="does not run"):
        container.get_bootstrap_server()


def test_one_of_redpanda_has_a_schema_registry() -> None:
    with RedpandaContainer("docker.redpanda.com/redpandadata/redpanda:v23.1.13") as container:
        assert SchemaRegistry(container.get_schema_registry_address()).subjects() == []
        host, port = container.get_container_host_ip(), container.get_exposed_port(container.schema_registry_port)
        assert container.get_schema_registry_address() == f"http://{host}:{port}"
        assert container.get_bootstrap_server() == f"{host}:{container.get_exposed_port(container.redpanda_port)}"
    with pytest.raises(Unavailable, match="does not run"):
        container.get_schema_registry_address()


def test_one_whose_registry_does_not_start_leaves_no_broker() -> None:
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        container = RedpandaContainer().with_bind_ports(8081, port)
        with pytest.raises(OSError, match="in use"):
            container.start()
    assert container.status == "exited"
    with container:
        assert container.get_schema_registry_address() == f"http://127.0.0.1:{port}"


def test_a_container_starts_and_stops_and_starts_again() -> None:
    container = KafkaContainer(port=9099).with_kraft()
    assert container.kraft_enabled and not KafkaContainer().kraft_enabled
    assert (container.status, container.port) == ("created", 9099)
    assert container.start() is container and container.start(timeout=60) is container
    assert container.get_wrapped_container().status == "running"
    container.kafka.create_topic("t")
    container.stop()
    container.stop(force=True, delete_volume=True)
    assert container.status == "exited"
    assert container.start().kafka.topics() == []
    container.stop()


def test_variables_are_configs(tmp_path: Path) -> None:
    file = tmp_path / "kafka.env"
    file.write_text("# a comment\nKAFKA_LOG_RETENTION_MS='7000'\n")
    container = KafkaContainer(env={"KAFKA_NUM_PARTITIONS": 4}).with_env("KAFKA_NODE_ID", "7").with_env_file(file)
    with container.with_envs(KAFKA_AUTO_CREATE_TOPICS_ENABLE=False) as running:
        config = running.kafka.broker.config
        assert (config.num_partitions, config.log_retention_ms) == (4, 7000)
        assert (running.kafka.broker.node_id, config.auto_create_topics_enable) == (7, False)
        assert b"[KafkaServer id=7] started" in running.get_logs()[0]
    assert b"listening on 127.0.0.1" in running.get_logs()[0]


def test_the_log_has_its_level_again_after_the_last_container(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fixtures of other tests read it, too.
    monkeypatch.setattr("odradek.testing.broker_log._before", [])
    with caplog.at_level(logging.ERROR, "odradek.broker"):
        first, second = KafkaContainer().start(), KafkaContainer().start()
        first.stop()
        assert logging.getLogger("odradek.broker").level == logging.INFO
        second.stop()
        assert logging.getLogger("odradek.broker").level == logging.ERROR


def test_a_fixed_port_is_the_one_that_was_asked_for() -> None:
    with LocalKafka() as free:
        port = free.address.rpartition(":")[2]
    with KafkaContainer().with_bind_ports(9093, int(port)) as container:
        assert container.get_bootstrap_server() == f"127.0.0.1:{port}"


def test_what_means_nothing_here_warns_once() -> None:
    with pytest.warns(UserWarning) as seen:
        container = KafkaContainer(volumes=[("a", "b", "ro")])
        for _ in range(2):
            container.with_volume_mapping("/a", "/b").with_network_aliases("kafka").with_env(
                "KAFKA_HEAP_OPTS", "-Xmx1G"
            )
            container.with_env("KAFKA_NUM_PARTITION", "2").with_env("KAFKA_LISTENERS", "X://:1")
        for _ in range(2):
            container.start()
            container.stop()
    said = [str(each.message) for each in seen]
    assert [each.partition(" ")[0] for each in said] == [
        "volumes",
        "with_volume_mapping",
        "with_network_aliases",
        "KAFKA_HEAP_OPTS",
        "KAFKA_NUM_PARTITION",
        "KAFKA_LISTENERS",
    ]
    assert "did you mean num.partitions" in said[4]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", "many").start()
    with pytest.raises(Unavailable, match="speaks PLAINTEXT, not SSL"):
        KafkaContainer(security_protocol="SSL")
    with pytest.raises(AttributeError, match="there is no container"):
        KafkaContainer().exec("kafka-topics")  # type: ignore[operator]
    with warnings.catch_warnings(), KafkaContainer() as container:
        warnings.simplefilter("error")
        with pytest.raises(Unavailable, match="nothing listens for port 8081"):
            container.get_exposed_port(8081)
