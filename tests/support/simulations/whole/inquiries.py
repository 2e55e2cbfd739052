"""What operators ask of a simulated cluster: small requests of every kind. Each answer is right, or a typed error.

What an operator alone has, nobody else changes: it is read again. Only with one broker, because of several one may
answer that is cut off.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.client import Admin, ScramPassword, TopicPartition
from odradek.protocol.apis import ApiKey, OwnApiKey, message
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.describe_topic_partitions import TopicRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderPartition, OffsetForLeaderTopic

from .history import Place
from .load import PARTITIONS, PLAIN, WHOLE, Load
from .members import GROUP
from .requests import Requests
from .sharing import SHARED

_OPTIONS = {"request_timeout_ms": 5_000, "default_api_timeout_ms": 5_000}
_PLACE = TopicPartition(PLAIN, 0)
# About so many of the tables a seed asks.
_ASKED = 5
_UNKNOWN = re.compile(r"error_code=-1\b|UNKNOWN_SERVER_ERROR")

# What an admin client is asked, each as often as the others.
_CALLS: tuple[Callable[[Admin], Awaitable[object]], ...] = (
    lambda admin: admin.describe_cluster(),
    lambda admin: admin.describe_features(),
    lambda admin: admin.update_features({"transaction.version": 2}, validate_only=True),
    lambda admin: admin.describe_log_dirs(),
    lambda admin: admin.alter_replica_log_dirs({(1, _PLACE): "/nowhere"}),
    lambda admin: admin.describe_topics(PLAIN),
    lambda admin: admin.create_partitions({PLAIN: PARTITIONS + 1}, validate_only=True),
    lambda admin: admin.list_partition_reassignments(),
    lambda admin: admin.check_health(watch_s=0),
    lambda admin: admin.alter_user_scram_credentials(ScramPassword("nobody")),
    lambda admin: admin.describe_user_scram_credentials(),
    lambda admin: admin.describe_client_quotas(),
    lambda admin: admin.list_groups(),
    lambda admin: admin.describe_groups(GROUP),
    lambda admin: admin.describe_groups(SHARED),
    lambda admin: admin.explain_group(GROUP),
    lambda admin: admin.describe_share_queue(SHARED),
    lambda admin: admin.list_transactions(),
    lambda admin: admin.describe_transactions("txn1"),
    lambda admin: admin.list_queries(),
    lambda admin: admin.describe_producers(TopicPartition(WHOLE, 0), _PLACE),
    lambda admin: admin.fence_producers("fenced"),
)
# What no client of ours asks, or none in this world: any broker is asked.
_REQUESTS: tuple[tuple[int, int, dict[str, Any]], ...] = (
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [TopicRequest(PLAIN)]}),
    (ApiKey.LIST_CONFIG_RESOURCES, 1, {}),
    (ApiKey.ALTER_CONFIGS, 2, {"resources": [], "validate_only": True}),
    (ApiKey.DESCRIBE_QUORUM, 2, {}),
    (ApiKey.CREATE_DELEGATION_TOKEN, 3, {}),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, {}),
    (ApiKey.RENEW_DELEGATION_TOKEN, 2, {"hmac": b"none"}),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, 2, {"hmac": b"none"}),
    (ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
    (ApiKey.SASL_AUTHENTICATE, 2, {}),
    (ApiKey.ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 99}),
    (OwnApiKey.ODRADEK_RENEW_LEASE, 0, {"lease_id": 7}),
)


class Operator(Load):
    """Asks one thing after the other."""

    nodes = 1
    _number = 0

    async def run(self) -> None:
        self._requests = Requests(self.addresses, self.name, self.chance)
        # Each seed goes on in the tables where the one before has come to.
        self._turn = self.world.seed * _ASKED
        self._steps = (self._call, self._request, self._park, self._park_sharers, self._offsets, self._epochs)
        await self.until_over(self._live)

    async def _live(self) -> None:
        async with Admin(self.addresses, **_OPTIONS) as admin:
            while not self.is_over:
                await self._ask(admin)
                await asyncio.sleep(self.chance.expovariate(self.rate / 2))

    async def _ask(self, admin: Admin) -> None:
        step = self.chance.choice((*self._steps[:2] * 3, *self._steps[2:]))
        try:
            answer = await step(admin)
        except KafkaError as error:
            self.history.counts["inquiries that failed"] += 1
            self._check(error.code is not ErrorCode.UNKNOWN_SERVER_ERROR, f"{step.__name__}: {error}")
        else:
            self.history.counts["inquiries"] += 1
            self._check(_UNKNOWN.search(repr(answer)) is None, f"{step.__name__}: {answer}")

    def _check(self, is_right: bool, what: str) -> None:
        if not is_right:
            self.history.seen.append(f"{self.name} was answered before {self.world.now_s:.3f} s: {what}")

    async def _call(self, admin: Admin) -> object:
        self._turn += 1
        return await _CALLS[self._turn % len(_CALLS)](admin)

    async def _request(self, _: Admin) -> object:
        self._turn += 1
        key, version, given = _REQUESTS[self._turn % len(_REQUESTS)]
        connection = await self._requests.any()
        return await connection.request(message(key, "request")(**given), message(key, "response"), version=version)

    # -- Right answers

    async def _park(self, admin: Admin) -> None:
        """Make a group that has offsets and no members, take them away, and then the group."""
        self._number += 1
        group, offset = f"parked{self._number}", self.chance.randrange(1_000)
        await admin.alter_group_offsets(group, {_PLACE: offset})
        found = {place: each.offset for place, each in (await admin.list_group_offsets(group)).items()}
        self._check(self.nodes > 1 or found == {_PLACE: offset}, f"{group} was set to {offset}, and has {found}")
        await admin.delete_group_offsets(group, _PLACE)
        left = await admin.list_group_offsets(group)
        self._check(self.nodes > 1 or not left, f"the offset of {group} was deleted, and is {left}")
        await admin.alter_group_offsets(group, {_PLACE: offset})
        await admin.delete_groups(group)
        names = {each.group_id for each in await admin.list_groups()}
        self._check(self.nodes > 1 or group not in names, f"{group} was deleted, and is there")

    async def _park_sharers(self, admin: Admin) -> None:
        self._number += 1
        group, offset = f"parked-share{self._number}", self.chance.randrange(10)
        await admin.alter_share_group_offsets(group, {_PLACE: offset})
        found = {place: each.start_offset for place, each in (await admin.list_share_group_offsets(group)).items()}
        self._check(self.nodes > 1 or found == {_PLACE: offset}, f"{group} was set to {offset}, and has {found}")
        await admin.delete_share_group_offsets(group, PLAIN)
        left = await admin.list_share_group_offsets(group)
        self._check(self.nodes > 1 or not left, f"the start of {group} was deleted, and is {left}")

    async def _offsets(self, admin: Admin) -> None:
        for place, found in (await admin.list_group_offsets(GROUP)).items():
            key: tuple[Place, int] = (place.topic, place.partition), found.offset
            self._check(key in self.history.wanted_commits, f"{GROUP} has {found.offset} of {place}")

    async def _epochs(self, _: Admin) -> object:
        """Ask the leader where the first epoch of its partition ends: no later one is the answer."""
        key = ApiKey.OFFSET_FOR_LEADER_EPOCH
        leader = await self._requests.leader((PLAIN, 0))
        topic = OffsetForLeaderTopic(PLAIN, [OffsetForLeaderPartition(0, leader_epoch=0)])
        request = message(key, "request")(topics=[topic])
        answer: Any = await leader.request(request, message(key, "response"), version=4)
        epoch = answer.topics[0].partitions[0].leader_epoch
        self._check(epoch <= 0, f"epoch {epoch} of {_PLACE} is the last one up to 0")
        return answer
