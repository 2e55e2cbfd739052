"""The page of one group, of every kind."""

from __future__ import annotations

from odradek.broker import Broker
from odradek.client import Admin, Consumer, Producer
from odradek.client.share import ShareConsumer
from odradek.tests.console.conftest import Browser


async def test_a_consumer_group_has_a_page_of_its_own(broker: Broker, browser: Browser) -> None:
    async with Producer(broker.address) as producer:
        await producer.send("t", b"value")
    async with Consumer("t", bootstrap_servers=broker.address, group_id="new", group_protocol="consumer") as consumer:
        await consumer.getmany(timeout_ms=5000)
        page = await browser.get("/group?id=new")
        assert page.status == 200 and "not found" not in page.visible and "not a classic" not in page.visible
        assert "A consumer group does not stop to rebalance" in page.visible
        async with Admin(broker.address) as admin:
            assert await admin.explain_group("new") == []
            assert (await admin.describe_groups("new"))["new"].type == "consumer"


async def test_so_has_a_share_group(broker: Broker, browser: Browser) -> None:
    async with Admin(broker.address) as admin, Producer(broker.address) as producer:
        await producer.send("t", b"value")
        async with ShareConsumer("t", bootstrap_servers=broker.address, group_id="shared") as consumer:
            await consumer.getmany(timeout_ms=100)
            page = await browser.get("/group?id=shared")
            assert page.status == 200 and "A share group does not stop to rebalance" in page.visible
            assert "Work queue" in page.visible and "Rejected by a member" in page.visible
            assert await admin.explain_group("shared") == []
