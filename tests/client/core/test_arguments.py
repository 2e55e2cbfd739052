"""What callers mix up: lists and single things, names of other clients: the error says what to write."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable
from typing import Any, cast

import pytest
from odradek import client
from odradek.broker import Broker
from odradek.client import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    blocking,
)
from odradek.client.core import options
from odradek.tests.support.fakes.cluster_thread import cluster_in_thread
from odradek.tests.support.fakes.fake_cluster import FakeCluster

T0 = TopicPartition("t", 0)
# Calls that take a list; what one thing of it is.
LISTS: dict[str, Any] = {
    "create_topics": NewTopic("t"),
    "describe_configs": ConfigResource.topic("t"),
    "elect_leaders": T0,
    "assign": T0,
    "beginning_offsets": T0,
    "end_offsets": T0,
}


def takes_one_by_one(method: Any) -> bool:
    return any(each.kind is each.VAR_POSITIONAL for each in inspect.signature(method).parameters.values())


CALLS = [
    (cls, name)
    for cls in (Admin, Consumer, blocking.Admin, blocking.Consumer)
    for name, method in inspect.getmembers(cls, inspect.isfunction)
    if not name.startswith("_") and takes_one_by_one(method)
]


async def call(client: Any, name: str, *arguments: Any) -> None:
    made = getattr(client, name)(*arguments)
    if isinstance(made, Awaitable):
        await made


def first_arguments(client: Any, name: str) -> list[str]:
    return ["g"] if name == "remove_group_members" else []


def test_the_calls_that_take_things_one_by_one_are_found() -> None:
    names = {name for _, name in CALLS}
    assert {"describe_topics", "delete_groups", "pause", "seek_to_end", "committed", "subscribe"} <= names


@pytest.mark.parametrize(("cls", "name"), CALLS, ids=[f"{cls.__module__}.{name}" for cls, name in CALLS])
async def test_a_list_in_the_place_of_things_one_by_one_is_refused_with_what_to_write(cls: type, name: str) -> None:
    client = cls()
    for wrong in (["t"], ("t", "u"), {"t"}, [T0], (T0, T0), {"t": 1}.keys()):
        with pytest.raises(TypeError) as caught:
            await call(client, name, *first_arguments(client, name), wrong)
        kind = type(wrong).__name__
        assert f"{name} takes them one by one, not in a {kind}: write {name}(*...)" in str(caught.value)


@pytest.mark.parametrize("name", LISTS)
async def test_one_thing_in_the_place_of_a_list_is_refused_with_what_to_write(name: str) -> None:
    client: Any = Admin() if hasattr(Admin, name) else Consumer()
    for wrong in (LISTS[name], "t"):
        with pytest.raises(TypeError) as caught:
            await call(client, name, wrong)
        assert f"{name} takes several things, not one alone: write {name}([...])" in str(caught.value)


async def test_topics_of_a_constructor_are_given_one_by_one() -> None:
    with pytest.raises(TypeError, match=r"Consumer takes them one by one, not in a list: write Consumer\(\*"):
        Consumer(["t"])  # type: ignore[arg-type]


INSTEAD: dict[str, str] = vars(options)["_METHODS_INSTEAD"]
KINDS = [getattr(home, name) for home in (client, blocking) for name in ("Admin", "Consumer", "Producer")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INSTEAD)
def test_a_method_of_another_client_is_told_what_to_call(kind: Any, name: str) -> None:
    if not hasattr(kind, name):
        with pytest.raises(AttributeError, match=re.escape(f"{kind.__name__!r} object has no attribute {name!r}: ")):
            getattr(kind(), name)


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_named_instead_exists(name: str) -> None:
    for called in re.findall(r"(?:Admin\.)?\b([a-z_]+)\(", INSTEAD[name]):
        assert any(hasattr(kind, called) for kind in KINDS), called


async def pairs() -> AsyncIterator[tuple[None, bytes]]:
    yield None, b"x"


async def test_send_many_says_that_it_takes_no_async_generator_and_flush_no_timeout() -> None:
    timeout: Any = 10
    records: Any = pairs()
    async with FakeCluster({"t": 1}) as cluster, client.Producer(cluster.address) as producer:
        with pytest.raises(TypeError, match="not an async one: write `async for"):
            await producer.send_many("t", records)
        with pytest.raises(TypeError, match="flush takes no timeout"):
            await producer.flush(timeout)


def test_the_blocking_producer_says_so_too() -> None:
    timeout: Any = 10
    records: Any = pairs()
    with cluster_in_thread({"t": 1}) as cluster, blocking.Producer(cluster.address) as producer:
        with pytest.raises(TypeError, match="not an async one: write `async for"):
            producer.send_many("t", records)
        with pytest.raises(TypeError, match="flush takes no timeout"):
            producer.flush(timeout)


async def test_offsets_are_of_partitions_or_pairs_that_equal_them() -> None:
    pair: Any = ("t", 0)
    with Broker.ephemeral() as broker:
        async with Producer(broker.address, transactional_id="x") as producer:
            async with producer.transaction():
                await producer.send("t", b"v")
                await producer.send_offsets({pair: 1}, "h")
            with pytest.raises(TypeError, match="send_offsets takes TopicPartition"):
                await producer.send_offsets(cast("Any", {"t": 1}), "h")
        async with Consumer(
            "t", bootstrap_servers=broker.address, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.getone()
            await consumer.commit({pair: 1})
            assert await consumer.committed(pair) == {T0: OffsetAndMetadata(1)}
            assert await consumer.end_offsets([pair]) == {T0: 2}
            for wrong in (consumer.commit({"t": 1}), consumer.committed("t"), consumer.end_offsets(["t"])):  # type: ignore
                with pytest.raises(TypeError, match=r"takes TopicPartition\(topic, number\)"):
                    await wrong


async def test_configs_are_of_resources() -> None:
    with Broker.ephemeral() as broker:
        async with Admin(broker.address) as admin:
            for wrong in (admin.describe_configs(["t"]), admin.alter_configs({"t": {}})):  # type: ignore
                with pytest.raises(TypeError, match=r"_configs takes ConfigResource\.topic\(name\)"):
                    await wrong
