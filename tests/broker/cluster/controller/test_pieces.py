"""Messages of very many partitions: in pieces that a broker takes, which say the same together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.broker.cluster.controller.outbox import MAX_VALUES as OUTBOX_VALUES
from odradek.broker.cluster.controller.outbox import (
    BecomeLeaderOrFollower,
    Message,
    PartitionUpdate,
    StopReplicas,
    TellMetadata,
    pieces_of,
)
from odradek.broker.cluster.controller.requests import request_of
from odradek.broker.cluster.znodes import LeaderAndIsr, Registration, Replicas, TopicPartition
from odradek.broker.network.dispatcher import MAX_VALUES_BYTES
from odradek.broker.network.large_messages import MAX_VALUES
from odradek.broker.replication.named_partitions import BEGINS, ENDS, GOES_ON
from odradek.protocol import frame

BROKERS = tuple(Registration(each, (f"PLAINTEXT://h:{each}",), {"PLAINTEXT": "PLAINTEXT"}) for each in range(1, 11))
# A tenth of what a broker takes, of which a piece has half: large messages of all sizes are cut alike.
PIECE, TAKEN, TAKEN_BYTES = OUTBOX_VALUES // 10, MAX_VALUES // 10, MAX_VALUES_BYTES // 10


def updates(count: int, replicas: int, per_topic: int) -> tuple[PartitionUpdate, ...]:
    """A cluster's partitions, each on so many brokers."""
    on = tuple(range(1, replicas + 1))
    places = [TopicPartition(f"t{number // per_topic}", number % per_topic) for number in range(count)]
    state = LeaderAndIsr(1, 0, on, 1)
    return tuple(PartitionUpdate(each, state, Replicas(on), each.topic.encode().rjust(16), on[1:]) for each in places)


# What is not full has the same pieces, without their names.
@pytest.mark.parametrize(
    ("is_full", "replicas", "per_topic"), [(True, 3, 1), (True, 3, 3_000), (True, 40, 7), (False, 40, 7)]
)
@pytest.mark.parametrize("kind", [TellMetadata, BecomeLeaderOrFollower])
def test_every_piece_is_taken_by_a_broker(kind: type[Message], is_full: bool, replicas: int, per_topic: int) -> None:
    every = updates(1_500 // replicas * 3, replicas, per_topic)
    message = kind(7, BROKERS, every) if kind is TellMetadata else kind(7, every, BROKERS)

    message = replace(message, is_full=is_full)
    pieces = list(pieces_of(message, PIECE))
    assert len(pieces) > 2
    assert tuple(each for piece in pieces for each in piece.updates) == every  # type: ignore[union-attr]
    types: list[int] = []
    for piece in pieces:
        request, version, _ = request_of(piece, 1, 1, 1)
        assert type(request).KEY is not None
        data = b"".join(bytes(each) for each in frame.encode_request(type(request).KEY, version, 0, "", request))
        assert len(data) < TAKEN_BYTES
        decoded = frame.request_decoder(type(request), version)(memoryview(data)[4:], TAKEN)[2]
        types.append(decoded.type)  # type: ignore[attr-defined]
    assert types == ([BEGINS, *[GOES_ON] * (len(pieces) - 2), ENDS] if is_full else [0] * len(pieces))


def test_a_message_that_fits_stays_as_it_is() -> None:
    every = updates(500, 3, 10)
    for message in (
        TellMetadata(7, BROKERS, every, is_full=True),
        TellMetadata(7, BROKERS, ()),
        StopReplicas(7, {}),
        BecomeLeaderOrFollower(7, (), (), is_full=True),
    ):
        assert list(pieces_of(message, PIECE)) == [message]


def test_a_stop_of_very_many_replicas_is_cut() -> None:
    places = {each.place: (3, True) for each in updates(12_000, 1, 10)}
    pieces = list(pieces_of(StopReplicas(7, places), PIECE))
    assert len(pieces) == 3
    assert {place: each for piece in pieces for place, each in piece.partitions.items()} == places  # type: ignore[union-attr]
