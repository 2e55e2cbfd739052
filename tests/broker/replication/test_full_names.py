"""Full requests in pieces: what they do not name is gone, once every piece has come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.replication.named_partitions import BEGINS, ENDS, GOES_ON, FullNames
from odradek.broker.replication.replicas import FULL
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.update_metadata import FULL as FULL_METADATA
from odradek.storage.errors import StorageError
from odradek.tests.support.clusters.hand_cluster import HandCluster

KINDS = st.sampled_from([0, FULL, BEGINS, GOES_ON, ENDS])


def test_the_pieces_are_one_request_together() -> None:
    names: FullNames[str] = FullNames(FULL)
    assert names.take(BEGINS, {"a"}) is None
    assert names.take(GOES_ON, {"b"}) is None
    assert names.take(ENDS, {"c"}) == {"a", "b", "c"}
    assert names.take(FULL, {"d"}) == {"d"}
    assert names.take(0, {"e"}) is None


@given(st.lists(st.tuples(KINDS, st.booleans()), max_size=12))
def test_nothing_is_complete_where_a_piece_is_missing(requests: list[tuple[int, bool]]) -> None:
    """Each request names itself. One that fails is never part of a whole."""
    names: FullNames[int] = FullNames(FULL)
    run: list[int] | None = None
    for number, (kind, fails) in enumerate(requests):
        found: set[int] | None = None
        with pytest.raises(ZeroDivisionError) if fails else names.losing(), names.losing():
            found = names.take(kind, {number})
            if fails:
                raise ZeroDivisionError
        if kind == BEGINS:
            run = [number]
        elif kind in (GOES_ON, ENDS) and run is not None:
            run.append(number)
        else:
            run = None
        whole = {number} if kind == FULL else set(run) if kind == ENDS and run is not None else None
        assert found == whole
        if fails or kind == ENDS:
            run = None


async def metadata(cluster: HandCluster, topic: str, kind: int) -> None:
    """Tell broker 1 of one topic alone, as a piece of this kind."""
    states = cluster.controller.states
    cluster.controller.states = {place: state for place, state in states.items() if place[0] == topic}
    try:
        await cluster.update_metadata(to=(1,), type=kind)
    finally:
        cluster.controller.states = states


@pytest.mark.parametrize("kinds", [(BEGINS, ENDS), (BEGINS, GOES_ON, ENDS)])
async def test_a_topic_that_no_piece_names_is_gone(tmp_path: Path, kinds: tuple[int, ...]) -> None:
    async with HandCluster(tmp_path, 1) as cluster:
        for topic in ("a", "b", "c", "old"):
            await cluster.assign(topic, leader=1, replicas=(9,), isr=(9,), to=())
        view = cluster.brokers[1].services.replicas.view  # type: ignore[union-attr]
        for kind, topic in zip(kinds[1:], "bc", strict=False):
            # The first piece never came.
            await metadata(cluster, topic, kind)
        assert set(view.topics) == {"a", "b", "c", "old"}
        for kind, topic in zip(kinds, "abc", strict=False):
            await metadata(cluster, topic, kind)
        assert set(view.topics) == set("abc"[: len(kinds)])
        assert FULL_METADATA not in kinds


async def test_a_replica_that_no_piece_names_is_given_up(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, 1) as cluster:
        for index in range(4):
            await cluster.assign("t", index, leader=1)
        held = cluster.brokers[1].topics.get("t")
        assert held is not None
        await cluster.leader_and_isr(1, [("t", 0)], type=BEGINS)
        await cluster.leader_and_isr(1, [("t", 1)], type=GOES_ON)
        assert held.record.held == {0, 1, 2, 3}
        await cluster.leader_and_isr(1, [("t", 3)], type=ENDS)
        assert held.record.held == {0, 1, 3}


async def test_what_a_full_disk_did_not_take_is_written_with_the_next_request(tmp_path: Path) -> None:
    """The controller is told of the error, and repeats the request: then the replica leads, also after a start."""
    async with HandCluster(tmp_path, 1) as cluster:
        await cluster.assign("other", leader=1)
        metadata = cluster.brokers[1].services.metadata
        put = metadata.put_topics

        def fail(*_: Any) -> None:
            raise StorageError("no space left on device")

        metadata.put_topics = fail  # type: ignore[method-assign]
        cluster.controller.ids["t"] = bytes([77]) * 16
        with pytest.raises(AssertionError):
            # The answer has an error of the partition.
            await cluster.assign("t", leader=1)
        answer = await cluster.leader_and_isr(1, [("t", 0)])
        assert (answer.error_code, answer.topics[0].partition_errors[0].error_code) == (
            0,
            int(ErrorCode.KAFKA_STORAGE_ERROR),
        )
        metadata.put_topics = put  # type: ignore[method-assign]
        answer = await cluster.leader_and_isr(1, [("t", 0)])
        assert answer.error_code == answer.topics[0].partition_errors[0].error_code == 0
        assert cluster.partition(1).not_leading is None
        await cluster.stop(1)
        assert (await cluster.start(1)).topics.get("t") is not None


async def unheard(cluster: HandCluster, topic: str, kind: int) -> None:
    """Tell broker 1 of a topic while it cannot read the topic's configs."""
    replicas = cluster.brokers[1].services.replicas
    assert replicas is not None
    configs_of = replicas.configs_of

    async def fail(_: Any) -> dict[str, dict[str, str]]:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    replicas.configs_of = fail
    # Its answer is an error.
    with pytest.raises(AssertionError):
        await metadata(cluster, topic, kind)
    replicas.configs_of = configs_of


@pytest.mark.parametrize("is_first_lost", [True, False])
async def test_a_broker_that_starts_is_not_ready_before_it_knows_every_piece(
    tmp_path: Path, is_first_lost: bool
) -> None:
    """It would tell clients that topics are unknown which a later piece names."""
    async with HandCluster(tmp_path, 1) as cluster:
        for topic in ("a", "b"):
            await cluster.assign(topic, leader=9, replicas=(9,), isr=(9,), to=())
        await cluster.stop(1)
        replicas = (await cluster.start(1)).services.replicas
        assert replicas is not None
        await (unheard if is_first_lost else metadata)(cluster, "a", BEGINS)
        assert not replicas.is_ready.is_set()
        await (metadata if is_first_lost else unheard)(cluster, "b", ENDS)
        # A broker has come or gone.
        await metadata(cluster, "none", 0)
        await cluster.leader_and_isr(1, [], type=FULL)
        assert not replicas.is_ready.is_set()
        await metadata(cluster, "a", BEGINS)
        assert not replicas.is_ready.is_set()
        await metadata(cluster, "b", ENDS)
        assert replicas.is_ready.is_set()
        assert set(replicas.view.topics) == {"a", "b"}
