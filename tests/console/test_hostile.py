"""Every page, full of values that would be HTML, scripts, addresses or hidden characters if anybody let them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import msgpack
import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import (
    Acl,
    Admin,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    QuotaEntity,
    ScramPassword,
    TopicPartition,
)
from odradek.console import Console, ConsoleConfig
from odradek.console.cluster import ClusterOptions
from odradek.tests.console.conftest import Browser
from odradek.tests.console.pages import faults

EVIL = "\"'><x-evil onload=alert(1)></textarea></title></script><script>evil()</script>{{7*7}}\u202e\u200b\x1b[31m"
ADDRESS = "javascript:evil()"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that is full of such values. Tests add some, and take none away."""
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path_factory.mktemp("data")),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    with Broker(config) as broker:
        asyncio.run(fill(broker.address))
        yield broker


@pytest.fixture
async def hostile(full: Broker) -> AsyncIterator[Browser]:
    options = ClusterOptions(full.address)
    own = ConsoleConfig(options, port=0, decide=decide, why_unmatchable=lambda acl: f"{EVIL} {acl.principal}")
    async with Console(own) as console:
        await console.history.sample()
        yield Browser(console.url)


async def decide(admin: Admin, acl: Acl) -> tuple[bool, str]:
    return False, f"{EVIL} {acl.principal}"


async def fill(address: str) -> None:
    evil = EVIL.encode()
    values = (
        evil,
        json.dumps({EVIL: [EVIL, {EVIL: EVIL}]}).encode(),
        msgpack.packb({EVIL: EVIL, 1: evil}),
        b"\x00\xff",
    )
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic("t", 1, configs={"leader.replication.throttled.replicas": ""})])
        await admin.create_acls(
            Acl(f"User:{EVIL}", "read", "topic", EVIL), Acl(f"User:{ADDRESS}", "read", "group", EVIL, "deny")
        )
        await admin.alter_user_scram_credentials(ScramPassword(EVIL, password="x"))
        await admin.alter_client_quotas({QuotaEntity(EVIL, EVIL): {"producer_byte_rate": 1e9}})
        await admin.alter_group_offsets(EVIL, {TopicPartition("t", 0): OffsetAndMetadata(1, EVIL)})
    async with Producer(address) as producer:
        for value in (*values, None):
            await producer.send("t", value, key=value, headers=[(EVIL, value), (ADDRESS, evil)])
    async with Producer(address, transactional_id=EVIL) as producer, producer.transaction():
        await producer.send("t", evil)
    async with Consumer("t", bootstrap_servers=address, group_id=f"live{EVIL}", client_id=EVIL) as consumer:
        await consumer.getmany(timeout_ms=1_000)


PATHS = [
    "/topics", "/topics?q={evil}&sort=-size", "/topics/t", "/topics/t/configs", "/topics/t/records", "/topics/t/tail",
    "/topics/t/records?as=text&keyas=text", "/topics/t/records?as=json", "/topics/t/records?as=hex&key={evil}",
    "/topics/t/records?filter={evil}", '/topics/t/records?filter=value+~+"{evil}"', "/topics/t/tail?filter={evil}",
    "/topics/t/tail?partition={evil}", "/topics/t/records?from={evil}", "/topics/t/records?from=time&time={evil}",
    "/topics/t/records?n={evil}", "/topics/t/records?at={evil}", "/topics/{evil}", "/topics/{evil}/records",
    *(f"/topics/t/records/0/{offset}" for offset in range(5)), "/topics/t/records/{evil}/{evil}",
    "/topics/t/records/0/1?as=text", "/topics/t/producers", "/groups", "/groups?q={evil}", "/group?id={evil}",
    "/group?id=live{evil}", "/group?id=none{evil}", "/cluster", "/brokers/1", "/brokers/{evil}", "/health",
    "/transactions", "/transactions?q={evil}", "/transaction?id={evil}", "/transaction?id=none{evil}", "/acls",
    "/acls?q={evil}",
    "/acls?principal={evil}&operation=read&resource=topic&name={evil}", "/acls?principal=a&operation={evil}", "/users",
    "/quotas", "/changes", "/changes/{evil}", "/{evil}", "/series?kind={evil}", "/change/{evil}", "/static/{evil}",
    "/change/produce?topic={evil}&key={evil}&value={evil}&headers={evil}", "/change/reset-offsets?group={evil}",
    "/change/set-config?topic={evil}&config={evil}&value={evil}&how={evil}", "/change/delete-topic?topic={evil}",
    "/change/set-quota?user={evil}&quotas={evil}", "/change/remove-acl?principal={evil}&resource={evil}",
]  # fmt: skip


@pytest.mark.parametrize("evil", [EVIL, ADDRESS, "//evil.example", "../../../etc/passwd\x00"], ids=range(4))
async def test_no_value_becomes_a_part_of_a_page(hostile: Browser, evil: str) -> None:
    found: dict[str, list[str]] = {}
    statuses: dict[str, int] = {}
    for pattern in PATHS:
        path = pattern.replace("{evil}", quote(evil, safe=""))
        page = await hostile.get(quote(path, safe="/?&=%+~"))
        assert page.headers["content-security-policy"] and page.status < 500, (pattern, page.visible)
        found[pattern], statuses[pattern] = faults(page.text), page.status
    assert {pattern: each for pattern, each in found.items() if each} == {}
    refused = {pattern for pattern, status in statuses.items() if status != 200}
    # What is there is shown, so the test looked at it.
    assert refused.isdisjoint({"/groups", "/acls", "/users", "/quotas", "/topics/t/records/0/1", "/transactions"})
    if evil == EVIL:
        assert refused.isdisjoint({"/group?id={evil}", "/group?id=live{evil}", "/transaction?id={evil}"}), refused


async def test_no_change_becomes_a_part_of_a_page(hostile: Browser) -> None:
    pages = [
        await hostile.send("/change/create-topic", topic=EVIL, configs=f"{EVIL}={EVIL}"),
        await hostile.send("/change/create-topic", topic="new", configs=f"cleanup.policy={EVIL}"),
        await hostile.send("/change/produce", topic="t", key=EVIL, key_is="text", value=EVIL, headers=f"{EVIL}={EVIL}"),
        await hostile.change("/change/produce", topic="t", key=EVIL, key_is="text", value=EVIL, headers="a=" + ADDRESS),
        await hostile.send("/change/reset-offsets", group=EVIL, to="earliest"),
        await hostile.change("/change/reset-offsets", group=EVIL, to="earliest"),
        await hostile.change(
            "/change/set-password", user=EVIL + "2", password="pw-not-shown", mechanism="SCRAM-SHA-512"
        ),
        await hostile.send("/change/add-acl", principal=EVIL, name=EVIL, resource="topic", operation="read"),
        await hostile.change("/change/set-quota", user=EVIL, client_id=EVIL, quotas="consumer_byte_rate=5"),
        await hostile.send("/change/set-quota", user=EVIL, ip=EVIL, quotas=f"{EVIL}=5"),
        await hostile.send("/change/delete-group", group=EVIL),
        await hostile.get("/changes"),
    ]
    assert [faults(page.text) for page in pages] == [[]] * len(pages)
    assert "Done" in pages[3].visible and "Done" in pages[5].visible
    assert not any("pw-not-shown" in page.text for page in pages)


async def test_the_live_tail_escapes_what_comes(hostile: Browser) -> None:
    host, _, port = hostile.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /topics/t/tail/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    got = b""
    async with asyncio.timeout(30):
        while b"event: begun" not in got:
            got += await reader.read(4096)
        await hostile.change("/change/produce", topic="t", key=EVIL, key_is="text", value=EVIL, headers=f"h={EVIL}")
        while b"event: records" not in got or b"</tr>" not in got:
            got += await reader.read(4096)
    writer.close()
    rows = "\n".join(
        line.removeprefix("data: ")
        for line in got.decode(errors="replace").partition("event: records")[2].splitlines()
        if line.startswith("data: ")
    )
    assert "x-evil" in rows and faults(rows) == []


async def test_values_are_cut_and_large_ones_do_not_stop_the_others(hostile: Browser) -> None:
    await hostile.change("/change/create-topic", topic="large")
    for text in ("[" * 200_000, "x" * 900_000, '{"a":' * 50_000):
        await hostile.change("/change/produce", topic="large", value=text)
    page = await hostile.get("/topics/large/records")
    assert page.status == 200 and len(page.text) < 40_000 and faults(page.text) == []
    for offset in range(3):
        assert (await hostile.get(f"/topics/large/records/0/{offset}")).status == 200


async def test_a_page_is_no_hundred_times_as_large_as_its_value(hostile: Browser) -> None:
    await hostile.change("/change/create-topic", topic="deep")
    value = "[" * 99 + ",".join("1" for _ in range(100_000)) + "]" * 99
    await hostile.change("/change/produce", topic="deep", value=value)
    page = await hostile.get("/topics/deep/records/0/0")
    assert page.status == 200 and 400_000 < len(page.text) < 600_000
