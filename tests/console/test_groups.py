"""The page of one group, of every kind."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.broker import Broker
from odradek.client import Admin, Consumer, Producer
from odradek.client.share import ShareConsumer
from odradek.tests.console.conftest import Browser


async def page_of(browser: Browser, group: str, member: Consumer | ShareConsumer) -> Any:
    """The page of a group, once its member has joined."""
    async with asyncio.timeout(20):
        while (page := await browser.get(f"/group?id={group}")).status == 404:
            await member.getmany(timeout_ms=50)
    return page


async def test_a_consumer_group_has_a_page_of_its_own(broker: Broker, browser: Browser) -> None:
    async with Producer(broker.address) as producer:
        await producer.send("t", b"value")
    async with Consumer("t", bootstrap_servers=broker.address, group_id="new", group_protocol="consumer") as consumer:
        page = await page_of(browser, "new", consumer)
        assert page.status == 200 and "not found" not in page.visible and "not a classic" not in page.visible
        assert "A consumer group does not stop to rebalance" in page.visible
        async with Admin(broker.address) as admin:
            assert await admin.explain_group("new") == []
            assert (await admin.describe_groups("new"))["new"].type == "consumer"


async def test_so_has_a_share_group(broker: Broker, browser: Browser) -> None:
    async with Admin(broker.address) as admin, Producer(broker.address) as producer:
        await producer.send("t", b"value")
        async with ShareConsumer("t", bootstrap_servers=broker.address, group_id="shared") as consumer:
            page = await page_of(browser, "shared", consumer)
            assert page.status == 200 and "A share group does not stop to rebalance" in page.visible
            assert "Work queue" in page.visible and "Rejected by a member" in page.visible
            assert await admin.explain_group("shared") == []
