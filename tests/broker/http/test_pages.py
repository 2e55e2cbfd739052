"""The pages of a broker: what they say is what the broker did, in a format that Prometheus reads."""

from __future__ import annotations

import errno
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig, StartError
from odradek.broker.http import own_page, unread_ages
from odradek.broker.http.pages import PAGES
from odradek.broker.metrics.table import METRICS
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.storage.files import Disk
from odradek.tests.support.brokers.http import get
from odradek.tests.support.clients.raw import Raw, batch_of
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def _scrape(broker: Broker, path: str = "/metrics") -> Samples:
    assert broker.http_address is not None
    answer = await get(broker.http_address, path)
    assert answer.status == 200
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


async def test_a_broker_without_http_listener_listens_on_no_more_ports(config: BrokerConfig) -> None:
    async with Broker(replace(config, http_listener="")) as broker:
        assert broker.http_address is None


async def test_a_port_alone_listens_on_loopback(broker: Broker) -> None:
    assert broker.http_address is not None
    assert broker.http_address.startswith("127.0.0.1:")


async def test_a_taken_port_ends_the_start(config: BrokerConfig, broker: Broker, tmp_path: object) -> None:
    taken = replace(config, http_listener=broker.http_address or "", log_dirs=(f"{tmp_path}/other",))
    with pytest.raises(
        StartError, match=r"http\.listener=\S+: address already in use \(stop .* another http\.listener"
    ):
        await Broker(taken).start()


async def test_live_and_ready_say_so(broker: Broker) -> None:
    assert broker.http_address is not None
    assert (await get(broker.http_address, "/live")).text == "alive\n"
    ready = await get(broker.http_address, "/ready")
    assert (ready.status, json.loads(ready.text)) == (200, {"ready": True, "reasons": []})
    assert (await get(broker.http_address, "/")).status == 404


async def test_a_broker_that_is_not_ready_gives_reasons(broker: Broker) -> None:
    assert broker.http_address is not None
    broker.services.groups.shards.loading.add(0)
    broker.services.log_dirs.all[0].failure = "the disk is gone"
    ready = await get(broker.http_address, "/ready")
    broker.services.groups.shards.loading.clear()
    broker.services.log_dirs.all[0].failure = None
    reasons = json.loads(ready.text)["reasons"]
    assert ready.status == 503
    assert reasons[0] == "1 partitions of the coordinator of groups are loading"
    assert reasons[1].endswith("is offline: the disk is gone")


@pytest.mark.parametrize("path", PAGES)
async def test_every_sample_is_of_the_table_and_every_label_too(broker: Broker, raw: Raw, path: str) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a"))
    assert await raw.commit(0, "t", 'odd "group"\n\\') == 0
    for name, labels in await _scrape(broker, path):
        plain = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        metric = METRICS.get(name) or METRICS[plain]
        assert {key for key, _ in labels} - {"le"} == set(metric.labels)


async def test_every_metric_of_the_table_is_on_a_page(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    assert broker.http_address is not None
    texts = [(await get(broker.http_address, path)).text for path in PAGES]
    for name in METRICS:
        assert sum(f"# TYPE {name} " in text for text in texts) == 1, name


async def test_traffic_and_lag_are_told(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t", 1, **{"retention.ms": "1000000"})
    now_ms = broker.clock.now_ms()
    batch = batch_of(b"a", b"b", timestamp_ms=now_ms - 500_000)
    for _ in range(2):
        await raw.produce("t", batch)
    assert await raw.commit(1, "t", "g") == 0
    found = await _scrape(broker)
    topic, group = (("topic", "t"),), (("group", "g"),)
    assert found["odradek_topic_records_in_total", topic] == 4
    assert found["odradek_topic_bytes_in_total", topic] == 2 * len(batch)
    assert found["odradek_log_bytes", topic] == 2 * len(batch)
    assert found["odradek_group_lag_records", group] == 3
    assert 500 <= found["odradek_group_lag_seconds", group] < 600
    assert 0.5 <= found["odradek_group_retention_used_ratio", group] < 0.6
    assert found["odradek_requests_total", (("api", "Produce"),)] == 2
    kafka = await _scrape(broker, "/metrics/kafka")
    at = (("partition", "0"), ("topic", "t"))
    assert kafka["kafka_consumergroup_lag", (("consumergroup", "g"), *at)] == 3
    assert kafka["kafka_topic_partition_current_offset", at] == 4
    assert (await _scrape(broker, "/metrics/partitions"))["odradek_partition_high_watermark", at] == 4


async def test_a_group_that_has_read_all_has_no_lag(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a"))
    assert await raw.commit(1, "t", "g") == 0
    found = await _scrape(broker)
    group = (("group", "g"),)
    assert [found[f"odradek_group_{name}", group] for name in ("lag_records", "lag_seconds", "lost_records")] == [0] * 3


async def test_records_that_went_before_a_group_read_them_are_lost(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a", b"b", b"c"))
    assert await raw.commit(1, "t", "g") == 0
    topic = broker.topics.get("t")
    assert topic is not None
    topic.partitions[0].log.advance_log_start(3)
    found = await _scrape(broker)
    assert found["odradek_group_lost_records", (("group", "g"),)] == 2


async def test_topics_and_groups_beyond_the_bounds_are_summed(config: BrokerConfig) -> None:
    bounded = replace(config, metrics_max_topics=1, metrics_max_groups=1)
    async with Broker(bounded) as broker, await Raw.connect(broker.address) as raw:
        for name in ("a", "b", "c"):
            await raw.create_topic(name)
            await raw.produce(name, batch_of(b"x"))
        for name in ("a", "b", "(all others)", "x" * 300):
            assert await raw.commit(0, "a", name) == 0
        found = await _scrape(broker)
    topics = {key[1][0][1]: value for key, value in found.items() if key[0] == "odradek_topic_records_in_total"}
    assert topics == {"__consumer_offsets": 0, "(all others)": 3}
    groups = {key[1][0][1]: value for key, value in found.items() if key[0] == "odradek_group_lag_records"}
    assert groups == {"a": 1, "(all others)": 3}
    assert (found["odradek_topics_summed", ()], found["odradek_groups_summed", ()]) == (3, 3)


async def test_look_ups_of_lag_in_seconds_are_bounded_and_each_has_its_turn(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_ages, "READS_PER_SCRAPE", 1)
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a"))
    for group in ("a", "b"):
        assert await raw.commit(0, "t", group) == 0
    seconds = [
        {key[1][0][1] for key in await _scrape(broker) if key[0] == "odradek_group_lag_seconds"} for _ in range(2)
    ]
    assert seconds == [{"a"}, {"a", "b"}]


class HangingDisk(Disk):
    """A disk that does not tell its space until it `goes_on`."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.asked = 0

    def space(self, path: Path) -> tuple[int, int]:
        self.asked += 1
        assert self.goes_on.wait(60)
        return super().space(path)


async def test_a_disk_that_hangs_leaves_the_other_metrics_and_is_asked_once(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.broker.http.scrape.READ_WITHIN_S", 0.05)
    disk, name = HangingDisk(), "odradek_disk_free_bytes"
    async with Broker(config, disk=disk) as broker:
        assert name in {key[0] for key in await _scrape(broker)}
        disk.goes_on.clear()
        disk.asked = 0
        try:
            for _ in range(3):
                found = {key[0] for key in await _scrape(broker)}
                assert "odradek_topics" in found and name not in found
            assert disk.asked == 1
        finally:
            disk.goes_on.set()
        assert name in {key[0] for key in await _scrape(broker)}


async def test_a_process_without_a_free_descriptor_is_still_scraped(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count() -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(own_page, "_count_open_files", count)
    found = {key[0] for key in await _scrape(broker)}
    assert "process_max_fds" in found and "process_open_fds" not in found


async def test_a_disk_that_hangs_holds_up_a_description_of_log_dirs_alone(config: BrokerConfig) -> None:
    disk = HangingDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        disk.goes_on.clear()
        try:
            raw.send(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
            async with await Raw.connect(broker.address) as other:
                assert (await other.create_topic("t")).error_code == 0
        finally:
            disk.goes_on.set()
        (result,) = (await raw.receive(ApiKey.DESCRIBE_LOG_DIRS, 4)).results
        assert result.total_bytes > 0
