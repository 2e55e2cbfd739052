"""What a znode holds when people or other tools have written it: it is read, or BadZnode says why not."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.cluster import znodes
from odradek.broker.cluster.config_watch import read_configs, write_config
from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.cluster.controller.outbox import BecomeLeaderOrFollower, PartitionUpdate, StopReplicas, TellMetadata
from odradek.broker.cluster.controller.requests import request_of
from odradek.broker.cluster.controller.topic_changes import NewTopic, create_topic
from odradek.broker.cluster.producer_ids import take_block
from odradek.broker.cluster.registration import join_cluster, register, take_broker_id
from odradek.broker.cluster.security_steps import read_notices
from odradek.broker.cluster.znodes import BadZnode, TopicPartition, sound
from odradek.protocol.codec import encoder
from odradek.testing.zookeeper import FakeZookeeper
from odradek.tests.support.clusters.steps import run_steps
from odradek.zookeeper.operations import Steps

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
    lambda data: znodes.decode_places("/isr_change_notification/i", data),
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
        assert sound(znodes.decode_places, znodes.PREFERRED_REPLICA_ELECTION, b"{") is None
    assert "/admin/preferred_replica_election cannot be read" in caplog.text


def test_configs_and_notices_that_cannot_be_read_keep_no_others_from_being_read() -> None:
    zookeeper = FakeZookeeper()
    zookeeper.make("/config/topics/bad", b"{")
    zookeeper.make("/config/topics/good", znodes.encode_config({"retention.ms": "1"}))
    assert run_steps(zookeeper, read_configs("topics", ["none", "bad", "good"])) == {
        "none": {},
        "good": {"retention.ms": "1"},
    }
    zookeeper.make("/config/changes/config_change_0000000001", b"nonsense")
    zookeeper.make("/config/changes/config_change_0000000002", znodes.encode_config_change("topics", "good"))
    # Made by hand: no number that later notices follow.
    zookeeper.make("/config/changes/zzz", znodes.encode_config_change("topics", "other"))
    changes = run_steps(zookeeper, read_notices(znodes.CONFIG_CHANGE_PREFIX, "", znodes.decode_config_change))
    assert changes == [("config_change_0000000002", ("topics", "good"))]


BROKER = znodes.Registration(1, ("PLAINTEXT://h:1",), {"PLAINTEXT": "PLAINTEXT"})
TOPIC = NewTopic("t", 1, 1, {"retention.ms": "1"}, {0: (1,)})


def machine() -> ControllerMachine:
    """A controller of one broker that is alive."""
    found = ControllerMachine(1, 1)
    found.cluster.live = {1: BROKER}
    return found


# What is written, below which znode, and what is there afterwards.
@pytest.mark.parametrize("exists", [True, False])
def test_configs_are_announced_wherever_their_writing_is_cut_short(exists: bool) -> None:
    """A client that goes away while ZooKeeper hesitates ends the steps."""
    content = znodes.encode_config({"retention.ms": "1"})
    for count in range(1, 20):
        zookeeper = FakeZookeeper()
        if exists:
            zookeeper.make("/config/topics/t", znodes.encode_config({}))
        session, steps, result = zookeeper.connect(), write_config("topics", "t", {"retention.ms": "1"}), None
        with suppress(StopIteration):
            for _ in range(count):
                result = zookeeper.run(session, steps.send(result))
        is_written = zookeeper.get("/config/topics/t") == content
        assert is_written == bool(zookeeper.children_of("/config/changes"))
    assert is_written


@pytest.mark.parametrize(
    ("steps", "removed", "made"),
    [
        (lambda: register(BROKER, 1), "/brokers", "/brokers/ids/1"),
        (lambda: write_config("topics", "t", {}), "/config", "/config/topics/t"),
        (lambda: write_config("topics", "t", {}), "/config", "/config/changes"),
        (lambda: create_topic(machine(), TOPIC, validate_only=False), "/brokers/topics", "/brokers/topics/t"),
        (lambda: create_topic(machine(), TOPIC, validate_only=False), "/config/topics", "/config/topics/t"),
    ],
    ids=["registration", "configs", "change", "topic", "configs of a topic"],
)
def test_a_znode_that_was_removed_by_hand_is_made_again(
    steps: Callable[[], Steps[Any]], removed: str, made: str
) -> None:
    zookeeper = FakeZookeeper()
    remove(zookeeper, removed)
    run_steps(zookeeper, steps())
    assert zookeeper.get(made) is not None


@pytest.mark.parametrize(
    ("steps", "path", "content"),
    [
        (lambda: take_block(1), znodes.PRODUCER_ID_BLOCK, None),
        (lambda: take_block(1), znodes.PRODUCER_ID_BLOCK, b"{"),
        (lambda: take_block(1), znodes.PRODUCER_ID_BLOCK, b'{"broker":1,"block_start":"-1000","block_end":"-1"}'),
        (lambda: take_block(1), znodes.PRODUCER_ID_BLOCK, b'{"broker":1,"block_start":"0","block_end":"1e3"}'),
        (lambda: take_broker_id(1000), znodes.BROKER_SEQUENCE, None),
        (lambda: join_cluster("A" * 22), znodes.CLUSTER_ID, b""),
        (lambda: join_cluster("A" * 22), znodes.CLUSTER_ID, b'{"version":"2"}'),
    ],
)
def test_ids_are_refused_rather_than_given_out_twice(
    steps: Callable[[], Steps[Any]], path: str, content: bytes | None
) -> None:
    zookeeper = FakeZookeeper()
    zookeeper.make(path)
    if content is None:
        zookeeper.delete_by_hand(path)
    else:
        zookeeper.put_by_hand(path, content)
    with pytest.raises(BadZnode, match=path):
        run_steps(zookeeper, steps())


def test_a_newer_version_of_what_ids_are_taken_from_is_read_as_ours() -> None:
    zookeeper = FakeZookeeper()
    zookeeper.put_by_hand(
        znodes.PRODUCER_ID_BLOCK, b'{"version":9,"broker":7,"block_start":"0","block_end":"999","more":[]}'
    )
    assert run_steps(zookeeper, take_block(1)) == znodes.ProducerIds(1, 1000, 1999)


def remove(zookeeper: FakeZookeeper, path: str) -> None:
    """Remove a znode with all below it."""
    for each in sorted(zookeeper.nodes, reverse=True):
        if each == path or each.startswith(path + "/"):
            zookeeper.delete_by_hand(each)
