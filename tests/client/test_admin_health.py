"""What is told of a cluster's health: disks, groups near retention, transactions, certificates."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import Admin, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.admin import groups
from odradek.client.admin.brokers import LogDir
from odradek.client.admin.findings import UNKNOWN, BrokerReport, ask_brokers, check_clocks, check_damage
from odradek.client.admin.health import (
    OK,
    PROBLEM,
    WARNING,
    DiskSample,
    Finding,
    check_certificates,
    check_disks,
    duration_text,
)
from odradek.client.core.cluster import Cluster
from odradek.client.core.descriptions import TransactionListing
from odradek.client.errors import ErrorCode
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.security.tls import Authority, tls_config

GB = 1_000_000_000
PARTITION = TopicPartition("t", 0)


def directory(free: int) -> LogDir:
    return LogDir(1, "/d", None, 100 * GB, free, ())


def disks(now: int, before: int | None = None, within_s: float = 10.0) -> dict[str, Finding]:
    earlier = None if before is None else DiskSample(0.0, (directory(before),))
    return {each.check: each for each in check_disks(DiskSample(within_s, (directory(now),)), earlier)}


def test_a_disk_that_fills_is_told_with_its_end() -> None:
    found = disks(50 * GB, before=51 * GB)["disk space"]
    assert found.result == WARNING and "full in 8 minutes at the 100.0 MB/s of the last 10 seconds" in found.finding
    assert disks(50 * GB, before=50 * GB)["disk space"].result == OK
    assert disks(51 * GB, before=50 * GB)["disk space"].result == OK
    # A short look does not foretell hours: it may have seen one burst.
    assert disks(50 * GB, before=50 * GB + 10_000_000, within_s=2.0)["disk space"].result == OK
    assert disks(50 * GB, before=50 * GB + 1_000)["disk space"].result == OK


def test_a_disk_that_is_full_is_a_problem_and_a_low_one_a_warning() -> None:
    assert disks(1_000_000)["data directories"].result == PROBLEM
    low = disks(4 * GB)
    assert low["data directories"].result == OK and low["disk space"].result == WARNING


def test_certificates_that_end_soon_are_told() -> None:
    now_s = 1_000_000.0
    assert list(check_certificates({}, now_s)) == []
    (fine,) = check_certificates({"a:1": now_s + 90 * 86_400}, now_s)
    assert fine.result == OK and fine.finding == "the first one ends in 90 days"
    (soon,) = check_certificates({"a:1": now_s + 90 * 86_400, "b:1": now_s + 7_200}, now_s)
    assert soon.result == WARNING and soon.finding == "that of b:1 ends in 2 hours" and soon.remedy


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 seconds"), (119, "119 seconds"), (7_200, "2 hours"), (200_000, "2 days")]
)
def test_times_have_the_unit_that_one_reads(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.fixture
def config(config: BrokerConfig) -> BrokerConfig:
    """Only the test deletes: retention does not run."""
    return replace(config, log_retention_check_interval_ms=3_600_000)


async def told(admin: Admin, check: str) -> Finding:
    return {each.check: each for each in await admin.check_health()}[check]


async def test_who_may_not_ask_for_the_disks_is_told_the_rest(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forbidden(*_: object, **__: object) -> list[LogDir]:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed")

    async with Admin(broker.address) as admin:
        monkeypatch.setattr("odradek.client.admin.brokers.describe_log_dirs", forbidden)
        found = {each.check: each for each in await admin.check_health()}
    assert found["data directories"].result == WARNING and "not allowed" in found["data directories"].finding
    assert found["leaders"].result == found["transactions"].result == OK


async def test_who_may_not_ask_for_configs_is_told_the_rest(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forbidden(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed")

    async with Admin(broker.address) as admin, Producer(bootstrap_servers=broker.address) as producer:
        await producer.send("t", b"value")
        await admin.alter_group_offsets("g", {PARTITION: OffsetAndMetadata(0)})
        monkeypatch.setattr("odradek.client.admin.configs.describe_configs", forbidden)
        found = {each.check: each for each in await admin.check_health()}
    for each in ("min.insync.replicas", "retention"):
        assert found[each].result == WARNING and found[each].finding == "not looked at: not allowed"
    assert found["leaders"].result == found["replicas"].result == found["transactions"].result == OK


async def test_a_clock_that_differs_is_told(config: BrokerConfig) -> None:
    clock = FakeClock(int(time.time() * 1000) - 3_600_000)
    async with Broker(config, clock=clock) as broker, Admin(broker.address) as admin:
        found = await told(admin, "clocks")
        assert found.result == WARNING and found.remedy
        assert "that of broker 1 is 36" in found.finding and "behind this machine's" in found.finding
        clock.time_ms = int(time.time() * 1000) + 1_000
        assert (await told(admin, "clocks")).result == OK


def test_clocks_are_compared_with_each_other() -> None:
    (found,) = check_clocks([BrokerReport(1, ahead_s=1.5), BrokerReport(2, ahead_s=-1.5), BrokerReport(3)])
    assert found.result == WARNING
    assert found.finding == "that of broker 1 is 3.0 s ahead of that of broker 2"
    # The way there and back took so long that nobody knows.
    slow = [BrokerReport(1, ahead_s=4.0, within_s=2.5), BrokerReport(2, ahead_s=0.0)]
    assert [each.result for each in check_clocks(slow)] == [OK]


async def test_brokers_that_cannot_tell_are_unknown() -> None:
    async with FakeCluster({"t": 1}) as cluster, Admin(cluster.address) as admin:
        reports = await ask_brokers(admin._running_or_told())
    for check in (check_clocks, check_damage):
        (found,) = check(reports)
        assert found.result == UNKNOWN and found.healthy and "is not Odradek" in found.finding
    some = [*reports, BrokerReport(2)]
    assert [each.result for each in check_clocks(some)] == [OK, UNKNOWN]


async def test_damage_that_the_broker_has_found_is_told(broker: Broker) -> None:
    async with Admin(broker.address) as admin, Producer(bootstrap_servers=broker.address) as producer:
        assert (await told(admin, "damage")).result == OK
        await producer.send("t", b"value")
        topic = broker.topics.get("t")
        assert topic is not None
        topic.partitions[0].log.segments[0].mark(0, "planted")
        found = await told(admin, "damage")
    assert found.result == PROBLEM and found.remedy
    assert found.finding == "1 with damage: t-0 of broker 1"


async def test_the_certificate_of_a_broker_with_tls_is_looked_at(config: BrokerConfig, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with Broker(tls_config(config, authority)) as broker:
        async with Admin(broker.addresses[1], security_protocol="SSL", ssl_cafile=str(authority.path)) as admin:
            assert (await told(admin, "certificates")).result == OK


async def test_a_group_near_retention_is_named(broker: Broker) -> None:
    async with Admin(broker.address) as admin, Producer(bootstrap_servers=broker.address) as producer:
        await admin.create_topics([NewTopic("t", 1, configs={"retention.ms": "3600000"})])
        now_ms = int(time.time() * 1000)
        await producer.send("t", b"old", timestamp_ms=now_ms - 3_500_000)
        await producer.send("t", b"young", timestamp_ms=now_ms)
        await admin.alter_group_offsets("late", {PARTITION: OffsetAndMetadata(0)})
        await admin.alter_group_offsets("fresh", {PARTITION: OffsetAndMetadata(1)})
        found = await told(admin, "retention")
        assert found.result == WARNING and found.finding.endswith("late (t-0)") and "fresh" not in found.finding
        await admin.alter_group_offsets("late", {PARTITION: OffsetAndMetadata(2)})
        assert (await told(admin, "retention")).result == OK


async def test_records_that_are_gone_before_a_group_read_them_are_told(broker: Broker) -> None:
    async with Admin(broker.address) as admin, Producer(bootstrap_servers=broker.address) as producer:
        await admin.create_topics([NewTopic("t", 1, configs={"retention.ms": "-1"})])
        for number in range(3):
            await producer.send("t", b"%d" % number)
        await admin.alter_group_offsets("g", {PARTITION: OffsetAndMetadata(1)})
        assert (await told(admin, "retention")).result == OK
        await admin.delete_records({PARTITION: 2})
        assert (await told(admin, "retention")).result == WARNING


async def test_a_group_that_may_not_be_seen_hides_no_other(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    real = groups.list_group_offsets

    async def forbidden(cluster: Cluster, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        if group_id == "secret":
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not allowed")
        return await real(cluster, group_id)

    async with Admin(broker.address) as admin, Producer(bootstrap_servers=broker.address) as producer:
        await admin.create_topics([NewTopic("t", 1)])
        for number in range(3):
            await producer.send("t", b"%d" % number)
        await admin.alter_group_offsets("late", {PARTITION: OffsetAndMetadata(1)})
        await admin.alter_group_offsets("secret", {PARTITION: OffsetAndMetadata(1)})
        await admin.delete_records({PARTITION: 2})
        monkeypatch.setattr("odradek.client.admin.groups.list_group_offsets", forbidden)
        found = await told(admin, "retention")
    assert found.finding == (
        "1 that lose unread records soon, or have: late (t-0); 1 not seen: secret (GROUP_AUTHORIZATION_FAILED)"
    )


async def test_a_transaction_that_is_forgotten_meanwhile_is_no_news(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Producer(bootstrap_servers=broker.address, transactional_id="x") as producer,
        Admin(broker.address) as admin,
    ):
        listed = TransactionListing("gone", 1, "Ongoing")

        async def list_transactions(*_: object, **__: object) -> list[TransactionListing]:
            return [listed]

        await producer.begin_transaction()
        await producer.send("t", b"value")
        monkeypatch.setattr("odradek.client.admin.transactions.list_transactions", list_transactions)
        assert (await told(admin, "transactions")).finding == "1 are open, none for too long"


async def test_open_transactions_are_counted(broker: Broker) -> None:
    async with Admin(broker.address) as admin:
        assert (await told(admin, "transactions")).finding == "none is open"
        async with (
            Producer(bootstrap_servers=broker.address, transactional_id="x") as producer,
            producer.transaction(),
        ):
            await producer.send("t", b"value")
            assert (await told(admin, "transactions")).finding == "1 are open, none for too long"
