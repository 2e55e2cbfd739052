"""What consumers tell each other: versions grow at the end, and a newer one is still understood."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import DecodeError
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"u",
    owned_partitions=[TopicPartition("a", [0, 1])],
    generation_id=4,
    rack_id="r",
)


def test_a_subscription_loses_what_older_versions_lack() -> None:
    assert decode_versioned(ConsumerProtocolSubscription, encode_versioned(SUBSCRIPTION, 3)) == SUBSCRIPTION
    oldest = decode_versioned(ConsumerProtocolSubscription, encode_versioned(SUBSCRIPTION, 0))
    assert oldest == ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"u")


def test_an_assignment_has_the_known_bytes() -> None:
    assignment = ConsumerProtocolAssignment([TopicPartition("t", [2])])
    raw = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\2" + b"\xff\xff\xff\xff"
    assert encode_versioned(assignment, 0) == raw
    assert decode_versioned(ConsumerProtocolAssignment, raw) == assignment


def test_a_newer_version_is_read_as_the_newest_known_one() -> None:
    raw = b"\0\x09" + encode_versioned(SUBSCRIPTION, 3)[2:] + b"something new"
    assert decode_versioned(ConsumerProtocolSubscription, raw) == SUBSCRIPTION


@pytest.mark.parametrize("raw", [b"", b"\0", b"\xff\xff", b"\0\0\0\0\0\7"])
def test_broken_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_versioned(ConsumerProtocolSubscription, raw)
