"""Fetch sessions without a wire: epochs, the cache's slots, who goes for whom, and the bound on partitions."""

from __future__ import annotations

import pytest
from odradek.broker.topics import fetch_sessions
from odradek.broker.topics.fetch_sessions import MIN_EVICTION_MS, FetchedPartition, FetchSession, FetchSessions, Key
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchRequest, PartitionData
from odradek.tests.support.fakes.clock import FakeClock

ID = b"\x01" * 16


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0)


@pytest.fixture
def sessions(clock: FakeClock) -> FetchSessions:
    return FetchSessions(2, clock)


def wanted(*partitions: int, topic: str = "t", offset: int = 0) -> list[FetchedPartition]:
    return [FetchedPartition(topic, ID, partition, offset, 1000, -1, -1) for partition in partitions]


def ask(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    changed: list[FetchedPartition],
    forgotten: list[Key] | None = None,
    by_id: bool = True,
) -> FetchSession | None:
    request = FetchRequest(session_id=session_id, session_epoch=epoch)
    return sessions.resolve(request, changed, forgotten or [], by_id)


def new(sessions: FetchSessions, *partitions: int) -> FetchSession:
    session = ask(sessions, 0, 0, wanted(*partitions))
    assert session is not None
    return session


def rejection(sessions: FetchSessions, session_id: int, epoch: int, *partitions: int, by_id: bool = True) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        ask(sessions, session_id, epoch, wanted(*partitions), by_id=by_id)
    return caught.value.code


def test_epochs_go_on_by_one_and_any_other_is_refused(sessions: FetchSessions) -> None:
    session = new(sessions, 0)
    assert ask(sessions, session.id, 1, []) is session
    assert ask(sessions, session.id, 2, []) is session
    for epoch in (1, 2, 4, -2):
        assert rejection(sessions, session.id, epoch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(sessions, session.id, 3, []) is session


def test_after_the_last_epoch_comes_one(sessions: FetchSessions) -> None:
    session = new(sessions, 0)
    session.next_epoch = 2**31 - 1
    assert ask(sessions, session.id, 2**31 - 1, []) is session
    assert ask(sessions, session.id, 1, []) is session


def test_a_session_that_is_not_there_is_refused(sessions: FetchSessions) -> None:
    assert rejection(sessions, 5, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_client_cannot_go_from_ids_to_names(sessions: FetchSessions) -> None:
    session = new(sessions, 0)
    assert rejection(sessions, session.id, 1, by_id=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(sessions: FetchSessions, epoch: int) -> None:
    session = new(sessions, 0)
    again = ask(sessions, session.id, epoch, wanted(0))
    assert (again is None) is (epoch == -1)
    assert rejection(sessions, session.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_may_begin_without_partitions_and_not_go_on_so(sessions: FetchSessions) -> None:
    session = new(sessions)
    assert ask(sessions, session.id, 1, wanted(0)) is session
    empty = new(sessions)
    assert ask(sessions, empty.id, 1, []) is None
    assert rejection(sessions, empty.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_forgets_all_its_partitions_is_over(sessions: FetchSessions) -> None:
    session = new(sessions, 0, 1)
    assert ask(sessions, session.id, 1, [], [("t", ID, 0), ("t", ID, 7)]) is session
    assert [key[2] for key in session.partitions] == [1]
    ask(sessions, session.id, 2, [], [("t", ID, 1)])
    assert len(sessions) == 0


def test_a_topic_that_was_unknown_at_first_is_forgotten_by_its_id(sessions: FetchSessions) -> None:
    session = ask(sessions, 0, 0, wanted(0, topic=""))
    assert session is not None
    # By now the broker knows the topic's name.
    ask(sessions, session.id, 1, wanted(1), [("t", ID, 0)])
    assert [each.partition for each in session.partitions.values()] == [1]
    ask(sessions, session.id, 2, wanted(1, offset=5))
    assert [(each.topic, each.fetch_offset) for each in session.partitions.values()] == [("t", 5)]


def test_a_slot_in_use_is_not_given_away(sessions: FetchSessions, clock: FakeClock) -> None:
    first, second = new(sessions, 0), new(sessions, 1)
    clock.advance(MIN_EVICTION_MS - 1)
    assert ask(sessions, 0, 0, wanted(2)) is None
    clock.advance(1)
    ask(sessions, first.id, 1, [])
    assert ask(sessions, 0, 0, wanted(2)) is not None
    assert rejection(sessions, second.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(sessions, first.id, 2, []) is first


def test_without_slots_there_are_no_sessions(clock: FakeClock) -> None:
    assert ask(FetchSessions(0, clock), 0, 0, wanted(0)) is None


def test_partitions_that_got_data_come_last(sessions: FetchSessions) -> None:
    session = new(sessions, 0, 1, 2)
    session.move_to_end(("t", ID, 0))
    session.move_to_end(("t", ID, 9))
    assert [key[2] for key in session.partitions] == [1, 2, 0]


def test_a_partition_that_has_not_changed_is_left_out() -> None:
    (partition,) = wanted(0)
    answer = PartitionData(high_watermark=5, log_start_offset=0, records=b"")
    assert partition.note(answer)
    assert not partition.note(answer)
    assert partition.note(PartitionData(high_watermark=6, log_start_offset=0, records=b""))
    assert partition.note(PartitionData(error_code=3, records=b""))
    assert partition.note(PartitionData(error_code=3, records=b""))
    assert partition.note(PartitionData(high_watermark=6, log_start_offset=0, records=b""))


class TestPartitionsOfAllSessions:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 10)

    def test_are_bounded(self, sessions: FetchSessions) -> None:
        new(sessions, *range(7))
        assert ask(sessions, 0, 0, wanted(*range(4))) is None
        new(sessions, *range(3))
        assert len(sessions) == 2

    def test_make_idle_sessions_go(self, sessions: FetchSessions, clock: FakeClock) -> None:
        old = new(sessions, *range(7))
        clock.advance(MIN_EVICTION_MS)
        new(sessions, *range(10))
        assert rejection(sessions, old.id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_end_a_session_that_grows_over_the_bound(self, sessions: FetchSessions) -> None:
        session = new(sessions, *range(10))
        assert ask(sessions, session.id, 1, wanted(3, offset=5)) is session
        assert rejection(sessions, session.id, 2, 10) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert len(sessions) == 0
        new(sessions, *range(10))

    def test_are_counted_down_when_they_go(self, sessions: FetchSessions) -> None:
        for _ in range(5):
            session = new(sessions, *range(10))
            ask(sessions, session.id, 1, [], [("t", ID, 0)])
            ask(sessions, session.id, -1, [])
        new(sessions, *range(10))
