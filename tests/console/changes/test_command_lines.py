"""The command line that a change shows does the same as the change."""

from __future__ import annotations

import asyncio
import re
import subprocess
from html import unescape

import pytest
from odradek.broker import Broker
from odradek.cli import main
from odradek.client import Admin, ConfigResource, Consumer, OffsetAndMetadata, Producer, TopicPartition
from odradek.console.views.changes import KINDS
from odradek.tests.console.conftest import Answer, Browser
from odradek.tests.support.documents.command import completed

T0 = TopicPartition("t", 0)
# Kind -> fields of a change of each.
CHANGES = {
    "create-topic": {"topic": "new", "partitions": "2", "replicas": "1", "configs": "retention.ms=5000\na.b=1"},
    "delete-topic": {"topic": "t"},
    "add-partitions": {"topic": "t", "partitions": "5"},
    "set-config": {"topic": "t", "config": "retention.ms", "value": "3600000", "how": "set to the value"},
    "delete-records": {"topic": "t", "partition": "0", "before": "2"},
    "produce": {"topic": "t", "key-is": "text", "key": "k", "value-is": "text", "value": "a 'b'\nc", "headers": "a=b"},
    "reset-offsets": {"group": "g", "topic": "t:0", "to": "offset", "value": "3"},
    "delete-group": {"group": "g"},
}


@pytest.fixture(autouse=True)
async def filled(broker: Broker) -> None:
    async with Producer(broker.address) as producer:
        for number in range(5):
            await producer.send("t", b"%d" % number)
    async with Admin(broker.address) as admin:
        await admin.alter_group_offsets("g", {T0: OffsetAndMetadata(1)})


async def state(broker: Broker) -> object:
    """Return all that these changes can change."""
    async with Admin(broker.address) as admin:
        topics = await admin.describe_topics()
        resources = [ConfigResource.topic(name) for name in topics if not topics[name].is_internal]
        configs = await admin.describe_configs(resources)
        begins = await admin.list_offsets({TopicPartition(each.name, 0): -2 for each in resources})
        ends = await admin.list_offsets({TopicPartition(each.name, 0): -1 for each in resources})
        return (
            {name: len(topic.partitions) for name, topic in topics.items()},
            {each.name: {name: entry.value for name, entry in found.items()} for each, found in configs.items()},
            begins,
            {each: at.offset for each, at in ends.items()},
            [each.group_id for each in await admin.list_groups()],
            {each: at.offset for each, at in (await admin.list_group_offsets("g")).items()},
        )


@pytest.mark.parametrize("kind", sorted(set(CHANGES) - {"create-topic"}))
async def test_it_does_what_its_command_line_does(broker: Broker, browser: Browser, kind: str) -> None:
    before = await state(broker)
    preview = await browser.send(f"/change/{kind}", **CHANGES[kind])
    assert preview.status == 200 and await state(broker) == before, preview.visible
    line = line_of(preview)
    done = await browser.change(f"/change/{kind}", **CHANGES[kind])
    assert "Done" in done.visible, done.visible
    after = await state(broker)
    assert after != before
    # The same again by the command line: on a topic and a group as they were.
    async with Admin(broker.address) as admin:
        await restore(admin, broker)
    assert await state(broker) == before
    await run(line)
    assert await state(broker) == after


# Names of groups and topics that a shell or a command line could take for something else.
ODD_GROUPS = ("--x", "-b", "a b", "it's $HOME `x` \\n", "two\nlines", "dir\u202ection", "ü*")
ODD_TOPICS = ("--help", "-b", "-")


def line_of(preview: Answer) -> str:
    shown = re.search(r'<code class="command"[^>]*>(.*?)</code>', preview.text, re.DOTALL)
    assert shown is not None, preview.visible
    return unescape(shown[1])


def given(line: str) -> tuple[list[str], bytes]:
    """Return the words and the standard input that a shell gives to the command of a line."""
    shell = ["bash", "-c", 'odradek() { printf "%s\\0" $# "$@"; cat; }\n' + line]
    said = subprocess.run(shell, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    count, _, rest = said.partition(b"\0")
    *words, stdin = rest.split(b"\0", int(count))
    return [each.decode() for each in words], stdin


async def run(line: str) -> None:
    words, stdin = await asyncio.to_thread(given, line)
    done = await asyncio.to_thread(completed, *words, stdin=stdin)
    assert done.returncode == 0, (line, done.stderr)


@pytest.mark.parametrize("group", ODD_GROUPS)
async def test_a_group_of_any_name_is_reset_and_deleted_by_its_line(
    broker: Broker, browser: Browser, group: str
) -> None:
    async with Admin(broker.address) as admin:
        await admin.alter_group_offsets(group, {T0: OffsetAndMetadata(1)})
        await run(line_of(await browser.send("/change/reset-offsets", group=group, topic="", to="offset", value="3")))
        assert (await admin.list_group_offsets(group))[T0].offset == 3
        await run(line_of(await browser.send("/change/delete-group", group=group)))
        assert group not in [each.group_id for each in await admin.list_groups()]


@pytest.mark.parametrize("topic", ODD_TOPICS)
async def test_a_topic_of_any_name_is_changed_by_its_line(broker: Broker, browser: Browser, topic: str) -> None:
    async with Admin(broker.address) as admin:
        await run(line_of(await browser.send("/change/create-topic", topic=topic, partitions="1")))
        line = line_of(await browser.send("/change/produce", topic=topic, value_is="text", value="a\u202eb\x07'\n$x"))
        await run(line)
        place = TopicPartition(topic, 0)
        async with Consumer(bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            consumer.assign([place])
            ((record,),) = (await consumer.getmany(timeout_ms=10_000)).values()
        assert record.value == "a\u202eb\x07'\n$x".encode()
        config = {"topic": topic, "config": "retention.ms", "value": "5000", "how": "set to the value"}
        await run(line_of(await browser.send("/change/set-config", **config)))
        await run(line_of(await browser.send("/change/add-partitions", topic=topic, partitions="2")))
        await run(line_of(await browser.send("/change/delete-records", topic=topic, partition="0", before="1")))
        assert (await admin.list_offsets({place: -2}))[place].offset == 1
        await run(line_of(await browser.send("/change/delete-topic", topic=topic)))
        async with asyncio.timeout(30):
            while topic in await admin.list_topics():
                await asyncio.sleep(0.02)


async def restore(admin: Admin, broker: Broker) -> None:
    """Make topic and group again as the fixture did."""
    if "t" in await admin.list_topics():
        await admin.delete_topics("t")
    async with asyncio.timeout(30):
        while "t" in await admin.list_topics():
            await asyncio.sleep(0.02)
    async with Producer(broker.address) as producer:
        for number in range(5):
            await producer.send("t", b"%d" % number)
    await admin.alter_group_offsets("g", {T0: OffsetAndMetadata(1)})


@pytest.mark.parametrize(
    ("kind", "fields", "status", "said"),
    [
        ("reset-offsets", {"to": "time", "value": str((1 << 63) - 1)}, 200, f"--to-datetime {(1 << 63) - 1} "),
        ("reset-offsets", {"to": "time", "value": "1969-12-31T23:59:59.999Z"}, 200, "partition 0 1 0"),
        ("reset-offsets", {"topic": "t:7"}, 400, "t has partitions from 0 to 0"),
        ("reset-offsets", {"topic": "t:x"}, 400, "partition is a number"),
        ("abort-transaction", {"topic": "t", "partition": "0", "start-offset": "9" * 5000}, 400, "is a whole number"),
    ],
)
async def test_no_field_is_a_fault_of_the_console(
    browser: Browser, kind: str, fields: dict[str, str], status: int, said: str
) -> None:
    page = await browser.send(f"/change/{kind}", **{"group": "g", "to": "earliest", **fields})
    assert page.status == status and said in page.visible


async def test_every_kind_has_a_line_that_the_command_line_understands(browser: Browser) -> None:
    """Of those whose broker has no authorizer here, the words are looked at alone."""
    assert set(CHANGES) <= set(KINDS)
    for kind in KINDS:
        page = await browser.get(f"/change/{kind}")
        assert page.status == 200 and "Show what it does" in page.visible
    for line in (
        "users set u --password-file -",
        "acls add a read topic:t",
    ):
        name = line.split()[0]
        assert main.get_command(None, name) is not None, name  # type: ignore[arg-type]
