"""Each public call of a client that waits for a broker ends in time where no broker answers.

The broker's connections are stalled, as behind a hole in the network: nothing is lost, and nothing comes back. A call
that is added to a client gets its line here, or the reason why it has no limit.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from odradek.client import (
    Acl,
    AclFilter,
    Admin,
    ConfigResource,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    QuotaEntity,
    ScramPassword,
    SimpleConsumer,
    TopicPartition,
)
from odradek.client.admin.brokers import HeldFiles
from odradek.client.admin.transactions import ActiveProducer
from odradek.client.core.metadata import PartitionInfo, TopicInfo
from odradek.client.errors import RequestTimedOut
from odradek.tests.support.brokers.proxy import Proxy
from odradek.tests.support.clients.stopping import LIMIT_MS, answered, in_time
from odradek.tests.support.fakes.fake_cluster import FakeCluster

Call = Callable[[Any], Awaitable[object]]

P = TopicPartition("t", 0)
ACL = Acl("User:u", "read", "topic", "t")
TOPIC = ConfigResource.topic("t")
# With a replica that is missing, so that its config is asked for.
LACKING = TopicInfo("t", bytes(16), (PartitionInfo(0, 1, 0, (1, 2), (1,)),))


async def begin_behind_a_commit(producer: Producer) -> None:
    with suppress(RequestTimedOut):
        await producer.commit_transaction()
    await producer.begin_transaction()


CONSUMER: dict[str, Call] = {
    "beginning_offsets": lambda each: each.beginning_offsets([P]),
    "commit": lambda each: each.commit(),
    "committed": lambda each: each.committed(P),
    "drain": lambda each: each.drain(),
    "end_offsets": lambda each: each.end_offsets([P]),
    "getbatches": lambda each: each.getbatches(timeout_ms=LIMIT_MS),
    "getmany": lambda each: each.getmany(timeout_ms=LIMIT_MS),
    "offsets_for_times": lambda each: each.offsets_for_times({P: 1}),
    "partitions_for": lambda each: each.partitions_for("other"),
    "position": lambda each: each.position(P),
    "stop": lambda each: each.stop(timeout_ms=LIMIT_MS),
    "unsubscribe": lambda each: each.unsubscribe(),
}
PRODUCER: dict[str, Call] = {
    "abort_transaction": lambda each: each.abort_transaction(),
    "begin_transaction": begin_behind_a_commit,
    "commit_transaction": lambda each: each.commit_transaction(),
    "partitions_for": lambda each: each.partitions_for("other"),
    "send": lambda each: each.send("other", b"x"),
    "send_offsets": lambda each: each.send_offsets({P: 1}, "g"),
    "send_offsets_to_transaction": lambda each: each.send_offsets_to_transaction({P: 1}, "g"),
    "stop": lambda each: each.stop(timeout_ms=LIMIT_MS),
}
ADMIN: dict[str, Call] = {
    "abort_transaction": lambda each: each.abort_transaction(P, ActiveProducer(1, 0, 0, 0, 0, 0)),
    "alter_client_quotas": lambda each: each.alter_client_quotas({QuotaEntity("u"): {"producer_byte_rate": 1.0}}),
    "alter_configs": lambda each: each.alter_configs({TOPIC: {"retention.ms": "1"}}),
    "alter_group_offsets": lambda each: each.alter_group_offsets("g", {P: OffsetAndMetadata(1)}),
    "alter_partition_reassignments": lambda each: each.alter_partition_reassignments({P: [1]}),
    "alter_replica_log_dirs": lambda each: each.alter_replica_log_dirs({(1, P): "/x"}),
    "alter_share_group_offsets": lambda each: each.alter_share_group_offsets("g", {P: 1}),
    "alter_user_scram_credentials": lambda each: each.alter_user_scram_credentials(ScramPassword("u", password="p")),
    "create_acls": lambda each: each.create_acls(ACL),
    "create_partitions": lambda each: each.create_partitions({"t": 3}),
    "create_topics": lambda each: each.create_topics([NewTopic("new")]),
    "delete_acls": lambda each: each.delete_acls(AclFilter()),
    "delete_group_offsets": lambda each: each.delete_group_offsets("g", [P]),
    "delete_groups": lambda each: each.delete_groups("g"),
    "delete_records": lambda each: each.delete_records({P: 1}),
    "delete_share_group_offsets": lambda each: each.delete_share_group_offsets("g", ["t"]),
    "delete_topics": lambda each: each.delete_topics("t"),
    "describe_acls": lambda each: each.describe_acls(),
    "describe_client_quotas": lambda each: each.describe_client_quotas(),
    "describe_cluster": lambda each: each.describe_cluster(),
    "describe_configs": lambda each: each.describe_configs([TOPIC]),
    "describe_features": lambda each: each.describe_features(),
    "begin_backup": lambda each: each.begin_backup(),
    "renew_backup": lambda each: each.renew_backup(HeldFiles((), "", 1, 1)),
    "check_health": lambda each: each.check_health(),
    "placed_partitions": lambda each: each.placed_partitions([LACKING]),
    "describe_groups": lambda each: each.describe_groups("g"),
    "describe_log_dirs": lambda each: each.describe_log_dirs(),
    "describe_producers": lambda each: each.describe_producers(P),
    "describe_share_queue": lambda each: each.describe_share_queue("g"),
    "describe_topics": lambda each: each.describe_topics("t"),
    "describe_transactions": lambda each: each.describe_transactions("x"),
    "describe_user_scram_credentials": lambda each: each.describe_user_scram_credentials(),
    "elect_leaders": lambda each: each.elect_leaders(),
    "explain_group": lambda each: each.explain_group("g"),
    "fence_producers": lambda each: each.fence_producers("x"),
    "list_group_offsets": lambda each: each.list_group_offsets("g"),
    "list_groups": lambda each: each.list_groups(),
    "list_offsets": lambda each: each.list_offsets({P: -1}),
    "list_offsets of a node": lambda each: each.list_offsets({P: -1}, node_id=1),
    "list_partition_reassignments": lambda each: each.list_partition_reassignments(),
    "list_queries": lambda each: each.list_queries(),
    "list_share_group_offsets": lambda each: each.list_share_group_offsets("g"),
    "list_topics": lambda each: each.list_topics(),
    "list_transactions": lambda each: each.list_transactions(),
    "remove_group_members": lambda each: each.remove_group_members("g", "m"),
    "stop": lambda each: each.stop(),
    "update_features": lambda each: each.update_features({"transaction.version": 2}),
}

SIMPLE: dict[str, Call] = {
    "commit_offsets": lambda each: each.commit_offsets("g", {P: 1}),
    "fetch": lambda each: each.fetch("t", 0, 0),
    "fetch_offsets": lambda each: each.fetch_offsets("g", [P]),
    "find_coordinator": lambda each: each.find_coordinator("g"),
    "find_leader": lambda each: each.find_leader("t", 0),
    "multifetch": lambda each: each.multifetch({P: 0}),
    "offsets_before": lambda each: each.offsets_before("t", 0),
    "stop": lambda each: each.stop(),
}

# What has no limit of these: polls that wait for records, and calls whose limits are connect_timeout_ms (start),
# drain_timeout_ms (consume) and delivery_timeout_ms, as for each record that was sent.
UNLIMITED = {
    Consumer: {"batches", "consume", "getone", "start"},
    Producer: {"flush", "send_and_wait", "send_batch", "send_many", "send_values", "start"},
    Admin: {"start"},
    SimpleConsumer: {"start"},
}
OPTIONS: dict[type[Any], dict[str, Any]] = {Consumer: {"group_id": "g", "auto_offset_reset": "earliest"}, Admin: {}}
CALLS: dict[type[Any], dict[str, Call]] = {Consumer: CONSUMER, Producer: PRODUCER, Admin: ADMIN, SimpleConsumer: SIMPLE}


@pytest.mark.parametrize("kind", CALLS)
def test_every_call_that_waits_is_tried(kind: type[Any]) -> None:
    public = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    waits = {name for name, it in public.items() if inspect.iscoroutinefunction(it) or inspect.isasyncgenfunction(it)}
    assert waits == {name.partition(" ")[0] for name in CALLS[kind]} | UNLIMITED[kind]


@asynccontextmanager
async def started(kind: type[Any], address: str) -> AsyncGenerator[Any]:
    """A client that works, a producer in a transaction that has a record."""
    if kind is Producer:
        client: Any = Producer(address, max_block_ms=LIMIT_MS, transactional_id="x")
    elif kind is SimpleConsumer:
        client = SimpleConsumer(address, default_api_timeout_ms=LIMIT_MS)
    else:
        client = kind(bootstrap_servers=address, default_api_timeout_ms=LIMIT_MS, **OPTIONS[kind])
    await answered(client.start)
    try:
        if kind is Producer:
            await client.begin_transaction()
            await answered(lambda: client.send_and_wait("t", b"x"))
        elif kind is Consumer:
            client.assign([P])
            await answered(lambda: client.position(P))
            client.seek_to_end(P)
        yield client
    finally:
        await (client.stop() if kind in (Admin, SimpleConsumer) else client.stop(timeout_ms=1))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, calls in CALLS.items() for name in calls],
    ids=lambda it: getattr(it, "__name__", it),
)
async def test_a_call_ends_in_time(kind: type[Any], name: str) -> None:
    async with FakeCluster({"t": 1}) as cluster, Proxy(cluster.nodes[1].port) as proxy:
        cluster.nodes[1].port = proxy.port
        async with started(kind, cluster.address) as client:
            proxy.stall()

            async def call(timeout_ms: float) -> None:
                with suppress(KafkaError):
                    await CALLS[kind][name](client)

            await in_time(call)
