"""A console whose users log in to the cluster: each sees what the cluster's ACLs let them see, and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.security_table import AUTHORIZERS
from odradek.client import Acl, Admin, OffsetAndMetadata, Producer, TopicPartition
from odradek.console import Console, ConsoleConfig
from odradek.console.cluster import ClusterOptions
from odradek.tests.console.conftest import Browser

JAAS = 'org.x.PlainLoginModule required user_root="r" user_ann="a";'
ROOT = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"} | {
    "sasl_plain_username": "root",
    "sasl_plain_password": "r",
}
MAY = (
    Acl("User:ann", "describe", "topic", "open"),
    Acl("User:ann", "read", "topic", "open"),
    Acl("User:ann", "describe_configs", "topic", "open"),
    Acl("User:ann", "read", "group", "mine"),
)
PATHS = (
    *("/topics", "/topics?internal=1", "/topics/open", "/topics/open/records", "/topics/open/configs", "/groups"),
    *("/group?id=mine", "/cluster", "/changes", "/transactions", "/acls", "/users", "/quotas", "/health"),
    *("/series?kind=rate", "/series?kind=size", "/topics/secret", "/topics/secret/records", "/group?id=theirs-secret"),
)


def as_user(console: Console, name: str, password: str) -> Browser:
    given = base64.b64encode(f"{name}:{password}".encode()).decode()
    return Browser(console.url, {"authorization": f"Basic {given}"})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    config = BrokerConfig(
        listeners=("SASL_PLAINTEXT://127.0.0.1:0",),
        listener_configs={"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS},
        sasl_enabled_mechanisms=("PLAIN",),
        authorizer_class_name=AUTHORIZERS[0],
        super_users="User:root",
        log_dirs=(str(tmp_path / "data"),),
        offsets_topic_num_partitions=1,
        connection_failed_authentication_delay_ms=0,
    )
    with Broker(config) as broker:
        yield broker


@pytest.fixture
async def console(broker: Broker) -> AsyncIterator[Console]:
    async with Admin(broker.address, **ROOT) as admin, Producer(broker.address, **ROOT) as producer:
        for topic in ("open", "secret"):
            for _ in range(777 if topic == "secret" else 3):
                await producer.send(topic, b"value")
        await producer.flush()
        await admin.create_acls(*MAY)
        await admin.alter_group_offsets(
            "mine", {TopicPartition("open", 0): OffsetAndMetadata(1), TopicPartition("secret", 0): OffsetAndMetadata(0)}
        )
        await admin.alter_group_offsets("theirs-secret", {TopicPartition("open", 0): OffsetAndMetadata(0)})
    cluster = ClusterOptions(broker.address, ROOT, ROOT, ROOT)
    async with Console(ConsoleConfig(cluster, port=0, cluster_login=True)) as console:
        for _ in range(4):  # every third one asks for sizes
            await console.history.sample()
        yield console


async def test_who_is_no_user_of_the_cluster_does_not_come_in(console: Console) -> None:
    assert (await Browser(console.url).get("/topics")).status == 401
    assert (await as_user(console, "ann", "wrong").get("/topics")).status == 401


async def test_what_a_user_may_not_describe_is_on_no_page(console: Console) -> None:
    root, ann = as_user(console, "root", "r"), as_user(console, "ann", "a")
    change = await root.change("/change/create-topic", topic="new-secret")
    assert "Done" in change.visible
    assert "secret" in (await root.get("/topics")).text and "new-secret" in (await root.get("/changes")).text
    for path in PATHS:
        page = await ann.get(path)
        assert page.status in (200, 404, 502), (path, page.visible)
        # An error names what was asked for.
        assert "secret" not in page.visible or page.status == 404, (path, page.visible)
        assert "777" not in page.visible, path
    assert (await ann.get("/changes/1")).status == 404
    assert (await root.get("/changes/1")).status == 200


async def test_numbers_are_of_what_a_user_may_describe(console: Console) -> None:
    root, ann = as_user(console, "root", "r"), as_user(console, "ann", "a")

    async def numbers(who: Browser, query: str) -> set[float | None]:
        found = json.loads((await who.get(f"/series?{query}")).text)
        assert len(found["times"]) == len(found["series"][0]["values"]) >= 2
        return set(found["series"][0]["values"])

    for query in ("kind=rate", "kind=size", "kind=rate&of=secret", "kind=size&of=open", "kind=lag&of=theirs-secret"):
        assert await numbers(root, query) != {None}, query
        assert await numbers(ann, query) == {None}, query
    assert await numbers(ann, "kind=rate&of=open") != {None}
    # Of the lag of 779 records, 2 are in the topic that she sees.
    assert await numbers(root, "kind=lag&of=mine") == {779} and await numbers(ann, "kind=lag&of=mine") == {None}
    groups = (await ann.get("/groups")).visible
    assert "mine" in groups and "theirs" not in groups
    assert "theirs-secret" not in (await ann.get("/topics/open")).text
    assert "theirs-secret" in (await root.get("/topics/open")).text
