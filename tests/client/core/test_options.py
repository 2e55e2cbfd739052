"""What options can be: numbers and texts out of their range are refused by name, before anything is sent."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from odradek import client
from odradek.client import Consumer, ConsumerRecord, Producer, wait_for_broker
from odradek.client.core.option_table import CALL_NUMBERS, OPTIONS, OTHER_NAMES
from odradek.client.core.option_values import INT32_MAX, INT64_MAX, Number, read_text
from odradek.client.core.options import instead_of, nearest
from odradek.client.core.security import SecurityArguments, SecurityOptions
from odradek.client.errors import BufferFull, InvalidOption
from odradek.client.zookeeper import ConsumerConnector
from odradek.tests.support.fakes.fake_cluster import FakeCluster

NUMBERS = {name: each.values for name, each in OPTIONS.items() if isinstance(each.values, Number)} | CALL_NUMBERS
# The words of the table for the public clients.
CLIENTS = {
    client.Admin: {"admin"}, client.Producer: {"producer"}, client.Consumer: {"consumer", "member"},
    client.SimpleConsumer: {"simple"}, client.ShareConsumer: {"share"}, ConsumerConnector: {"connector"},
}  # fmt: skip
CLASSES = [client.Admin, client.Consumer, client.Producer, client.SimpleConsumer]
# What goes with a bad value of one option, so that no other rule is broken.
BESIDE: dict[str, dict[str, Any]] = {"transaction_timeout_ms": {"transactional_id": "x"}}
NEEDED: dict[type, tuple[Any, ...]] = {client.SimpleConsumer: ("127.0.0.1", 1)}
CASES = [
    (cls, each.name, each.annotation)
    for cls in CLASSES
    for each in inspect.signature(cls).parameters.values()
    if each.annotation in ("int", "float") and each.name != "port"
]
SWITCHES = [
    (cls, each.name)
    for cls in CLASSES
    for each in inspect.signature(cls).parameters.values()
    if each.annotation == "bool"
]
TEXTS = [
    (cls, each.name)
    for cls in CLASSES
    for each in inspect.signature(cls).parameters.values()
    if each.annotation in ("str", "str | None") and each.name.endswith(("_id", "_rack"))
]
# The lowest values of ConfigDef in Kafka 4.3.1 (None: any); LONG may be larger there than here.
OF_KAFKA = {
    "auto_commit_interval_ms": 0, "batch_size": 0, "buffer_memory": 0, "default_api_timeout_ms": 0,
    "delivery_timeout_ms": 0, "fetch_max_bytes": 0, "fetch_max_wait_ms": 0, "fetch_min_bytes": 0,
    "heartbeat_interval_ms": None, "linger_ms": 0, "max_block_ms": 0, "max_in_flight_requests_per_connection": 1,
    "max_partition_fetch_bytes": 0, "max_poll_interval_ms": 1, "max_poll_records": 1, "max_request_size": 0,
    "metadata_max_age_ms": 0, "request_timeout_ms": 0, "retry_backoff_max_ms": 0, "retry_backoff_ms": 0,
    "session_timeout_ms": None, "transaction_timeout_ms": None,
}  # fmt: skip
# With 0 a client would ask without an end, or never get anything.
ABOVE_KAFKAS = {
    "auto_commit_interval_ms", "fetch_max_bytes", "heartbeat_interval_ms", "max_partition_fetch_bytes",
    "metadata_max_age_ms", "request_timeout_ms", "session_timeout_ms", "transaction_timeout_ms",
}  # fmt: skip


def refused(text: str) -> Any:
    return pytest.raises(InvalidOption, match=re.escape(f"INVALID_CONFIG: {text}, not "))


@pytest.mark.parametrize("cls", CLIENTS, ids=lambda cls: cls.__name__)
def test_each_client_has_the_options_of_the_table_with_its_defaults(cls: type) -> None:
    takers = CLIENTS[cls]
    given = {
        each.name: each.default
        for each in inspect.signature(cls).parameters.values()
        if each.kind is each.POSITIONAL_OR_KEYWORD or each.kind is each.KEYWORD_ONLY
    }
    taken = {name: each for name, each in OPTIONS.items() if each.is_of(*takers)}
    assert given.keys() - {"host", "port"} == taken.keys() - SecurityArguments.__annotations__.keys()
    if cls in (ConsumerConnector, client.ShareConsumer):
        del taken["group_id"]  # which it must be given
    for name, row in taken.items():
        wanted = next((row.own[each] for each in takers if each in row.own), row.default)
        if name == "partition_assignment_strategy":
            assert given[name] == (client.RangeAssignor,) and wanted == ("RangeAssignor",)
        elif name in given:
            assert given[name] == wanted, name


def test_security_has_the_options_of_the_table_with_its_defaults() -> None:
    rows = {name: each.default for name, each in OPTIONS.items() if name.startswith(("security", "ssl", "sasl"))}
    assert rows == {each.name: each.default for each in dataclasses.fields(SecurityOptions)}
    assert rows.keys() == SecurityArguments.__annotations__.keys()


def test_a_row_allows_its_own_default_and_reads_it_from_a_text() -> None:
    for row, default in ((each, value) for each in OPTIONS.values() for value in (each.default, *each.own.values())):
        assert row.values.has(default) or default is None, row
        if default is not None and row.is_checked:
            assert read_text(row.values, str(default)) == default, row


def test_the_page_of_options_is_what_the_table_says() -> None:
    root = Path(__file__).parents[3]
    printed = subprocess.run(
        [sys.executable, root / "tools" / "option_docs.py"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == (root / "docs" / "options.md").read_text(), (
        "run: python tools/option_docs.py > docs/options.md"
    )


def test_an_option_by_the_name_of_another_client_is_told_the_name_here() -> None:
    for name, row in OTHER_NAMES.items():
        if not name.startswith(("ssl.", "sasl.")):
            assert instead_of(name) == instead_of(name.replace(".", "_")) == f": it is {row.name} here"
            assert nearest(name, (), "") == f"did you mean {row.config}?"


def test_the_ranges_begin_where_those_of_kafka_do() -> None:
    for name, lowest in OF_KAFKA.items():
        assert NUMBERS[name].lowest == (1 if name in ABOVE_KAFKAS else lowest), name
        assert NUMBERS[name].highest == (INT64_MAX if name == "buffer_memory" else INT32_MAX), name
    assert {name for _, name, _ in CASES} <= OF_KAFKA.keys()


@pytest.mark.parametrize(("cls", "name", "annotation"), CASES, ids=[f"{cls.__name__}-{name}" for cls, name, _ in CASES])
def test_a_number_out_of_its_range_is_refused_by_name(cls: type, name: str, annotation: str) -> None:
    known = NUMBERS[name]
    assert known.is_whole == (annotation == "int")
    bad: list[Any] = [float("nan"), float("inf"), -1, known.lowest - 1, known.highest + 1, 1e300, "5", None, True, [5]]
    if known.is_whole:
        bad += [5.5, 5.0]
    for value in bad:
        with refused(f"{name} must be {known}"):
            cls(*NEEDED.get(cls, ()), **{name: value}, **BESIDE.get(name, {}))


@pytest.mark.parametrize(("cls", "name"), SWITCHES, ids=[f"{cls.__name__}-{name}" for cls, name in SWITCHES])
def test_a_switch_takes_true_and_false_and_no_text(cls: type, name: str) -> None:
    for value in ("false", "true", "", 0, 1, None):
        with refused(f"{name} must be True or False"):
            cls(*NEEDED.get(cls, ()), **{name: value})


def test_the_switch_of_tls_takes_no_text() -> None:
    for cls in CLASSES:
        with refused("ssl_check_hostname must be True or False"):
            cls(*NEEDED.get(cls, ()), security_protocol="SSL", ssl_check_hostname="false")


async def test_the_switches_of_calls_take_no_text() -> None:
    admin = client.Admin()
    calls: dict[str, Awaitable[object]] = {
        "validate_only": admin.create_topics([], validate_only="false"),  # pyright: ignore
        "internal": admin.list_topics(internal="false"),  # pyright: ignore
        "unclean": admin.elect_leaders(unclean="false"),  # pyright: ignore
        "strict": admin.describe_client_quotas(strict="false"),  # pyright: ignore
    }
    for name, call in calls.items():
        with refused(f"{name} must be True or False"):
            await call


async def test_the_options_of_consume_are_checked(cluster: FakeCluster) -> None:
    async def handle(record: ConsumerRecord) -> None: ...

    async with Consumer("t", bootstrap_servers=cluster.address, group_id="g") as consumer:
        for name in ("concurrency", "attempts"):
            for value in (0, "4", 2.5):
                with refused(f"{name} must be {NUMBERS[name]}"):
                    await consumer.consume(handle, **{name: value})
        with refused("by_key must be True or False"):
            await consumer.consume(handle, by_key="false")  # type: ignore[arg-type]


@pytest.mark.parametrize(("cls", "name"), TEXTS, ids=[f"{cls.__name__}-{name}" for cls, name in TEXTS])
def test_a_text_that_fits_into_no_request_is_refused_by_name(cls: type, name: str) -> None:
    for value in ("x" * 32_768, "\udcff", 5):
        with refused(f"{name} must be a text of 32767 bytes or less"):
            cls(*NEEDED.get(cls, ()), **{name: value})


async def test_a_time_or_a_number_of_a_call_is_checked_too(cluster: FakeCluster) -> None:
    async with Consumer("t", bootstrap_servers=cluster.address) as consumer:
        for value in (float("nan"), float("inf"), -1):
            with refused(f"timeout_ms must be {NUMBERS['timeout_ms']}"):
                await consumer.getmany(timeout_ms=value)
            with refused(f"timeout_ms must be {NUMBERS['timeout_ms']}"):
                await consumer.getbatches(timeout_ms=value)
            with refused(f"timeout_ms must be {NUMBERS['timeout_ms']}"):
                await consumer.stop(timeout_ms=value)
            with refused(f"timeout_ms must be {NUMBERS['timeout_ms']}"):
                await wait_for_broker(cluster.address, timeout_ms=value)
        for number in (0, -5):
            with refused("max_records must be a whole number from 1 to 2147483647"):
                await consumer.getmany(max_records=number)
        assert await consumer.getmany() == {}, "the consumer goes on"


async def test_waits_of_0_end_at_once(cluster: FakeCluster) -> None:
    await wait_for_broker(cluster.address, timeout_ms=5_000)
    async with Producer(cluster.address, max_block_ms=0, buffer_memory=100, linger_ms=0) as producer:
        with pytest.raises(client.KafkaError):  # nothing is known of the topic yet
            await producer.send("t", b"x")
    async with Producer(cluster.address, max_block_ms=200, buffer_memory=100) as producer:
        await producer.send_and_wait("t", b"x")
        with pytest.raises(BufferFull):
            await producer.send("t", b"x" * 100)
    async with Consumer("t", bootstrap_servers=cluster.address, group_id="g") as consumer:
        assert await consumer.getmany(timeout_ms=0) == {}
        await consumer.stop(timeout_ms=0)
