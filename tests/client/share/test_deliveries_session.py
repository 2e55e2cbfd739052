"""The session of a share consumer with a leader: which requests it makes, and which epochs they have."""

from __future__ import annotations

from odradek.client.record import TopicPartition
from odradek.client.share.deliveries import (
    Acknowledgement,
    ShareFetchOptions,
    ShareSession,
    Source,
    outcomes_of,
    places_of,
)

A, B = (b"a" * 16, 0), (b"b" * 16, 1)
OPTIONS = ShareFetchOptions(1, 500, 1_000_000, 500, True, 1)
ACCEPT, RENEW = Acknowledgement.ACCEPT, Acknowledgement.RENEW


def session() -> ShareSession:
    return ShareSession("g", "m", OPTIONS)


def test_a_session_names_partitions_that_come_that_go_and_that_have_acknowledgements() -> None:
    one = session()
    first = one.fetch(frozenset({A, B}), {})
    assert (first.share_session_epoch, len(first.topics), first.share_acquire_mode) == (0, 2, 1)
    one.fetched(frozenset({A, B}))
    second = one.fetch(frozenset({A, B}), {A: {(4, 4): ACCEPT, (5, 5): ACCEPT, (7, 7): ACCEPT}})
    assert (second.share_session_epoch, len(second.topics)) == (1, 1)
    batches = second.topics[0].partitions[0].acknowledgement_batches
    assert [(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches] == [
        (4, 5, [1]),
        (7, 7, [1]),
    ]
    one.fetched(frozenset({A, B}))
    third = one.fetch(frozenset({A}), {})
    assert [(each.topic_id, each.partitions) for each in third.forgotten_topics_data] == [(B[0], [1])]
    assert third.topics == []


def test_fetches_and_acknowledgements_share_the_epoch() -> None:
    one = session()
    one.fetched(frozenset({A}))
    assert one.acknowledge({A: {(1, 1): ACCEPT}}).share_session_epoch == 1
    one.advance()
    assert one.fetch(frozenset({A}), {}).share_session_epoch == 2
    assert one.acknowledge({}, close=True).share_session_epoch == -1


def test_the_epoch_after_the_last_one_is_the_first() -> None:
    one = session()
    one.fetched(frozenset({A}))
    one._epoch = 2**31 - 1  # pyright: ignore[reportPrivateUsage]
    one.advance()
    assert one.fetch(frozenset({A}), {}).share_session_epoch == 1


def test_a_renewal_is_marked() -> None:
    one = session()
    one.fetched(frozenset({A}))
    assert one.acknowledge({A: {(1, 1): RENEW}}).is_renew_ack
    assert not one.acknowledge({A: {(1, 1): ACCEPT}}).is_renew_ack


def test_what_an_earlier_session_acquired_is_not_told_in_a_later_one() -> None:
    one = session()
    one.fetched(frozenset({A}))
    one.reset()
    one.fetched(frozenset({A}))
    assert one.number == 2
    place = TopicPartition("a", 0)
    other = TopicPartition("b", 1)
    taken = {Source(1, 1, B[0]): {other: {(1, 1): ACCEPT}}, Source(1, 2, A[0]): {place: {(2, 2): ACCEPT}}}
    assert outcomes_of(taken, one.number) == {A: {(2, 2): ACCEPT}}
    assert places_of(taken, one.number, current=True) == {A: place}
    assert places_of(taken, one.number, current=False) == {B: other}
