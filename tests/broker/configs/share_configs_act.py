"""Show that the configs of share groups change what the broker does."""

from __future__ import annotations

import base64

from odradek.broker.topics.topic import Topic
from odradek.broker.topics.topic_names import SHARE_STATE_TOPIC
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from odradek.tests.broker.configs.world import World, shows

GROUP = 32


async def group_config(world: World, name: str) -> str | None:
    """The value that group g uses."""
    request = DescribeConfigsRequest([DescribeConfigsResource(GROUP, "g", [name])])
    (result,) = (await world.raw.ask(ApiKey.DESCRIBE_CONFIGS, 4, request)).results
    return result.configs[0].value


def shows_bounds(name: str, default: int, low: int, high: int) -> None:
    """Show the default of a group's config and its two bounds, which are configs of the broker each."""
    kind, _, rest = name.partition(".")
    names = {end: f"group.{kind}.{end}{rest}" for end in ("", "min.", "max.")}
    numbers = dict(zip(names.values(), (default, low, high), strict=True))
    given = {each.replace(".", "_"): value for each, value in numbers.items()}

    async def default_acts(world: World) -> None:
        assert await group_config(world, name) == str(default)

    async def low_acts(world: World) -> None:
        assert await world.configure_group(name, low - 1) == ErrorCode.INVALID_CONFIG
        assert await world.configure_group(name, low) == 0

    async def high_acts(world: World) -> None:
        assert await world.configure_group(name, high + 1) == ErrorCode.INVALID_CONFIG
        assert await world.configure_group(name, high) == 0

    for end, show in (("", default_acts), ("min.", low_acts), ("max.", high_acts)):
        shows(names[end], **given)(show)


shows_bounds("share.session.timeout.ms", 40_000, 30_000, 50_000)
shows_bounds("share.heartbeat.interval.ms", 6000, 4000, 7000)
shows_bounds("share.assignment.interval.ms", 500, 10, 2000)
shows_bounds("share.record.lock.duration.ms", 20_000, 1000, 30_000)
shows_bounds("share.delivery.count.limit", 4, 3, 6)
shows_bounds("share.partition.max.record.locks", 300, 200, 2000)


@shows("group.share.max.size", group_share_max_size=1)
async def _(world: World) -> None:
    assert (await share_beat(world, "m")).error_code == 0
    assert (await share_beat(world, "n")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@shows("group.share.assignors", group_share_assignors=("simple",))
async def _(world: World) -> None:
    await share_beat(world, "m")
    described = await world.raw.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(["g"]))
    assert described.groups[0].assignor_name == "simple"


async def share_beat(world: World, member: str) -> ShareGroupHeartbeatResponse:
    """A member joins share group g."""
    await world.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
    request = ShareGroupHeartbeatRequest("g", member, 0, None, ["t"])
    return await world.raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)


@shows("share.coordinator.state.topic.num.partitions", share_coordinator_state_topic_num_partitions=7)
async def _(world: World) -> None:
    assert len((await state_topic(world)).partitions) == 7


@shows("share.coordinator.state.topic.segment.bytes", share_coordinator_state_topic_segment_bytes=2 << 20)
async def _(world: World) -> None:
    assert (await state_topic(world)).config.segment_bytes == 2 << 20


async def state_topic(world: World) -> Topic:
    """The topic of share states, made at first need."""
    key = "g:" + base64.urlsafe_b64encode(bytes(16)).decode().rstrip("=") + ":0"
    await world.raw.ask(ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest(key_type=2, coordinator_keys=[key]))
    topic = world.broker.topics.get(SHARE_STATE_TOPIC)
    assert topic is not None
    return topic
