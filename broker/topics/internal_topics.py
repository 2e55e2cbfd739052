"""Internal topics: created at first need, with the cleanup policy that their coordinator needs.

`__consumer_offsets` and `__transaction_state` are always compacted. Of `__share_group_state` the coordinator deletes
what no state needs, and nothing else may.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import NamedTuple

from ..configs.broker_config import BrokerConfig
from .creation import Creation
from .metadata_journal import Metadata
from .topic import Topic
from .topic_names import INTERNAL_TOPICS, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from .topics import Topics

_log = logging.getLogger(__name__)


class InternalTopics:
    """Creates the topics in which the coordinators keep their state."""

    def __init__(self, config: BrokerConfig, topics: Topics) -> None:
        self._config = config
        self._topics = topics

    def create(self, name: str) -> Topic:
        """Return the internal topic of that name; create it now if it does not exist."""
        return self._topics.get(name) or self._creation(name).finish()

    async def create_in_turns(self, name: str) -> Topic:
        """Do as `create`, but let others have their turns, because an internal topic has many partitions."""
        return self._topics.get(name) or await self._creation(name).wait()

    def partition_count(self, name: str) -> int:
        """Return how many partitions the topic has or, if it does not exist yet, would be created with."""
        topic = self._topics.get(name)
        return len(topic.partitions) if topic is not None else internal_topic(self._config, name).partitions

    def _creation(self, name: str) -> Creation:
        coming = self._topics.coming(name)
        if coming is not None:
            return coming
        wanted = internal_topic(self._config, name)
        return self._topics.begin(name, wanted.partitions, wanted.configs)


def restore_cleanup_policies(metadata: Metadata) -> None:
    """Give every internal topic its cleanup policy, including ones that a client created.

    With another policy such a topic would grow for ever, or lose records that a coordinator needs.
    """
    for name in INTERNAL_TOPICS & metadata.topics.keys():
        record, policy = metadata.topics[name], cleanup_policy(name)
        if record.configs.get("cleanup.policy") != policy["cleanup.policy"]:
            _log.warning("%s has cleanup.policy=%s from now on", name, policy["cleanup.policy"])
            metadata.put_topic(replace(record, configs={**record.configs, **policy}))


def cleanup_policy(name: str) -> dict[str, str]:
    """Return the configs that an internal topic must have."""
    if name == SHARE_STATE_TOPIC:
        return {"cleanup.policy": "delete", "retention.ms": "-1"}
    return {"cleanup.policy": "compact"}


class InternalTopic(NamedTuple):
    """How an internal topic is created."""

    partitions: int
    configs: dict[str, str]
    # In a cluster.
    replication_factor: int
    min_isr: int | None


def internal_topic(config: BrokerConfig, name: str) -> InternalTopic:
    """Return how the configs of a broker have the internal topic of that name created."""
    if name == TRANSACTIONS_TOPIC:
        configs = {"segment.bytes": str(config.transaction_state_log_segment_bytes)}
        partitions, factor = (
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
        )
        min_isr = config.transaction_state_log_min_isr
    elif name == SHARE_STATE_TOPIC:
        configs = _compressed_by_producers(config.share_coordinator_state_topic_segment_bytes)
        partitions, factor = (
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
        )
        min_isr = config.share_coordinator_state_topic_min_isr
    else:
        configs = _compressed_by_producers(config.offsets_topic_segment_bytes)
        partitions, factor = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        min_isr = None
    return InternalTopic(partitions, {**cleanup_policy(name), **configs}, factor, min_isr)


def _compressed_by_producers(segment_bytes: int) -> dict[str, str]:
    return {"compression.type": "producer", "segment.bytes": str(segment_bytes)}
