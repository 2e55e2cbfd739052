"""Internal topics: created at first need, with the cleanup policy that their coordinator needs.

`__consumer_offsets` and `__transaction_state` are always compacted. Of `__share_group_state` the coordinator deletes
what no state needs, and nothing else may.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ..configs.broker_config import BrokerConfig
from .lifecycle import Creation
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
        return len(topic.partitions) if topic is not None else _partition_count(self._config, name)

    def _creation(self, name: str) -> Creation:
        coming = self._topics.coming(name)
        if coming is not None:
            return coming
        return self._topics.begin(name, _partition_count(self._config, name), _configs(self._config, name))


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


def _partition_count(config: BrokerConfig, name: str) -> int:
    if name == TRANSACTIONS_TOPIC:
        return config.transaction_state_log_num_partitions
    if name == SHARE_STATE_TOPIC:
        return config.share_coordinator_state_topic_num_partitions
    return config.offsets_topic_num_partitions


def _configs(config: BrokerConfig, name: str) -> dict[str, str]:
    if name == TRANSACTIONS_TOPIC:
        return {**cleanup_policy(name), "segment.bytes": str(config.transaction_state_log_segment_bytes)}
    share_bytes, offsets_bytes = config.share_coordinator_state_topic_segment_bytes, config.offsets_topic_segment_bytes
    segment_bytes = share_bytes if name == SHARE_STATE_TOPIC else offsets_bytes
    return {**cleanup_policy(name), "compression.type": "producer", "segment.bytes": str(segment_bytes)}
