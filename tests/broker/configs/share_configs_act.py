"""Show that the configs of share groups change what the broker does."""

from __future__ import annotations

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
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
