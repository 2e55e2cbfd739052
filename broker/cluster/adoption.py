"""Adoption: the topics, configs and producer ids of a broker that was alone become those of a cluster, as steps.

A data directory joins a cluster as its first member. What ZooKeeper has already stays as it is, so that a start goes on
where an earlier one was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...zookeeper.operations import Create, Put, Steps, check_size, portions, read, write, write_all
from .znodes import (
    Assignment,
    LeaderAndIsr,
    Replicas,
    TopicPartition,
    config_path,
    decode_assignment,
    encode_assignment,
    encode_config,
    encode_state,
    partition_path,
    partitions_path,
    sound,
    state_path,
    topic_path,
)

# The name under which ZooKeeper keeps the dynamic configs of every broker.
EVERY_BROKER = "<default>"
# Partitions whose znodes are made by one operation.
_PARTITIONS_AT_ONCE = 500


def adopt_topic(
    name: str, topic_id: bytes, partitions: int, configs: Mapping[str, str], broker_id: int, leader_epoch: int
) -> Steps[bool]:
    """Make the znodes of a topic whose only replicas are on this broker, which leads them in `leader_epoch`.

    The topic gets its partitions once their states are there: a controller would begin them at epoch 0. ZooKeeper takes
    no more than 1 MB at once. Returns whether the topic was made. Raises TooLarge.
    """
    replicas = Replicas((broker_id,))
    whole = encode_assignment(Assignment(topic_id, dict.fromkeys(range(partitions), replicas)))
    check_size(Put(topic_path(name), whole))
    yield from write(Create(config_path("topics", name), encode_config(dict(configs))))
    state = encode_state(LeaderAndIsr(broker_id, leader_epoch, (broker_id,), controller_epoch=0))
    yield from write(Create(topic_path(name), encode_assignment(Assignment(topic_id, {}))))
    made = yield from read(topic_path(name))
    if made is None or sound(decode_assignment, name, made.data) != Assignment(topic_id, {}):
        return False
    yield from write(Create(partitions_path(name)))
    for some in portions((TopicPartition(name, index) for index in range(partitions)), _PARTITIONS_AT_ONCE):
        # Those that an interrupted start has made stay.
        yield from write_all((Create(partition_path(each)),) for each in some)
        yield from write_all((Create(state_path(each), state),) for each in some)
    return (yield from write(Put(topic_path(name), whole, made.version))) is None


def adopt_broker_configs(node: str, configs: Mapping[str, str]) -> Steps[None]:
    """Make the znode of the dynamic configs of a broker, or of every broker ("")."""
    yield from write(Create(config_path("brokers", node or EVERY_BROKER), encode_config(dict(configs))))
