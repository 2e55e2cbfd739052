"""What brokers of a cluster serve besides, as bad input: requests of a controller, and requests to one.

Everybody who can connect may send them. Each gets a response or closes its connection, none holds the others back, and
none reaches beyond the data directories.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network.routes import CLUSTER_ROUTES, Route
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.tests.adversity.test_bad_input import warnings
from odradek.tests.adversity.test_fuzz import AT_A_TIME, COUNT, REQUESTS_EACH, SEED, send
from odradek.tests.support.brokers.large_messages import TOPIC, largest_requests
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, MeasuredBroker, measured_broker
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clusters.lone_cluster import lone_member, modelled_zookeeper
from odradek.tests.support.documents.mutations import Imagination, framed, mutated, requests

# A bound for a response that never comes.
WAIT_S = 300
# Enough to take more than one turn wherever a request is handled in turns.
VALUES = 3_000
# What makes a request one of the present controller, for replicas of this broker. `type` 1 would name all partitions.
OF_THE_CONTROLLER = {
    "controller_epoch": 1,
    "broker_epoch": -1,
    "is_kraft_controller": False,
    "type": 0,
    "replicas": [1],
    "leader": 1,
    "timeout_ms": 10,
}


@pytest.fixture
async def member(config: BrokerConfig) -> AsyncIterator[Broker]:
    """Yield the only broker of a cluster."""
    with modelled_zookeeper():
        async with Broker(lone_member(config)) as each:
            yield each


async def hold(broker: Broker, caplog: pytest.LogCaptureFixture, make: Callable[[], bytes]) -> None:
    """Send what `make` returns, beside a client that behaves: it is served, and nothing fails unseen."""
    async with await Raw.connect(broker.address) as neighbour:
        await neighbour.create_topic("neighbour")
        for turn in range(COUNT // AT_A_TIME):
            sent = [b"".join(framed(make()) for _ in range(REQUESTS_EACH)) for _ in range(AT_A_TIME)]
            await asyncio.gather(*(send(broker, data) for data in sent))
            # Whatever a controller asks for may be impossible: that is an error in the log, but no exception.
            troubles = [each.getMessage() for each in caplog.records if each.exc_info or each.name == "asyncio"]
            assert troubles == [], f"seed {SEED}, turn {turn}, one of {[data.hex() for data in sent]}"
            # A request may also be one that takes the partition away.
            answer = await neighbour.produce("neighbour", batch_of(b"%d" % turn), acks=1)
            assert answer.error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            caplog.clear()


async def test_changed_captures_get_an_answer_or_a_close(member: Broker, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(SEED)
    own = {int(route.key) for route in CLUSTER_ROUTES}
    known = [data for data in requests() if int.from_bytes(data[:2], "big") in own]
    await hold(member, caplog, lambda: mutated(chance, known))


async def test_requests_of_random_fields_get_an_answer_or_a_close(
    config: BrokerConfig, member: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    imagination = Imagination(SEED, [], OF_THE_CONTROLLER)
    chance, outside = imagination.chance, config.data_dir.parent

    def make() -> bytes:
        route = chance.choice(CLUSTER_ROUTES)
        return imagination.request(route.key, chance.choice(route.versions))

    await hold(member, caplog, make)
    assert list(outside.iterdir()) == [config.data_dir]


@pytest.mark.parametrize("route", CLUSTER_ROUTES, ids=lambda route: route.key.name)
async def test_every_version_is_answered_and_one_that_is_cut_closes_its_connection(
    member: Broker, route: Route, caplog: pytest.LogCaptureFixture
) -> None:
    for version in route.versions:
        request = message(route.key, "request")()
        async with await Raw.connect(member.address) as raw:
            assert isinstance(await raw.ask(route.key, version, request), message(route.key, "response"))
            caplog.clear()
            whole = b"".join(map(bytes, frame.encode_request(route.key, version, 1, "cut", request)))[4:]
            raw.send_bytes(framed(whole[:-1]))
            assert await raw.is_closed()
        (line,) = warnings(caplog)
        assert line.startswith("127.0.0.1:") and "cannot be read" in line


BAD_PLACES = [("../evil", 0), ("", 0), ("..", 0), ("x" * 250, 0), ("t", -1), ("t", 10_000), ("t", 2**31 - 1)]


async def lead(raw: Raw, name: str, index: int) -> int:
    """Send a LeaderAndIsr for a partition, and return its error."""
    state = LeaderAndIsrPartitionState("", index, 1, 1, 0, [1], 0, [1])
    topics = [LeaderAndIsrTopicState(name, b"\7" * 16, [state])]
    answer = await raw.ask(ApiKey.LEADER_AND_ISR, 6, LeaderAndIsrRequest(1, False, 1, topic_states=topics))
    assert answer.error_code == 0
    return answer.topics[0].partition_errors[0].error_code


async def tell(raw: Raw, name: str, index: int) -> None:
    """Send an UpdateMetadata of a partition."""
    states = [UpdateMetadataTopicState(name, b"\7" * 16, [UpdateMetadataPartitionState("", index, 1, 1, 0, [1])])]
    live = [UpdateMetadataBroker(1, endpoints=[UpdateMetadataEndpoint(1, "host", "PLAINTEXT")])]
    request = UpdateMetadataRequest(1, controller_epoch=1, topic_states=states, live_brokers=live)
    assert (await raw.ask(ApiKey.UPDATE_METADATA, 7, request)).error_code == 0


async def test_a_place_that_no_partition_may_have_is_not_led_and_not_told(config: BrokerConfig, member: Broker) -> None:
    async with await Raw.connect(member.address) as raw:
        for name, index in BAD_PLACES:
            bad = ErrorCode.INVALID_PARTITIONS if name == "t" else ErrorCode.INVALID_TOPIC_EXCEPTION
            assert await lead(raw, name, index) == bad
            await tell(raw, name, index)
        answer = await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        assert answer.topics == []
        assert await lead(raw, "t", 9_999) == 0
    assert [each.name for each in config.data_dir.parent.rglob("*.log")] == ["00000000000000000000.log"]
    assert (config.data_dir / "t-9999").is_dir()


# -- Turns of the loop


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    folder: Path = tmp_path_factory.mktemp("data")
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(folder),))
    with modelled_zookeeper(), measured_broker(lone_member(config)) as each:
        asyncio.run(create_topic(each.address))
        yield each


async def create_topic(address: str) -> None:
    async with await Raw.connect(address) as raw:
        await raw.create_topic(TOPIC)


@pytest.mark.parametrize("route", CLUSTER_ROUTES, ids=lambda route: route.key.name)
async def test_a_request_of_thousands_of_values_is_handled_in_turns(measured: MeasuredBroker, route: Route) -> None:
    turns: dict[tuple[int, str], int] = {}
    for version in {route.versions[0], route.versions[-1]}:
        for shape, request in largest_requests(message(route.key, "request"), version, min(VALUES, route.max_values)):
            for name, value in OF_THE_CONTROLLER.items():
                if hasattr(request, name):
                    setattr(request, name, value)
            async with await Raw.connect(measured.address, WAIT_S) as raw:
                measured.begin()
                await raw.ask(route.key, version, request)
            turns[version, shape] = measured.longest_turn_ms
    assert {each: ms for each, ms in turns.items() if ms > LIMIT_MS} == {}
