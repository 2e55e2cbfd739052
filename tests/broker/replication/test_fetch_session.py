"""The follower's side of a fetch session: what each request names."""

from __future__ import annotations

from odradek.broker import BrokerConfig
from odradek.broker.replication.fetch_session import FollowerSession, Key, Position
from odradek.protocol.messages.fetch import FetchRequest

A: Key = ("a", b"a" * 16, 0)
B: Key = ("b", b"b" * 16, 1)


def named(request: FetchRequest) -> dict[tuple[bytes, int], int]:
    topics = request.topics
    return {(topic.topic_id, each.partition): each.fetch_offset for topic in topics for each in topic.partitions}


def position(offset: int) -> Position:
    return Position(offset, 3, 2, 0)


def test_a_request_has_the_limits_of_the_configs() -> None:
    config = BrokerConfig(
        replica_fetch_min_bytes=11,
        replica_fetch_wait_max_ms=12,
        replica_fetch_max_bytes=13,
        replica_fetch_response_max_bytes=14,
    )
    request = FollowerSession(config, 7).next_request({A: position(5)}, 99)
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (11, 12, 14)
    (partition,) = request.topics[0].partitions
    assert (partition.partition_max_bytes, partition.current_leader_epoch, partition.last_fetched_epoch) == (13, 3, 2)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (7, 99)


def test_later_requests_name_what_has_changed_and_what_is_forgotten() -> None:
    session = FollowerSession(BrokerConfig(), 7)
    first = session.next_request({A: position(1), B: position(1)}, 0)
    assert (first.session_id, first.session_epoch, len(named(first))) == (0, 0, 2)
    session.accept(44)
    second = session.next_request({A: position(2), B: position(1)}, 0)
    assert (second.session_id, second.session_epoch, named(second)) == (44, 1, {(A[1], 0): 2})
    session.accept(44)
    third = session.next_request({A: position(2)}, 0)
    assert (third.session_epoch, named(third)) == (2, {})
    assert [(each.topic_id, each.partitions) for each in third.forgotten_topics_data] == [(B[1], [1])]


def test_after_a_loss_everything_is_named_again() -> None:
    session = FollowerSession(BrokerConfig(), 7)
    session.next_request({A: position(1)}, 0)
    session.accept(44)
    session.next_request({A: position(1)}, 0)
    session.reset()
    again = session.next_request({A: position(1)}, 0)
    # With the id of the old session, which the new one replaces at the leader.
    assert (again.session_id, again.session_epoch, len(named(again))) == (44, 0, 1)


def test_a_leader_without_sessions_gets_full_requests() -> None:
    session = FollowerSession(BrokerConfig(), 7)
    for _ in range(2):
        request = session.next_request({A: position(1)}, 0)
        assert (request.session_epoch, len(named(request))) == (0, 1)
        session.accept(0)
