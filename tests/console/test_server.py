"""The pages of topics and records, over a broker."""

from __future__ import annotations

import json

import pytest
from odradek.broker import Broker
from odradek.client import Admin, NewTopic, Producer
from odradek.console import Console, ConsoleConfig
from odradek.console.server import UnsafeConsole
from odradek.tests.console.conftest import Browser


async def produce(broker: Broker, topic: str, count: int) -> None:
    async with Producer(broker.address) as producer:
        for number in range(count):
            await producer.send(topic, b'{"number": %d}' % number, key=b"k%d" % (number % 7))


async def test_topics_are_listed_searched_and_shown(broker: Broker, browser: Browser) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("flights", 3), NewTopic("orders", 1)])
    assert (await browser.get("/")).headers["location"] == "/topics"
    everything, found = await browser.get("/topics"), await browser.get("/topics?q=light")
    assert "flights" in everything.text and "orders" in everything.text
    assert "flights" in found.text and "orders" not in found.text
    one = await browser.get("/topics/flights")
    assert one.status == 200 and "records of 2" in one.text
    assert (await browser.get("/topics/none")).status == 404


async def test_a_config_is_shown_with_its_source_and_what_would_hold_without_it(
    broker: Broker, browser: Browser
) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1, configs={"retention.ms": "3600000"})])
    page = await browser.get("/topics/t/configs")
    assert "retention.ms 3600000 topic 168 log.retention.hours" in page.visible


async def test_health_is_what_the_command_line_tells(broker: Broker, browser: Browser) -> None:
    async with Admin(broker.address) as admin:
        findings = await admin.check_health()
    page = await browser.get("/health")
    assert findings and all(f"{each.check} {each.result} " in page.visible for each in findings)
    assert "/health" in (await browser.get("/cluster")).text


async def test_records_are_found_from_the_end_back_and_on_the_next_page(broker: Broker, browser: Browser) -> None:
    await produce(broker, "t", 100)
    first = await browser.get("/topics/t/records?n=30")
    assert first.text.count("data-new") == 30 and "{&#34;number&#34;: 99}" in first.text
    following = first.text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    second = await browser.get(following)
    assert "{&#34;number&#34;: 69}" in second.text and "{&#34;number&#34;: 70}" not in second.text


async def test_a_filter_chooses_and_a_wrong_one_is_explained(broker: Broker, browser: Browser) -> None:
    await produce(broker, "t", 100)
    found = await browser.get("/topics/t/records?filter=value.number+%3E%3D+98")
    assert found.text.count("data-new") == 2 and "2 found, 100 looked at" in found.visible
    wrong = await browser.get("/topics/t/records?filter=value.number+%3E%3D")
    assert wrong.status == 400 and "expected one of key" in wrong.visible


async def test_a_record_has_a_lasting_address_and_its_bytes_are_a_file(broker: Broker, browser: Browser) -> None:
    await produce(broker, "t", 3)
    assert "number" in (await browser.get("/topics/t/records/0/1")).text
    raw = await browser.get("/topics/t/records/0/1/value")
    assert raw.text == '{"number": 1}' and raw.headers["content-disposition"].startswith("attachment")
    assert (await browser.get("/topics/t/records/0/3")).status == 404


async def test_an_export_has_every_record_as_a_json_line(broker: Broker, browser: Browser) -> None:
    await produce(broker, "t", 2_500)
    lines = (await browser.get("/topics/t/export")).text.splitlines()
    assert [json.loads(json.loads(each)["value"])["number"] for each in lines] == list(range(2_500))


async def test_a_change_is_shown_before_it_is_made_with_its_command_line(broker: Broker, browser: Browser) -> None:
    preview = await browser.send("/change/create-topic", topic="new", partitions="4")
    assert "odradek topics create new --partitions 4" in preview.visible
    assert (await browser.get("/topics/new")).status == 404
    done = await browser.change("/change/create-topic", topic="new", partitions="4")
    assert "Done" in done.visible and "odradek topics create new --partitions 4" in done.visible
    assert (await browser.get("/topics/new")).status == 200
    assert "new" in (await browser.get("/changes")).text


async def test_a_change_that_the_broker_refuses_says_so(browser: Browser) -> None:
    refused = await browser.send("/change/create-topic", topic="a/b")
    assert (refused.status == 400 and "INVALID_TOPIC" in refused.text) or "a/b" in refused.text


async def test_a_record_is_produced(broker: Broker, browser: Browser) -> None:
    await browser.change("/change/create-topic", topic="t")
    await browser.change("/change/produce", topic="t", key_is="text", key="k", value="hello", headers="a=b")
    page = await browser.get("/topics/t/records")
    assert "hello" in page.text and "1 header: a" in page.visible


async def test_it_listens_beyond_this_machine_with_a_login_only(config: ConsoleConfig) -> None:
    with pytest.raises(UnsafeConsole, match="login"):
        Console(ConsoleConfig(config.cluster, host="0.0.0.0"))


async def test_a_cluster_that_is_not_there_is_an_error_of_the_page() -> None:
    from odradek.console.cluster import ClusterOptions

    options = ClusterOptions("127.0.0.1:1", admin={"default_api_timeout_ms": 200})
    async with Console(ConsoleConfig(options, port=0)) as console:
        page = await Browser(console.url).get("/topics")
    assert page.status == 502 and "127.0.0.1:1" in page.text
