"""`odradek groups` for consumer groups: their kind, epochs, members, and who holds what others wait for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from odradek.client.blocking import Consumer, Producer
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.documents.command import odradek, printed

QUICK = {
    "group_consumer_min_heartbeat_interval_ms": 20,
    "group_consumer_heartbeat_interval_ms": 20,
    "group_consumer_assignment_interval_ms": 0,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), **QUICK).start()
    printed(process.address, "topics", "create", "t", "--partitions", "4")
    with Producer(process.address) as producer:
        for number in range(40):
            producer.send("t", b"%d" % number, partition=number % 4)
    yield process.address
    process.close()


def member(address: str, group: str) -> Consumer[Any, Any]:
    return Consumer(
        "t", bootstrap_servers=address, group_id=group, group_protocol="consumer", auto_offset_reset="earliest"
    )


def rows(address: str, *command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(address, "groups", *command, "--json")]


def wait_for(true: Any) -> Any:
    deadline = time.monotonic() + 60
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_explain_says_what_a_member_still_holds_and_who_waits_for_it(broker: str) -> None:
    with member(broker, "held") as busy, ExitStack() as stack:
        while len(busy.getmany(timeout_ms=100, max_records=40)) < 4:
            busy.seek_to_beginning()
        idle = stack.enter_context(member(broker, "held"))  # the other one works on its records, and keeps all
        awaited = wait_for(lambda: rows(broker, "explain", "held"))
        assert {(row["group"], row["state"]) for row in awaited} == {("held", "Reconciling")}
        members = {row["member"]: row for row in rows(broker, "describe", "held", "--members")}
        (holder,), (waiting,) = {row["held_by"] for row in awaited}, {row["awaited_by"] for row in awaited}
        assert len(members[holder]["partitions"]) == 4
        assert len(members[holder]["target"]) == 2
        assert (members[waiting]["partitions"], len(members[waiting]["target"])) == ([], 2)
        assert {f"{row['topic']}-{row['partition']}" for row in awaited} == set(members[waiting]["target"])
        wait_for(lambda: not busy.getmany(timeout_ms=10) and len(idle.assignment()) == 2)
        assert rows(broker, "explain", "held") == []


def test_a_consumer_group_is_listed_described_reset_and_deleted(broker: str) -> None:
    with member(broker, "kind") as consumer:
        wait_for(lambda: consumer.getmany(timeout_ms=100, max_records=40))
        assert {"group": "kind", "state": "Stable", "type": "consumer", "protocol_type": "consumer"} in rows(
            broker, "list"
        )
        (state,) = rows(broker, "describe", "kind", "--state")
        assert (state["type"], state["strategy"], state["members"]) == ("consumer", "uniform", 1)
        (described,) = rows(broker, "describe", "kind", "--members")
        assert (described["protocol"], described["epoch"], state["epoch"]) == ("consumer", state["epoch"], 2)
        in_use = odradek(broker, "groups", "reset-offsets", "kind", "--to-earliest", "--execute", "--topic", "t")
        assert in_use.returncode != 0
        assert "NON_EMPTY_GROUP" in in_use.stderr
    offsets = rows(broker, "describe", "kind")
    assert [row["lag"] for row in offsets] == [10 - row["committed"] for row in offsets]
    reset = rows(broker, "reset-offsets", "kind", "--to-earliest", "--execute")
    assert [row["new_offset"] for row in reset] == [0, 0, 0, 0]
    printed(broker, "groups", "delete", "kind", "--yes")
    assert "kind" not in {row["group"] for row in rows(broker, "list")}
