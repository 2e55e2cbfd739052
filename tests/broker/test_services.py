"""Coordinators are made when they are first needed, and know then what they would have known from the start."""

from __future__ import annotations

from pathlib import Path

from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.features import GROUP_VERSION, TRANSACTION_VERSION
from odradek.client import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition

NAMES = {"groups", "transactions", "share_states", "share_leader"}


def config_of(folder: Path) -> BrokerConfig:
    return BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)})[0]


def made(broker: Broker) -> set[str]:
    return NAMES & vars(broker.services.coordinators).keys()


async def test_a_broker_that_meets_no_group_makes_no_coordinator(tmp_path: Path) -> None:
    async with Broker(config_of(tmp_path)) as broker:
        async with Producer(broker.address) as producer:
            await producer.send("events", b"one")
        async with Admin(broker.address) as admin:
            await admin.delete_topics("events")
        assert made(broker) == set()


async def test_what_was_committed_is_loaded_at_the_start(tmp_path: Path) -> None:
    place = TopicPartition("events", 0)
    async with Broker(config_of(tmp_path)) as broker, Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("events")])
        await admin.alter_group_offsets("readers", {place: OffsetAndMetadata(7)})
        assert "groups" in made(broker) and "transactions" not in made(broker)
    async with Broker(config_of(tmp_path)) as broker:
        assert "groups" in made(broker) and "transactions" not in made(broker)
        assert "readers" in broker.services.groups.groups


async def test_levels_of_features_reach_a_coordinator_that_is_made_later(tmp_path: Path) -> None:
    async with Broker(config_of(tmp_path)) as broker:
        features = broker.services.features
        features.change({**features.levels, GROUP_VERSION: 0, TRANSACTION_VERSION: 1})
        assert made(broker) == set()
        groups = broker.services.groups
        assert not groups._serves_consumer_protocol
        features.change({**features.levels, GROUP_VERSION: 1})
        assert groups._serves_consumer_protocol


async def test_a_coordinator_that_is_made_during_a_stop_owns_nothing(tmp_path: Path) -> None:
    async with Broker(config_of(tmp_path)) as broker:
        broker.services.coordinators.stop()
        assert not broker.services.groups.shards.owned
        assert not broker.services.transactions.shards.owned
