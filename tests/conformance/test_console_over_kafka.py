"""The console over Apache Kafka: every view loads, and what Kafka cannot tell is said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.console import Console, ConsoleConfig
from odradek.console.cluster import ClusterOptions
from odradek.console.views.changes import KINDS
from odradek.tests.console.conftest import Browser
from odradek.tests.support.brokers.process import KafkaProcess
from odradek.tests.support.clients.others import require

# Path -> what its page must show.
PAGES = {
    "/topics": "t 2 1 12",
    "/topics/t": "records of 1",
    "/topics/t/configs": "retention.ms 3600000 topic",
    "/topics/t/records": "value-9",
    "/topics/t/records/0/0": "value-",
    "/topics/t/tail": "Tail",
    "/topics/t/producers?partition=1": "Producers",
    "/groups": "g consumer Stable",
    "/group?id=g": "client-of-g",
    "/cluster": "controller",
    "/health": "a broker that is not Odradek does not tell",
    "/brokers/1": "log.dirs",
    "/transactions": "transfer",
    "/transaction?id=transfer": "CompleteCommit",
    "/acls": "No Authorizer is configured",
    "/users": "Users",
    "/quotas": "Quotas",
    "/changes": "Changes",
    **{f"/change/{kind}": "Show what it does" for kind in KINDS},
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require("java")
    process = KafkaProcess(tmp_path_factory.mktemp("kafka"), group_initial_rebalance_delay_ms=0)
    try:
        process.start()
        yield process.address
    finally:
        process.kill()


@pytest.fixture
async def browser(kafka: str) -> AsyncIterator[Browser]:
    async with Admin(kafka) as admin, Producer(kafka) as producer:
        if "t" not in await admin.list_topics():
            await admin.create_topics([NewTopic("t", 2, 1, {"retention.ms": "3600000"})])
            for number in range(10):
                await producer.send("t", b"value-%d" % number, partition=0)
            async with Producer(kafka, transactional_id="transfer") as other, other.transaction():
                await other.send("t", b"together", partition=1)
        options = {"auto_offset_reset": "earliest", "client_id": "client-of-g"}
        async with (
            Consumer("t", bootstrap_servers=kafka, group_id="g", **options) as consumer,
            Console(ConsoleConfig(ClusterOptions(kafka), port=0)) as console,
        ):
            await consumer.getmany(timeout_ms=20_000)
            await consumer.commit()
            await console.history.sample()
            assert console.history.error == ""
            yield Browser(console.url)


async def test_every_view_loads(browser: Browser) -> None:
    found = {path: await browser.get(path) for path in PAGES}
    assert {path: page.status for path, page in found.items() if page.status != 200} == {}
    wrong = {path: found[path].visible for path, text in PAGES.items() if text not in found[path].visible}
    assert wrong == {}, [(path, text[150:]) for path, text in wrong.items()]


async def test_changes_are_made(browser: Browser) -> None:
    made = await browser.change("/change/create-topic", topic="new", partitions="2", replicas="1")
    assert "Done" in made.visible
    await browser.change("/change/produce", topic="new", key_is="text", key="k", value="hello")
    assert "hello" in (await browser.get("/topics/new/records")).text
    await browser.change("/change/set-config", topic="new", config="retention.ms", value="5000", how="set to the value")
    await browser.change("/change/add-partitions", topic="new", partitions="3")
    await browser.change("/change/set-quota", user="ann", quotas="producer_byte_rate=1000")
    assert "ann" in (await browser.get("/quotas")).text
    deleted = await browser.change("/change/delete-topic", topic="new")
    assert "Done" in deleted.visible
