"""Adoption: the topics, configs and producer ids of a broker that was alone become those of a cluster, as steps.

A data directory joins a cluster as its first member. What ZooKeeper has already stays as it is, so that a start goes on
where an earlier one was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping

from .operations import Create, Steps, write
from .znodes import (
    Assignment,
    LeaderAndIsr,
    Replicas,
    TopicPartition,
    config_path,
    encode_assignment,
    encode_config,
    encode_state,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)

# The name under which ZooKeeper keeps the dynamic configs of every broker.
EVERY_BROKER = "<default>"


def adopt_topic(
    name: str, topic_id: bytes, partitions: int, configs: Mapping[str, str], broker_id: int, leader_epoch: int
) -> Steps[bool]:
    """Make the znodes of a topic whose only replicas are on this broker, which leads them in `leader_epoch`.

    All at once, so that a controller does not begin it at epoch 0. Returns whether the topic was made.
    """
    yield from write(Create(config_path("topics", name), encode_config(dict(configs))))
    replicas = Replicas((broker_id,))
    state = encode_state(LeaderAndIsr(broker_id, leader_epoch, (broker_id,), controller_epoch=0))
    assignment = encode_assignment(Assignment(topic_id, dict.fromkeys(range(partitions), replicas)))
    places = [TopicPartition(name, index) for index in range(partitions)]
    failure = yield from write(
        Create(topic_path(name), assignment),
        Create(partitions_path(name)),
        *(change for each in places for change in (Create(partition_path(each)), Create(state_path(each), state))),
    )
    return failure is None


def adopt_broker_configs(node: str, configs: Mapping[str, str]) -> Steps[None]:
    """Make the znode of the dynamic configs of a broker, or of every broker ("")."""
    yield from write(Create(config_path("brokers", node or EVERY_BROKER), encode_config(dict(configs))))
