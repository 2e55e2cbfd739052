"""The topics that the members of a consumer group subscribe, as far as their metadata can be read.

The metadata of a member is opaque to the broker: only in groups of the protocol type `consumer` does its layout follow
from the type. Connect's workers, for example, send something else.
"""

from __future__ import annotations

from collections.abc import Set

from ....protocol.errors import DecodeError
from ....protocol.messages.consumer_protocol import ConsumerProtocolSubscription, decode_versioned
from .group import Group

# The protocol type of groups of consumers.
CONSUMER = "consumer"
# A subscription of more topics and partitions is not read: they take two microseconds each. A heartbeat of a consumer
# group may have as many.
MAX_VALUES = 10_000


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """Return what a classic member subscribes, or None if it cannot be read."""
    try:
        return decode_versioned(ConsumerProtocolSubscription, metadata, MAX_VALUES)
    except DecodeError:
        return None


def subscribed_topics(group: Group) -> Set[str] | None:
    """Return the topics that the members subscribe, or None if the subscription of one cannot be read."""
    if group.consumer is not None:
        return group.consumer.subscribed_topics()
    topics: set[str] = set()
    for member in group.roster.members.values():
        subscription = read_subscription(member.metadata(group.protocol))
        if subscription is None:
            return None
        topics.update(subscription.topics)
    return topics
