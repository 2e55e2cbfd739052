"""What a znode holds when people or other tools have written it: it is read, or BadZnode says why not."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.cluster import znodes
from odradek.broker.cluster.config_store import read_changes, read_configs
from odradek.broker.cluster.controller.outbox import (
    BecomeLeaderOrFollower,
    PartitionUpdate,
    StopReplicas,
    TellMetadata,
)
from odradek.broker.cluster.controller.requests import request_of
from odradek.broker.cluster.operations import Steps
from odradek.broker.cluster.znodes import BadZnode, TopicPartition, sound
from odradek.protocol.codec import encoder
from odradek.tests.support.fake_zookeeper import FakeZookeeper

PLACE = TopicPartition("t", 0)
DECODERS: list[Callable[[bytes], object]] = [
    lambda data: znodes.decode_registration(1, data, 5),
    lambda data: znodes.decode_assignment("t", data),
    lambda data: znodes.decode_state(PLACE, data, 3),
    znodes.decode_controller,
    znodes.decode_controller_epoch,
    znodes.decode_cluster_id,
    lambda data: znodes.decode_config("/config/topics/t", data),
    lambda data: znodes.decode_config_change("/config/changes/c", data),
    znodes.decode_producer_ids,
    znodes.decode_reassignment,
    znodes.decode_election,
    lambda data: znodes.decode_isr_change("/isr_change_notification/i", data),
    lambda data: znodes.decode_log_dir_event("/log_dir_event_notification/l", data),
]
NAMES = (
    *("version", "partitions", "topic", "partition", "replicas", "adding_replicas", "removing_replicas"),
    *("topic_id", "0"),
    *("isr", "leader", "leader_epoch", "controller_epoch", "endpoints", "host", "port", "timestamp", "brokerid", "id"),
    *("listener_security_protocol_map", "config", "entity_path", "entity_type", "entity_name"),
    *("broker", "block_start", "block_end"),
)
SCALARS = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "0", "x", "PLAINTEXT://h:1", "A" * 22])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12) | VALUES)
def test_every_content_is_read_or_is_a_bad_znode(content: Any) -> None:
    for decode in DECODERS:
        try:
            decode(json.dumps(content).encode())
        except BadZnode as error:
            assert error.path in str(error)


# At most two numbers of a znode are odd, so that most others are read.
ODD = st.dictionaries(st.integers(0, 7), st.integers(-2, 70_000) | st.integers() | st.just(2**31), max_size=2)


@given(ODD, st.sampled_from(["PLAINTEXT", "SSL", "BAR", ""]), SCALARS)
def test_what_is_read_fits_into_every_request_of_the_controller(odd: dict[int, int], protocol: str, rack: Any) -> None:
    """One znode that nobody can be told of would keep everybody from being told of the others."""
    broker, port, index, leader, epoch, controller_epoch, *isr = (odd.get(at, at + 1) for at in range(8))
    registration = {"endpoints": [f"L://h:{port}"], "listener_security_protocol_map": {"L": protocol}, "rack": rack}
    fields = {"leader": leader, "leader_epoch": epoch, "controller_epoch": controller_epoch, "isr": isr}
    try:
        live = znodes.decode_registration(broker, json.dumps(registration).encode(), 5)
        assigned = znodes.decode_assignment("t", json.dumps({"partitions": {str(index): isr}}).encode())
        state = znodes.decode_state(PLACE, json.dumps(fields).encode(), 3)
    except BadZnode:
        return
    place, told = TopicPartition("t", index), assigned.partitions[index]
    update = PartitionUpdate(place, state, told, bytes(16), told.replicas)
    for message in (
        BecomeLeaderOrFollower(broker, (update,), (live,)),
        TellMetadata(broker, (live,), (update,)),
        StopReplicas(broker, {place: (state.leader_epoch, True)}),
    ):
        request, version, _ = request_of(message, 1, 2, 3)
        assert encoder(type(request), version)(request)


def test_what_cannot_be_read_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert sound(znodes.decode_election, b"{") is None
    assert "/admin/preferred_replica_election cannot be read" in caplog.text


def run(zookeeper: FakeZookeeper, steps: Steps[Any]) -> Any:
    """Run steps to their end."""
    session, result = zookeeper.connect(), None
    while True:
        try:
            result = zookeeper.run(session, steps.send(result))
        except StopIteration as end:
            return end.value


def test_configs_and_notices_that_cannot_be_read_keep_no_others_from_being_read() -> None:
    zookeeper = FakeZookeeper()
    zookeeper.make("/config/topics/bad", b"{")
    zookeeper.make("/config/topics/good", znodes.encode_config({"retention.ms": "1"}))
    assert run(zookeeper, read_configs("topics", ["bad", "good"])) == {"bad": {}, "good": {"retention.ms": "1"}}
    zookeeper.make("/config/changes/config_change_0000000001", b"nonsense")
    zookeeper.make("/config/changes/config_change_0000000002", znodes.encode_config_change("topics", "good"))
    # Made by hand: no number that later notices follow.
    zookeeper.make("/config/changes/zzz", znodes.encode_config_change("topics", "other"))
    assert run(zookeeper, read_changes("")) == [("config_change_0000000002", "topics", "good")]
