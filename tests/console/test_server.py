"""The pages of topics and records, over a broker."""

from __future__ import annotations

import asyncio
import json
from http.client import IncompleteRead
from pathlib import Path

import pytest
from odradek.broker import Broker
from odradek.client import Admin, Consumer, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.console import Console, ConsoleConfig
from odradek.console import cluster as cluster_module
from odradek.console.cluster import Cluster, ClusterOptions
from odradek.console.server import UnsafeConsole
from odradek.tests.console.conftest import Browser
from odradek.tests.support.documents.command import threaded_broker


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
    # How full the disk is soon depends on what else writes to it meanwhile.
    steady = [f"{each.check} {each.result} " for each in findings if each.check != "disk space"]
    assert steady and all(each in page.visible for each in (*steady, "disk space "))
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


async def test_what_somebody_else_has_changed_meanwhile_is_shown_again(broker: Broker, browser: Browser) -> None:
    await produce(broker, "t", 3)
    path, config = "/change/set-config", {"topic": "t", "config": "retention.ms", "value": "1000"}
    preview = await browser.send(path, **config)
    await browser.change(path, **{**config, "value": "2000"})
    late = await browser.apply(path, preview, **config)
    assert late.status == 409 and "somebody has changed it" in late.visible
    assert "2000" in (await browser.get("/topics/t/configs")).visible
    assert (await browser.apply(path, late, **config)).status == 303


async def test_a_shift_that_is_sent_twice_is_made_once(broker: Broker, browser: Browser) -> None:
    await produce(broker, "t", 9)
    async with Admin(broker.address) as admin:
        await admin.alter_group_offsets("g", {TopicPartition("t", 0): OffsetAndMetadata(8)})
    path, fields = "/change/reset-offsets", {"group": "g", "topic": "t:0", "to": "shift by", "value": "-2"}
    preview = await browser.send(path, **fields)
    assert [(await browser.apply(path, preview, **fields)).status for _ in range(2)] == [303, 409]
    async with Admin(broker.address) as admin:
        assert [each.offset for each in (await admin.list_group_offsets("g")).values()] == [6]


async def test_a_change_that_the_broker_refuses_says_so(browser: Browser) -> None:
    refused = await browser.send("/change/create-topic", topic="a/b")
    assert (refused.status == 400 and "INVALID_TOPIC" in refused.text) or "a/b" in refused.text


async def test_a_record_is_produced(broker: Broker, browser: Browser) -> None:
    await browser.change("/change/create-topic", topic="t")
    await browser.change("/change/produce", topic="t", key_is="text", key="k", value="hello", headers="a=b")
    page = await browser.get("/topics/t/records")
    assert "hello" in page.text and "1 header: a" in page.visible


async def test_lines_of_a_key_and_of_a_value_end_as_unix_has_them(broker: Broker, browser: Browser) -> None:
    await browser.change("/change/create-topic", topic="t")
    await browser.change("/change/produce", topic="t", key_is="text", key="k\r\n1", value="v\r\n1")
    async with Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        record = await asyncio.wait_for(consumer.getone(), 20)
    assert (record.key, record.value) == (b"k\n1", b"v\n1")


async def test_it_listens_beyond_this_machine_with_a_login_only(config: ConsoleConfig) -> None:
    with pytest.raises(UnsafeConsole, match="login"):
        Console(ConsoleConfig(config.cluster, host="0.0.0.0"))


async def test_a_cluster_that_is_not_there_is_an_error_of_the_page() -> None:
    options = ClusterOptions("127.0.0.1:1", admin={"default_api_timeout_ms": 200})
    async with Console(ConsoleConfig(options, port=0)) as console:
        page = await Browser(console.url).get("/topics")
    assert page.status == 502 and "127.0.0.1:1" in page.text


async def test_a_page_says_soon_that_the_broker_has_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "REFUSED_WITHIN_S", 0.1)
    with threaded_broker(tmp_path) as broker:
        # The client would try for longer than this test may take.
        config = ConsoleConfig(ClusterOptions(broker.address, {"default_api_timeout_ms": 600_000}), port=0)
        console = Console(config)
        await console.start()
        assert (await Browser(console.url).get("/topics")).status == 200
    pages = [await Browser(console.url).get(path) for path in ("/topics", "/groups", "/cluster")]
    await console.stop()
    assert [page.status for page in pages] == [502] * 3 and all("connection refused" in page.text for page in pages)


async def test_pages_of_a_cluster_that_does_not_answer_wait_side_by_side() -> None:
    """One attempt to reach it is for all of them."""
    tried = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tried
        tried += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    cluster = Cluster(ClusterOptions(f"{host}:{port}", admin={"request_timeout_ms": 100}))
    found = await asyncio.gather(*(cluster.admin() for _ in range(5)), return_exceptions=True)
    await cluster.stop()
    server.close()
    assert all(isinstance(each, KafkaError) for each in found), found
    assert tried == 1


async def test_a_console_whose_address_is_taken_leaves_nothing_behind() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    asked = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    console = Console(ConsoleConfig(ClusterOptions(f"{host}:{port}"), port=port))
    listen = console._listener.start

    async def when_it_samples() -> None:
        await asked.wait()
        await listen()

    console._listener.start = when_it_samples
    with pytest.raises(OSError):
        await console.start()
    server.close()
    left = {each.get_name() for each in asyncio.all_tasks()}
    assert left.isdisjoint({"admin client", "history"}), left


async def test_a_stream_that_cannot_begin_says_so(
    broker: Broker, config: ConsoleConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await produce(broker, "t", 1)
    monkeypatch.setattr("odradek.console.cluster.MAX_READERS", 0)
    monkeypatch.setattr("odradek.console.cluster._WAIT_S", 0.01)
    async with Console(config) as console:
        browser = Browser(console.url)
        assert "event: failed\ndata: 0 pages read records already" in (await browser.get("/topics/t/tail/events")).text
        with pytest.raises(IncompleteRead):
            await browser.get("/topics/t/export")
    assert "an export of t ended before its end" in caplog.text and "Traceback" not in caplog.text


async def test_numbers_of_any_length_are_no_fault(broker: Broker, browser: Browser) -> None:
    await produce(broker, "t", 1)
    many = "9" * 5_000
    assert (await browser.get(f"/topics/t/records?from=time&time={many}")).status == 400
    for path in (f"/topics/t/records/0/{many}", f"/topics/t/records/{many}/0"):
        assert (await browser.get(path)).status == 404
