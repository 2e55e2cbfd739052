"""The world in which a config is shown to act: a broker, its client and their clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.fakes.clock import FakeClock

HOUR_MS = 3_600_000
# Hours may pass between two requests of a connection.
AWAKE = {"connections_max_idle_ms": -1}


class World:
    """A broker, a client of it, and the clock that both live by."""

    def __init__(self, broker: Broker, raw: Raw, clock: FakeClock) -> None:
        self.broker = broker
        self.raw = raw
        self.clock = clock

    @property
    def directory(self) -> Path:
        return self.broker.config.data_dir

    def log(self, topic: str = "t") -> Any:
        found = self.broker.topics.get(topic)
        assert found is not None
        return found.partitions[0].log

    def segments(self) -> int:
        return len(list((self.directory / "t-0").glob("*.log")))

    async def create(self) -> None:
        assert (await self.raw.create_topic("t")).error_code == 0

    async def commit(self, group: str = "g", metadata: str = "") -> int:
        return await self.raw.commit(5, group=group, metadata=metadata)

    async def committed(self) -> int:
        return (await self.raw.committed()).committed_offset

    async def join(self, session_timeout_ms: int = 10_000) -> int:
        await self.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest("g", session_timeout_ms, 1000, "", None, "consumer", protocols)
        return (await self.raw.ask(ApiKey.JOIN_GROUP, 3, request)).error_code

    async def beat(
        self, member_id: str, epoch: int = 0, assignor: str | None = None, regex: str | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat of a member of a consumer group; with epoch 0 the member joins."""
        await self.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
        request = ConsumerGroupHeartbeatRequest("g", member_id, epoch)
        if epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 1000, ["t"], []
        request.server_assignor = assignor
        request.subscribed_topic_regex = regex
        return await self.raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

    async def configure_group(self, name: str, value: int) -> int:
        """Give group g a config."""
        return await self.raw.configure(32, "g", **{name: str(value)})

    async def find_transactions(self) -> None:
        await self.raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("x", 1))

    async def transaction(self) -> str:
        """The state of transactional id x, or the error's name."""
        answer = await self.raw.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["x"]))
        (state,) = answer.transaction_states
        return ErrorCode(state.error_code).name if state.error_code else state.transaction_state

    def pass_ms(self, time_ms: int) -> None:
        self.clock.advance(time_ms)
        self.broker.timers.fire_due()


Show = Callable[[World], Awaitable[None]]
SHOWN: dict[str, tuple[dict[str, Any], Show]] = {}


def shows(name: str, **given: Any) -> Callable[[Show], Show]:
    """Marks what shows that a config acts; the broker that it gets has the config as `given`."""

    def mark(show: Show) -> Show:
        SHOWN[name] = given, show
        return show

    return mark
