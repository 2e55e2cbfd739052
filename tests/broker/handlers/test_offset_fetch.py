"""OffsetFetch in its three shapes: one group without and with an error of its own, several groups."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.tests.broker.coordination.groups.wire_requests import commit, fetch
from odradek.tests.support.clients.raw import Raw

VERSIONS = range(1, 11)


@pytest.fixture(autouse=True)
async def topic(broker: Broker, raw: Raw) -> bytes:
    await raw.create_topic("t", 2)
    await commit(raw, {0: 7}, metadata="note")
    found = broker.topics.get("t")
    assert found is not None
    return found.id


def topics_of(response: Any, version: int) -> Any:
    if version < 8:
        assert response.error_code == 0
        return response.topics
    (group,) = response.groups
    assert (group.group_id, group.error_code) == ("g", 0)
    return group.topics


async def test_version_0_calls_a_partition_without_an_offset_unknown(raw: Raw) -> None:
    (found,) = (await fetch(raw, 0)).topics
    assert [(p.committed_offset, p.metadata, p.error_code) for p in found.partitions] == [
        (7, "note", 0),
        (-1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_partitions_with_and_without_a_committed_offset(raw: Raw, topic: bytes, version: int) -> None:
    response = await fetch(raw, version, topic if version >= 10 else "t")
    (found,) = topics_of(response, version)
    assert (found.topic_id == topic) if version >= 10 else (found.name == "t")
    first, second = found.partitions
    assert (first.committed_offset, first.metadata, first.error_code) == (7, "note", 0)
    assert (second.committed_offset, second.metadata, second.error_code) == (-1, "", 0)
    assert first.committed_leader_epoch == (3 if version >= 5 else -1)


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_offsets_of_a_group(raw: Raw, topic: bytes, version: int) -> None:
    (found,) = topics_of(await fetch(raw, version, None), version)
    assert (found.topic_id == topic) if version >= 10 else (found.name == "t")
    assert [(p.partition_index, p.committed_offset) for p in found.partitions] == [(0, 7)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unknown_group_has_no_offsets_and_no_error(raw: Raw, topic: bytes, version: int) -> None:
    response = await fetch(raw, version, topic if version >= 10 else "t", group="nobody")
    found = (response.topics if version < 8 else response.groups[0].topics)[0]
    assert [(p.committed_offset, p.error_code) for p in found.partitions] == [(-1, 0)] * 2


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_of_another_coordinator_is_an_error_in_each_response_shape(
    broker: Broker, raw: Raw, topic: bytes, version: int
) -> None:
    broker.services.groups.stop()
    response = await fetch(raw, version, topic if version >= 10 else "t")
    if version == 1:
        codes = [p.error_code for p in response.topics[0].partitions]
    else:
        codes = [response.error_code if version < 8 else response.groups[0].error_code] * 2
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2


async def test_several_groups_at_once(raw: Raw) -> None:
    await commit(raw, {1: 9}, group_id="h")
    groups = [OffsetFetchRequestGroup(name, topics=None) for name in ("g", "h", "nobody")]
    response = await raw.ask(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups, require_stable=True))
    found = {g.group_id: [(t.name, t.partitions[0].committed_offset) for t in g.topics] for g in response.groups}
    assert found == {"g": [("t", 7)], "h": [("t", 9)], "nobody": []}


async def test_an_unknown_topic_id(raw: Raw) -> None:
    (found,) = (await fetch(raw, 10, b"\x07" * 16)).groups[0].topics
    assert found.topic_id == b"\x07" * 16
    assert [(p.committed_offset, p.error_code) for p in found.partitions] == [(-1, ErrorCode.UNKNOWN_TOPIC_ID)] * 2


async def test_offsets_of_an_earlier_topic_of_that_name_do_not_count(broker: Broker, raw: Raw) -> None:
    found = broker.topics.get("t")
    assert found is not None
    broker.services.delete_topic(found)
    response = await fetch(raw, 10, None)
    assert topics_of(response, 10) == []
    await raw.create_topic("t", 2)
    again = broker.topics.get("t")
    assert again is not None
    (found_again,) = topics_of(await fetch(raw, 10, again.id), 10)
    assert [p.committed_offset for p in found_again.partitions] == [-1, -1]
